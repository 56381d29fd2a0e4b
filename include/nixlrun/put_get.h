/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/put_get.h
 * Copies between local memory and a peer's segment of a region, and their order.
 */
#ifndef NIXLRUN_PUT_GET_H
#define NIXLRUN_PUT_GET_H

#include <nixlrun/base.h>
#include <nixlrun/op.h>
#include <nixlrun/region.h>
#include <nixlrun/request.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Copy bytes from local memory into a peer's segment of a region.
 *
 * One-sided: the peer makes no call and may compute. An aligned put of 1, 2, 4 or 8 bytes is
 * written in one access, never in parts.
 *
 * @param rank    target, 0 <= rank < nixl_size(); may be the caller
 * @param region  open handle of the region's name
 * @param offset  bytes from the start of the peer's segment; offset + nbytes <= its size
 * @param src     any alignment; may lie in a region
 * @param nbytes  0 is allowed: the other arguments are still checked
 * @return NIXL_OK                src may be reused
 * @return NIXL_E_INVALID_ARG     bad rank or handle, src NULL with nbytes > 0, or another rank and
 *                                a region without a name; nothing moved
 * @return NIXL_E_RANGE           outside the peer's segment; nothing moved
 * @return NIXL_E_ACCESS          the peer does not allow it (enum nixl_access); nothing moved
 * @return NIXL_E_NOT_FOUND       the peer did not publish the name within NIXLRUN_RESOLVE_TIMEOUT
 * @return NIXL_E_STALE           the owner closed the region; nixl_region_query() finds its
 *                                successor
 * @return NIXL_E_PEER_LOST       the peer died; how much arrived is unknown
 * @return NIXL_E_UNSUPPORTED     no transport reaches that rank
 * @return NIXL_E_TIMEOUT         not done within NIXLRUN_OP_TIMEOUT; src may be reused
 * @return NIXL_E_NO_MEMORY       for the library's state of the rank, the segment or the operation
 * Completion: local; nixl_flush() or a notification makes it visible at the target.
 * Order: puts to one peer may land in any order; nixl_fence() and notifications order them.
 * Threads: any. Collective: no.
 */
NIXL_API int nixl_put(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                      size_t nbytes) NIXL_MUST_CHECK;

/**
 * Copy bytes from a peer's segment of a region into local memory. Returns when @p dst holds the
 * data; on failure dst may hold some of it. Otherwise as nixl_put(); a get may overtake an
 * earlier put to the same peer unless nixl_fence() is called between them.
 */
NIXL_API int nixl_get(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                      size_t nbytes) NIXL_MUST_CHECK;

/**
 * The extended form of a put: struct nixl_op says how it is started, what follows it and who hears
 * of its end. @p src must not change until it is complete. When it is started it returns soon: on
 * one host up to 256 KiB are copied within the call (128 KiB of registered memory), more by a
 * thread of the library; threads that wait in a call help it.
 *
 * NIXL_OP_NOTE: a notification to @p rank arrives after the data, and keeps its place among the
 * notifications of this process to that rank. NIXL_OP_SIGNAL: a signal of that rank changes after
 * the data. Neither happens if the put fails or is canceled.
 *
 * NIXL_OP_STREAM: the copy begins when the stream's earlier work has ended, and later work begins
 * when the copy has; the GPU must reach both sides, one of which is CUDA memory. The call never
 * waits for the stream; with neither a request nor a queue, nixl_flush() covers the put. The stream
 * must have completed it before this rank closes the memory, before nixl_finalize() and before the
 * stream is destroyed.
 * @param op  NULL: as zeros
 * @return NIXL_OK          complete at once, or queued on a stream; no request was made
 * @return NIXL_INPROGRESS  started: wait for, test or detach *req_p, or take its end from the queue
 * @return NIXL_E_UNSUPPORTED also a field that cannot be used here; on a stream: other hosts,
 * Vulkan memory, no CUDA, a stream that is captured into a graph Failures as nixl_put(): a failure
 * known at once makes no request, any other ends the request.
 */
NIXL_API int nixl_put_x(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                        size_t nbytes, const struct nixl_op *op,
                        struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * The extended form of a get. @p dst must not be touched until it is complete. NIXL_OP_NOTE: the
 * owner is notified after its last byte was read. NIXL_OP_SIGNAL: the word `signal` of this process
 * changes when dst holds the data. Otherwise as nixl_put_x().
 */
NIXL_API int nixl_get_x(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                        size_t nbytes, const struct nixl_op *op,
                        struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Later puts to @p rank (or each of NIXL_ALL_RANKS) land after earlier ones, later gets read after
 * them. Between hosts the call waits for an answer from the peer's library if something was put
 * since its last answer.
 * @return NIXL_OK, NIXL_E_PEER_LOST, NIXL_E_INVALID_ARG, NIXL_E_TIMEOUT; the failures that
 * nixl_flush() reports once, if they are known. Threads: any; orders the operations of all threads
 * that happened before the call.
 */
NIXL_API int nixl_fence(int rank) NIXL_MUST_CHECK;

/**
 * Wait until all earlier puts to @p rank (or NIXL_ALL_RANKS), including non-blocking ones, are
 * visible to the target, and all earlier gets whose request was detached have filled their memory.
 * @return NIXL_OK; NIXL_E_PEER_LOST; NIXL_E_TIMEOUT, or NIXL_INPROGRESS with timeout 0;
 * NIXL_E_INVALID_ARG (bad rank, negative timeout); the failure of a detached request, or of a put
 * or signal that another host dropped, once: NIXL_E_STALE if its region had been closed there. Of
 * NIXL_ALL_RANKS one call reports that of one rank. Threads: any.
 */
NIXL_API int nixl_flush(int rank, int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_flush(): for one region, or all of them (NULL). It may wait for more
 * than was asked for: today all earlier puts to the rank. Started, it waits for what was put before
 * it, and may wait for what is put meanwhile; it is only told by its request or queue. Of the flags
 * of struct nixl_op, NIXL_OP_GETS is used: wait also until all earlier gets from the rank, prepared
 * ones too, have filled their memory; their requests stay, and report how they ended. `timeout_ns`
 * 0: the context's default.
 * @return as nixl_flush(); NIXL_INPROGRESS: started, and only then
 */
NIXL_API int nixl_flush_x(int rank, struct nixl_region *region, const struct nixl_op *op,
                          struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Copy `nblocks` blocks of `block_nbytes`, as `nblocks` calls of nixl_put() or nixl_get() would:
 * block k lies at offset + k * stride of the peer's segment, and at src (dst) + k * src_stride
 * (dst_stride) here. Strides are in bytes and may have any value. With no blocks, or blocks of no
 * bytes, the other arguments are still checked. To repeat a transfer often, prepare it once:
 * nixl_xfer_create().
 * @return as nixl_put() and nixl_get(); NIXL_E_RANGE also if the blocks span more than the
 *            segment
 */
NIXL_API int nixl_put_strided(int rank, struct nixl_region *region, uint64_t offset, size_t stride,
                              const void *src, size_t src_stride, size_t block_nbytes,
                              size_t nblocks) NIXL_MUST_CHECK;
NIXL_API int nixl_get_strided(int rank, struct nixl_region *region, uint64_t offset, size_t stride,
                              void *dst, size_t dst_stride, size_t block_nbytes,
                              size_t nblocks) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_PUT_GET_H */
