/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a rank's place, and the word that passes it to nixlrun-rank. No state. */
#include "config.h"

#include "launcher/world.h"
#include "util/hash.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define USUAL_PORT  29500
#define LOWEST_PORT 20000 /* below those that Linux gives to clients */
#define N_PORTS     12000

/* ---- variables ------------------------------------------------------------------------------- */

bool world_has(const char *variable)
{
    static const char *const names[] = {
        "RANK=",        "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_SIZE=", "LOCAL_WORLD_SIZE=",
        "MASTER_ADDR=", "MASTER_PORT="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void tell_number(const char *name, int number, world_set_fn *set_fn, void *arg)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", number);
    set_fn(name, number >= 0 ? text : NULL, arg);
}

void world_tell(const struct world *world, world_set_fn *set_fn, void *arg)
{
    tell_number("RANK", world->rank, set_fn, arg);
    tell_number("WORLD_SIZE", world->size, set_fn, arg);
    tell_number("LOCAL_RANK", world->local_rank, set_fn, arg);
    tell_number("LOCAL_SIZE", world->local_size, set_fn, arg);
    tell_number("LOCAL_WORLD_SIZE", world->local_size, set_fn, arg);
    set_fn("MASTER_ADDR", world->master, arg);
    tell_number("MASTER_PORT", world->port, set_fn, arg);
}

/* ---- ports ----------------------------------------------------------------------------------- */

int world_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t nbytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = USUAL_PORT;

    if (fd < 0) {
        return port;
    }
    if (bind(fd, (struct sockaddr *)&address, nbytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &nbytes) == 0) {
        port = ntohs(address.sin_port);
    }
    close(fd);
    return port;
}

int world_port_of(const char *job_name)
{
    return LOWEST_PORT + (int)(nxr_hash(job_name, strlen(job_name)) % N_PORTS);
}

/* ---- the word for nixlrun-rank --------------------------------------------------------------- */

/* Append the number of ranks on each host. Returns the bytes used; WORLD_WORD_NBYTES: too long. */
static size_t print_hosts(const struct launch_job *job, char *word, size_t used)
{
    int n_left = job->np;

    for (int i = 0; n_left > 0 && used < WORLD_WORD_NBYTES; i++) {
        int n_ranks = job->ppn;

        if (job->n_hosts > 0 && i == job->n_hosts) {
            break;
        }
        n_ranks = job->n_hosts > 0 ? job->hosts[i].n_ranks : n_ranks;
        n_ranks = n_ranks < n_left ? n_ranks : n_left;
        if (n_ranks > 0) {
            used += (size_t)snprintf(word + used, WORLD_WORD_NBYTES - used, "%s%d",
                                     n_left == job->np ? ":" : ",", n_ranks);
        }
        n_left -= n_ranks;
    }
    return used < WORLD_WORD_NBYTES ? used : WORLD_WORD_NBYTES;
}

/* The host of rank 0, NULL if the engine chooses it. */
static const char *first_host(const struct launch_job *job)
{
    for (int i = 0; i < job->n_hosts; i++) {
        if (job->hosts[i].n_ranks > 0) {
            return job->hosts[i].name;
        }
    }
    return NULL;
}

bool world_print(const struct launch_job *job, char word[WORLD_WORD_NBYTES])
{
    size_t used = (size_t)snprintf(word, WORLD_WORD_NBYTES, "%d", job->np);
    const char *master = first_host(job);

    if (job->n_hosts > 0 || job->ppn > 0) {
        used = print_hosts(job, word, used);
    }
    if (master != NULL && used < WORLD_WORD_NBYTES) {
        used += (size_t)snprintf(word + used, WORLD_WORD_NBYTES - used, "@%s", master);
    }
    return used < WORLD_WORD_NBYTES;
}

/* Find the rank in "2,2,1". Returns false if it is beyond the last host. */
static bool find_host(const char *list, struct world *world)
{
    int first = 0;

    for (char *end; *list != '\0'; list = *end == ',' ? end + 1 : end) {
        long n = strtol(list, &end, 10);

        if (end == list || n <= 0 || n > world->size - first) {
            return false;
        }
        if (world->rank < first + n) {
            world->local_rank = world->rank - first;
            world->local_size = (int)n;
            return true;
        }
        first += (int)n;
    }
    return false;
}

bool world_parse(char *word, int rank, struct world *world)
{
    char *master = strchr(word, '@'), *list, *end;
    long size;

    if (master != NULL) {
        *master++ = '\0';
    }
    list = strchr(word, ':');
    size = strtol(word, &end, 10);
    if (end == word || (end != list && *end != '\0') || size < 1 || size > INT32_MAX || rank < 0 ||
        rank >= size) {
        return false;
    }
    world->rank = rank;
    world->size = (int)size;
    if (master != NULL && *master != '\0') {
        world->master = master;
    }
    return list == NULL || find_host(list + 1, world);
}
