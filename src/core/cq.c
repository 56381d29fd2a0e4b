/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues: the public calls, and what they take out of them. Locks: see cq.h. What an
 * entry points to (a payload, a name) is lent until the next call, and owned by the queue.
 */
#include "config.h"

#include "core/cq.h"
#include "core/event.h"
#include "core/progress.h"
#include "core/subsystem.h"
#include "core/trace.h"
#include "core/wait.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LENT    64 /* entries that can always be lent at once */
#define TAKEN_AT_ONCE 64 /* operations, under one lock */

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

bool nxr_cq_has_any(void *arg)
{
    struct nixl_cq *cq = arg;

    return atomic_load_explicit(&cq->n_ended, memory_order_acquire) != 0 ||
           nxr_cq_has_wait_over(cq) ||
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
            (nxr_cq_take_wait(cq, &entry) || cq_take_note(cq, &entry) ||
             cq_take_event(cq, &entry))) {
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

int nixl_cq_cancel(struct nixl_cq *cq, uint64_t user_data)
{
    int status = nxr_cq_check("nixl_cq_cancel", cq);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_request_stop_reported(cq, user_data);
    nxr_cq_cancel_waits(cq, user_data);
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
    nxr_request_abandon_reported(cq);
    nxr_cq_drop_waits(cq);
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

const struct nxr_subsystem nxr_cq_subsystem = {
    .name = "cq",
    .quiesce = cqs_quiesce,
    .stop = cqs_quiesce,
};
