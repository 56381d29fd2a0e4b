/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts: --host, --hostfile, and how many ranks each host gets. */
#ifndef NIXLRUN_LAUNCHER_HOSTS_H
#define NIXLRUN_LAUNCHER_HOSTS_H

#include "launcher/job.h"
#include "launcher/textfile.h"

#include <stddef.h>

enum { HOSTS_CAUSE_NBYTES = TEXTFILE_CAUSE_NBYTES, HOSTS_MAX_SLOTS = 65536 };

/*
 * Add the hosts of a list "a:4,b" to the job: NAME or NAME:SLOTS, separated by commas. A host that
 * is named again gets the sum. Returns 0, or -1 with a text for people in `cause`.
 */
int hosts_parse_list(const char *text, struct launch_job *job, char cause[HOSTS_CAUSE_NBYTES]);

/*
 * Add the hosts of a file in the forms of Open MPI and MPICH, a host per line: "a", "a:4" or
 * "a slots=4 max_slots=8". Text after # is ignored. Returns as hosts_parse_list().
 */
int hosts_read_file(const char *path, struct launch_job *job, char cause[HOSTS_CAUSE_NBYTES]);

/* The same for a text in memory, which is changed. text[nbytes] must be writable. */
int hosts_parse_file(char *text, size_t nbytes, struct launch_job *job,
                     char cause[HOSTS_CAUSE_NBYTES]);

/*
 * The number of ranks that the hosts take: the sum of --ppn or of slots; a host without a number
 * counts as one.
 */
int hosts_capacity(const struct launch_job *job);

/*
 * Give each host its number of ranks, in the order in which the user named the hosts: --ppn of them
 * each, or as many as it has slots, or equal shares if no host has a number. Returns 0, or -1 and
 * one line in `why`.
 */
int hosts_deal(struct launch_job *job, char *why, size_t why_nbytes);

/* Does the job name this host only, or none? */
bool hosts_are_here(const struct launch_job *job);

/* Is this host one of the job's, but not the first? */
bool hosts_have_here_late(const struct launch_job *job);

void hosts_free(struct launch_job *job);

#endif
