/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of Slurm or Flux that nixlrun runs in, according to its variables. */
#ifndef NIXLRUN_LAUNCHER_ALLOCATION_H
#define NIXLRUN_LAUNCHER_ALLOCATION_H

#include "launcher/job.h"

/* The engine that it belongs to; ENGINE_AUTO: there is none, or we are a rank of a job in it. */
enum launch_engine allocation_engine(void);

/* The number of ranks that it is for, taking --ppn into account; 0: not known. */
int allocation_capacity(const struct launch_job *job);

#endif
