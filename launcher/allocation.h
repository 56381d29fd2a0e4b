/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of Slurm or Flux that nixlrun runs in, as its variables tell. */
#ifndef NIXLRUN_LAUNCHER_ALLOCATION_H
#define NIXLRUN_LAUNCHER_ALLOCATION_H

#include "launcher/job.h"

/* Whose it is; ENGINE_AUTO: there is none, or we are a rank of a job in it. */
enum launch_engine allocation_engine(void);

/* How many ranks it is for, with --ppn if that is given; 0: nothing says it. */
int allocation_capacity(const struct launch_job *job);

#endif
