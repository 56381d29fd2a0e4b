/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which rank of how many this is. The engine sets variables of its own; only those of
 * this engine count, as those of an outer job are inherited, too. If the user has named the hosts,
 * nixlrun passes the number of ranks of each host. No state.
 */
#include "config.h"

#include "launcher/rank_world.h"
#include "launcher/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int env_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long number = text != NULL ? strtol(text, &end, 10) : -1;

    return text != NULL && end != text && *end == '\0' && number >= 0 && number <= INT32_MAX
               ? (int)number
               : -1;
}

/* Entry number `index` of Slurm's "2(x3),1", which is three hosts with 2 and one with 1. */
static int slurm_tasks(const char *list, int index)
{
    while (list != NULL && *list != '\0' && index >= 0) {
        char *end;
        long n = strtol(list, &end, 10), n_times = 1;

        if (end == list) {
            return -1;
        }
        if (strncmp(end, "(x", 2) == 0) {
            n_times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (index < n_times) {
            return (int)n;
        }
        index -= (int)n_times;
        list = *end == ',' ? end + 1 : NULL;
    }
    return -1;
}

/* The first name of Slurm's "n[01-04,7],m", in a static buffer. NULL if there is none. */
static const char *slurm_first_host(const char *list)
{
    static char name[256];
    size_t n = list != NULL ? strcspn(list, "[,") : 0;

    if (n == 0 || n >= sizeof(name)) {
        return NULL;
    }
    if (list[n] == '[') {
        snprintf(name, sizeof(name), "%.*s%.*s", (int)n, list, (int)strcspn(list + n + 1, "-,]"),
                 list + n + 1);
    } else {
        snprintf(name, sizeof(name), "%.*s", (int)n, list);
    }
    return name;
}

/* What the engine reports overrides what nixlrun expects. */
static void set_local(struct world *world, int local_rank, int local_size)
{
    if (local_rank >= 0 && local_rank < local_size && local_size <= world->size) {
        world->local_rank = local_rank;
        world->local_size = local_size;
    }
}

static void ask_slurm(struct world *world)
{
    int local_rank = env_number("SLURM_LOCALID");
    int local_size = slurm_tasks(getenv("SLURM_STEP_TASKS_PER_NODE"), env_number("SLURM_NODEID"));

    set_local(world, local_rank, local_size);
    if (world->master == NULL) {
        world->master = slurm_first_host(getenv("SLURM_STEP_NODELIST"));
    }
}

static void ask_openmpi(struct world *world)
{
    set_local(world, env_number("OMPI_COMM_WORLD_LOCAL_RANK"),
              env_number("OMPI_COMM_WORLD_LOCAL_SIZE"));
}

static void rank_world_ask_engine(const char *job_name, struct world *world)
{
    if (strncmp(job_name, "slurm.", strlen("slurm.")) == 0) {
        ask_slurm(world);
    } else if (env_number("OMPI_COMM_WORLD_RANK") == world->rank) {
        ask_openmpi(world); /* nixlrun has removed those of an outer job */
    }
    if (world->local_size == world->size) {
        world->master = "127.0.0.1"; /* whatever name the user gave the only host */
    }
}

static void rank_world_set_variable(const char *name, const char *value, void *arg)
{
    const char *kept = arg;
    size_t nbytes = strlen(name);

    for (; kept != NULL && *kept != '\0'; kept += kept[strcspn(kept, ",")] == ',') {
        if (strncmp(kept, name, nbytes) == 0 && (kept[nbytes] == ',' || kept[nbytes] == '\0')) {
            return;
        }
        kept += strcspn(kept, ",");
    }
    if (value != NULL) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
}

void rank_world_set(char *word, const char *kept)
{
    const char *job_name = getenv("PMIX_NAMESPACE");
    struct world world = {.rank = -1, .size = -1, .local_rank = -1, .local_size = -1, .port = -1};

    if (job_name != NULL && world_parse(word, env_number("PMIX_RANK"), &world)) {
        world.port = world_port_of(job_name);
        rank_world_ask_engine(job_name, &world);
    }
    world_tell(&world, rank_world_set_variable, (void *)(uintptr_t)kept);
}
