/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The upcalls that concern the life of processes: connected, finalized, abort, fence, events. The
 * functions named up_ run on PMIx's threads and only queue; those named do_ run on the main thread.
 */
#include "config.h"

#include "launcher/server.h"

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
    }
    upcall_answer(call, PMIX_SUCCESS);
}

static pmix_status_t up_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                  void *arg)
{
    (void)object;
    return upcall_queue(
        &(struct upcall){.serve = do_finalized, .from = *proc, .op_done = done, .done_arg = arg});
}

/* ---- abort ----------------------------------------------------------------------------------- */

static void do_abort(struct upcall *call)
{
    struct rank *rank = rank_find(&call->from);

    if (rank != NULL) {
        finish_abort(rank, call->code, call->text);
    }
    upcall_answer(call, PMIX_SUCCESS);
}

static pmix_status_t up_abort(const pmix_proc_t *proc, void *object, int status, const char msg[],
                              pmix_proc_t procs[], size_t n_procs, pmix_op_cbfunc_t done, void *arg)
{
    (void)object;
    return upcall_queue(&(struct upcall){.serve = do_abort,
                                         .from = *proc,
                                         .code = status,
                                         .text = msg != NULL ? strdup(msg) : NULL,
                                         .procs = procs,
                                         .n_procs = n_procs,
                                         .op_done = done,
                                         .done_arg = arg});
}

/* ---- fence ----------------------------------------------------------------------------------- */

static void do_fence(struct upcall *call)
{
    call->modex_done(PMIX_SUCCESS, call->blob, call->blob_nbytes, call->done_arg, free, call->blob);
    call->modex_done = NULL;
    upcall_answer(call, PMIX_SUCCESS);
}

/* All ranks are here: what they gave is what they get. */
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

pmix_server_module_t server_module = {
    .client_connected2 = up_connected,
    .client_finalized = up_finalized,
    .abort = up_abort,
    .fence_nb = up_fence,
};
