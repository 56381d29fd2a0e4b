/* SPDX-License-Identifier: Apache-2.0 */
/* Engines start the ranks of a job. This version has one: all ranks on this host. */
#ifndef NIXLRUN_LAUNCHER_ENGINE_H
#define NIXLRUN_LAUNCHER_ENGINE_H

#include "launcher/job.h"

/*
 * Start the job, wait for its end and return the exit code of nixlrun. `places` has job->np
 * entries.
 */
int engine_local_run(const struct launch_job *job, const struct launch_place *places);

#endif
