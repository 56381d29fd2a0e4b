/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: what init.c calls. */
#ifndef NXR_COLLECTIVE_TEAMS_H
#define NXR_COLLECTIVE_TEAMS_H

#include "core/subsystem.h"

/* In the last finalize, after all puts: ranks that wait for this one need not wait any longer. */
void nxr_leaving_say(void);

/* Free all teams and forget everything (last finalize). */
void nxr_teams_free_all(void);

extern const struct nxr_subsystem nxr_teams_subsystem;

#endif
