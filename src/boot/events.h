/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events about other ranks from the launcher's server, from PMIx_Init on. They are kept until
 * nxr_boot_listen(): a rank that dies while others join is reported to them once they have joined.
 */
#ifndef NXR_BOOT_EVENTS_H
#define NXR_BOOT_EVENTS_H

/* Ask the server for events about this namespace. Call after PMIx_Init. */
void nxr_boot_events_watch(const char *nspace);

/* Report that a rank has ended, or (-1) that the launcher is gone. Any thread. */
void nxr_boot_events_tell(int rank);

/* Remove the listener and drop the events kept. */
void nxr_boot_events_stop(void);

#endif
