/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events for copies, created when first needed and reused. Threads have lanes of their
 * own as long as there are enough, so that they do not wait for each other; the copies of one
 * thread run in order in one stream, as fast as the driver takes them. Locks: one for each lane,
 * one for each device's events.
 */
#include "config.h"

#include "memory/cuda/cuda.h"

#include <stdlib.h>

#define LARGE_NBYTES ((size_t)4 << 20)

/*
 * The lanes of one thread. Lists copied by a kernel alternate between two lanes: when one ends, the
 * next one has already started; in one stream the device would idle for some microseconds in
 * between.
 */
enum { SMALL, LARGE, LARGE_TOO, N_EACH };
#define N_THREADS (NXR_CUDA_LANES / N_EACH)

static unsigned my_number(void)
{
    static _Atomic unsigned n_threads;
    static __thread unsigned number; /* from 1 */

    if (number == 0) {
        number = atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) % N_THREADS + 1;
    }
    return number - 1;
}

static size_t n_lanes(int n_devices)
{
    return ((size_t)n_devices + 2) * NXR_CUDA_LANES; /* for each device; to the host, and from it */
}

struct nxr_cuda_lane *nxr_cuda_lanes_new(int n_devices)
{
    struct nxr_cuda_lane *lanes = calloc(n_lanes(n_devices), sizeof(*lanes));

    for (size_t i = 0; lanes != NULL && i < n_lanes(n_devices); i++) {
        pthread_mutex_init(&lanes[i].lock, NULL);
        if (i % N_EACH != SMALL) {
            lanes[i].expected = &lanes[i - i % N_EACH + LARGE].own;
        }
    }
    return lanes;
}

struct nxr_cuda_lane *nxr_cuda_lane_of(struct nxr_cuda_device *device, int other, size_t nbytes,
                                       bool is_by_kernel)
{
    static __thread unsigned turn;
    struct nxr_cuda_lane *lanes =
        &device->lanes[(size_t)(other + 2) * NXR_CUDA_LANES + (size_t)my_number() * N_EACH];

    if (nbytes < LARGE_NBYTES) {
        return &lanes[SMALL];
    }
    return &lanes[is_by_kernel && turn++ % 2 != 0 ? LARGE_TOO : LARGE];
}

cu_stream nxr_cuda_lane_stream(struct nxr_cuda_lane *lane)
{
    if (lane->stream == NULL &&
        nxr_cu.StreamCreate(&lane->stream, CU_STREAM_IS_NON_BLOCKING) != CU_OK) {
        lane->stream = NULL;
    }
    return lane->stream;
}

cu_event nxr_cuda_event_take(struct nxr_cuda_device *device)
{
    cu_event event = NULL;

    nxr_spin_lock(&device->events_lock);
    if (device->n_events > 0) {
        event = device->events[--device->n_events];
    }
    nxr_spin_unlock(&device->events_lock);
    if (event == NULL && nxr_cu.EventCreate(&event, CU_EVENT_NO_TIMING) != CU_OK) {
        return NULL;
    }
    return event;
}

void nxr_cuda_event_give(struct nxr_cuda_device *device, cu_event event)
{
    nxr_spin_lock(&device->events_lock);
    if (device->n_events < NXR_CUDA_EVENTS) {
        device->events[device->n_events++] = event;
        event = NULL;
    }
    nxr_spin_unlock(&device->events_lock);
    if (event != NULL) {
        nxr_cu.EventDestroy(event);
    }
}

void nxr_cuda_lanes_free(struct nxr_cuda_device *device)
{
    for (size_t i = 0; i < n_lanes(nxr_cuda.n_devices); i++) {
        struct nxr_cuda_lane *lane = &device->lanes[i];

        if (lane->stream != NULL) {
            nxr_cu.StreamDestroy(lane->stream);
        }
        if (lane->waker != NULL) {
            nxr_cu.StreamDestroy(lane->waker);
        }
        pthread_mutex_destroy(&lane->lock);
    }
    free(device->lanes);
    device->lanes = NULL;
    while (device->n_events > 0) {
        nxr_cu.EventDestroy(device->events[--device->n_events]);
    }
}
