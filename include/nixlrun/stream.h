/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/stream.h
 * Puts, gets and signals that are queued on a CUDA stream.
 */
#ifndef NIXLRUN_STREAM_H
#define NIXLRUN_STREAM_H

#include <nixlrun/base.h>
#include <nixlrun/region.h>
#include <nixlrun/request.h>
#include <nixlrun/signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * These calls queue an operation on a CUDA stream of the caller. It begins when the work queued
 * before it has ended, and work queued after it begins when it has ended. `stream` is a CUstream or
 * cudaStream_t; NULL is CUDA's default stream, of the context that is current in the calling
 * thread. At least one side must be CUDA memory, and the GPU must reach the other:
 * NIXL_E_UNSUPPORTED means that it does not (other hosts, Vulkan memory, no CUDA), or that the
 * stream is being captured into a graph; then synchronize and use the calls without a stream. A
 * stream must have completed these operations before this rank closes their memory, before
 * nixl_finalize() and before the stream is destroyed.
 */

/**
 * Queue a put on a CUDA stream. The first use of a peer's segment may block; the copy never does.
 * @param req_p  as nixl_put_nb(), to wait for it on the host; NULL: no request, nixl_flush() covers
 *               it and reports failures
 * @return NIXL_INPROGRESS  queued; *req_p written. Canceling the request waits for its turn in the
 *                          stream.
 * @return NIXL_OK          queued; req_p is NULL
 * @return NIXL_E_UNSUPPORTED, NIXL_E_TRANSPORT, and failures as nixl_put(): nothing was queued
 * Completion: in stream order; work queued later may reuse @p src. Order: none with puts that are
 * not on this stream. nbytes 0 is allowed and marks the place in the stream. Threads: any.
 */
NIXL_API int nixl_put_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                const void *src, size_t nbytes, void *stream,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Queue a get on a CUDA stream: work queued after it finds the data. Otherwise as
 * nixl_put_on_stream().
 */
NIXL_API int nixl_get_on_stream(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                                size_t nbytes, void *stream,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Queue a put, and a notification that is sent when the stream has completed the put, without
 * another call. Later notifications of this process to that rank arrive after it. Otherwise as
 * nixl_put_on_stream() with req_p NULL, and as nixl_notify().
 * @return NIXL_OK  queued; a failure of nixl_notify() may leave the put queued
 */
NIXL_API int nixl_put_notify_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                       const void *src, size_t nbytes, uint64_t tag,
                                       const void *msg, size_t msg_nbytes,
                                       void *stream) NIXL_MUST_CHECK;

/**
 * Let a stream set a signal after everything that the stream has put before. The GPU writes the
 * word without the host; a host function queued after it then wakes a waiter that sleeps. Nothing
 * else should write the word meanwhile.
 * @param offset  of the word, aligned to 8 bytes, in allocated host memory or CUDA memory
 * @return NIXL_OK  queued
 * @return NIXL_E_UNSUPPORTED    the GPU cannot reach that segment, or cannot write words in a
 *                               stream
 * @return as nixl_signal_set(); NIXL_E_TRANSPORT: the driver refused
 */
NIXL_API int nixl_signal_set_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                       uint64_t value, void *stream) NIXL_MUST_CHECK;

/**
 * Let a stream wait for a signal of this rank: work queued after it begins when the word compares
 * true, and finds the data that was put before the signal was raised. The host does not wait.
 * @param word     in host or CUDA memory of a region of this rank
 * @param compare  NIXL_COMPARE_EQ, or NIXL_COMPARE_GE: the difference, as a signed number, is not
 *                 below 0
 * @return NIXL_OK  queued. A rank that dies raises no signal: release the stream with
 *                  nixl_signal_set() on the caller's own rank
 * @return NIXL_E_INVALID_ARG, NIXL_E_UNSUPPORTED, NIXL_E_TRANSPORT
 */
NIXL_API int nixl_signal_wait_on_stream(const uint64_t *word, enum nixl_compare compare,
                                        uint64_t value, void *stream) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_STREAM_H */
