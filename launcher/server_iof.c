/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O forwarding to clients and tools that ask for it: a copy of what ranks write, and bytes for
 * their stdin. PMIx itself records which client wants which stream.
 */
#include "config.h"

#include "launcher/server_upcalls.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic bool has_readers; /* set by PMIx's thread; seeing it late loses nothing important */

/* One piece of output on its way: PMIx reads both until it calls back. */
struct delivery {
    pmix_proc_t source;
    pmix_byte_object_t bytes;
};

static void delivered(pmix_status_t status, void *arg)
{
    struct delivery *delivery = arg;

    (void)status;
    PMIX_BYTE_OBJECT_DESTRUCT(&delivery->bytes);
    free(delivery);
}

void iof_deliver(const struct rank *rank, int which, const char *data, size_t nbytes)
{
    pmix_iof_channel_t channel = which == 0 ? PMIX_FWD_STDOUT_CHANNEL : PMIX_FWD_STDERR_CHANNEL;
    struct delivery *delivery;
    pmix_status_t status;

    if (!atomic_load_explicit(&has_readers, memory_order_relaxed)) {
        return;
    }
    delivery = calloc(1, sizeof(*delivery));
    if (delivery == NULL || (delivery->bytes.bytes = malloc(nbytes)) == NULL) {
        free(delivery);
        return;
    }
    delivery->source = rank_proc(rank);
    memcpy(delivery->bytes.bytes, data, nbytes);
    delivery->bytes.size = nbytes;
    status = PMIx_server_IOF_deliver(&delivery->source, channel, &delivery->bytes, NULL, 0,
                                     delivered, delivery);
    if (status != PMIX_SUCCESS) {
        delivered(status, delivery);
    }
}

/*
 * Answered here, not from the main thread: 4.2 frees its request when the upcall returns
 * PMIX_SUCCESS, so a later answer would use freed memory.
 */
pmix_status_t up_iof_pull(const pmix_proc_t procs[], size_t n_procs, const pmix_info_t directives[],
                          size_t n_directives, pmix_iof_channel_t channels, pmix_op_cbfunc_t done,
                          void *arg)
{
    (void)procs;
    (void)n_procs;
    (void)directives;
    (void)n_directives;
    (void)channels;
    (void)done;
    (void)arg;
    atomic_store_explicit(&has_readers, true, memory_order_relaxed);
    return PMIX_OPERATION_SUCCEEDED;
}

static void do_push_stdin(struct upcall *call)
{
    pmix_status_t status = PMIX_ERR_NOT_FOUND;

    for (int i = 0; i < session.n_ranks; i++) {
        struct rank *rank = session.ranks[i];

        if (rank->state == RANK_ENDED || !upcall_means(call, rank)) {
            continue;
        }
        if (call->blob_nbytes == 0) {
            inlet_end(&rank->inlet);
            status = PMIX_SUCCESS;
        } else if (inlet_add(&rank->inlet, call->blob, call->blob_nbytes)) {
            status = PMIX_SUCCESS;
        }
    }
    upcall_answer(call, status);
}

pmix_status_t up_push_stdin(const pmix_proc_t *from, const pmix_proc_t targets[], size_t n_targets,
                            const pmix_info_t directives[], size_t n_directives,
                            const pmix_byte_object_t *bytes, pmix_op_cbfunc_t done, void *arg)
{
    (void)directives;
    (void)n_directives;
    return upcall_queue(&(struct upcall){.serve = do_push_stdin,
                                         .from = *from,
                                         .procs = targets,
                                         .n_procs = n_targets,
                                         .blob = bytes != NULL ? bytes->bytes : NULL,
                                         .blob_nbytes = bytes != NULL ? bytes->size : 0,
                                         .op_done = done,
                                         .done_arg = arg});
}
