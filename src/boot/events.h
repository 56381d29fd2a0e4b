/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events about other ranks from the launcher's server, from PMIx_Init on. They are kept until
 * nxr_boot_listen(): a rank that dies while others join is reported to them once they have joined.
 */
#ifndef NXR_BOOT_EVENTS_H
#define NXR_BOOT_EVENTS_H

#include "core/wireup.h"

#include <stdbool.h>

/*
 * Ask the server for events about this namespace, whose job is `job`; `is_nixlrun`: the server is
 * nixlrun's. Call after PMIx_Init.
 */
void nxr_boot_events_watch(const char *nspace, uint64_t job, bool is_nixlrun);

/* Report one. Any thread. */
void nxr_boot_events_tell(const struct nxr_wireup_event *event);

/* This rank has joined knowing all changes up to that number: they are no news. */
void nxr_boot_events_known(uint64_t change);

/* Remove the listener and drop the events kept. */
void nxr_boot_events_stop(void);

#endif
