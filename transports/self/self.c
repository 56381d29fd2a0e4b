/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport to the rank itself: direct copies. This is the reference implementation of the
 * transport interface: it shows what every transport has to do, and nothing else. No state, no
 * lock.
 */
#include "config.h"

#include "transports/self/self.h"
#include "util/copy.h"

#include <stdio.h>

static int self_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int self_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                      size_t why_nbytes)
{
    if (scope == NIXL_SCOPE_SELF && kind == NIXL_MEM_HOST) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "reaches only %s",
             scope == NIXL_SCOPE_SELF ? "host memory" : "the rank itself");
    return NIXL_E_UNSUPPORTED;
}

static int self_segment_open(struct nxr_segment *segment, int fd,
                             const struct nxr_remote_key *remote)
{
    NXR_ASSERT(nxr_segment_may_be_opened(segment));
    (void)fd;
    (void)remote;
    segment->addr = (char *)(uintptr_t)segment->key.addr;
    segment->method = NXR_METHOD_MEMCPY;
    return NIXL_OK;
}

static void self_segment_close(struct nxr_segment *segment)
{
    NXR_ASSERT(nxr_segment_may_be_closed(segment));
    (void)segment;
}

static int self_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes)
{
    nxr_inflight_word *word;
    int status = nxr_inflight_enter(segment, &word);

    NXR_ASSERT(nxr_segment_may_move(segment, offset, src, nbytes));
    if (status == NIXL_OK) {
        nxr_stats_lane_count(segment, NXR_LANE_PUTS, nbytes);
        nxr_copy(segment->addr + offset, src, nbytes);
        nxr_inflight_leave(word);
    }
    return status;
}

static int self_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes)
{
    nxr_inflight_word *word;
    int status = nxr_inflight_enter(segment, &word);

    NXR_ASSERT(nxr_segment_may_move(segment, offset, dst, nbytes));
    if (status == NIXL_OK) {
        nxr_stats_lane_count(segment, NXR_LANE_GETS, nbytes);
        nxr_copy(dst, segment->addr + offset, nbytes);
        nxr_inflight_leave(word);
    }
    return status;
}

static int self_move_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                          const struct nxr_piece *pieces, size_t n_pieces, uint64_t total_nbytes,
                          size_t *n_done_p)
{
    nxr_inflight_word *word;
    int status = nxr_inflight_enter(segment, &word);

    NXR_ASSERT(nxr_list_may_move(segment, kind, pieces, n_pieces));
    *n_done_p = 0;
    if (status == NIXL_OK) {
        nxr_copy_list(segment->addr, kind, pieces, n_pieces, total_nbytes);
        nxr_stats_lane_count(segment, kind == NXR_OP_PUT ? NXR_LANE_PUTS : NXR_LANE_GETS,
                             nxr_pieces_nbytes(pieces, n_pieces));
        nxr_inflight_leave(word);
        *n_done_p = n_pieces;
    }
    return status;
}

static int self_cancel(struct nxr_op *op)
{
    int status = nxr_host_paths.copy_cancel(op);

    return status == NIXL_E_NOT_FOUND ? NIXL_INPROGRESS : status; /* it is just being completed */
}

static int self_order(struct nxr_peer *peer)
{
    (void)peer;
    nxr_fence_full();
    return NIXL_OK;
}

static int self_start(struct nxr_op *op)
{
    NXR_ASSERT(nxr_op_may_start(op));
    return nxr_host_paths.copy_start(op);
}

/* Measured as shm's. */
static void self_expect(const struct nxr_peer *peer, enum nxr_method method, uint64_t *latency_ns_p,
                        uint64_t *bandwidth_mbps_p)
{
    (void)peer;
    *latency_ns_p = method == NXR_METHOD_MEMCPY ? 45 : 0;
    *bandwidth_mbps_p = method == NXR_METHOD_MEMCPY ? 27000 : 0;
}

const struct nxr_transport nxr_transport_self = {
    .name = "self",
    .cost = 5,
    .probe = self_probe,
    .reach = self_reach,
    .serves = nxr_device_serves,
    .segment_open = self_segment_open,
    .segment_close = self_segment_close,
    .segment_is_busy = nxr_device_segment_is_busy,
    .put = self_put,
    .get = self_get,
    .put_notify = nxr_no_put_notify,
    .put_signal = nxr_no_put_signal,
    .move_list = self_move_list,
    .start = self_start,
    .start_list = nxr_no_start_list,
    .cancel = self_cancel,
    .progress = nxr_no_progress,
    .expect = self_expect,
    .fence = self_order,
    .flush = self_order,
    .atomic = nxr_no_atomic,
    .signal = nxr_no_signal,
};
