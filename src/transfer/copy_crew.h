/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew: threads that help the copy thread with large copies on cores that are idle. One core
 * cannot use all of the memory's bandwidth; several can. Who starts a large copy calls as many of
 * them as the kernel sees idle cores, so that a busy host is never oversubscribed by them; they
 * sleep otherwise. They are created when first called, and end with the copy thread.
 *
 * NIXLRUN_COPY_THREADS is the most threads of a rank that copy, the copy thread included.
 */
#ifndef NXR_TRANSFER_COPY_CREW_H
#define NXR_TRANSFER_COPY_CREW_H

#include "util/symbol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls that wait leave copies of this size and more to the copy thread and the crew, too. */
#define NXR_CREW_FROM_NBYTES (4ul << 20)

/*
 * Called by nixl_init(): how many may help, by the cores that this rank has beside the one that it
 * runs on; n_sharing ranks share n_allowed cores.
 */
void nxr_copy_crew_init(int n_allowed, int n_sharing);

/* The most threads that may help; 0: none ever does. */
int nxr_copy_crew_size(void);

/*
 * A copy of that many bytes has begun: call those that are of use. They call work(), which copies a
 * piece, until it returns false, since none is left.
 */
void nxr_copy_crew_call(size_t nbytes, bool (*work)(void));

/* They finish the pieces that they are copying, and end. Without locks held. */
void nxr_copy_crew_stop(void);

/*
 * How many of n cores are idle, by the text of /proc/loadavg, whose fourth number counts the
 * threads that run, the reader among them; 0 if the text says something else.
 */
int nxr_copy_crew_idle_cores(const char *loadavg, int n_cores);

/* How many are idle now; tests have another one. */
extern NXR_HIDDEN int (*nxr_copy_crew_count_idle)(void);

#endif
