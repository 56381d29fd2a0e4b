/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that callers put into streams: copies, fills, words that are written and waited for, calls
 * of host functions. Addresses are checked when the work is queued, as the driver does.
 */
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int fake_stream_place(struct fake_stream *stream, uintptr_t addr, size_t nbytes,
                      const char *function, char **bytes_p, struct fake_range **range_p)
{
    struct fake_range *range = fake_range_at(addr);

    *range_p = range;
    *bytes_p = (char *)addr;
    if (range == NULL) {
        if (fake_is_device_address(addr)) {
            fake_misuse("%s(): %#lx is of no memory that is there now", function,
                        (unsigned long)addr);
        }
        return CU_OK;
    }
    if (nbytes > range->nbytes - (addr - range->addr)) {
        if (range->kind != FAKE_REGISTERED) {
            fake_misuse("%s(): %zu bytes at %#lx run over the end of their memory", function,
                        nbytes, (unsigned long)addr);
        }
        return CU_INVALID_VALUE; /* half registered: the driver refuses, too */
    }
    if ((range->reachers & 1U << stream->context->device) == 0) {
        return CU_INVALID_VALUE;
    }
    if (range->kind == FAKE_IPC && !fake_settings.has_p2p &&
        range->device != fake_physical(stream->context->device)) {
        return CU_INVALID_VALUE;
    }
    *bytes_p = range->bytes + (addr - range->addr);
    return CU_OK;
}

/* Under the lock. */
static int add_copy(struct fake_stream *stream, uintptr_t dst, uintptr_t src, size_t nbytes)
{
    struct fake_work work = {.kind = FAKE_COPY, .nbytes = nbytes};
    char *bytes;
    int result;

    result = fake_stream_place(stream, dst, nbytes, "cuMemcpyAsync", &work.dst, &work.ranges[0]);
    if (result == CU_OK) {
        result = fake_stream_place(stream, src, nbytes, "cuMemcpyAsync", &bytes, &work.ranges[1]);
        work.src = bytes;
    }
    return result == CU_OK && nbytes > 0 ? fake_stream_add(stream, &work) : result;
}

FAKE_API int cuMemcpyAsync(uintptr_t dst, uintptr_t src, size_t nbytes, struct fake_stream *stream)
{
    int result;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    result = stream != NULL ? add_copy(stream, dst, src, nbytes) : CU_INVALID_CONTEXT;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* The others of the family differ in what they promise about the two sides, and in waiting. */
static int copy_now(uintptr_t dst, uintptr_t src, size_t nbytes)
{
    struct fake_stream *stream;
    int result = CU_INVALID_CONTEXT;

    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(FAKE_STREAM_DEFAULT);
    if (stream != NULL) {
        result = add_copy(stream, dst, src, nbytes);
        fake_stream_drain(stream);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemcpy(uintptr_t dst, uintptr_t src, size_t nbytes)
{
    ENTER();
    return copy_now(dst, src, nbytes);
}

/* Pageable memory is free again when the call returns; when the bytes arrive is another matter. */
FAKE_API int cuMemcpyHtoD_v2(uintptr_t dst, const void *src, size_t nbytes)
{
    struct fake_work release = {.kind = FAKE_CALL, .function = free};
    struct fake_stream *stream;
    int result = CU_INVALID_CONTEXT;

    ENTER();
    release.data = malloc(nbytes + 1);
    if (release.data == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    memcpy(release.data, src, nbytes);
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(FAKE_STREAM_DEFAULT);
    if (stream != NULL) {
        result = add_copy(stream, dst, (uintptr_t)release.data, nbytes);
        if (fake_stream_add(stream, &release) != CU_OK) {
            fake_stream_drain(stream);
            free(release.data);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemcpyDtoH_v2(void *dst, uintptr_t src, size_t nbytes)
{
    ENTER();
    return copy_now((uintptr_t)dst, src, nbytes);
}

FAKE_API int cuMemcpyDtoDAsync_v2(uintptr_t dst, uintptr_t src, size_t nbytes,
                                  struct fake_stream *stream)
{
    return cuMemcpyAsync(dst, src, nbytes, stream);
}

FAKE_API int cuMemcpyPeerAsync(uintptr_t dst, struct fake_context *dst_context, uintptr_t src,
                               struct fake_context *src_context, size_t nbytes,
                               struct fake_stream *stream)
{
    if (dst_context == NULL || src_context == NULL) {
        return CU_INVALID_CONTEXT;
    }
    return cuMemcpyAsync(dst, src, nbytes, stream);
}

/* As in CUDA 13. All copies at once, or none, is not promised; here they go one by one. */
FAKE_API int cuMemcpyBatchAsync_v2(uintptr_t *dsts, uintptr_t *srcs, size_t *sizes, size_t n,
                                   struct cu_copy_attributes *attributes, size_t *indices,
                                   size_t n_attributes, struct fake_stream *stream)
{
    int result = CU_OK;

    ENTER();
    if (stream == FAKE_STREAM_DEFAULT || stream == FAKE_STREAM_LEGACY) {
        return CU_INVALID_HANDLE;
    }
    if (n == 0 || n_attributes == 0 || n_attributes > n || indices[0] != 0) {
        return CU_INVALID_VALUE;
    }
    for (size_t i = 0; i < n_attributes; ++i) {
        if (attributes[i].order < 1 || attributes[i].order > 3 ||
            (i > 0 && indices[i] <= indices[i - 1])) {
            return CU_INVALID_VALUE;
        }
    }
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    for (size_t i = 0; i < n && result == CU_OK; ++i) {
        if (stream == NULL || sizes[i] == 0) {
            result = stream == NULL ? CU_INVALID_CONTEXT : CU_INVALID_VALUE;
        } else {
            result = add_copy(stream, dsts[i], srcs[i], sizes[i]);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* As in CUDA 12.8. */
FAKE_API int cuMemcpyBatchAsync(uintptr_t *dsts, uintptr_t *srcs, size_t *sizes, size_t n,
                                struct cu_copy_attributes *attributes, size_t *indices,
                                size_t n_attributes, size_t *failed_p, struct fake_stream *stream)
{
    int result =
        cuMemcpyBatchAsync_v2(dsts, srcs, sizes, n, attributes, indices, n_attributes, stream);

    if (result != CU_OK && failed_p != NULL) {
        *failed_p = SIZE_MAX;
    }
    return result;
}

/* Work at one address: a fill, a word. */
static int add_at(uintptr_t addr, struct fake_work *work, struct fake_stream *stream,
                  const char *function)
{
    int result = CU_INVALID_CONTEXT;

    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    if (stream != NULL) {
        result =
            fake_stream_place(stream, addr, work->nbytes, function, &work->dst, &work->ranges[0]);
        if (result == CU_OK && work->ranges[0] == NULL) {
            result = CU_INVALID_VALUE; /* host memory that the driver does not know */
        }
        if (result == CU_OK) {
            result = fake_stream_add(stream, work);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuMemsetD8Async(uintptr_t addr, unsigned char value, size_t nbytes,
                             struct fake_stream *stream)
{
    struct fake_work work = {.kind = FAKE_FILL, .nbytes = nbytes, .value = value};

    ENTER();
    return add_at(addr, &work, stream, "cuMemsetD8Async");
}

FAKE_API int cuMemsetD8_v2(uintptr_t addr, unsigned char value, size_t nbytes)
{
    struct fake_work work = {.kind = FAKE_FILL, .nbytes = nbytes, .value = value};
    int result;

    ENTER();
    result = add_at(addr, &work, FAKE_STREAM_DEFAULT, "cuMemsetD8");
    return result == CU_OK ? cuStreamSynchronize(FAKE_STREAM_DEFAULT) : result;
}

static int add_word(enum fake_work_kind kind, struct fake_stream *stream, uintptr_t addr,
                    size_t nbytes, uint64_t value, unsigned flags)
{
    struct fake_work work = {.kind = kind, .nbytes = nbytes, .value = value, .flags = flags};

    if (!fake_settings.has_stream_ops) {
        return CU_NOT_SUPPORTED;
    }
    if (addr % nbytes != 0 || (kind == FAKE_WRITE_WORD ? flags > 0 : flags > 3)) {
        return CU_INVALID_VALUE;
    }
    return add_at(addr, &work, stream, "cuStreamWriteValue or cuStreamWaitValue");
}

FAKE_API int cuStreamWriteValue64_v2(struct fake_stream *stream, uintptr_t addr, uint64_t value,
                                     unsigned flags)
{
    ENTER();
    return add_word(FAKE_WRITE_WORD, stream, addr, 8, value, flags);
}

FAKE_API int cuStreamWriteValue32_v2(struct fake_stream *stream, uintptr_t addr, uint32_t value,
                                     unsigned flags)
{
    ENTER();
    return add_word(FAKE_WRITE_WORD, stream, addr, 4, value, flags);
}

FAKE_API int cuStreamWaitValue64_v2(struct fake_stream *stream, uintptr_t addr, uint64_t value,
                                    unsigned flags)
{
    ENTER();
    return add_word(FAKE_WAIT_WORD, stream, addr, 8, value, flags);
}

FAKE_API int cuStreamWaitValue32_v2(struct fake_stream *stream, uintptr_t addr, uint32_t value,
                                    unsigned flags)
{
    ENTER();
    return add_word(FAKE_WAIT_WORD, stream, addr, 4, value, flags);
}

FAKE_API int cuLaunchHostFunc(struct fake_stream *stream, void (*function)(void *), void *data)
{
    struct fake_work work = {.kind = FAKE_CALL, .function = function, .data = data};
    int result;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    result = stream != NULL ? fake_stream_add(stream, &work) : CU_INVALID_CONTEXT;
    pthread_mutex_unlock(&fake_lock);
    return result;
}
