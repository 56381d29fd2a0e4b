/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of an engine meet that may be started again (util/rendezvous.h). */
#ifndef NIXLRUN_LAUNCHER_RENDEZVOUS_H
#define NIXLRUN_LAUNCHER_RENDEZVOUS_H

#include "launcher/job.h"

#define RENDEZVOUS_VARIABLE "NIXLRUN_RENDEZVOUS"

/* Listen, and set NIXLRUN_RENDEZVOUS in our environment. Returns 0, or -errno. */
int rendezvous_open(const struct launch_job *job);

/* The rank has ended and is not started again: the others do not wait for it. */
void rendezvous_ended(int rank);

#endif
