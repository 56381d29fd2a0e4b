/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: on which CPUs of this host each rank runs. */
#ifndef NIXLRUN_LAUNCHER_PLACEMENT_H
#define NIXLRUN_LAUNCHER_PLACEMENT_H

#include "launcher/job.h"

#include <stddef.h>

/*
 * Make the places of all ranks: *places_p, with job->np entries. The machine is inspected only if
 * something in the job depends on it. `topology` names a file with a recorded machine to inspect
 * instead, or is NULL. Returns 0, or -1 and one line in `why`; *places_p is then untouched.
 */
int placement_make(const struct launch_job *job, const char *topology,
                   struct launch_place **places_p, char *why, size_t why_nbytes);

void placement_free(struct launch_place *places, int n_places);

#endif
