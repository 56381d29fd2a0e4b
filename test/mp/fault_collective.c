/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a team that are killed at random moments of its collectives.
 *
 *     fault_collective VICTIMS [cuda | vulkan]
 *
 * The first VICTIMS odd ranks shoot themselves. Every collective of a survivor ends, with NIXL_OK
 * or NIXL_ERR_PEER_LOST; the survivors shrink the team until it has only them, and what they
 * compute then is right. With a kind, what they call with until then is memory of that kind.
 */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_VALUES   200000
#define BYTES_EACH 300000

static int rank, size, n_victims;
static double values[N_VALUES], sums[N_VALUES];
static unsigned char *bytes;
static void *operands = values, *results = sums; /* of what is interrupted */
static struct nixl_region *regions[3];

static bool is_victim(int other)
{
    return other % 2 == 1 && other / 2 < n_victims;
}

static void *shoot(void *arg)
{
    const struct timespec *delay = arg;

    nanosleep(delay, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

static int step(struct nixl_team *team, uint64_t round)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    int n = nixl_team_size(team), root = (int)(round % (unsigned)n);

    args.src = operands;
    args.dst = results;
    args.count = round % 3 == 0 ? N_VALUES : round % 40;
    args.type = NIXL_DOUBLE;
    switch (round % 7) {
    case 0:
        return nixl_barrier(team, MPT_PATIENCE);
    case 1:
        return nixl_broadcast(team, root, bytes, round % 2 == 0 ? 40 : BYTES_EACH, MPT_PATIENCE);
    case 2:
        return nixl_allreduce(team, &args, MPT_PATIENCE);
    case 3:
        return nixl_reduce(team, root, &args, MPT_PATIENCE);
    case 4:
        return nixl_alltoall(team, round % 4 == 3 ? operands : bytes, bytes,
                             round % 2 == 0 ? 8 : 30000, MPT_PATIENCE);
    case 5:
        return nixl_gather(team, root, operands, bytes, 10000, MPT_PATIENCE);
    default:
        return nixl_scan(team, &args, MPT_PATIENCE);
    }
}

/* Run collectives until one fails. A victim ends in here. */
static void run_until_loss(struct nixl_team *team)
{
    uint64_t round = 0;
    int status;

    do {
        status = step(team, round++);
    } while (status == NIXL_OK);
    MPT_STATUS(status, NIXL_ERR_PEER_LOST);
    MPT_TRUE(is_victim(nixl_last_error()->rank));
    MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_ERR_PEER_LOST); /* and so does the next */
}

static void check_team(struct nixl_team *team)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    double expected = 0;

    for (int other = 0; other < size; other++) {
        bool is_member = nixl_team_translate(NULL, other, team) >= 0;

        MPT_EQ(is_member, !is_victim(other));
        expected += is_member ? other : 0;
    }
    for (int i = 0; i < N_VALUES; i++) {
        values[i] = rank;
    }
    args.src = values;
    args.dst = sums;
    args.count = N_VALUES;
    args.type = NIXL_DOUBLE;
    MPT_OK(nixl_allreduce(team, &args, MPT_PATIENCE));
    for (int i = 0; i < N_VALUES; i++) {
        MPT_EQ(sums[i], expected);
    }
}

static void *make_memory(int i, const char *name, enum nixl_mem_kind kind, size_t nbytes)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    params.kind = kind;
    MPT_OK(nixl_region_alloc(name, nbytes, &params, &regions[i]));
    return nixl_region_addr(regions[i]);
}

static void make_buffers(const char *kind_name)
{
    enum nixl_mem_kind kind;

    if (kind_name == NULL) {
        bytes = calloc((size_t)size, BYTES_EACH);
        MPT_TRUE(bytes != NULL);
        return;
    }
    kind = strcmp(kind_name, "cuda") == 0 ? NIXL_MEM_CUDA : NIXL_MEM_VULKAN;
    operands = make_memory(0, "operands", kind, sizeof(values));
    results = make_memory(1, "results", kind, sizeof(sums));
    bytes = make_memory(2, "bytes", kind, (size_t)size * BYTES_EACH);
}

static void drop_buffers(void)
{
    if (regions[0] == NULL) {
        free(bytes);
    }
    for (int i = 0; i < 3 && regions[i] != NULL; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
}

int main(int argc, char **argv)
{
    struct nixl_team *team, *smaller;
    struct timespec delay;
    pthread_t thread;
    uint64_t seed;

    mpt_start();
    n_victims = argc > 1 ? atoi(argv[1]) : 1;
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    make_buffers(argc > 2 ? argv[2] : NULL);
    seed = (uint64_t)mpt_now_ns();
    printf("seed %" PRIu64 "\n", seed);
    delay = (struct timespec){.tv_nsec = (long)(mpt_random(&seed) % 100000000)};
    /* All are linked: to who connects for the first time the dead are not there, and not lost. */
    for (int other = 0; other < size; other++) {
        MPT_EQ(nixl_scope(other), mpt_scope(other));
    }
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    if (is_victim(rank)) {
        MPT_EQ(pthread_create(&thread, NULL, shoot, &delay), 0);
    }
    while (nixl_team_size(team) > size - n_victims) {
        run_until_loss(team);
        MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &smaller));
        MPT_LT(nixl_team_size(smaller), nixl_team_size(team));
        MPT_OK(nixl_team_free(team));
        team = smaller;
    }
    check_team(team);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE)); /* nobody waits for those in nixl_finalize */
    MPT_OK(nixl_team_free(team));
    drop_buffers();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
