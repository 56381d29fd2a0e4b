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

/* The moment `timeout_ns` from now; INT64_MAX stays INT64_MAX. */
static inline int64_t nxr_deadline(int64_t timeout_ns)
{
    int64_t now = nxr_now_ns();

    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

static inline struct timespec nxr_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NXR_S, .tv_nsec = ns % NXR_S};
}

#endif
