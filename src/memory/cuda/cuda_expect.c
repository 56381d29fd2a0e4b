/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts when large copies end, so that a thread that sleeps until one ends is awake in time: the
 * driver reports an end 100 us late or more. Rates are learned from everything that ended in the
 * present busy period. A better rate is adopted at once, since an end may be seen late but never
 * early. A worse one is adopted only in part, since the better one may have come from cached
 * memory. Nothing else depends on these rates. Lock: that of struct nxr_cuda_expected, taken inside
 * the lane's.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "util/clock.h"

#define LEAST_NBYTES ((size_t)8 << 20) /* to learn from: smaller copies take no steady time */
#define BELIEVED     8                 /* a worse one lowers a rate by 1/8 of the difference */

static enum nxr_cuda_method cuda_expect_method_of(const struct nxr_device_copy *copy)
{
    if (copy->reduction != NULL) {
        return NXR_CUDA_BY_REDUCTION;
    }
    return copy->state[NXR_CUDA_COPY_LIST] != NULL ? NXR_CUDA_BY_KERNEL : NXR_CUDA_BY_ENGINE;
}

static struct nxr_cuda_expected *expected_of(const struct nxr_device_copy *copy)
{
    const struct nxr_cuda_lane *lane = copy->state[NXR_CUDA_COPY_LANE];

    return lane->expected;
}

static int64_t cuda_expect_end_of(const struct nxr_device_copy *copy)
{
    return (intptr_t)copy->state[NXR_CUDA_COPY_END];
}

static int64_t time_for(uint64_t nbytes, double rate)
{
    return (int64_t)((double)nbytes / rate);
}

void nxr_cuda_expect(struct nxr_device_copy *copy, size_t nbytes)
{
    struct nxr_cuda_expected *expected = expected_of(copy);
    enum nxr_cuda_method method = cuda_expect_method_of(copy);
    double rate;

    if (expected == NULL) {
        return;
    }
    nxr_spin_lock(&expected->lock);
    if (expected->begun == expected->ended) {
        expected->begun = expected->ended = 0;
        expected->busy_ns = expected->end_ns = copy->began_ns;
        expected->method = method;
        expected->is_mixed = false;
    }
    rate = expected->rates[method];
    expected->is_mixed |= method != expected->method;
    expected->begun += nbytes;
    if (expected->end_ns != 0) {
        expected->end_ns = rate > 0 ? expected->end_ns + time_for(nbytes, rate) : 0;
    }
    copy->state[NXR_CUDA_COPY_END] = (void *)(intptr_t)expected->end_ns;
    copy->state[NXR_CUDA_COPY_NBYTES] = (void *)(uintptr_t)nbytes;
    nxr_spin_unlock(&expected->lock);
}

void nxr_cuda_expect_end(const struct nxr_device_copy *copy)
{
    if (cuda_expect_end_of(copy) != 0) {
        nxr_device_ends_at(cuda_expect_end_of(copy));
    }
}

/* Caller holds lock. */
static void cuda_expect_learn(struct nxr_cuda_expected *expected, enum nxr_cuda_method method,
                              int64_t now)
{
    double *rate = &expected->rates[method], seen;

    if (expected->is_mixed || now <= expected->busy_ns) {
        return;
    }
    seen = (double)expected->ended / (double)(now - expected->busy_ns);
    if (seen > *rate) {
        *rate = seen;
    } else if (expected->begun == expected->ended) { /* else some of the time was for others */
        *rate -= (*rate - seen) / BELIEVED;
    }
}

/*
 * How much later than expected everything will end, after a copy ended that late. Kernels run side
 * by side: work that remains may have been done meanwhile. Caller holds lock.
 */
static int64_t delay(const struct nxr_cuda_expected *expected, enum nxr_cuda_method method,
                     int64_t late)
{
    int64_t left;

    if (method != NXR_CUDA_BY_KERNEL) {
        return late;
    }
    left = time_for(expected->begun - expected->ended, expected->rates[method]);
    return late > left ? late - left : 0;
}

void nxr_cuda_expect_next(const struct nxr_device_copy *copy)
{
    struct nxr_cuda_expected *expected = expected_of(copy);
    size_t nbytes = (uintptr_t)copy->state[NXR_CUDA_COPY_NBYTES];
    enum nxr_cuda_method method = cuda_expect_method_of(copy);
    int64_t now, next_ns = 0;

    if (expected == NULL) {
        return; /* for small copies, reading the clock does not pay */
    }
    now = nxr_now_ns();
    nxr_spin_lock(&expected->lock);
    expected->ended += nbytes;
    if (nbytes >= LEAST_NBYTES) {
        cuda_expect_learn(expected, method, now);
    }
    if (cuda_expect_end_of(copy) != 0 && expected->end_ns != 0 &&
        expected->begun != expected->ended) {
        next_ns = expected->end_ns + delay(expected, method, now - cuda_expect_end_of(copy));
    }
    nxr_spin_unlock(&expected->lock);
    if (next_ns != 0) {
        nxr_device_ends_at(next_ns);
    }
}
