/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of prepared transfers: creating and freeing them, and waiting for starts whose request
 * the handle keeps. Lock: nxr_xfers_lock guards the lists.
 */
#include "config.h"

#include "core/request.h"
#include "core/subsystem.h"
#include "core/trace.h"
#include "util/handle.h"
#include "util/clock.h"
#include "util/status.h"
#include "core/wait.h"
#include "transfer/xfer.h"
#include "transfer/copy_thread.h"

#include <stdlib.h>
#include <string.h>

#define STOP_NS (5 * NXR_S)

static struct nxr_list open_xfers = {&open_xfers, &open_xfers};
static struct nxr_handle_cache xfer_handles =
    NXR_HANDLE_CACHE(xfer_handles, struct nixl_xfer, link, 64);

int nxr_xfer_check(const char *operation, const struct nixl_xfer *xfer)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK &&
        (xfer == NULL ||
         atomic_load_explicit(&xfer->magic, memory_order_acquire) != NXR_XFER_OPEN)) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s",
                          xfer == NULL ? "the transfer is NULL" : "the transfer was freed");
    }
    return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

static struct nixl_xfer *xfer_new(void)
{
    struct nixl_xfer *xfer;

    pthread_mutex_lock(&nxr_xfers_lock);
    xfer = nxr_handle_take(&xfer_handles);
    pthread_mutex_unlock(&nxr_xfers_lock);
    if (xfer != NULL) {
        memset(xfer, 0, sizeof(*xfer));
        nxr_list_init(&xfer->link);
        nxr_list_init(&xfer->ready_link);
        nxr_list_init(&xfer->free_slots);
    }
    return xfer;
}

/* Free everything that a handle owns, but not the handle. */
static void xfer_drop(struct nixl_xfer *xfer)
{
    nxr_xfer_free_slots(xfer);
    free(xfer->sides[NIXL_XFER_LOCAL].blocks);
    free(xfer->sides[NIXL_XFER_REMOTE].blocks);
    free(xfer->staged);
    free(xfer->spare);
}

static void xfer_retire(struct nixl_xfer *xfer)
{
    xfer_drop(xfer);
    pthread_mutex_lock(&nxr_xfers_lock);
    nxr_list_remove(&xfer->link);
    nxr_handle_retire(&xfer_handles, xfer);
    pthread_mutex_unlock(&nxr_xfers_lock);
}

static int compare_sides(const char *operation, const struct nixl_xfer *xfer)
{
    uint64_t local = xfer->sides[NIXL_XFER_LOCAL].nbytes;
    uint64_t remote = xfer->sides[NIXL_XFER_REMOTE].nbytes;

    return local == remote ? NIXL_OK
                           : nxr_fail(NIXL_E_INVALID_ARG, operation, xfer->rank, "", 0,
                                      "the local side has %llu bytes, the remote side %llu",
                                      (unsigned long long)local, (unsigned long long)remote);
}

int nxr_xfer_find(const char *operation, struct nixl_xfer *xfer)
{
    struct nxr_side *local = &xfer->sides[NIXL_XFER_LOCAL];
    struct nxr_side *remote = &xfer->sides[NIXL_XFER_REMOTE];
    bool is_open = local->is_open || remote->is_open;
    int status = is_open ? NIXL_OK : compare_sides(operation, xfer);

    if (status == NIXL_OK) {
        status = nxr_side_find(operation, xfer->kind, xfer->rank, NIXL_XFER_LOCAL, local);
    }
    if (status == NIXL_OK) {
        status = nxr_side_find(operation, xfer->kind, xfer->rank, NIXL_XFER_REMOTE, remote);
    }
    return status == NIXL_OK && is_open ? compare_sides(operation, xfer) : status;
}

/* Copy and check both sides. */
static int xfer_fill(const char *operation, struct nixl_xfer *xfer, const struct nixl_blocks *local,
                     size_t n_local, const struct nixl_blocks *remote, size_t n_remote)
{
    struct nxr_side *sides = xfer->sides;
    int status = nxr_side_copy(operation, xfer->rank, NIXL_XFER_LOCAL, local, n_local, &sides[0]);

    if (status == NIXL_OK) {
        status =
            nxr_side_copy(operation, xfer->rank, NIXL_XFER_REMOTE, remote, n_remote, &sides[1]);
    }
    for (int i = 0; i < 2 && status == NIXL_OK; i++) {
        status = nxr_side_count(operation, xfer->rank, &sides[i]);
    }
    if (status == NIXL_OK) {
        status = nxr_xfer_find(operation, xfer);
    }
    if (status == NIXL_OK) {
        xfer->max_staged = NXR_XFER_COPY_PIECES;
        xfer->staged = malloc(xfer->max_staged * sizeof(*xfer->staged));
    }
    if (status == NIXL_OK && xfer->staged == NULL) {
        status =
            nxr_fail(NIXL_E_NO_MEMORY, operation, xfer->rank, "", 0, "no memory for a transfer");
    }
    return status;
}

static int call_xfer_create(enum nixl_xfer_op op, int rank, const struct nixl_blocks *local,
                            size_t nlocal, const struct nixl_blocks *remote, size_t nremote,
                            struct nixl_xfer **xfer_p)
{
    const char *operation = "nixl_xfer_create";
    int status;
    struct nxr_peer *peer = nxr_peer_connected(operation, rank, &status);
    struct nixl_xfer *xfer;

    if (peer == NULL) {
        return status;
    }
    if (xfer_p == NULL || (op != NIXL_XFER_PUT && op != NIXL_XFER_GET)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "%s",
                        xfer_p == NULL ? "xfer_p is NULL"
                                       : "op is neither NIXL_XFER_PUT nor NIXL_XFER_GET");
    }
    xfer = xfer_new();
    if (xfer == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0, "no memory for a transfer");
    }
    xfer->kind = op == NIXL_XFER_PUT ? NXR_OP_PUT : NXR_OP_GET;
    xfer->rank = rank;
    xfer->peer = peer;
    status = xfer_fill(operation, xfer, local, nlocal, remote, nremote);
    if (status != NIXL_OK) {
        xfer_retire(xfer);
        return status;
    }
    pthread_mutex_lock(&nxr_xfers_lock);
    nxr_list_append(&open_xfers, &xfer->link);
    pthread_mutex_unlock(&nxr_xfers_lock);
    atomic_store_explicit(&xfer->magic, NXR_XFER_OPEN, memory_order_release);
    *xfer_p = xfer;
    return NIXL_OK;
}

int nixl_xfer_create(enum nixl_xfer_op op, int rank, const struct nixl_blocks *local, size_t nlocal,
                     const struct nixl_blocks *remote, size_t nremote, struct nixl_xfer **xfer_p)
{
    return NXR_TRACED(NXR_TRACE_XFER, "nixl_xfer_create", rank, 0, 0,
                      call_xfer_create(op, rank, local, nlocal, remote, nremote, xfer_p));
}

static bool xfer_is_running(struct nixl_xfer *xfer)
{
    bool running;

    pthread_mutex_lock(&nxr_xfers_lock);
    running = xfer->is_running;
    pthread_mutex_unlock(&nxr_xfers_lock);
    return running;
}

static int fail_in_use(const char *operation, const struct nixl_xfer *xfer)
{
    return nxr_fail(NIXL_E_IN_USE, operation, xfer->rank, "", 0,
                    "a start of the transfer is in flight");
}

int nixl_xfer_set_index(struct nixl_xfer *xfer, enum nixl_xfer_side side, size_t entry,
                        uint64_t nblocks, const uint64_t *index)
{
    const char *operation = "nixl_xfer_set_index";
    int status = nxr_xfer_check(operation, xfer);
    struct nxr_blocks *blocks, before;

    if (status != NIXL_OK) {
        return status;
    }
    if (side != NIXL_XFER_LOCAL && side != NIXL_XFER_REMOTE) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, xfer->rank, "", 0,
                        "side is neither NIXL_XFER_LOCAL nor NIXL_XFER_REMOTE");
    }
    if (entry >= xfer->sides[side].n_entries) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, xfer->rank, "", 0,
                        "entry %zu; this side has %zu", entry, xfer->sides[side].n_entries);
    }
    if (index != NULL && nxr_range_is_device(index)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, xfer->rank, "", 0,
                        "the index is GPU memory; allowed: host memory");
    }
    if (xfer_is_running(xfer)) {
        return fail_in_use(operation, xfer);
    }
    blocks = &xfer->sides[side].blocks[entry];
    before = *blocks;
    blocks->nblocks = nblocks;
    blocks->index = index;
    status = nxr_side_count(operation, xfer->rank, &xfer->sides[side]);
    if (status != NIXL_OK) {
        *blocks = before;
        nxr_side_count(operation, xfer->rank, &xfer->sides[side]);
    }
    return status;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Check that the request of the last start, if it is in flight, is kept by the transfer. */
static int check_kept(const char *operation, struct nixl_xfer *xfer)
{
    int status = nxr_xfer_check(operation, xfer);

    if (status == NIXL_OK && xfer->kept == NULL && xfer_is_running(xfer)) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, xfer->rank, "", 0,
                          "the request of this start is the caller's");
    }
    return status;
}

static int call_xfer_wait(struct nixl_xfer *xfer, int64_t timeout_ns)
{
    int status = check_kept("nixl_xfer_wait", xfer);

    return status == NIXL_OK ? nixl_req_wait(&xfer->kept, timeout_ns) : status;
}

int nixl_xfer_wait(struct nixl_xfer *xfer, int64_t timeout_ns)
{
    return NXR_TRACED(NXR_TRACE_XFER, "nixl_xfer_wait", -1, 0, 0, call_xfer_wait(xfer, timeout_ns));
}

static int call_xfer_cancel(struct nixl_xfer *xfer, int64_t timeout_ns, int32_t *outcome_p)
{
    int status = check_kept("nixl_xfer_cancel", xfer);

    return status == NIXL_OK ? nixl_req_cancel(&xfer->kept, timeout_ns, outcome_p) : status;
}

int nixl_xfer_cancel(struct nixl_xfer *xfer, int64_t timeout_ns, int32_t *outcome_p)
{
    return NXR_TRACED(NXR_TRACE_XFER, "nixl_xfer_cancel", -1, 0, 0,
                      call_xfer_cancel(xfer, timeout_ns, outcome_p));
}

/* ---- freeing --------------------------------------------------------------------------------- */

int nixl_xfer_free(struct nixl_xfer *xfer)
{
    int status = nxr_xfer_check("nixl_xfer_free", xfer);

    if (status != NIXL_OK) {
        return status;
    }
    if (xfer_is_running(xfer)) {
        return fail_in_use("nixl_xfer_free", xfer);
    }
    nixl_req_detach(&xfer->kept);
    atomic_store_explicit(&xfer->magic, 0, memory_order_release);
    xfer_retire(xfer);
    return NIXL_OK;
}

static bool xfer_is_idle(void *arg)
{
    return nxr_xfer_is_idle(arg);
}

/* No lock is needed for the list: no other call runs. */
void nxr_xfers_stop(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &open_xfers) {
        struct nixl_xfer *xfer = nxr_list_entry(link, struct nixl_xfer, link);

        if (xfer_is_running(xfer)) {
            nxr_xfer_set_failure(xfer, NULL, NIXL_E_CANCELED);
            nxr_xfer_cancel_slots(xfer);
            nxr_xfer_stop_sync(xfer);
            nxr_wait(xfer_is_idle, xfer, STOP_NS);
        }
    }
}

void nxr_xfers_free(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&open_xfers)) != NULL) {
        struct nixl_xfer *xfer = nxr_list_entry(link, struct nixl_xfer, link);

        if (xfer->req != NULL) {
            xfer->req->owned = NULL; /* it goes on, with a signal that a peer does not answer */
        }
        free(xfer->kept);
        xfer_drop(xfer);
        free(xfer);
    }
    nxr_handles_free(&xfer_handles);
}

static void xfer_register(void)
{
    nxr_copy_thread_copy_lists = nxr_xfer_copy;
}

static bool xfer_peer_is_used(struct nxr_peer *peer)
{
    struct nxr_list *link, *after;
    bool is_used = false;

    pthread_mutex_lock(&nxr_xfers_lock);
    nxr_list_for_each (link, after, &open_xfers) {
        is_used |= nxr_list_entry(link, struct nixl_xfer, link)->peer == peer;
    }
    pthread_mutex_unlock(&nxr_xfers_lock);
    return is_used;
}

const struct nxr_subsystem nxr_xfer_subsystem = {
    .name = "xfer",
    .peer_is_used = xfer_peer_is_used,
    .register_handlers = xfer_register,
    .tick = nxr_xfer_tick,
    .progress = nxr_xfer_progress,
    .quiesce = nxr_xfers_stop,
    .stop = nxr_xfers_free,
};
