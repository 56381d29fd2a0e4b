/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a team that are killed at random moments of its collectives.
 *
 *     fault_collective VICTIMS|each [cuda | vulkan]
 *
 * The first VICTIMS odd ranks shoot themselves, all at once, while the team runs any collectives.
 * With `each` the first and the last members die in turn, one for each collective, while the team
 * runs nothing else. Every collective of a survivor ends, with NIXL_OK or NIXL_E_PEER_LOST; the
 * survivors shrink the team until it has only them, and what they compute then is right. With a
 * kind, what they call with until then is memory of that kind.
 */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_VALUES     200000
#define LARGE_NBYTES (N_VALUES * sizeof(double)) /* of a collective with one piece */
#define PIECE_NBYTES 40000ul                     /* of one with a piece for each */
#define ANY          MPT_N_COLLECTIVES

static int rank, size, n_victims;
static bool is_victim[64];
static double values[N_VALUES], sums[N_VALUES];
static void *operands, *results; /* of what is interrupted */
static size_t room;              /* bytes of each */
static struct nixl_region *regions[2];

static void *shoot(void *arg)
{
    const struct timespec *delay = arg;

    nanosleep(delay, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void shoot_later(uint64_t *seed, uint64_t within_ns)
{
    static struct timespec delay;
    pthread_t thread;

    delay = (struct timespec){.tv_nsec = (long)(mpt_random(seed) % within_ns)};
    MPT_EQ(pthread_create(&thread, NULL, shoot, &delay), 0);
}

/* Prepare a collective, start it twice, and free it. */
static int run_prepared(enum mpt_collective which, struct mpt_call *call)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_coll *coll = NULL;
    int status;

    op.flags = NIXL_OP_PREPARE;
    op.coll_p = &coll;
    call->op = &op;
    status = mpt_collective(which, call, NULL);
    for (int i = 0; i < 2 && status == NIXL_OK; i++) {
        status = nixl_coll_start(coll, MPT_PATIENCE);
    }
    if (coll != NULL) {
        MPT_OK(nixl_coll_free(coll));
    }
    return status;
}

/* The same on all members. Large ones and small ones, waited for, started and prepared. */
static int step(struct nixl_team *team, enum mpt_collective which, uint64_t round)
{
    struct mpt_call call = {.team = team, .src = operands, .dst = results};
    unsigned n = (unsigned)nixl_team_size(team);
    struct nixl_req *req = NULL;
    int status;

    if (which == ANY) {
        which = (enum mpt_collective)(round % MPT_N_COLLECTIVES);
        round /= MPT_N_COLLECTIVES;
    }
    call.root = (int)(round / 2 % n);
    if (round % 3 != 0) {
        call.nbytes = round % 40 * 4;
    } else if (which == MPT_BROADCAST || (which >= MPT_REDUCE && which <= MPT_SCAN)) {
        call.nbytes = which == MPT_REDUCE_SCATTER ? LARGE_NBYTES / n / 4 * 4 : LARGE_NBYTES;
    } else {
        call.nbytes = PIECE_NBYTES;
    }
    if (round % 5 == 4) {
        return run_prepared(which, &call);
    }
    status = mpt_collective(which, &call, round % 2 != 0 ? &req : NULL);
    return status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status;
}

/* Run collectives until one fails. A victim ends in here. */
static void run_until_loss(struct nixl_team *team, enum mpt_collective which)
{
    uint64_t round = 0;
    int status;

    do {
        status = step(team, which, round++);
    } while (status == NIXL_OK);
    MPT_STATUS(status, NIXL_E_PEER_LOST);
    MPT_TRUE(is_victim[nixl_last_error()->rank]);
    MPT_EQ(nixl_peer_state(nixl_last_error()->rank), NIXL_PEER_LOST);
    MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_E_PEER_LOST); /* and so does the next */
}

/* Until so many are left, which the team that is returned has. */
static struct nixl_team *lose(struct nixl_team *team, int n_left, enum mpt_collective which)
{
    struct nixl_team *smaller;

    while (nixl_team_size(team) > n_left) {
        run_until_loss(team, which);
        MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &smaller));
        MPT_LT(nixl_team_size(smaller), nixl_team_size(team));
        MPT_OK(nixl_team_free(team));
        team = smaller;
    }
    return team;
}

static struct nixl_team *lose_odd_ranks(struct nixl_team *team, uint64_t *seed)
{
    for (int i = 0; i < n_victims; i++) {
        is_victim[2 * i + 1] = true;
    }
    if (is_victim[rank]) {
        shoot_later(seed, 100 * MPT_MS);
    }
    return lose(team, size - n_victims, ANY);
}

/* The victim may be gone before the others have left the barrier. */
static void meet(struct nixl_team *team, int victim)
{
    int status = nixl_barrier(team, MPT_PATIENCE);

    if (status != NIXL_OK) {
        MPT_STATUS(status, NIXL_E_PEER_LOST);
        MPT_EQ(nixl_last_error()->rank, victim);
    }
}

static struct nixl_team *lose_one_in_each(struct nixl_team *team, uint64_t *seed)
{
    n_victims = MPT_N_COLLECTIVES;
    MPT_LT(n_victims, size);
    for (int which = 0; which < MPT_N_COLLECTIVES; which++) {
        int n = nixl_team_size(team);
        int victim = nixl_team_translate(team, which % 2 == 0 ? 0 : n - 1, NULL);

        is_victim[victim] = true;
        meet(team, victim);
        if (victim == rank) {
            shoot_later(seed, 20 * MPT_MS);
        }
        team = lose(team, n - 1, (enum mpt_collective)which);
    }
    return team;
}

static void check_team(struct nixl_team *team)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    double expected = 0;

    for (int other = 0; other < size; other++) {
        bool is_member = nixl_team_translate(NULL, other, team) >= 0;

        MPT_EQ(is_member, !is_victim[other]);
        expected += is_member ? other : 0;
    }
    for (int i = 0; i < N_VALUES; i++) {
        values[i] = rank;
    }
    args.src = values;
    args.dst = sums;
    args.count = N_VALUES;
    args.type = NIXL_TYPE_DOUBLE;
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

    room = (size_t)size * PIECE_NBYTES;
    room = room < LARGE_NBYTES ? LARGE_NBYTES : room;
    if (kind_name == NULL) {
        operands = calloc(1, room);
        results = calloc(1, room);
        MPT_TRUE(operands != NULL && results != NULL);
        return;
    }
    kind = strcmp(kind_name, "cuda") == 0 ? NIXL_MEM_CUDA : NIXL_MEM_VULKAN;
    operands = make_memory(0, "operands", kind, room);
    results = make_memory(1, "results", kind, room);
}

static void drop_buffers(void)
{
    if (regions[0] == NULL) {
        free(operands);
        free(results);
        return;
    }
    for (int i = 0; i < 2; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
}

int main(int argc, char **argv)
{
    bool is_each = argc > 1 && strcmp(argv[1], "each") == 0;
    struct nixl_team *team;
    uint64_t seed;

    mpt_start();
    n_victims = argc > 1 ? atoi(argv[1]) : 1;
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    MPT_TRUE(size <= 64);
    make_buffers(argc > 2 ? argv[2] : NULL);
    seed = (uint64_t)mpt_now_ns();
    printf("seed %" PRIu64 "\n", seed);
    /* All are connected: at a first connection the dead are not there, and not lost. */
    for (int other = 0; other < size; other++) {
        MPT_EQ(nixl_scope(other), mpt_scope(other));
    }
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    team = is_each ? lose_one_in_each(team, &seed) : lose_odd_ranks(team, &seed);
    check_team(team);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE)); /* nixl_finalize does not wait for those */
    MPT_OK(nixl_team_free(team));
    drop_buffers();
    mpt_finalize();
    return mpt_passed();
}
