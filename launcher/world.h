/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables by which programs that know no PMIx, such as those of torch, find their place in
 * the job: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_SIZE, LOCAL_WORLD_SIZE (as LOCAL_SIZE), MASTER_ADDR
 * and MASTER_PORT. What is not known of a rank is taken out of its environment: a number that an
 * outer launcher gave would be another rank's.
 */
#ifndef NIXLRUN_LAUNCHER_WORLD_H
#define NIXLRUN_LAUNCHER_WORLD_H

#include "launcher/job.h"

#include <stdbool.h>

struct world {
    int rank, size;
    int local_rank, local_size; /* -1: not known */
    const char *master; /* the host of rank 0, where a port can be listened on; NULL: not known */
    int port;
};

/* Gets each of the variables once; `value` NULL: it is not known. */
typedef void world_set_fn(const char *name, const char *value, void *arg);
void world_tell(const struct world *world, world_set_fn *set_fn, void *arg);

/* Is the variable NAME=VALUE one of these? */
bool world_has(const char *variable);

/* A TCP port of this host with no listener now; 29500, torch's default, if there is none. */
int world_free_port(void);

/* The same number for all ranks of a job on any host, made from its name. */
int world_port_of(const char *job_name);

/*
 * For ranks on other hosts, as one word: "4:2,2@a" are four ranks, two on each of two hosts, of
 * which a is the first; "4" where the engine chooses the hosts. Parsing fills all but the port, and
 * leaves alone what the word does not tell; `word` is changed, and world->master points into it.
 * False: it is no such word, or there is no such rank.
 */
#define WORLD_WORD_NBYTES 65536
bool world_print(const struct launch_job *job, char word[WORLD_WORD_NBYTES]);
bool world_parse(char *word, int rank, struct world *world);

#endif
