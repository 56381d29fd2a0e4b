/* SPDX-License-Identifier: Apache-2.0 */
/* Engines start the ranks of a job. This version has one: all ranks on this host. */
#ifndef NIXLRUN_LAUNCHER_ENGINE_H
#define NIXLRUN_LAUNCHER_ENGINE_H

#include "launcher/job.h"

/*
 * Start the job and wait for its end; then the process exits with nixlrun's exit code. `places` has
 * job->np entries. It leaves by _exit(), since threads of PMIx still run, after fflush(NULL).
 */
void engine_local_run(const struct launch_job *job, const struct launch_place *places)
    __attribute__((noreturn));

#endif
