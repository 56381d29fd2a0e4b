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
 * What follows is queued on a CUDA stream of the caller's: it begins when the work that was queued
 * before has ended, and what is queued after it begins when it has ended. `stream` is a CUstream or
 * cudaStream_t; NULL is CUDA's default stream, of the context that is current in the calling
 * thread. One side at least is CUDA memory, and the GPU must reach the other: NIXL_ERR_UNSUPPORTED
 * says that it does not (other hosts, Vulkan memory, no CUDA), or that the stream is being captured
 * into a graph; synchronise and use the calls without a stream then. A stream must have passed all
 * of it before its memory is closed by this rank, before nixl_finalize() and before it is
 * destroyed.
 */

/**
 * Queue a put on a CUDA stream. The first use of a peer's part may block; the copy never does.
 * @param req_p  as nixl_put_nb(), to wait for it on the host; NULL: nobody will, nixl_flush()
 *               covers it and tells of failures
 * @return NIXL_INPROGRESS  queued; *req_p written. A request that is canceled waits for its turn.
 * @return NIXL_OK          queued; req_p is NULL
 * @return NIXL_ERR_UNSUPPORTED, NIXL_ERR_TRANSPORT, and failures as nixl_put(): nothing was queued
 * Completion: in the order of the stream, where @p src may be reused. Order: none to puts that are
 * not on this stream. nbytes 0 is allowed and marks the place in the stream. Threads: any.
 */
NIXL_API int nixl_put_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                const void *src, size_t nbytes, void *stream,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Queue a get on a CUDA stream: what is queued behind it finds the data. As nixl_put_on_stream().
 */
NIXL_API int nixl_get_on_stream(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                                size_t nbytes, void *stream,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Queue a put and a notification that is sent when the stream has passed it, without another call.
 * Later notifications of this process to that rank stay behind it. Else as nixl_put_on_stream()
 * with req_p NULL, and as nixl_notify().
 * @return NIXL_OK  queued; a failure of nixl_notify() may leave the put queued
 */
NIXL_API int nixl_put_notify_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                       const void *src, size_t nbytes, uint64_t tag,
                                       const void *msg, size_t msg_nbytes,
                                       void *stream) NIXL_MUST_CHECK;

/**
 * Let a stream set a signal, behind everything that the stream has put before: without the host,
 * and a waiter that sleeps is woken. The GPU writes the word; nobody else should write it then.
 * @param offset  of the word, aligned to 8 bytes, in allocated host memory or CUDA memory
 * @return NIXL_OK  queued
 * @return NIXL_ERR_UNSUPPORTED  the GPU does not reach that part, or cannot write words in a stream
 * @return as nixl_signal_set(); NIXL_ERR_TRANSPORT: the driver refused
 */
NIXL_API int nixl_signal_set_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                       uint64_t value, void *stream) NIXL_MUST_CHECK;

/**
 * Let a stream wait for a signal of this rank: what is queued behind it begins when the word
 * compares true, and finds the data that was put before the signal was raised. The host does not
 * wait.
 * @param word     in host or CUDA memory of a region of this rank
 * @param compare  NIXL_EQ, or NIXL_GE: the difference, as a signed number, is not below 0
 * @return NIXL_OK  queued. A rank that dies raises nothing: nixl_signal_set() to oneself lets the
 *                  stream go on
 * @return NIXL_ERR_INVALID_ARG, NIXL_ERR_UNSUPPORTED, NIXL_ERR_TRANSPORT
 */
NIXL_API int nixl_signal_wait_on_stream(const uint64_t *word, enum nixl_compare compare,
                                        uint64_t value, void *stream) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_STREAM_H */
