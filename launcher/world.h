/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables by which programs without PMIx, such as those of torch, find their place in the
 * job: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_SIZE, LOCAL_WORLD_SIZE (as LOCAL_SIZE), MASTER_ADDR and
 * MASTER_PORT. Variables whose value is not known are removed from a rank's environment: a number
 * from an outer launcher would be another rank's.
 */
#ifndef NIXLRUN_LAUNCHER_WORLD_H
#define NIXLRUN_LAUNCHER_WORLD_H

#include "launcher/job.h"

#include <stdbool.h>

struct world {
    int rank, size;
    int local_rank, local_size; /* -1: not known */
    const char *master; /* the host of rank 0, which can listen on a port; NULL: not known */
    int port;
};

/* Called once for each of the variables; `value` NULL: not known. */
typedef void world_set_fn(const char *name, const char *value, void *arg);
void world_tell(const struct world *world, world_set_fn *set_fn, void *arg);

/* Is the variable NAME=VALUE one of these? */
bool world_has(const char *variable);

/* A TCP port of this host without a listener; 29500, torch's default, if none is found. */
int world_free_port(void);

/* The same number for all ranks of a job on any host, made from its name. */
int world_port_of(const char *job_name);

/*
 * For ranks on other hosts, as one word: "4:2,2@a" are four ranks, two on each of two hosts, of
 * which a is the first; "4" if the engine chooses the hosts. Parsing fills all but the port, and
 * does not touch what the word does not contain; `word` is changed, and world->master points into
 * it. False: the word is malformed, or there is no such rank.
 */
#define WORLD_WORD_NBYTES 65536
bool world_print(const struct launch_job *job, char word[WORLD_WORD_NBYTES]);
bool world_parse(char *word, int rank, struct world *world);

#endif
