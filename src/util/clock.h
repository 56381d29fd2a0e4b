/* SPDX-License-Identifier: Apache-2.0 */
/* Time: monotonic nanoseconds and deadlines. */
#ifndef NXR_UTIL_CLOCK_H
#define NXR_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NXR_US 1000ll
#define NXR_MS 1000000ll
#define NXR_S  1000000000ll

static inline int64_t nxr_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NXR_S + now.tv_nsec;
}

/*
 * The same clock, up to some milliseconds late, at a third of the cost: for times that are far
 * longer.
 */
static inline int64_t nxr_coarse_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * NXR_S + now.tv_nsec;
}

/* The moment `timeout_ns` from now; INT64_MAX stays INT64_MAX. */
static inline int64_t nxr_deadline(int64_t timeout_ns)
{
    int64_t now = nxr_now_ns();

    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

/*
 * What is left of a timeout for the next of several waits, given the deadline made from it. At
 * least 1 unless timeout_ns is 0, since 0 would test instead of timing out.
 */
static inline int64_t nxr_left(int64_t timeout_ns, int64_t deadline)
{
    int64_t left_ns;

    if (timeout_ns == 0 || deadline == INT64_MAX) {
        return timeout_ns;
    }
    left_ns = deadline - nxr_now_ns();
    return left_ns > 1 ? left_ns : 1;
}

static inline struct timespec nxr_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NXR_S, .tv_nsec = ns % NXR_S};
}

#endif
