/* SPDX-License-Identifier: Apache-2.0 */
/* Why a notification cannot be sent, for the caller of the call. No state. */
#include "config.h"

#include "sync/notify.h"
#include "memory/device.h"
#include "region/leaving.h"
#include "util/clock.h"
#include "util/status.h"

int nxr_notify_fail_invalid(const char *operation, int rank, const void *msg, size_t nbytes,
                            int64_t timeout_ns)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    if (nbytes > 0 && nxr_range_is_device(msg)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "the payload at %p is GPU memory; allowed: host memory", msg);
    }
    if (nbytes > NIXL_NOTE_MAX) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "a payload of %zu bytes; allowed: up to %d", nbytes, NIXL_NOTE_MAX);
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, rank, timeout_ns);
    }
    return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "msg is NULL and nbytes is %zu",
                    nbytes);
}

int nxr_notify_fail_unsent(const char *operation, int status, const struct nxr_peer *peer,
                           int64_t timeout_ns)
{
    switch (status) {
    case NIXL_E_PEER_LOST:
        return nxr_peer_is_lost(peer) ? nxr_peer_fail_lost(operation, peer->rank, "")
                                      : nxr_leaving_fail(operation, peer->rank);
    case NIXL_E_UNSUPPORTED:
        return nxr_peer_fail_unreached(operation, peer);
    case NIXL_E_AGAIN:
        return nxr_fail(status, operation, peer->rank, "", 0,
                        nxr_peer_is_up(peer) ? "the queue of notifications to %s is full"
                                             : "%s is not connected yet",
                        nxr_peer_name(peer));
    case NIXL_E_TIMEOUT:
        return nxr_fail(status, operation, peer->rank, "", 0,
                        nxr_peer_is_up(peer)
                            ? "the queue of notifications to %s has had no room for %s"
                            : "%s was not connected within %s",
                        nxr_peer_name(peer), nxr_duration(timeout_ns).text);
    default:
        return nxr_fail(status, operation, peer->rank, "", 0, "%s", nixl_strerror(status));
    }
}
