/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues: the public calls, and what requests put into them. Locks: see cq.h. What an
 * entry points to (a payload, a name) is lent until the next call, and owned by the queue.
 */
#include "config.h"

#include "core/cq.h"
#include "core/event.h"
#include "core/progress.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "core/trace.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LENT    64 /* entries that can always be lent at once */
#define TAKEN_AT_ONCE 64 /* operations, under one lock */

/* A wait for a signal. */
struct wait_item {
    struct nxr_list link;
    struct nxr_cq_watch watch;
    int64_t ask_at; /* when to ask whether its rank leaves; INT64_MAX: never, or it was asked */
    bool is_canceled;
    bool is_over; /* its process was lost, or leaves, and the number may mean another one now */
};

/*
 * How long a wait lasts before its rank is asked whether it leaves, and how often the service
 * thread looks which ranks are to be asked.
 */
#define ASK_NS       (1 * NXR_S)
#define ASK_AGAIN_NS (100 * NXR_MS)

static _Atomic int64_t cqs_ask_at = INT64_MAX; /* when it looks next; written under nxr_cqs_lock */

struct nxr_note_source nxr_note_source;

pthread_mutex_t nxr_cqs_lock = PTHREAD_MUTEX_INITIALIZER;
struct nxr_list nxr_cqs = {&nxr_cqs, &nxr_cqs};

/* The queue that was found open last: each operation that reports to it asks. */
static _Atomic(const struct nixl_cq *) open_cq; /* written under nxr_cqs_lock */

bool nxr_cq_is_open(const struct nixl_cq *cq)
{
    bool is_open = false;

    if (cq == NULL || atomic_load_explicit(&open_cq, memory_order_acquire) == cq) {
        return cq != NULL;
    }
    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = nxr_cqs.next; link != &nxr_cqs && !is_open; link = link->next) {
        is_open = nxr_list_entry(link, struct nixl_cq, link) == cq;
    }
    if (is_open) {
        atomic_store_explicit(&open_cq, cq, memory_order_release);
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
    return is_open;
}

/* ---- what there is to report ----------------------------------------------------------------- */

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
                                                                      : NIXL_INPROGRESS;
    return *status_p != NIXL_INPROGRESS;
}

static bool has_wait_over(struct nixl_cq *cq)
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

bool nxr_cq_has_any(void *arg)
{
    struct nixl_cq *cq = arg;

    return atomic_load_explicit(&cq->n_ended, memory_order_acquire) != 0 || has_wait_over(cq) ||
           ((cq->flags & NIXL_CQ_NOTES) != 0 && nxr_note_source.has(cq->context)) ||
           ((cq->flags & NIXL_CQ_EVENTS) != 0 &&
            atomic_load_explicit(&cq->context->n_events, memory_order_acquire) != 0);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Write an entry as the queue's user knows it. */
static void cq_write(const struct nixl_cq *cq, char *theirs, const struct nixl_cq_entry *entry)
{
    size_t both = sizeof(*entry) < cq->entry_nbytes ? sizeof(*entry) : cq->entry_nbytes;

    memcpy(theirs, entry, both);
    memset(theirs + both, 0, cq->entry_nbytes - both);
}

/* Write as many operations as have ended, at most `max`: how many. */
static size_t cq_take_operations(struct nixl_cq *cq, char *entries, size_t max)
{
    struct nixl_req *reqs[TAKEN_AT_ONCE];
    size_t n;

    if (atomic_load_explicit(&cq->n_ended, memory_order_acquire) == 0) {
        return 0;
    }
    n = nxr_request_take_reported(cq, reqs, max < TAKEN_AT_ONCE ? max : TAKEN_AT_ONCE);
    for (size_t i = 0; i < n; i++) {
        const struct nixl_req *req = reqs[i];
        const struct nixl_cq_entry entry = {
            .kind = NIXL_CQ_OPERATION,
            .user_data = req->user_data,
            .status = atomic_load_explicit(&req->status, memory_order_acquire),
            .rank = req->owner->has_peer ? req->peer->rank : req->lost_rank,
        };

        cq_write(cq, entries + i * cq->entry_nbytes, &entry);
        nxr_request_drop(reqs[i]);
    }
    return n;
}

/* Each of these fills one; false: there is nothing of the kind. */

static bool cq_take_wait(struct nixl_cq *cq, struct nixl_cq_entry *entry)
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

static bool cq_take_note(struct nixl_cq *cq, struct nixl_cq_entry *entry)
{
    struct nxr_note *note =
        (cq->flags & NIXL_CQ_NOTES) != 0 ? nxr_note_source.take(cq->context) : NULL;

    if (note == NULL) {
        return false;
    }
    *entry = (struct nixl_cq_entry){.kind = NIXL_CQ_NOTE,
                                    .value = note->tag,
                                    .data = note->nbytes > 0 ? note->payload : NULL,
                                    .nbytes = note->nbytes,
                                    .status = note->is_late ? NIXL_E_STALE : NIXL_OK,
                                    .rank = note->rank};
    cq->lent[cq->n_lent++] = note;
    return true;
}

static bool cq_take_event(struct nixl_cq *cq, struct nixl_cq_entry *entry)
{
    struct nxr_event *event =
        (cq->flags & NIXL_CQ_EVENTS) != 0 ? nxr_event_take(cq->context) : NULL;

    if (event == NULL) {
        return false;
    }
    *entry = (struct nixl_cq_entry){.kind = NIXL_CQ_EVENT,
                                    .value = event->type,
                                    .user_data = event->incarnation,
                                    .data = event->name[0] != '\0' ? event->name : NULL,
                                    .nbytes = (uint32_t)strlen(event->name),
                                    .rank = event->rank};
    cq->lent[cq->n_lent++] = event;
    return true;
}

static void free_lent(struct nixl_cq *cq)
{
    while (cq->n_lent > 0) {
        free(cq->lent[--cq->n_lent]);
    }
}

/* Room to lend what one more entry points to. */
static bool has_lent_room(struct nixl_cq *cq)
{
    if (cq->n_lent == cq->max_lent) {
        size_t max = 2 * cq->max_lent;
        void **lent = realloc(cq->lent, max * sizeof(*lent));

        if (lent == NULL) {
            return false;
        }
        cq->lent = lent;
        cq->max_lent = max;
    }
    return true;
}

static size_t cq_fill(struct nixl_cq *cq, char *entries, size_t max)
{
    struct nixl_cq_entry entry;
    size_t n = 0;

    while (n < max) {
        char *next = entries + n * cq->entry_nbytes;
        size_t n_taken = cq_take_operations(cq, next, max - n);

        if (n_taken == 0 && has_lent_room(cq) &&
            (cq_take_wait(cq, &entry) || cq_take_note(cq, &entry) || cq_take_event(cq, &entry))) {
            cq_write(cq, next, &entry);
            n_taken = 1;
        }
        if (n_taken == 0) {
            break;
        }
        n += n_taken;
    }
    return n;
}

/* ---- waiting --------------------------------------------------------------------------------- */

int nxr_cq_check(const char *operation, const struct nixl_cq *cq)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && !nxr_cq_is_open(cq)) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                          "the completion queue at %p is not open", (const void *)cq);
    }
    return status;
}

static int call_cq_wait(struct nixl_cq *cq, struct nixl_cq_entry *entries, size_t max,
                        int64_t timeout_ns, size_t *n_p)
{
    static const char operation[] = "nixl_cq_wait";
    int64_t deadline;
    size_t n = 0;
    int status = nxr_cq_check(operation, cq);

    if (status != NIXL_OK) {
        return status;
    }
    if (entries == NULL || n_p == NULL || max == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s",
                        max == 0 ? "max is 0" : "entries or n_p is NULL");
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, -1, timeout_ns);
    }
    free_lent(cq);
    deadline = timeout_ns > 0 ? nxr_deadline(timeout_ns) : 0;
    do {
        status = nxr_wait_as(
            nxr_cq_has_any, cq, timeout_ns > 0 ? nxr_left(timeout_ns, deadline) : 0,
            nxr_describe_reason,
            &(const struct nxr_reason){.kind = NXR_WAIT_QUEUE, .peer = -1, .call = operation});
        if (status == NIXL_OK) {
            n = cq_fill(cq, (char *)entries, max); /* another call may have taken the note */
        }
    } while (status == NIXL_OK && n == 0 && timeout_ns > 0);
    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(status, operation, -1, "", 0, "nothing to report within %s",
                        nxr_duration(timeout_ns).text);
    }
    if (status != NIXL_OK || n == 0) {
        return status == NIXL_OK ? NIXL_INPROGRESS : status;
    }
    *n_p = n;
    return NIXL_OK;
}

int nixl_cq_wait(struct nixl_cq *cq, struct nixl_cq_entry *entries, size_t max, int64_t timeout_ns,
                 size_t *n_p)
{
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_cq_wait", -1, 0, 0,
                      call_cq_wait(cq, entries, max, timeout_ns, n_p));
}

int nxr_cq_watch(struct nixl_cq *cq, const struct nxr_cq_watch *watch)
{
    struct wait_item *item = malloc(sizeof(*item));
    bool is_over, must_kick;
    uint64_t seen;
    int status;

    if (item == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    item->watch = *watch;
    item->is_canceled = item->is_over = false;
    item->ask_at =
        watch->rank >= 0 && watch->rank != nxr_job.rank ? nxr_coarse_now_ns() + ASK_NS : INT64_MAX;
    pthread_mutex_lock(&nxr_cqs_lock);
    nxr_list_append(&cq->waits, &item->link);
    atomic_fetch_add_explicit(&cq->n_waits, 1, memory_order_release);
    is_over = wait_is_over(item, &seen, &status);
    must_kick = item->ask_at < atomic_load(&cqs_ask_at);
    if (must_kick) {
        atomic_store(&cqs_ask_at, item->ask_at);
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

int nixl_cq_cancel(struct nixl_cq *cq, uint64_t user_data)
{
    int status = nxr_cq_check("nixl_cq_cancel", cq);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_request_stop_reported(cq, user_data);
    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = cq->waits.next; link != &cq->waits; link = link->next) {
        struct wait_item *item = nxr_list_entry(link, struct wait_item, link);

        item->is_canceled = item->is_canceled || item->watch.user_data == user_data;
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
    nxr_wake_self();
    return NIXL_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int cq_check_open(const char *operation, const struct nixl_cq_params *theirs,
                         struct nixl_cq **cq_p, struct nixl_cq_params *params)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_cq_params, NIXL_CQ_PARAMS_INIT, flags);
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && cq_p == NULL) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "cq_p is NULL");
    }
    if (status == NIXL_OK && theirs != NULL) {
        status = nxr_struct_read(operation, "params", &type, theirs, params);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if ((params->flags & ~(uint32_t)(NIXL_CQ_NOTES | NIXL_CQ_EVENTS)) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "flags %#x; allowed: NIXL_CQ_NOTES (%#x) and NIXL_CQ_EVENTS (%#x)",
                        params->flags, NIXL_CQ_NOTES, NIXL_CQ_EVENTS);
    }
    if (params->entry_nbytes == 0) {
        params->entry_nbytes = sizeof(struct nixl_cq_entry);
    }
    if (params->entry_nbytes % sizeof(uint64_t) != 0 || params->entry_nbytes > NXR_STRUCT_MAX ||
        params->entry_nbytes < sizeof(struct nixl_cq_entry)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "entry_nbytes is %u; allowed: 0, or sizeof(struct nixl_cq_entry)",
                        params->entry_nbytes);
    }
    return NIXL_OK;
}

int nixl_cq_open(const struct nixl_cq_params *params, struct nixl_cq **cq_p)
{
    static const char operation[] = "nixl_cq_open";
    struct nixl_cq_params ours = NIXL_CQ_PARAMS_INIT;
    int status = cq_check_open(operation, params, cq_p, &ours);
    struct nixl_context *context;
    struct nixl_cq *cq;

    if (status != NIXL_OK) {
        return status;
    }
    context = nxr_context_check(operation, ours.context);
    if (context == NULL) {
        return NIXL_E_INVALID_ARG;
    }
    cq = calloc(1, sizeof(*cq));
    if (cq != NULL) {
        cq->max_lent = FIRST_LENT;
        cq->lent = malloc(FIRST_LENT * sizeof(*cq->lent));
    }
    if (cq == NULL || cq->lent == NULL) {
        free(cq);
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for a queue");
    }
    cq->context = context;
    cq->flags = ours.flags;
    cq->entry_nbytes = ours.entry_nbytes;
    cq->fd = -1;
    cq->news_fd = -1;
    nxr_list_init(&cq->under_way);
    nxr_list_init(&cq->ended);
    nxr_list_init(&cq->waits);
    pthread_mutex_lock(&nxr_cqs_lock);
    nxr_list_append(&nxr_cqs, &cq->link);
    pthread_mutex_unlock(&nxr_cqs_lock);
    atomic_fetch_add(&context->n_queues, 1);
    *cq_p = cq;
    return NIXL_OK;
}

/* The queue is in no list any more. */
static void cq_free(struct nixl_cq *cq)
{
    struct nxr_list *link;

    nxr_request_abandon_reported(cq);
    while ((link = nxr_list_pop(&cq->waits)) != NULL) {
        free(nxr_list_entry(link, struct wait_item, link));
    }
    free_lent(cq);
    free(cq->lent);
    nxr_cq_close_fd(cq);
    atomic_fetch_sub(&cq->context->n_queues, 1);
    free(cq);
}

int nixl_cq_close(struct nixl_cq *cq)
{
    int status = nxr_cq_check("nixl_cq_close", cq);

    if (status != NIXL_OK) {
        return status;
    }
    pthread_mutex_lock(&nxr_cqs_lock);
    nxr_list_remove(&cq->link);
    atomic_store_explicit(&open_cq, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&nxr_cqs_lock);
    cq_free(cq);
    return NIXL_OK;
}

/* Requests that are still under way end without a queue. */
static void cqs_quiesce(void)
{
    struct nxr_list *link;

    atomic_store(&cqs_ask_at, INT64_MAX);
    do {
        pthread_mutex_lock(&nxr_cqs_lock);
        link = nxr_list_pop(&nxr_cqs);
        atomic_store_explicit(&open_cq, NULL, memory_order_relaxed);
        pthread_mutex_unlock(&nxr_cqs_lock);
        if (link != NULL) {
            cq_free(nxr_list_entry(link, struct nixl_cq, link));
        }
    } while (link != NULL);
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
static void cqs_peer_replaced(struct nxr_peer *former)
{
    end_waits(former->rank);
}

/*
 * Is it time to ask the rank of a wait? If so, *watch is one of its waits, and all that are due
 * count as asked. *next_p is when the next one is due.
 */
static bool take_due(int64_t now, struct nxr_cq_watch *watch, int64_t *next_p)
{
    watch->rank = -1;
    *next_p = INT64_MAX;
    for (struct nxr_list *link = nxr_cqs.next; link != &nxr_cqs; link = link->next) {
        struct nxr_list *waits = &nxr_list_entry(link, struct nixl_cq, link)->waits;

        for (struct nxr_list *wait = waits->next; wait != waits; wait = wait->next) {
            struct wait_item *item = nxr_list_entry(wait, struct wait_item, link);

            if (item->ask_at <= now && (watch->rank < 0 || watch->rank == item->watch.rank)) {
                *watch = item->watch;
                item->ask_at = INT64_MAX;
            }
            *next_p = item->ask_at < *next_p ? item->ask_at : *next_p;
        }
    }
    return watch->rank >= 0;
}

/* The program's waits of the last nixl_finalize() are over. */
static int64_t cqs_tick(int64_t now)
{
    struct nxr_cq_watch watch;
    int64_t next = atomic_load(&cqs_ask_at);
    bool is_due = next <= now && nxr_is_ready();

    while (is_due) {
        pthread_mutex_lock(&nxr_cqs_lock);
        is_due = take_due(now, &watch, &next);
        next = next < now + ASK_AGAIN_NS ? now + ASK_AGAIN_NS : next;
        atomic_store(&cqs_ask_at, next);
        pthread_mutex_unlock(&nxr_cqs_lock);
        if (is_due && watch.ask_leaving(watch.rank)) {
            nxr_cq_rank_leaves(watch.rank);
        }
    }
    return nxr_is_ready() ? next : INT64_MAX;
}

const struct nxr_subsystem nxr_cq_subsystem = {
    .name = "cq",
    .tick = cqs_tick,
    .peer_replaced = cqs_peer_replaced,
    .quiesce = cqs_quiesce,
    .stop = cqs_quiesce,
};
