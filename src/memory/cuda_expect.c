/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When copies are expected to end, so that who sleeps for one is awake in time: the driver tells of
 * an end 100 us late or more. The rate of a lane is learned from large copies that had it for
 * themselves: the best that was seen, since an end may be seen late and never early. Nothing else
 * depends on it. Lock: that of the lane, held by all callers.
 */
#include "config.h"

#include "memory/cuda.h"
#include "util/clock.h"

#define LEAST_NBYTES ((size_t)8 << 20) /* to learn from: what is smaller takes no steady time */

static enum nxr_cuda_way way_of(const struct nxr_device_copy *copy)
{
    if (copy->reduction != NULL) {
        return NXR_CUDA_BY_REDUCTION;
    }
    return copy->state[NXR_CUDA_COPY_LIST] != NULL ? NXR_CUDA_BY_KERNEL : NXR_CUDA_BY_ENGINE;
}

static uint64_t number_of(const struct nxr_device_copy *copy)
{
    return (uintptr_t)copy->state[NXR_CUDA_COPY_NUMBER];
}

static int64_t end_of(const struct nxr_device_copy *copy)
{
    return (intptr_t)copy->state[NXR_CUDA_COPY_END];
}

void nxr_cuda_expect(struct nxr_device_copy *copy, size_t nbytes)
{
    struct nxr_cuda_lane *lane = copy->state[NXR_CUDA_COPY_LANE];
    double rate = lane->rates[way_of(copy)];

    if (lane->n_ended + 1 == number_of(copy)) {
        lane->end_ns = copy->began_ns;
        lane->alone = number_of(copy);
        lane->alone_nbytes = nbytes >= LEAST_NBYTES ? nbytes : 0;
    }
    if (lane->end_ns != 0) {
        lane->end_ns = rate > 0 ? lane->end_ns + (int64_t)((double)nbytes / rate) : 0;
    }
    copy->state[NXR_CUDA_COPY_END] = (void *)(intptr_t)lane->end_ns;
}

void nxr_cuda_expect_end(const struct nxr_device_copy *copy)
{
    if (end_of(copy) != 0) {
        nxr_device_ends_at(end_of(copy));
    }
}

void nxr_cuda_expect_next(const struct nxr_device_copy *copy)
{
    struct nxr_cuda_lane *lane = copy->state[NXR_CUDA_COPY_LANE];
    bool is_lesson = lane->alone == number_of(copy) && lane->alone_nbytes > 0;
    bool is_followed = end_of(copy) != 0 && lane->end_ns != 0 && number_of(copy) < lane->n_begun;
    double *rate = &lane->rates[way_of(copy)];
    int64_t now;

    if (!is_lesson && !is_followed) {
        return; /* small copies do not pay for a look at the clock */
    }
    now = nxr_now_ns();
    if (is_lesson && now > copy->began_ns) {
        double seen = (double)lane->alone_nbytes / (double)(now - copy->began_ns);

        *rate = seen > *rate ? seen : *rate;
    }
    if (is_followed) {
        lane->end_ns += now - end_of(copy);
        nxr_device_ends_at(lane->end_ns);
    }
}
