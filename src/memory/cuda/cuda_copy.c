/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by CUDA: between the host and a device, within a device, and across devices. The device of
 * this process's own side does the copy; if both sides are its own, the source's device: writes
 * cross NVLink faster than reads. Reductions are started as copies are. How copies end is in
 * cuda_end.c. Locks: the lane's.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "memory/reduce.h"
#include "util/log.h"

#include <string.h>

#define BATCH 256 /* pieces in one call */

static struct nxr_cuda_memory *cuda_copy_memory_of(const struct nxr_range *range)
{
    return range != NULL ? range->memory : NULL;
}

/* ---- which device can copy ------------------------------------------------------------------- */

/* The device to copy with; NULL: none reaches both sides. */
static struct nxr_cuda_device *choose(struct nxr_cuda_memory *dst, struct nxr_cuda_memory *src)
{
    struct nxr_cuda_memory *first, *second;

    if (dst == NULL || src == NULL) {
        first = dst != NULL ? dst : src;
        return first != NULL ? first->device : NULL;
    }
    first = src->is_peer && !dst->is_peer ? dst : src;
    second = first == src ? dst : src;
    if (first->device != NULL && nxr_cuda_reaches(first->device, second)) {
        return first->device;
    }
    return second->device != NULL && nxr_cuda_reaches(second->device, first) ? second->device
                                                                             : NULL;
}

/* What distinguishes the streams: the other end of the copy, seen from the device. */
static int cuda_copy_other_end(const struct nxr_cuda_device *device,
                               const struct nxr_cuda_memory *dst, const struct nxr_cuda_memory *src)
{
    int other;

    if (dst == NULL || src == NULL) {
        return dst == NULL ? NXR_CUDA_TO_HOST : NXR_CUDA_FROM_HOST;
    }
    other = src->device == device && !src->is_peer ? dst->home : src->home;
    return other >= 0 ? other : device->index;
}

/* ---- enqueuing ------------------------------------------------------------------------------- */

static cu_address address_of(const void *pointer)
{
    return (cu_address)(uintptr_t)pointer;
}

static cu_result enqueue_singly(const struct nxr_device_piece *pieces, size_t n, cu_stream stream)
{
    cu_result result = CU_OK;

    for (size_t i = 0; i < n && result == CU_OK; i++) {
        if (pieces[i].nbytes > 0) {
            result = nxr_cu.MemcpyAsync(address_of(pieces[i].dst), address_of(pieces[i].src),
                                        pieces[i].nbytes, stream);
        }
    }
    return result;
}

/* Queue up to BATCH pieces in one call. *n_p: how many pieces were consumed. */
static cu_result enqueue_batch(const struct nxr_device_piece *pieces, size_t *n_p, cu_stream stream)
{
    cu_copy_attributes attributes = {.order = CU_COPY_IN_STREAM_ORDER};
    cu_address dsts[BATCH], srcs[BATCH];
    size_t sizes[BATCH], first = 0, failed, n = 0, i;

    for (i = 0; i < *n_p && n < BATCH; i++) {
        if (pieces[i].nbytes > 0) { /* the driver refuses empty ones */
            dsts[n] = address_of(pieces[i].dst);
            srcs[n] = address_of(pieces[i].src);
            sizes[n++] = pieces[i].nbytes;
        }
    }
    *n_p = i;
    return n == 0 ? CU_OK
                  : nxr_cu.MemcpyBatchAsync(dsts, srcs, sizes, n, &attributes, &first, 1, &failed,
                                            stream);
}

/* The predefined stream constants take no batches. */
static bool takes_batches(struct nxr_cuda_device *device, cu_stream stream)
{
    return nxr_cu.MemcpyBatchAsync != NULL && stream != CU_STREAM_LEGACY &&
           stream != CU_STREAM_PER_THREAD &&
           !atomic_load_explicit(&device->no_batch, memory_order_relaxed);
}

static cu_result cuda_copy_enqueue(struct nxr_cuda_device *device,
                                   const struct nxr_device_piece *pieces, size_t n_pieces,
                                   cu_stream stream)
{
    size_t done = 0;

    while (n_pieces - done > 1 && takes_batches(device, stream)) {
        size_t n = n_pieces - done;
        cu_result result = enqueue_batch(pieces + done, &n, stream);

        if (result != CU_OK) {
            /*
             * Nothing of that batch was queued; if something is wrong with it, a single copy will
             * show it.
             */
            nxr_info(MEMORY, "CUDA device %d copies many pieces one by one: cuMemcpyBatchAsync: %s",
                     device->index, nxr_cuda_name(result));
            atomic_store(&device->no_batch, true);
            break;
        }
        done += n;
    }
    return enqueue_singly(pieces + done, n_pieces - done, stream);
}

/* ---- starting -------------------------------------------------------------------------------- */

static size_t cuda_copy_sum_of(const struct nxr_device_copy *copy)
{
    size_t nbytes = copy->reduction != NULL ? copy->reduction->nbytes : 0;

    for (size_t i = 0; i < copy->n_pieces; i++) {
        nbytes += copy->pieces[i].nbytes;
    }
    return nbytes;
}

/* Queue after the copies in the lane; the last of these gets its event now. */
static int start_in_lane(struct nxr_device_copy *copy, struct nxr_cuda_lane *lane, size_t nbytes,
                         bool is_scattered)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    cu_stream stream = nxr_cuda_lane_stream(lane);
    cu_result result = CU_OK;

    if (stream == NULL) {
        return nxr_cuda_fail(device, "cuStreamCreate", CU_OUT_OF_MEMORY);
    }
    if (lane->last != NULL) {
        nxr_cuda_mark(lane->last, stream); /* if that fails, its end is seen with the next */
        lane->last = NULL;
    }
    if (copy->reduction != NULL) {
        result = nxr_cuda_reduce(copy, stream);
    } else if (!is_scattered || !nxr_cuda_scatter(copy, nbytes, stream)) {
        result = cuda_copy_enqueue(device, copy->pieces, copy->n_pieces, stream);
    }
    if (result != CU_OK) {
        cu_result before = nxr_cu.StreamSynchronize(stream); /* what was queued has ended */

        nxr_cuda_list_give(copy);
        return copy->reduction != NULL && before == CU_OK
                   ? NIXL_E_UNSUPPORTED /* the kernels are not used any more, copies continue */
                   : nxr_cuda_fail(device, "cuMemcpyAsync", result);
    }
    copy->state[NXR_CUDA_COPY_LANE] = lane;
    copy->state[NXR_CUDA_COPY_NUMBER] = (void *)(uintptr_t)++lane->n_begun;
    lane->last = copy;
    nxr_cuda_expect(copy, nbytes);
    return NIXL_INPROGRESS;
}

/* In the context of the user's stream, which must not be capturing a graph. */
static int start_behind_user(struct nxr_device_copy *copy, size_t nbytes, bool is_scattered)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    cu_capture capture = CU_CAPTURE_NONE;
    const char *call = "cuMemcpyAsync";
    cu_result result = CU_OK;

    if (nxr_cu.StreamIsCapturing(copy->stream, &capture) == CU_OK && capture != CU_CAPTURE_NONE) {
        nxr_error(MEMORY, "a stream that is being captured into a graph does not accept copies");
        return NIXL_E_TRANSPORT;
    }
    if (!is_scattered || !nxr_cuda_scatter(copy, nbytes, copy->stream)) {
        result = cuda_copy_enqueue(device, copy->pieces, copy->n_pieces, copy->stream);
    }
    if (result == CU_OK) {
        result = nxr_cuda_mark(copy, copy->stream);
        call = "cuEventRecord";
    }
    if (result == CU_OK) {
        return NIXL_INPROGRESS;
    }
    nxr_cu.StreamSynchronize(copy->stream);
    nxr_cuda_list_give(copy);
    if (copy->state[NXR_CUDA_COPY_EVENT] != NULL) {
        nxr_cu.EventDestroy(copy->state[NXR_CUDA_COPY_EVENT]);
    }
    return nxr_cuda_fail(device, call, result);
}

/* The kernel is loaded in the primary context only. */
static int start_on_stream(struct nxr_device_copy *copy, size_t nbytes)
{
    cu_context ours = nxr_cuda_context(copy->state[NXR_CUDA_COPY_DEVICE]), context = NULL;
    bool was_pushed, is_scattered;
    int status;

    if (nxr_cu.StreamGetCtx(copy->stream, &context) != CU_OK || context == NULL) {
        context = ours;
    }
    is_scattered = context == ours && nxr_cuda_scatter_suits(copy, nbytes);
    was_pushed = nxr_cuda_enter(context);
    status = start_behind_user(copy, nbytes, is_scattered);
    nxr_cuda_leave(was_pushed);
    return status;
}

/* A reduction runs on the device of its dst. NULL: none can do it. */
static struct nxr_cuda_device *device_for(const struct nxr_device_copy *copy,
                                          struct nxr_cuda_memory *dst, struct nxr_cuda_memory *src)
{
    if (copy->reduction != NULL) {
        return dst != NULL ? dst->device : NULL;
    }
    return choose(dst, src);
}

int nxr_cuda_copy_start(struct nxr_device_copy *copy)
{
    struct nxr_cuda_memory *dst = cuda_copy_memory_of(copy->dst),
                           *src = cuda_copy_memory_of(copy->src);
    struct nxr_cuda_device *device = device_for(copy, dst, src);
    size_t nbytes = cuda_copy_sum_of(copy);
    struct nxr_cuda_lane *lane;
    bool was_pushed, is_scattered;
    int status;

    memset(copy->state, 0, sizeof(copy->state));
    if (device == NULL) {
        return NIXL_E_UNSUPPORTED;
    }
    if (atomic_load_explicit(&device->is_broken, memory_order_relaxed)) {
        return NIXL_E_TRANSPORT;
    }
    if (nbytes == 0 && copy->stream == NULL) {
        return NIXL_OK;
    }
    copy->state[NXR_CUDA_COPY_DEVICE] = device;
    if (copy->stream != NULL) {
        return start_on_stream(copy, nbytes);
    }
    is_scattered = nxr_cuda_scatter_suits(copy, nbytes);
    lane = nxr_cuda_lane_of(device, cuda_copy_other_end(device, dst, src), nbytes, is_scattered);
    was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
    pthread_mutex_lock(&lane->lock);
    status = start_in_lane(copy, lane, nbytes, is_scattered);
    pthread_mutex_unlock(&lane->lock);
    nxr_cuda_leave(was_pushed);
    return status;
}
