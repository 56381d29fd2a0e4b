/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of the rings of words, and words of own device memory.
 *
 * The changes that peers ask for are made by a thread that polls in a wait, as part of its
 * progress; if none polls, by one that sleeps in a wait and is woken for it; and if the user's
 * threads compute, by the service thread. An asker sets its bit of control->atomics_asked, executes
 * a full barrier, and then checks which of these threads is there. A thread that stops polling, or
 * goes to sleep, announces it, executes a full barrier, and then checks the bits once more. So at
 * least one side sees the other, and no thread is woken for work that a polling thread does.
 */
#ifndef NXR_HOST_ATOMIC_SERVE_H
#define NXR_HOST_ATOMIC_SERVE_H

#include "core/job.h"

/*
 * Make the changes that peers ask for, as flagged in control->atomics_asked. Has anything been
 * done? Any thread, without a lock, when something is asked.
 */
bool nxr_atomics_serve_asked(void);

/*
 * Change a word of this rank's own segment in device memory, and wait for it: NIXL_OK and the
 * previous value, or the failure.
 */
int nxr_atomic_change_device(const struct nxr_segment *segment, const struct nxr_atomic *atomic,
                             uint64_t *fetched_p);

/* The same as an operation that nxr_op_done() ends: NIXL_INPROGRESS, or the failure. */
int nxr_atomic_start_device(struct nxr_op *op);

/* Reset everything (last finalize). */
void nxr_atomics_serve_stop(void);

extern const struct nxr_subsystem nxr_atomics_subsystem;

#endif
