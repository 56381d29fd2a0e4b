/* SPDX-License-Identifier: Apache-2.0 */
/* Events (deaths, closed regions) and the event fd. */
#ifndef NXR_CORE_EVENT_H
#define NXR_CORE_EVENT_H

#include "nixlrun.h"

/* Queue an event and wake all waiters. Any thread. */
void nxr_event_push(enum nixl_event_type type, int rank, const char *name);

/*
 * The number of ranks that have died or left so far, and the n-th of them, from 0; -1: there are
 * fewer. Any thread.
 */
int nxr_event_n_deaths(void);
int nxr_event_death(int n);

/* Make this rank's event fd readable. */
void nxr_event_signal_fd(void);

/* Forget everything (last finalize). */
void nxr_event_reset(void);

extern const struct nxr_subsystem nxr_event_subsystem;

#endif
