/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How copies by CUDA end: by an event or, for the last in its stream, when the stream is empty.
 * While a thread polls, they are queried. Before polling stops, the driver is asked to call back,
 * from a stream that waits for the copy's event, so that nothing waits for the callback. When that
 * will be is predicted in cuda_expect.c. Locks: the lane's; the core lets one thread at a time in
 * here.
 *
 * An error at the end of a copy ends the context, by CUDA's rules: all later copies of that device
 * fail immediately.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "util/log.h"

#define ASK_ALL_THE_SAME 16

/* Errors that affect the call and not the context. */
static bool is_harmless(cu_result result)
{
    return result == CU_INVALID_VALUE || result == CU_OUT_OF_MEMORY || result == CU_NOT_SUPPORTED ||
           result == CU_INVALID_CONTEXT || result == CU_INVALID_DEVICE;
}

/*
 * A copy that cannot be queued may be done another way: for example, if this device does not reach
 * the memory, or only part of the host memory is page-locked.
 */
int nxr_cuda_fail(struct nxr_cuda_device *device, const char *call, cu_result result)
{
    if (is_harmless(result)) {
        nxr_info(MEMORY, "CUDA device %d rejected a copy: %s: %s", device->index, call,
                 nxr_cuda_name(result));
        return result == CU_OUT_OF_MEMORY ? NIXL_E_NO_MEMORY : NIXL_E_UNSUPPORTED;
    }
    nxr_error(MEMORY, "a copy failed, and CUDA device %d is no longer used: %s: %s", device->index,
              call, nxr_cuda_name(result));
    atomic_store(&device->is_broken, true);
    return NIXL_E_TRANSPORT;
}

/* An event after everything in the stream now; NULL: it cannot be recorded. */
static cu_event record(struct nxr_cuda_device *device, cu_stream stream)
{
    cu_event event = nxr_cuda_event_take(device);

    if (event != NULL && nxr_cu.EventRecord(event, stream) != CU_OK) {
        nxr_cuda_event_give(device, event);
        event = NULL;
    }
    return event;
}

/* A user's stream may be in another context than ours, so an event is created for it. */
cu_result nxr_cuda_mark(struct nxr_device_copy *copy, cu_stream stream)
{
    cu_event event = NULL;
    cu_result result;

    if (copy->stream == NULL) {
        event = record(copy->state[NXR_CUDA_COPY_DEVICE], stream);
        copy->state[NXR_CUDA_COPY_EVENT] = event;
        return event != NULL ? CU_OK : CU_OUT_OF_MEMORY;
    }
    result = nxr_cu.EventCreate(&event, CU_EVENT_NO_TIMING);
    if (result == CU_OK) {
        result = nxr_cu.EventRecord(event, stream);
        if (result == CU_OK) {
            copy->state[NXR_CUDA_COPY_EVENT] = event;
        } else {
            nxr_cu.EventDestroy(event);
        }
    }
    return result;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static cu_result ask_user(struct nxr_device_copy *copy)
{
    cu_stream waker = copy->state[NXR_CUDA_COPY_NUMBER];
    cu_result result = nxr_cu.EventQuery(copy->state[NXR_CUDA_COPY_EVENT]);

    if (result != CU_NOT_READY) {
        nxr_cu.EventDestroy(copy->state[NXR_CUDA_COPY_EVENT]);
        if (waker != NULL) {
            nxr_cu.StreamDestroy(waker); /* the driver still makes the calls queued in it */
        }
        nxr_cuda_list_give(copy);
    }
    return result;
}

/*
 * No copy of a lane ends before those that started earlier, so only the oldest is queried; any
 * other one now and then, since the core may not have seen the oldest yet. The lane's lock is held.
 */
static cu_result ask_lane(struct nxr_device_copy *copy, struct nxr_cuda_lane *lane)
{
    uint64_t number = (uintptr_t)copy->state[NXR_CUDA_COPY_NUMBER];
    bool is_told = nxr_cuda_reduce_is_told(copy);
    cu_event event = copy->state[NXR_CUDA_COPY_EVENT];
    cu_result result = CU_OK;

    if (!is_told && number > lane->n_ended + 1 && ++lane->n_passed % ASK_ALL_THE_SAME != 0) {
        return CU_NOT_READY;
    }
    if (!is_told && number > lane->n_ended) {
        result = event != NULL ? nxr_cu.EventQuery(event) : nxr_cu.StreamQuery(lane->stream);
        if (result == CU_NOT_READY) {
            return result;
        }
    }
    lane->n_ended = number > lane->n_ended ? number : lane->n_ended;
    if (lane->last == copy) {
        lane->last = NULL;
    }
    if (event != NULL) {
        nxr_cuda_event_give(copy->state[NXR_CUDA_COPY_DEVICE], event);
    }
    nxr_cuda_expect_next(copy);
    nxr_cuda_list_give(copy);
    return result;
}

static cu_result cuda_end_ask(struct nxr_device_copy *copy)
{
    struct nxr_cuda_lane *lane = copy->state[NXR_CUDA_COPY_LANE];
    cu_result result;

    if (lane == NULL) {
        return ask_user(copy);
    }
    if (pthread_mutex_trylock(&lane->lock) != 0) {
        return CU_NOT_READY; /* a copy is being queued there */
    }
    result = ask_lane(copy, lane);
    pthread_mutex_unlock(&lane->lock);
    return result;
}

int nxr_cuda_copy_test(struct nxr_device_copy *copy)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    bool was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
    cu_result result = cuda_end_ask(copy);

    nxr_cuda_leave(was_pushed);
    if (result == CU_NOT_READY) {
        return NIXL_INPROGRESS;
    }
    if (result == CU_OK) {
        return NIXL_OK;
    }
    nxr_cuda_fail(device, "a copy that had begun", result);
    return NIXL_E_TRANSPORT;
}

/* ---- being called ---------------------------------------------------------------------------- */

static void cuda_end_tell_end(void *argument)
{
    (void)argument;
    nxr_device_ended();
}

/* Call back after the event, from a stream reserved for that. */
static bool call_behind(cu_event event, cu_stream *waker_p)
{
    if (*waker_p == NULL && nxr_cu.StreamCreate(waker_p, CU_STREAM_IS_NON_BLOCKING) != CU_OK) {
        *waker_p = NULL;
        return false;
    }
    return nxr_cu.StreamWaitEvent(*waker_p, event, 0) == CU_OK &&
           nxr_cu.LaunchHostFunc(*waker_p, cuda_end_tell_end, NULL) == CU_OK;
}

static bool arm_in_lane(struct nxr_device_copy *copy, struct nxr_cuda_lane *lane)
{
    bool is_armed = true;

    pthread_mutex_lock(&lane->lock);
    if (copy->state[NXR_CUDA_COPY_EVENT] == NULL) {
        is_armed = nxr_cuda_mark(copy, lane->stream) == CU_OK;
        lane->last = lane->last == copy ? NULL : lane->last;
    }
    is_armed = is_armed && call_behind(copy->state[NXR_CUDA_COPY_EVENT], &lane->waker);
    if (is_armed) {
        nxr_cuda_expect_end(copy);
    } else {
        nxr_cu.StreamSynchronize(lane->stream);
    }
    pthread_mutex_unlock(&lane->lock);
    return is_armed;
}

static bool arm_behind_user(struct nxr_device_copy *copy)
{
    cu_stream waker = NULL;
    bool is_armed = call_behind(copy->state[NXR_CUDA_COPY_EVENT], &waker);

    copy->state[NXR_CUDA_COPY_NUMBER] = waker;
    if (!is_armed) {
        nxr_cu.StreamSynchronize(copy->stream);
    }
    return is_armed;
}

void nxr_cuda_copy_arm(struct nxr_device_copy *copy)
{
    struct nxr_cuda_device *device = copy->state[NXR_CUDA_COPY_DEVICE];
    struct nxr_cuda_lane *lane = copy->state[NXR_CUDA_COPY_LANE];
    bool was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
    bool is_armed = lane != NULL ? arm_in_lane(copy, lane) : arm_behind_user(copy);

    nxr_cuda_leave(was_pushed);
    if (!is_armed) {
        nxr_device_ended(); /* it has already ended */
    }
}
