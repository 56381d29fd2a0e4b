/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher's server tells of other ranks, from PMIx_Init on. Until nxr_boot_listen() it is
 * kept: a rank that dies while others join is reported to them when they have joined.
 */
#ifndef NXR_BOOT_EVENTS_H
#define NXR_BOOT_EVENTS_H

/* Ask the server for events about this namespace. After PMIx_Init. */
void nxr_boot_events_watch(const char *nspace);

/* That rank has ended, or (-1) the launcher is gone. Any thread. */
void nxr_boot_events_tell(int rank);

/* Nobody listens any more, and nothing is kept. */
void nxr_boot_events_stop(void);

#endif
