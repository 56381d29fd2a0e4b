/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fence and flush: waiting until earlier puts to a peer have landed, or are visible there. Requests
 * end by themselves, and then the transport is asked until it says so. No lock of its own.
 */
#include "config.h"

#include "host/liveness.h"
#include "net/net.h"
#include "region.h"
#include "request.h"
#include "transfer.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"
#include "wait.h"

static bool has_no_pending(void *arg)
{
    const struct nxr_peer *peer = arg;

    return atomic_load_explicit(&peer->n_pending, memory_order_acquire) == 0 ||
           nxr_peer_is_lost(peer);
}

static int fail_drain(const char *operation, const struct nxr_peer *peer, int status)
{
    if (nxr_peer_is_lost(peer)) {
        return nxr_peer_fail_lost(operation, peer->rank, "");
    }
    if (status == NIXL_ERR_TIMEOUT) {
        return nxr_fail(status, operation, peer->rank, "", 0,
                        "puts to rank %d are not complete in time", peer->rank);
    }
    return nxr_fail(status, operation, peer->rank, "", 0, "%s", nixl_strerror(status));
}

/* A request that nobody waits for, or a put that was sent before the owner closed, has failed. */
static int report_freed(const char *operation, struct nxr_peer *peer)
{
    int status = atomic_load_explicit(&peer->freed_failure, memory_order_relaxed);

    if (status == NIXL_OK || (status = atomic_exchange(&peer->freed_failure, NIXL_OK)) == NIXL_OK) {
        return NIXL_OK;
    }
    return nxr_fail(status, operation, peer->rank, "", 0,
                    "an earlier put to rank %d that nobody waits for has failed: %s", peer->rank,
                    nixl_strerror(status));
}

/* What a transport that takes time is asked again and again. */
struct ordering {
    struct nxr_peer *peer;
    int (*order)(struct nxr_peer *);
    int status;
};

static bool is_in_order(void *arg)
{
    struct ordering *ordering = arg;

    ordering->status = ordering->order(ordering->peer);
    return ordering->status != NIXL_INPROGRESS;
}

/* Looked for without a clock, which can take longer than all of that. */
static bool is_drained(struct nxr_peer *peer, int (*order)(struct nxr_peer *))
{
    return has_no_pending(peer) && (order == NULL || order(peer) == NIXL_OK) &&
           !nxr_peer_is_lost(peer);
}

/* Wait for the requests to one peer and let its transport finish with `order`. */
static int wait_drained(const char *operation, struct nxr_peer *peer, int64_t timeout_ns,
                        int (*order)(struct nxr_peer *))
{
    struct ordering ordering = {.peer = peer, .order = order};
    int64_t deadline = nxr_deadline(timeout_ns);
    int status = nxr_wait(has_no_pending, peer, timeout_ns);

    if (status == NIXL_OK && !nxr_peer_is_lost(peer) && order != NULL) {
        status = nxr_wait(is_in_order, &ordering, nxr_left(timeout_ns, deadline));
        status = status == NIXL_OK ? ordering.status : status;
    }
    if (status < 0 || nxr_peer_is_lost(peer)) {
        return fail_drain(operation, peer, status);
    }
    return status;
}

static int drain(const char *operation, struct nxr_peer *peer, int64_t timeout_ns,
                 int (*order)(struct nxr_peer *))
{
    int status =
        is_drained(peer, order) ? NIXL_OK : wait_drained(operation, peer, timeout_ns, order);

    return status == NIXL_OK ? report_freed(operation, peer) : status;
}

int nxr_transfer_fence(const char *operation, struct nxr_peer *peer)
{
    return drain(operation, peer, nxr_env.op_timeout,
                 peer->transport != NULL ? peer->transport->fence : NULL);
}

int nixl_fence(int rank)
{
    int status = nxr_check_ready("nixl_fence");
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_fence", rank);
    }
    peer = nxr_peer_find(rank);
    if (peer == NULL) {
        return NIXL_OK;
    }
    return nxr_transfer_fence("nixl_fence", peer);
}

/* The dead are told of last, for they are each time: another failure is told once. */
static int flush_all(int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns);
    const struct nxr_peer *lost = NULL;
    int first_failure = NIXL_OK;

    for (int rank = 0; rank < nxr_job.size; rank++) {
        struct nxr_peer *peer = nxr_peer_find(rank);

        if (peer != NULL && nxr_peer_is_up(peer) && peer->net != NULL) {
            peer->transport->flush(peer); /* ask all before waiting for each */
        }
    }
    for (int rank = 0; rank < nxr_job.size; rank++) {
        struct nxr_peer *peer = nxr_peer_find(rank);
        int64_t left =
            timeout_ns == 0 || deadline == INT64_MAX ? timeout_ns : deadline - nxr_now_ns();
        int status = NIXL_OK;

        if (peer != NULL && nxr_peer_is_up(peer)) {
            status = drain("nixl_flush", peer, left > 0 ? left : 0,
                           peer->transport != NULL ? peer->transport->flush : NULL);
        }
        if (status == NIXL_ERR_PEER_LOST) {
            lost = peer;
        } else if (first_failure == NIXL_OK) {
            first_failure = status;
        }
    }
    return first_failure == NIXL_OK && lost != NULL
               ? fail_drain("nixl_flush", lost, NIXL_ERR_PEER_LOST)
               : first_failure;
}

int nixl_flush(int rank, int64_t timeout_ns)
{
    int status = nxr_check_ready("nixl_flush");
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    if (timeout_ns < 0) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_flush", rank, "", 0, "the timeout is negative");
    }
    if (rank == NIXL_ALL_RANKS) {
        return flush_all(timeout_ns);
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_flush", rank);
    }
    peer = nxr_peer_find(rank);
    if (peer == NULL) {
        return NIXL_OK;
    }
    return drain("nixl_flush", peer, timeout_ns,
                 peer->transport != NULL ? peer->transport->flush : NULL);
}
