/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words and calls on the user's CUDA streams, as struct nxr_memory_streams says. Meanwhile the
 * stream's own context is current, which need not be the primary one. No state, no lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"

#include <stdio.h>

#define WAIT_NOT_LESS 0 /* CU_STREAM_WAIT_VALUE_GEQ */
#define WAIT_EQUAL    1

struct visit {
    cu_stream stream;
    bool was_pushed;
};

/* Make the stream's context current. cuda_stream_leave() follows if that is NIXL_OK. */
static int cuda_stream_enter(struct visit *visit, void *stream, char *why, size_t why_nbytes)
{
    cu_capture capture = CU_CAPTURE_NONE;
    cu_context context = NULL;
    cu_result result;
    int status = nxr_cuda_start(why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    visit->stream = stream;
    result = nxr_cu.StreamGetCtx(visit->stream, &context);
    if (result != CU_OK || context == NULL) {
        snprintf(why, why_nbytes,
                 "%p is not a stream, or is the default one while no context is current (%s)",
                 stream, nxr_cuda_name(result));
        return NIXL_E_INVALID_ARG;
    }
    visit->was_pushed = nxr_cuda_enter(context);
    if (nxr_cu.StreamIsCapturing(visit->stream, &capture) == CU_OK && capture != CU_CAPTURE_NONE) {
        nxr_cuda_leave(visit->was_pushed);
        snprintf(why, why_nbytes, "the stream is being captured into a graph");
        return NIXL_E_UNSUPPORTED;
    }
    return NIXL_OK;
}

static int cuda_stream_leave(const struct visit *visit, const char *call, cu_result result,
                             char *why, size_t why_nbytes)
{
    nxr_cuda_leave(visit->was_pushed);
    if (result == CU_OK) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "%s: %s", call, nxr_cuda_name(result));
    return result == CU_NOT_SUPPORTED ? NIXL_E_UNSUPPORTED : NIXL_E_TRANSPORT;
}

static int cuda_stream_call(void *stream, void (*function)(void *), void *argument, char *why,
                            size_t why_nbytes)
{
    struct visit visit;
    int status = cuda_stream_enter(&visit, stream, why, why_nbytes);

    return status != NIXL_OK
               ? status
               : cuda_stream_leave(&visit, "cuLaunchHostFunc",
                                   nxr_cu.LaunchHostFunc(visit.stream, function, argument), why,
                                   why_nbytes);
}

static int cuda_stream_write(void *stream, void *word, uint64_t value, char *why, size_t why_nbytes)
{
    cu_result result = CU_NOT_SUPPORTED;
    struct visit visit;
    int status = cuda_stream_enter(&visit, stream, why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_cu.StreamWriteValue64 != NULL) {
        result = nxr_cu.StreamWriteValue64(visit.stream, (cu_address)(uintptr_t)word, value, 0);
    }
    return cuda_stream_leave(&visit, "cuStreamWriteValue64", result, why, why_nbytes);
}

static int cuda_stream_wait(void *stream, const void *word, uint64_t value, bool is_equal,
                            char *why, size_t why_nbytes)
{
    cu_result result = CU_NOT_SUPPORTED;
    struct visit visit;
    int status = cuda_stream_enter(&visit, stream, why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_cu.StreamWaitValue64 != NULL) {
        result = nxr_cu.StreamWaitValue64(visit.stream, (cu_address)(uintptr_t)word, value,
                                          is_equal ? WAIT_EQUAL : WAIT_NOT_LESS);
    }
    return cuda_stream_leave(&visit, "cuStreamWaitValue64", result, why, why_nbytes);
}

const struct nxr_memory_streams nxr_cuda_streams = {
    .unnamed = (void *)1, /* CUDA's default stream; the driver takes NULL for it, too */
    .call = cuda_stream_call,
    .write = cuda_stream_write,
    .wait = cuda_stream_wait,
};
