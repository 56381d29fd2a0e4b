/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core does on CUDA streams of the user's, beside copies: words that are written and
 * waited for, and functions of the host, in the order of the stream. The caller's context is not
 * changed.
 *
 * All return NIXL_OK: queued; or a failure and one line in `why`: NIXL_ERR_NO_DEVICE: no driver;
 * NIXL_ERR_UNSUPPORTED: the device cannot, or the stream is being captured into a graph;
 * NIXL_ERR_INVALID_ARG: it is no stream; NIXL_ERR_TRANSPORT. Any thread.
 */
#ifndef NXR_MEMORY_CUDA_STREAM_H
#define NXR_MEMORY_CUDA_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUDA's default stream, for which the driver takes NULL, too. */
#define NXR_STREAM_DEFAULT ((void *)1)

/* A driver's thread calls it; it may not call the driver, and should not wait. */
int nxr_stream_call(void *stream, void (*function)(void *), void *argument, char *why,
                    size_t why_nbytes);

/*
 * Device memory that this process reaches, or host memory that was pinned for CUDA; aligned. The
 * write comes behind everything that the stream has written before, for everybody.
 */
int nxr_stream_write(void *stream, void *word, uint64_t value, char *why, size_t why_nbytes);

/* Until the word is equal to the value, or is not less: its difference, as a signed one, is not. */
int nxr_stream_wait(void *stream, const void *word, uint64_t value, bool is_equal, char *why,
                    size_t why_nbytes);

#endif
