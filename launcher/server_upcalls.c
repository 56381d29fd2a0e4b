/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of upcalls, and those about the life of processes and about operations of groups. The
 * functions named up_ run on PMIx's threads and only queue; those named do_ run on the main thread.
 */
#include "config.h"

#include "launcher/guardian.h"
#include "launcher/server_upcalls.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- connected, finalized -------------------------------------------------------------------- */

static void do_connected(struct upcall *call)
{
    struct rank *rank = rank_find(&call->from);

    if (rank != NULL) {
        rank->is_connected = rank->was_connected = true;
    }
    upcall_answer(call, PMIX_SUCCESS);
}

static pmix_status_t up_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[],
                                  size_t n_info, pmix_op_cbfunc_t done, void *arg)
{
    (void)object;
    (void)info;
    (void)n_info;
    return upcall_queue(
        &(struct upcall){.serve = do_connected, .from = *proc, .op_done = done, .done_arg = arg});
}

static void do_finalized(struct upcall *call)
{
    struct rank *rank = rank_find(&call->from);

    if (rank != NULL) {
        rank->is_connected = false;
        meet_rank_left(rank);
    }
    upcall_answer(call, PMIX_SUCCESS);
}

/*
 * Answered at once, on the thread of the PMIx library. PMIx marks the client as having left only
 * after it has sent the answer. If another thread answered, the client could exit before that and
 * count as dead; the next fence of ranks that join again would then end without one of them.
 */
static pmix_status_t up_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                  void *arg)
{
    pmix_status_t status = upcall_queue(&(struct upcall){.serve = do_finalized, .from = *proc});

    (void)object;
    if (status == PMIX_SUCCESS && done != NULL) {
        done(PMIX_SUCCESS, arg);
    }
    return status;
}

/* ---- abort ----------------------------------------------------------------------------------- */

/* Without a list of processes the whole job ends; with a list only those processes do. */
static void do_abort(struct upcall *call)
{
    struct rank *rank = rank_find(&call->from);

    if (rank != NULL && call->n_procs == 0) {
        finish_abort(rank, call->code, call->text);
    } else if (rank != NULL) {
        finish_abort_some(rank, call->text);
        for (int i = 0; i < session.n_ranks; i++) {
            if (session.ranks[i]->state != RANK_ENDED && upcall_means(call, session.ranks[i])) {
                guardian_signal(session.ranks[i]->id, SIGKILL);
            }
        }
    }
    upcall_answer(call, PMIX_SUCCESS);
}

static pmix_status_t up_abort(const pmix_proc_t *proc, void *object, int status, const char msg[],
                              pmix_proc_t procs[], size_t n_procs, pmix_op_cbfunc_t done, void *arg)
{
    pmix_proc_t *copy = NULL;

    (void)object;
    if (n_procs > 0) {
        copy = malloc(n_procs * sizeof(*copy)); /* PMIx frees its own when we return */
        if (copy == NULL) {
            return PMIX_ERR_NOMEM;
        }
        memcpy(copy, procs, n_procs * sizeof(*copy));
    }
    return upcall_queue(&(struct upcall){.serve = do_abort,
                                         .from = *proc,
                                         .code = status,
                                         .text = msg != NULL ? strdup(msg) : NULL,
                                         .procs = copy,
                                         .own_procs = copy,
                                         .n_procs = n_procs,
                                         .op_done = done,
                                         .done_arg = arg});
}

/* ---- fence ----------------------------------------------------------------------------------- */

static void do_fence(struct upcall *call)
{
    upcall_answer(call, PMIX_SUCCESS);
}

/* All ranks are on this host: the data that they gave is the result. */
static pmix_status_t up_fence(const pmix_proc_t procs[], size_t n_procs, const pmix_info_t info[],
                              size_t n_info, char *data, size_t nbytes, pmix_modex_cbfunc_t done,
                              void *arg)
{
    (void)procs;
    (void)n_procs;
    (void)info;
    (void)n_info;
    return upcall_queue(&(struct upcall){.serve = do_fence,
                                         .blob = data,
                                         .blob_nbytes = nbytes,
                                         .modex_done = done,
                                         .done_arg = arg});
}

/* ---- data of one process --------------------------------------------------------------------- */

/*
 * A get for data that PMIx does not have. All processes are on this host and PMIx holds what they
 * committed, so the data does not exist.
 */
static void do_direct_modex(struct upcall *call)
{
    upcall_answer(call, PMIX_ERR_NOT_FOUND);
}

static pmix_status_t up_direct_modex(const pmix_proc_t *proc, const pmix_info_t info[],
                                     size_t n_info, pmix_modex_cbfunc_t done, void *arg)
{
    (void)info;
    (void)n_info;
    return upcall_queue(&(struct upcall){
        .serve = do_direct_modex, .from = *proc, .modex_done = done, .done_arg = arg});
}

/* ---- connect, disconnect, groups ------------------------------------------------------------- */

/* PMIx has collected all members; on one host there are no others. */
static void do_agree(struct upcall *call)
{
    upcall_answer(call, PMIX_SUCCESS);
}

static pmix_status_t up_connect(const pmix_proc_t procs[], size_t n_procs, const pmix_info_t info[],
                                size_t n_info, pmix_op_cbfunc_t done, void *arg)
{
    (void)procs;
    (void)n_procs;
    (void)info;
    (void)n_info;
    return upcall_queue(&(struct upcall){.serve = do_agree, .op_done = done, .done_arg = arg});
}

/* The processes of which a group consists: all of a job, where it was named so. Caller frees. */
static pmix_proc_t *group_members(const struct upcall *call, size_t *n_p)
{
    pmix_proc_t *members;
    size_t n = 0;

    for (size_t i = 0; i < call->n_procs; i++) {
        const struct space *space = space_find(call->procs[i].nspace);

        n +=
            space != NULL && call->procs[i].rank == PMIX_RANK_WILDCARD ? (size_t)space->n_ranks : 1;
    }
    PMIX_PROC_CREATE(members, n);
    *n_p = members != NULL ? n : 0;
    n = 0;
    for (size_t i = 0; i < call->n_procs && members != NULL; i++) {
        const struct space *space = space_find(call->procs[i].nspace);

        if (space == NULL || call->procs[i].rank != PMIX_RANK_WILDCARD) {
            members[n++] = call->procs[i];
            continue;
        }
        for (int k = 0; k < space->n_ranks; k++) {
            members[n++] = rank_proc(&space->ranks[k]);
        }
    }
    return members;
}

/*
 * A group gets its context id, if it wants one, and the members' data back. And its members:
 * clients of PMIx 5.0.1 fail if there are none.
 */
static void do_group(struct upcall *call)
{
    static size_t last_context_id;
    const pmix_info_t *wants_id = info_find(call->info, call->n_info, PMIX_GROUP_ASSIGN_CONTEXT_ID);
    const pmix_info_t *data = info_find(call->info, call->n_info, PMIX_GROUP_ENDPT_DATA);
    pmix_data_array_t members = {.type = PMIX_PROC};
    pmix_info_t *answer;
    size_t n = 0;

    if (call->code != PMIX_GROUP_CONSTRUCT) {
        upcall_answer(call, PMIX_SUCCESS);
        return;
    }
    answer = info_new(3);
    members.array = group_members(call, &members.size);
    if (members.array != NULL) {
        PMIX_INFO_LOAD(&answer[n], PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
        PMIX_PROC_FREE(members.array, members.size);
        n++;
    }
    if (wants_id != NULL && PMIX_INFO_TRUE(wants_id)) {
        last_context_id++;
        PMIX_INFO_LOAD(&answer[n], PMIX_GROUP_CONTEXT_ID, &last_context_id, PMIX_SIZE);
        n++;
    }
    if (data != NULL) {
        PMIX_INFO_XFER(&answer[n], (pmix_info_t *)data);
        n++;
    }
    upcall_answer_info(call, PMIX_SUCCESS, answer, n);
}

static pmix_status_t up_group(pmix_group_operation_t operation, char *group,
                              const pmix_proc_t procs[], size_t n_procs, const pmix_info_t info[],
                              size_t n_info, pmix_info_cbfunc_t done, void *arg)
{
    (void)group;
    return upcall_queue(&(struct upcall){.serve = do_group,
                                         .code = operation,
                                         .procs = procs,
                                         .n_procs = n_procs,
                                         .info = info,
                                         .n_info = n_info,
                                         .info_done = done,
                                         .done_arg = arg});
}

/* ---- events ---------------------------------------------------------------------------------- */

/* PMIx reports every end of a process to registered clients, so there is nothing to do. */
static pmix_status_t up_register_events(pmix_status_t *codes, size_t n_codes,
                                        const pmix_info_t info[], size_t n_info,
                                        pmix_op_cbfunc_t done, void *arg)
{
    (void)codes;
    (void)n_codes;
    (void)info;
    (void)n_info;
    (void)done;
    (void)arg;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t up_deregister_events(pmix_status_t *codes, size_t n_codes,
                                          pmix_op_cbfunc_t done, void *arg)
{
    (void)codes;
    (void)n_codes;
    (void)done;
    (void)arg;
    return PMIX_OPERATION_SUCCEEDED;
}

/* A client's event: PMIx has sent it to all clients, and there is no other host. */
static pmix_status_t up_notify_event(pmix_status_t code, const pmix_proc_t *source,
                                     pmix_data_range_t range, pmix_info_t info[], size_t n_info,
                                     pmix_op_cbfunc_t done, void *arg)
{
    (void)code;
    (void)source;
    (void)range;
    (void)info;
    (void)n_info;
    (void)done;
    (void)arg;
    return PMIX_OPERATION_SUCCEEDED;
}

pmix_server_module_t server_module = {
    .client_connected2 = up_connected,
    .client_finalized = up_finalized,
    .abort = up_abort,
    .fence_nb = up_fence,
    .direct_modex = up_direct_modex,
    .publish = up_publish,
    .lookup = up_lookup,
    .unpublish = up_unpublish,
    .spawn = up_spawn,
    .connect = up_connect,
    .disconnect = up_connect,
    .register_events = up_register_events,
    .deregister_events = up_deregister_events,
    .notify_event = up_notify_event,
    .query = up_query,
    .log = up_log,
    .job_control = up_job_control,
    .iof_pull = up_iof_pull,
    .push_stdin = up_push_stdin,
    .group = up_group,
};
