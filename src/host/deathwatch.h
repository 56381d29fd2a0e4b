/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects the deaths of peers at once. A pidfd reports a death only after the kernel has freed all
 * memory of the process (some 5 ms per 100 MiB); its robust mutex is marked before that.
 */
#ifndef NXR_HOST_DEATHWATCH_H
#define NXR_HOST_DEATHWATCH_H

/*
 * A peer was connected: watch it as well. The first call starts the thread. Caller holds
 * job.lock.
 */
void nxr_deathwatch_changed(void);

/*
 * Stop the thread. Call it after the service thread has ended and while peers are still mapped.
 * Takes job.lock.
 */
void nxr_deathwatch_stop(void);

extern const struct nxr_subsystem nxr_deathwatch_subsystem;

#endif
