/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank itself: direct copies. The reference implementation of the transport interface: what
 * every transport has to do, with nothing in the way. No state, no lock.
 */
#include "config.h"

#include "transports/transport.h"
#include "util/copy.h"

#include <stdio.h>

static int self_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int self_reach(enum nixl_scope scope, char *why, size_t why_nbytes)
{
    if (scope == NIXL_SCOPE_SELF) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "reaches only the rank itself");
    return NIXL_ERR_UNSUPPORTED;
}

static int self_part_open(struct nxr_part *part, int fd)
{
    (void)fd;
    part->addr = (char *)(uintptr_t)part->key.addr;
    part->method = NXR_METHOD_MEMCPY;
    return NIXL_OK;
}

static void self_part_close(struct nxr_part *part)
{
    (void)part;
}

static int self_put(struct nxr_part *part, uint64_t offset, const void *src, size_t nbytes)
{
    nxr_guard_word *word;
    int status = nxr_guard_enter(part, &word);

    if (status == NIXL_OK) {
        nxr_copy(part->addr + offset, src, nbytes);
        nxr_guard_leave(word);
    }
    return status;
}

static int self_get(struct nxr_part *part, uint64_t offset, void *dst, size_t nbytes)
{
    nxr_guard_word *word;
    int status = nxr_guard_enter(part, &word);

    if (status == NIXL_OK) {
        nxr_copy(dst, part->addr + offset, nbytes);
        nxr_guard_leave(word);
    }
    return status;
}

static int self_order(struct nxr_peer *peer)
{
    (void)peer;
    nxr_fence_full();
    return NIXL_OK;
}

const struct nxr_transport nxr_transport_self = {
    .abi = NXR_TRANSPORT_ABI,
    .name = "self",
    .cost = 5,
    .probe = self_probe,
    .reach = self_reach,
    .part_open = self_part_open,
    .part_close = self_part_close,
    .put = self_put,
    .get = self_get,
    .start = nxr_no_start,
    .cancel = nxr_no_cancel,
    .progress = nxr_no_progress,
    .notify = nxr_host_notify,
    .fence = self_order,
    .flush = self_order,
    .atomic = nxr_no_atomic,
    .signal = nxr_no_signal,
    .control = nxr_no_control,
    .event_fd = nxr_no_event_fd,
    .arm = nxr_no_arm,
};
