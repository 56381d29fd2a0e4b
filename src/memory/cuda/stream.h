/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core does on the user's CUDA streams, besides copies: writing words, waiting for words,
 * and calling host functions, in the order of the stream. The caller's current context is
 * preserved.
 *
 * All return NIXL_OK if queued; or a failure and one line in `why`: NIXL_ERR_NO_DEVICE: no driver;
 * NIXL_ERR_UNSUPPORTED: the device cannot, or the stream is being captured into a graph;
 * NIXL_ERR_INVALID_ARG: not a stream; NIXL_ERR_TRANSPORT. Any thread.
 */
#ifndef NXR_MEMORY_CUDA_STREAM_H
#define NXR_MEMORY_CUDA_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUDA's default stream; the driver takes NULL for it, too. */
#define NXR_STREAM_DEFAULT ((void *)1)

/*
 * A thread of the driver calls the function, which must not call the driver and should not block.
 */
int nxr_stream_call(void *stream, void (*function)(void *), void *argument, char *why,
                    size_t why_nbytes);

/*
 * `word` is device memory that this process reaches, or host memory that was pinned for CUDA;
 * aligned. Every observer sees the write after everything that the stream has written before.
 */
int nxr_stream_write(void *stream, void *word, uint64_t value, char *why, size_t why_nbytes);

/*
 * Wait until the word equals the value or, if not is_equal, until word - value is not negative as a
 * signed number.
 */
int nxr_stream_wait(void *stream, const void *word, uint64_t value, bool is_equal, char *why,
                    size_t why_nbytes);

#endif
