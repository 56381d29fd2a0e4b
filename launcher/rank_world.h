/* SPDX-License-Identifier: Apache-2.0 */
/* The place of the rank in the job, passed to its program in variables. */
#ifndef NIXLRUN_LAUNCHER_RANK_WORLD_H
#define NIXLRUN_LAUNCHER_RANK_WORLD_H

/*
 * Set the variables of world.h in our environment, which the program inherits. `word` is the one
 * from nixlrun, and is changed. `kept` are the names of variables that the user has set and that
 * stay ("RANK,MASTER_PORT"), or NULL.
 */
void rank_world_set(char *word, const char *kept);

#endif
