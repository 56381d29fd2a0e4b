/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for signals, which completion queues report. Whoever looks at a queue compares the words;
 * the service thread ends those whose deadline has passed, and asks the ranks of waits that last
 * whether they leave.
 * Lock: nxr_cqs_lock (cq.h).
 */
#include "config.h"

#include "core/cq.h"
#include "core/job.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "util/clock.h"

#include <stdlib.h>

/* A wait for a signal. */
struct wait_item {
    struct nxr_list link;
    struct nxr_cq_watch watch;
    int64_t ask_at; /* when to ask whether its rank leaves; INT64_MAX: never, or it was asked */
    bool is_canceled;
    bool is_late; /* its deadline has passed */
    bool is_over; /* its process was lost, or leaves, and the number may mean another one now */
};

/*
 * How long a wait lasts before its rank is asked whether it leaves, and how often the service
 * thread looks which ranks are to be asked, and which deadlines have passed.
 */
#define ASK_NS        (1 * NXR_S)
#define ASK_AGAIN_NS  (100 * NXR_MS)
#define LATE_AGAIN_NS (1 * NXR_MS)

static _Atomic int64_t cq_look_at = INT64_MAX; /* when it looks next; written under nxr_cqs_lock */

/* Has the wait ended? Acquire: what was put before the signal was raised is visible. */
static bool wait_is_over(const struct wait_item *item, uint64_t *seen_p, int *status_p)
{
    const struct nxr_cq_watch *watch = &item->watch;
    /* read before the word, which a rank may set before it is lost */
    bool is_lost = item->is_over || nxr_rank_is_lost(watch->rank);

    *seen_p = atomic_load_explicit((const _Atomic uint64_t *)watch->word, memory_order_acquire);
    *status_p = watch->is_true(*seen_p, watch->compare, watch->value) ? NIXL_OK
                : item->is_canceled                                   ? NIXL_E_CANCELED
                : is_lost                                             ? NIXL_E_PEER_LOST
                : item->is_late                                       ? NIXL_E_TIMEOUT
                                                                      : NIXL_INPROGRESS;
    return *status_p != NIXL_INPROGRESS;
}

bool nxr_cq_has_wait_over(struct nixl_cq *cq)
{
    bool is_over = false;
    uint64_t seen;
    int status;

    if (atomic_load_explicit(&cq->n_waits, memory_order_acquire) == 0) {
        return false;
    }
    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = cq->waits.next; link != &cq->waits && !is_over;
         link = link->next) {
        is_over = wait_is_over(nxr_list_entry(link, struct wait_item, link), &seen, &status);
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
    return is_over;
}

bool nxr_cq_take_wait(struct nixl_cq *cq, struct nixl_cq_entry *entry)
{
    struct wait_item *found = NULL;
    uint64_t seen = 0;
    int status = NIXL_OK;

    if (atomic_load_explicit(&cq->n_waits, memory_order_acquire) == 0) {
        return false;
    }
    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = cq->waits.next; link != &cq->waits; link = link->next) {
        struct wait_item *item = nxr_list_entry(link, struct wait_item, link);

        if (wait_is_over(item, &seen, &status)) {
            found = item;
            nxr_list_remove(link);
            atomic_fetch_sub(&cq->n_waits, 1);
            break;
        }
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
    if (found == NULL) {
        return false;
    }
    *entry = (struct nixl_cq_entry){.kind = NIXL_CQ_SIGNAL,
                                    .user_data = found->watch.user_data,
                                    .value = seen,
                                    .status = status,
                                    .rank = found->watch.rank};
    free(found);
    return true;
}

int nxr_cq_watch(struct nixl_cq *cq, const struct nxr_cq_watch *watch)
{
    struct wait_item *item = malloc(sizeof(*item));
    bool has_rank = watch->rank >= 0 && watch->rank != nxr_job.rank;
    bool is_over, must_kick;
    int64_t due_at;
    uint64_t seen;
    int status;

    if (item == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    *item = (struct wait_item){.watch = *watch,
                               .ask_at = has_rank ? nxr_coarse_now_ns() + ASK_NS : INT64_MAX};
    due_at = item->ask_at < watch->expires_at ? item->ask_at : watch->expires_at;
    pthread_mutex_lock(&nxr_cqs_lock);
    nxr_list_append(&cq->waits, &item->link);
    atomic_fetch_add_explicit(&cq->n_waits, 1, memory_order_release);
    is_over = wait_is_over(item, &seen, &status);
    must_kick = due_at < atomic_load(&cq_look_at);
    if (must_kick) {
        atomic_store(&cq_look_at, due_at);
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
    if (must_kick) {
        nxr_service_kick();
    }
    if (is_over) {
        nxr_wake_self(); /* nothing will happen any more that wakes those who sleep on the queue */
    }
    return NIXL_INPROGRESS;
}

void nxr_cq_cancel_waits(struct nixl_cq *cq, uint64_t user_data)
{
    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = cq->waits.next; link != &cq->waits; link = link->next) {
        struct wait_item *item = nxr_list_entry(link, struct wait_item, link);

        item->is_canceled = item->is_canceled || item->watch.user_data == user_data;
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
}

void nxr_cq_drop_waits(struct nixl_cq *cq)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&cq->waits)) != NULL) {
        free(nxr_list_entry(link, struct wait_item, link));
    }
}

/* ---- the ranks that signals come from -------------------------------------------------------- */

/* The waits for a rank are for its process of now. */
static void end_waits(int rank)
{
    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = nxr_cqs.next; link != &nxr_cqs; link = link->next) {
        struct nxr_list *waits = &nxr_list_entry(link, struct nixl_cq, link)->waits;

        for (struct nxr_list *wait = waits->next; wait != waits; wait = wait->next) {
            struct wait_item *item = nxr_list_entry(wait, struct wait_item, link);

            item->is_over = item->is_over || item->watch.rank == rank;
        }
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
}

void nxr_cq_rank_leaves(int rank)
{
    end_waits(rank);
    nxr_wake_self();
}

/* Waits for a rank that is readmitted are for its former process. */
static void cq_watch_peer_replaced(struct nxr_peer *former)
{
    end_waits(former->rank);
}

/* What the service thread finds. */
struct wait_due {
    int64_t now;
    struct nxr_cq_watch watch; /* one wait of a rank to ask; its rank is -1: there is none */
    bool is_any_late;
    int64_t next_ask_at, next_expires_at;
};

/* All that are due for the same rank count as asked. Caller holds the lock. */
static void wait_look_at(struct wait_item *item, struct wait_due *due)
{
    const struct nxr_cq_watch *watch = &item->watch;

    if (item->ask_at <= due->now && (due->watch.rank < 0 || due->watch.rank == watch->rank)) {
        due->watch = *watch;
        item->ask_at = INT64_MAX;
    }
    due->next_ask_at = item->ask_at < due->next_ask_at ? item->ask_at : due->next_ask_at;
    if (watch->expires_at <= due->now) {
        due->is_any_late |= !item->is_late;
        item->is_late = true;
    } else if (watch->expires_at < due->next_expires_at) {
        due->next_expires_at = watch->expires_at;
    }
}

/* Look at all waits. Returns when to look again. Caller holds the lock. */
static int64_t look_at_waits(struct wait_due *due)
{
    for (struct nxr_list *link = nxr_cqs.next; link != &nxr_cqs; link = link->next) {
        struct nxr_list *waits = &nxr_list_entry(link, struct nixl_cq, link)->waits;

        for (struct nxr_list *wait = waits->next; wait != waits; wait = wait->next) {
            wait_look_at(nxr_list_entry(wait, struct wait_item, link), due);
        }
    }
    if (due->next_ask_at < due->now + ASK_AGAIN_NS) {
        due->next_ask_at = due->now + ASK_AGAIN_NS;
    }
    if (due->next_expires_at < due->now + LATE_AGAIN_NS) {
        due->next_expires_at = due->now + LATE_AGAIN_NS;
    }
    return due->next_ask_at < due->next_expires_at ? due->next_ask_at : due->next_expires_at;
}

/* The program's waits of the last nixl_finalize() are over. */
static int64_t cq_watch_tick(int64_t now)
{
    int64_t next = atomic_load(&cq_look_at);
    bool is_due = next <= now && nxr_is_ready();

    while (is_due) {
        struct wait_due due = {.now = now,
                               .watch = {.rank = -1},
                               .next_ask_at = INT64_MAX,
                               .next_expires_at = INT64_MAX};

        pthread_mutex_lock(&nxr_cqs_lock);
        next = look_at_waits(&due);
        atomic_store(&cq_look_at, next);
        pthread_mutex_unlock(&nxr_cqs_lock);
        if (due.is_any_late) {
            nxr_wake_self();
        }
        is_due = due.watch.rank >= 0;
        if (is_due && due.watch.ask_leaving(due.watch.rank)) {
            nxr_cq_rank_leaves(due.watch.rank);
        }
    }
    return nxr_is_ready() ? next : INT64_MAX;
}

static void cq_watch_quiesce(void)
{
    atomic_store(&cq_look_at, INT64_MAX);
}

const struct nxr_subsystem nxr_cq_watch_subsystem = {
    .name = "cq watch",
    .tick = cq_watch_tick,
    .peer_replaced = cq_watch_peer_replaced,
    .quiesce = cq_watch_quiesce,
    .stop = cq_watch_quiesce,
};
