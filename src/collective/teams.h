/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: what the rest of the core calls. */
#ifndef NXR_COLLECTIVE_TEAMS_H
#define NXR_COLLECTIVE_TEAMS_H

/* A rank has died: those who wait for a member look again. Any thread; job.lock may be held. */
void nxr_teams_look(void);

/* Give all teams back and forget everything (last finalize). */
void nxr_teams_free_all(void);

extern const struct nxr_subsystem nxr_teams_subsystem;

#endif
