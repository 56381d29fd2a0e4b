/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a team, and the worker that runs it. Locks: later.lock of the team guards the queue;
 * team->n_later, the number of calls that have not ended, is read without it. While that is not 0
 * the team is the worker's. cancel_lock, of all teams, guards `owned` of their requests, the team
 * until the call is over: a cancel comes before that, and the worker tells the other hosts of it,
 * or it does nothing.
 */
#include "config.h"

#include "collective/later.h"
#include "collective/plan.h"
#include "collective/team.h"
#include "util/status.h"
#include "util/thread.h"
#include "core/wait.h"

#include <stdlib.h>

#define STACK_NBYTES (1u << 20) /* operations of the caller run here, too */

/* A call in the queue, with copies of its arrays behind it. */
struct later_call {
    struct nxr_list link;
    const char *operation;
    struct nixl_req *req;
    struct nxr_call call;
    size_t arrays[];
};

struct nxr_later {
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    pthread_t worker;
    struct nxr_list queue;
    bool must_end;
};

static pthread_mutex_t cancel_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the worker ------------------------------------------------------------------------------ */

/* The call is over: its request cannot be canceled any more. Was one of the team's canceled? */
static bool later_is_over(struct nixl_req *req, struct nixl_team *team)
{
    bool was_canceled;

    pthread_mutex_lock(&cancel_lock);
    req->owned = NULL;
    was_canceled = team->is_canceled;
    team->is_canceled = false;
    pthread_mutex_unlock(&cancel_lock);
    return was_canceled;
}

static int later_run(struct nixl_team *team, const struct later_call *later)
{
    int status;

    nxr_team_begin(team, later->operation, NIXL_FOREVER);
    status = nxr_team_look(team, -1);
    if (status == NIXL_OK) {
        status = nxr_call_run(team, &later->call);
    }
    /* A cancel that comes when the call has succeeded has broken the team all the same. */
    if (later_is_over(later->req, team)) {
        nxr_team_tell_hosts(team);
    }
    return status == NIXL_OK ? status : nxr_team_end(team, status);
}

/* The next call; NULL: the queue is being stopped. */
static struct later_call *later_next_call(struct nxr_later *queue)
{
    struct nxr_list *link;

    pthread_mutex_lock(&queue->lock);
    while ((link = nxr_list_pop(&queue->queue)) == NULL && !queue->must_end) {
        pthread_cond_wait(&queue->wanted, &queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    return link != NULL ? nxr_list_entry(link, struct later_call, link) : NULL;
}

static void *work(void *arg)
{
    struct nixl_team *team = arg;
    struct later_call *later;

    while ((later = later_next_call(team->later)) != NULL) {
        struct nixl_req *req = later->req;
        int status = later_run(team, later);

        req->lost_rank = atomic_load(&team->lost_rank);
        if (status == NIXL_E_PEER_LOST && atomic_load(&team->lost_leaves)) {
            nxr_request_keep_failure(req, req->lost_rank, nixl_last_error()->text);
        }
        if (later->call.plan != NULL) {
            atomic_fetch_sub(&later->call.plan->n_started, 1);
        }
        free(later);
        /* Once the request has ended, the caller may use the team, or free it. */
        atomic_fetch_sub_explicit(&team->n_later, 1, memory_order_release);
        nxr_request_end(req, status);
        nxr_leaving_end_work();
    }
    return NULL;
}

static struct nxr_later *start_worker(struct nixl_team *team)
{
    struct nxr_later *queue = calloc(1, sizeof(*queue));

    if (queue == NULL) {
        return NULL;
    }
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->wanted, NULL);
    nxr_list_init(&queue->queue);
    team->later = queue;
    if (nxr_thread_start(&queue->worker, STACK_NBYTES, work, team) != 0) {
        team->later = NULL;
        pthread_cond_destroy(&queue->wanted);
        pthread_mutex_destroy(&queue->lock);
        free(queue);
        return NULL;
    }
    return queue;
}

void nxr_later_stop(struct nixl_team *team)
{
    struct nxr_later *queue = team->later;
    bool is_busy = atomic_load(&team->n_later) != 0;

    if (queue == NULL) {
        return;
    }
    if (is_busy) {
        nxr_team_break(team, NIXL_E_CANCELED, -1);
        nxr_wake_self();
    }
    pthread_mutex_lock(&queue->lock);
    queue->must_end = true;
    pthread_cond_signal(&queue->wanted);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->worker, NULL);
    if (is_busy) {
        nxr_team_tell_hosts(team);
    }
    pthread_cond_destroy(&queue->wanted);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
    team->later = NULL;
}

/* Canceling a request breaks its team: the request then ends soon. */
static void later_cancel(struct nixl_req *req)
{
    struct nixl_team *team;

    pthread_mutex_lock(&cancel_lock);
    team = req->owned;
    if (team != NULL) {
        team->is_canceled = true;
        nxr_team_break(team, NIXL_E_CANCELED, -1);
    }
    pthread_mutex_unlock(&cancel_lock);
    nxr_wake_self();
}

static const struct nxr_req_owner later_owner = {.stop = later_cancel};

/* ---- starting -------------------------------------------------------------------------------- */

static struct later_call *new_call(const struct nixl_team *team, const char *operation,
                                   const struct nxr_call *call)
{
    size_t nbytes = call->plan == NULL ? nxr_call_arrays_nbytes(team, call) : 0;
    struct later_call *later = malloc(sizeof(*later) + nbytes);

    if (later == NULL) {
        return NULL;
    }
    *later = (struct later_call){.operation = operation, .call = *call};
    if (call->plan == NULL) { /* a prepared call has copies of its own */
        nxr_call_keep_arrays(team, &later->call, later->arrays);
    }
    return later;
}

int nxr_later_start(struct nixl_team *team, const char *operation, const struct nxr_call *call,
                    struct nixl_req **req_p)
{
    struct nxr_later *queue = team->later != NULL ? team->later : start_worker(team);
    struct later_call *later = queue != NULL ? new_call(team, operation, call) : NULL;
    struct nixl_req *req = later != NULL ? nxr_request_new(operation, &later_owner, team) : NULL;

    if (req == NULL) {
        free(later);
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0,
                        "no memory or thread for a non-blocking collective");
    }
    req->op.nbytes_done = 1; /* if canceled, it may have changed any bytes */
    later->req = req;
    *req_p = req;
    if (call->plan != NULL) {
        atomic_fetch_add(&call->plan->n_started, 1);
    }
    atomic_fetch_add(&team->n_later, 1);
    nxr_leaving_begin_work();
    pthread_mutex_lock(&queue->lock);
    nxr_list_append(&queue->queue, &later->link);
    pthread_cond_signal(&queue->wanted);
    pthread_mutex_unlock(&queue->lock);
    return NIXL_INPROGRESS;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool later_is_idle(void *arg)
{
    const struct nixl_team *team = arg;

    return atomic_load_explicit(&team->n_later, memory_order_acquire) == 0;
}

int nxr_later_wait(struct nixl_team *team, int64_t timeout_ns)
{
    const struct nxr_reason reason = {.kind = NXR_WAIT_TEAM_IDLE, .peer = -1};

    return nxr_wait_as(later_is_idle, team, timeout_ns, nxr_describe_reason, &reason);
}
