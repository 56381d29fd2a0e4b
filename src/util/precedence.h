/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Precedence of a thread that serves others over those that compute beside it. Such a thread sleeps
 * nearly always. A short time slice gives it its core at once when it wakes, but with equal weights
 * only half of it from then on. So when it has something long to do for somebody who waits, its
 * nice value is lowered, where that is permitted, until the burst is over. One that works on and on
 * gives the lower value back until some time has passed: what computes must not stand still because
 * peers never stop. Nor is it lowered for always: short work needs it not, and the kernel, which
 * counts a thread by its weight, would move others out of its way.
 *
 * One thread of a process has this: all calls are that thread's.
 */
#ifndef NXR_UTIL_PRECEDENCE_H
#define NXR_UTIL_PRECEDENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The longest burst, after a rest; and of how many nanoseconds one is added to it again. */
#define NXR_PRECEDENCE_NS    (50 * 1000000ll)
#define NXR_PRECEDENCE_SHARE 4

/* A burst is over when everything long should have ended that time ago. */
#define NXR_PRECEDENCE_KEEP_NS (10 * 1000000ll)

/*
 * The calling thread may take precedence from now on, by a nice value lower by so much, 0 to 20, or
 * by less if only that is permitted. False if none is (CAP_SYS_NICE, RLIMIT_NICE), or another
 * policy than the normal one was chosen for it; the slice of a normal one is short all the same.
 */
bool nxr_precedence_start(int less_nice, int64_t now);

/* Something begins that takes so long. Cheap if it has precedence, or may not have it. */
void nxr_precedence_take(int64_t now, int64_t takes_ns);

/*
 * The thread has been woken, and its precedence is of use to somebody or not; it is about to sleep,
 * or to look around for a moment.
 */
void nxr_precedence_woke(int64_t now, bool is_useful);
void nxr_precedence_rests(int64_t now);

#endif
