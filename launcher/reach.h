/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts of a job does the engine reach? */
#ifndef NIXLRUN_LAUNCHER_REACH_H
#define NIXLRUN_LAUNCHER_REACH_H

#include "launcher/engine.h"
#include "launcher/job.h"

#include <stdbool.h>
#include <stddef.h>

enum { REACH_WHY_NBYTES = 200 };

/* A host on which no rank can be started, and why: a few words without a full stop. */
struct reach_lost {
    char *host;
    char why[REACH_WHY_NBYTES];
};

/*
 * Start a rank on each other host of the job, by the job's engine, and wait for some seconds. Hosts
 * where that fails are taken out of the job, with their ranks; *lost_p gets them. Returns how many.
 * No thread may exist yet.
 */
size_t reach_hosts(const struct engine_task *task, struct launch_job *job,
                   struct reach_lost **lost_p);

/*
 * What a nixlrun that started a rank on one host has written and exited with. Does the host have to
 * be left out? Then `why` says why. A queue is no reason.
 */
bool reach_has_failed(int wait_status, const char *text, char why[REACH_WHY_NBYTES]);

#endif
