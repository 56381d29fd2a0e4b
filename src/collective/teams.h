/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: what init.c calls. */
#ifndef NXR_COLLECTIVE_TEAMS_H
#define NXR_COLLECTIVE_TEAMS_H

#include "core/subsystem.h"

/* Free all teams and forget everything (last finalize). */
void nxr_teams_free_all(void);

extern const struct nxr_subsystem nxr_teams_subsystem;

#endif
