/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority of a thread that serves others over threads that compute beside it. Such a thread
 * sleeps most of the time. A short time slice gives it the core as soon as it wakes, but at equal
 * weights only half of the core from then on. So when it has long work to do for a waiting peer,
 * its nice value is lowered, if that is permitted, until the burst is over. A thread that keeps
 * working loses the lower value until some time has passed: computation must not stall because
 * peers never stop. The value is not lowered permanently either: short work does not need it, and
 * the kernel, which balances threads by weight, would move other threads away.
 *
 * Only one thread of a process has a higher priority, and it makes all calls.
 */
#ifndef NXR_UTIL_THREAD_PRIORITY_H
#define NXR_UTIL_THREAD_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

/* The longest burst after a rest, in ns; and the ns of elapsed time that earn back one ns of it. */
#define NXR_PRIORITY_NS    (50 * 1000000ll)
#define NXR_PRIORITY_SHARE 4

/* A burst is over this long, in ns, after the expected end of all long work. */
#define NXR_PRIORITY_KEEP_NS (10 * 1000000ll)

/*
 * Let the calling thread have a higher priority from now on, by lowering its nice value by
 * `less_nice`, 0 to 20, or by less if only that is permitted. False if lowering is not permitted
 * (CAP_SYS_NICE, RLIMIT_NICE), or if the thread has a scheduling policy other than the normal one
 * and less_nice is not 0. With the normal policy the thread gets a short time slice in any case.
 */
bool nxr_thread_priority_start(int less_nice, int64_t now);

/*
 * Work of `takes_ns` begins. Cheap if the thread already has a higher priority or may not have it.
 */
void nxr_thread_priority_take(int64_t now, int64_t takes_ns);

/*
 * Call the first when the thread has been woken; `is_useful` says whether priority would help a
 * waiting peer. Call the second when the thread is about to sleep or to poll.
 */
void nxr_thread_priority_woke(int64_t now, bool is_useful);
void nxr_thread_priority_rests(int64_t now);

#endif
