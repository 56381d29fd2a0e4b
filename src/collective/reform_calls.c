/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls that re-form a team: checks, the list of members, and a thread for each call
 * that does not wait. Once the members have agreed, the team is made as any other (making.h), with
 * the epoch as the number of the call, and gives up at the deadline, or a second later. Lock:
 * tasks_lock guards the list of threads and their fields, except is_done, which the thread sets
 * last.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/making.h"
#include "collective/reform.h"
#include "collective/reforms.h"
#include "collective/teams.h"
#include "core/form.h"
#include "core/request.h"
#include "core/trace.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/status.h"
#include "util/thread.h"

#include <stdlib.h>
#include <string.h>

#define STACK_NBYTES (256u << 10)

/*
 * What is left of the time when all have agreed is this at least: otherwise the call of all would
 * fail because the time of one was nearly over when the last one called.
 */
#define MAKE_NS (1 * NXR_S)

/* A call that does not wait. */
struct task {
    struct nxr_list link;
    pthread_t thread;
    struct nxr_reform reform; /* with a list of its own */
    struct nixl_req *req;     /* ends with it; NULL: it was canceled, and nobody wants the team */
    struct nixl_team **team_p;
    bool is_late; /* the time of `req` is over */
    atomic_bool is_done;
};

static pthread_mutex_t tasks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list tasks = {&tasks, &tasks};

/* ---- one call -------------------------------------------------------------------------------- */

/* The list of members, copied, and who they are. */
static int reform_list(struct nxr_reform *reform, const int *ranks, int size)
{
    int *numbers = calloc((size_t)size, sizeof(*numbers));
    struct nxr_identity *members = calloc((size_t)size, sizeof(*members));

    if (numbers == NULL || members == NULL) {
        free(numbers);
        free(members);
        return nxr_fail(NIXL_E_NO_MEMORY, reform->operation, -1, "", 0,
                        "no memory for a list of %d members", size);
    }
    for (int i = 0; i < size; i++) {
        (void)nxr_peer_get(ranks[i]); /* who it is is certain then */
        numbers[i] = ranks[i];
        members[i] = nxr_identity_at(ranks[i]);
        reform->me = ranks[i] == nxr_job.rank ? i : reform->me;
    }
    reform->ranks = numbers;
    reform->members = members;
    reform->size = size;
    return NIXL_OK;
}

static void reform_drop_list(struct nxr_reform *reform)
{
    free((int *)(uintptr_t)reform->ranks);
    free((struct nxr_identity *)(uintptr_t)reform->members);
}

static int reform_run(struct nxr_reform *reform, struct nixl_team **team_p)
{
    int status = nxr_reform_agree(reform);
    int64_t least = nxr_deadline(MAKE_NS);

    if (status == NIXL_OK) {
        bool is_short = reform->deadline < least;
        const struct nxr_wanted wanted = {
            .operation = reform->operation,
            .kind = NXR_TEAM_OF_RANKS,
            .key = reform->epoch,
            .ranks = reform->ranks,
            .members = reform->members,
            .size = reform->size,
            .timeout_ns = is_short ? MAKE_NS : reform->timeout_ns,
            .deadline = is_short ? least : reform->deadline,
        };

        status = nxr_team_make(&wanted, reform->epoch, team_p);
    }
    nxr_reform_end(reform);
    return status;
}

/* ---- calls that do not wait ------------------------------------------------------------------ */

/*
 * The call was canceled when all had agreed: the others may have the team, and would wait for this
 * member in it.
 */
static void give_back_unwanted(struct nixl_team *team)
{
    nxr_team_break(team, NIXL_E_CANCELED, -1);
    nxr_team_tell_hosts(team);
    nxr_team_drop(team);
}

static void *task_run(void *arg)
{
    struct task *task = arg;
    struct nixl_team *team = NULL;
    int status = reform_run(&task->reform, &team);
    struct nixl_req *req;

    pthread_mutex_lock(&tasks_lock);
    req = task->req;
    task->req = NULL;
    if (req != NULL) {
        req->owned = NULL;
        if (status == NIXL_OK) {
            *task->team_p = team;
            team = NULL;
        } else {
            nxr_request_keep_failure(req, nixl_last_error()->rank, nixl_last_error()->text);
        }
    }
    pthread_mutex_unlock(&tasks_lock);
    if (status == NIXL_OK && team != NULL) {
        give_back_unwanted(team);
    }
    if (req != NULL) {
        nxr_request_end(req, status);
    }
    nxr_leaving_end_work();
    atomic_store_explicit(&task->is_done, true, memory_order_release);
    nxr_wake_self();
    return NULL;
}

/*
 * Cancel: the request ends at once, and the attempt soon. At the deadline of the request, which is
 * the attempt's, the thread ends both: it knows who is missing.
 */
static void task_leave(struct nixl_req *req)
{
    bool is_now_late;
    struct task *task;

    pthread_mutex_lock(&tasks_lock);
    task = req->owned;
    is_now_late = task != NULL && !task->is_late && atomic_load(&req->is_late);
    if (is_now_late) {
        task->is_late = true;
        task = NULL;
    } else if (task != NULL) {
        task->req = NULL;
        req->owned = NULL;
        nxr_reform_cancel(&task->reform);
    }
    pthread_mutex_unlock(&tasks_lock);
    if (task != NULL) {
        nxr_request_end(req, NIXL_E_CANCELED);
    }
}

static const struct nxr_req_owner task_owner = {.stop = task_leave};

static void task_free(struct task *task)
{
    reform_drop_list(&task->reform);
    free(task);
}

static bool task_is_done(void *arg)
{
    struct task *task = arg;

    return atomic_load_explicit(&task->is_done, memory_order_acquire);
}

/* Free those whose threads have ended. Caller holds the lock. */
static void tasks_reap(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &tasks) {
        struct task *task = nxr_list_entry(link, struct task, link);

        if (task_is_done(task)) {
            nxr_list_remove(&task->link);
            pthread_join(task->thread, NULL);
            task_free(task);
        }
    }
}

static int task_start(const struct nxr_reform *wanted, const int *ranks, int size,
                      struct nixl_team **team_p, struct nixl_req **req_p)
{
    struct task *task = calloc(1, sizeof(*task));
    struct nixl_req *req = nxr_request_new(wanted->operation, &task_owner, task);
    bool is_started = false;
    int status;

    if (task == NULL || req == NULL) {
        free(task);
        free(req);
        return nxr_fail(NIXL_E_NO_MEMORY, wanted->operation, -1, "", 0, "no memory for a request");
    }
    task->reform = *wanted;
    task->req = req;
    task->team_p = team_p;
    req->op.nbytes_done = 1; /* if canceled, it may have changed any bytes */
    status = reform_list(&task->reform, ranks, size);
    if (status == NIXL_OK) {
        status = nxr_reform_begin(&task->reform, 0);
    }
    nxr_leaving_begin_work();
    if (status >= NIXL_OK) {
        pthread_mutex_lock(&tasks_lock);
        tasks_reap();
        *req_p = req;
        is_started = nxr_thread_start(&task->thread, STACK_NBYTES, task_run, task) == 0;
        if (is_started) {
            nxr_list_append(&tasks, &task->link);
        }
        pthread_mutex_unlock(&tasks_lock);
        status = is_started ? NIXL_INPROGRESS
                            : nxr_fail(NIXL_E_NO_MEMORY, wanted->operation, -1, "", 0,
                                       "no memory or thread for a team");
    }
    if (!is_started) {
        nxr_leaving_end_work();
        *req_p = NULL;
        free(req);
        nxr_reform_end(&task->reform);
        task_free(task);
    }
    return status;
}

void nxr_reforms_stop(void)
{
    nxr_agreements_set_stopping(true);
    nxr_wake_self();
    while (!nxr_list_is_empty(&tasks)) {
        struct task *task = nxr_list_entry(tasks.next, struct task, link);

        (void)nxr_wait(task_is_done, task, NIXL_FOREVER);
        pthread_mutex_lock(&tasks_lock);
        tasks_reap();
        pthread_mutex_unlock(&tasks_lock);
    }
    nxr_agreements_set_stopping(false);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int reform_check(const char *operation, const int *ranks, size_t nranks, int64_t timeout_ns,
                        struct nixl_team **team_p)
{
    int status = nxr_team_check_make(operation, timeout_ns, team_p);

    if (status == NIXL_OK && timeout_ns == 0) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                          "the timeout is 0, in which no members can agree; allowed: a time in "
                          "nanoseconds, or NIXL_FOREVER; a call with a request does not wait");
    }
    return status == NIXL_OK ? nxr_team_check_ranks(operation, ranks, nranks, true) : status;
}

static int reform_wait(struct nxr_reform *reform, const int *ranks, size_t nranks,
                       struct nixl_team **team_p)
{
    int status = reform_list(reform, ranks, (int)nranks);

    if (status == NIXL_OK) {
        status = nxr_reform_begin(reform, reform->timeout_ns);
        if (status == NIXL_OK) {
            status = reform_run(reform, team_p);
        }
        nxr_reform_end(reform);
        reform_drop_list(reform);
    }
    return status;
}

static int call_team_reform(const int *ranks, size_t nranks, int64_t timeout_ns,
                            struct nixl_team **team_p)
{
    static const char operation[] = "nixl_team_reform";
    struct nxr_reform reform = {.operation = operation, .timeout_ns = timeout_ns};
    int status = reform_check(operation, ranks, nranks, timeout_ns, team_p);

    return status == NIXL_OK ? reform_wait(&reform, ranks, nranks, team_p) : status;
}

int nixl_team_reform(const int *ranks, size_t nranks, int64_t timeout_ns, struct nixl_team **team_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_reform", -1, 0, 0,
                      call_team_reform(ranks, nranks, timeout_ns, team_p));
}

int nixl_team_reform_x(const int *ranks, size_t nranks, const struct nixl_op *op,
                       struct nixl_team **team_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_team_reform_x";
    struct nxr_reform reform = {.operation = operation};
    struct nixl_req *req = NULL;
    struct nxr_form form;
    bool is_waited;
    int status = nxr_form_read_start(operation, op, 0, req_p, &form);

    if (status != NIXL_OK) {
        return status;
    }
    is_waited = req_p == NULL && form.op->cq == NULL;
    reform.context = form.context->id;
    reform.timeout_ns = is_waited || form.op->timeout_ns != 0 ? form.timeout_ns : NIXL_FOREVER;
    status = reform_check(operation, ranks, nranks, reform.timeout_ns, team_p);
    if (status != NIXL_OK) {
        return status;
    }
    if (is_waited) {
        return reform_wait(&reform, ranks, nranks, team_p);
    }
    status = task_start(&reform, ranks, (int)nranks, team_p, &req);
    return nxr_form_end(operation, &form, status, req, req_p);
}
