/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock that is read in a few nanoseconds, in units of its own: the counter of the processor,
 * which runs at the same rate on all cores, or nanoseconds where there is none. Who keeps ticks
 * also keeps pairs of ticks and CLOCK_MONOTONIC, between which they are converted.
 */
#ifndef NXR_UTIL_TICKS_H
#define NXR_UTIL_TICKS_H

#include "util/clock.h"

#include <stdint.h>

static inline uint64_t nxr_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)nxr_now_ns();
#endif
}

/* The same, not before what the thread has loaded so far: processors read the counter early. */
static inline uint64_t nxr_ticks_after(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
    return nxr_ticks();
}

/* The same moment by both clocks. */
struct nxr_tick_pair {
    uint64_t ticks;
    int64_t ns; /* CLOCK_MONOTONIC; 0: none */
};

#endif
