/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sees peers die at once. A pidfd tells of a death when the kernel has given back all memory of the
 * process (some 5 ms per 100 MiB); the mark in its robust mutex is there before that.
 */
#ifndef NXR_HOST_DEATHWATCH_H
#define NXR_HOST_DEATHWATCH_H

/* A peer was linked: watch it, too. The first call starts the thread. Caller holds job.lock. */
void nxr_deathwatch_changed(void);

/* End the thread. The service thread has ended, peers are still mapped; takes job.lock. */
void nxr_deathwatch_stop(void);

extern const struct nxr_subsystem nxr_deathwatch_subsystem;

#endif
