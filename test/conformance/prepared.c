/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on prepared collectives: that they do what the call does with which they were
 * prepared, each time with what is then in the buffers, among other collectives of the team; and
 * what becomes of their handles.
 */
#include "exchange.h"

#include <stdio.h>
#include <string.h>

#define N_STARTS 3
#define N_OTHERS 6 /* regions that other calls use: more than a team keeps mapped */

/* A prepared collective, its buffers, and a copy of dst for the call that is not prepared. */
struct prepared {
    enum mpt_collective which;
    struct buffer src, dst, plain;
    struct mpt_call call;
    struct nixl_coll *coll;
};

static struct nixl_op op_prepare(struct nixl_coll **coll_p)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_PREPARE;
    op.coll_p = coll_p;
    return op;
}

static void prepare(struct prepared *prepared, enum mpt_collective which, size_t nbytes,
                    bool in_region)
{
    size_t all = nbytes * (size_t)conf.size;
    struct nixl_op op = op_prepare(&prepared->coll);
    char name[3][32];

    for (int i = 0; i < 3; i++) { /* several are there at once */
        snprintf(name[i], sizeof(name[i]), "prepared %d %d", (int)which, i);
    }
    *prepared = (struct prepared){.which = which};
    prepared->src = conf_buffer(name[0], all, 0, in_region);
    prepared->dst = conf_buffer(name[1], all, 0, in_region);
    prepared->plain = conf_buffer(name[2], all, 0, in_region);
    prepared->call = (struct mpt_call){.team = conf_world,
                                       .root = (int)which % conf.size,
                                       .src = prepared->src.bytes,
                                       .dst = prepared->dst.bytes,
                                       .nbytes = nbytes,
                                       .op = &op};
    mpt_fill(prepared->dst.bytes, all, 1);
    MPT_OK(mpt_collective(which, &prepared->call, NULL));
    MPT_TRUE(prepared->coll != NULL);
    MPT_CHECK(prepared->dst.bytes, all, 1); /* nothing was moved */
    prepared->call.op = NULL;
}

/* Start it, by one of the ways to; then make the plain call, which must have the same result. */
static void run_both(struct prepared *prepared, unsigned round)
{
    size_t all = prepared->dst.nbytes;
    uint64_t seed = 1000 * (uint64_t)round + (uint64_t)conf.rank;
    struct nixl_req *req = NULL;

    mpt_fill(prepared->src.bytes, all, seed);
    mpt_fill(prepared->dst.bytes, all, seed + 500);
    mpt_fill(prepared->plain.bytes, all, seed + 500);
    if (round % 2 == 0) {
        MPT_OK(nixl_coll_start(prepared->coll, MPT_PATIENCE));
    } else {
        MPT_OK(conf_outcome(nixl_coll_start_x(prepared->coll, NULL, &req), &req));
    }
    prepared->call.dst = prepared->plain.bytes;
    MPT_OK(mpt_collective(prepared->which, &prepared->call, NULL));
    MPT_EQ(memcmp(prepared->dst.bytes, prepared->plain.bytes, all), 0);
}

static void drop(struct prepared *prepared)
{
    MPT_OK(nixl_coll_free(prepared->coll));
    MPT_OK(nixl_barrier(conf_world, MPT_PATIENCE));
    conf_drop_buffer(&prepared->src);
    conf_drop_buffer(&prepared->dst);
    conf_drop_buffer(&prepared->plain);
}

static void every_collective_can_be_prepared(void)
{
    static const size_t sizes[] = {4, 4096, 40000, 300000};
    const size_t n_sizes = sizeof(sizes) / sizeof(sizes[0]);

    conf_need_world();
    for (int which = 0; which < MPT_N_COLLECTIVES; which++) {
        for (size_t i = 0; i < n_sizes; i++) {
            if (conf.scale < 10 && i != (size_t)which % n_sizes) {
                continue;
            }
            for (int in_region = 0; in_region < 2; in_region++) {
                struct prepared prepared;

                prepare(&prepared, (enum mpt_collective)which, sizes[i], in_region != 0);
                for (unsigned round = 0; round < N_STARTS; round++) {
                    run_both(&prepared, round);
                }
                drop(&prepared);
            }
        }
    }
}

/* ---- among others ---------------------------------------------------------------------------- */

/* Collectives that have mappings of their own, more than a team keeps. */
static void use_other_regions(unsigned round)
{
    size_t nbytes = 1 << 18;

    for (int i = 0; i < N_OTHERS; i++) {
        struct buffer buffer = conf_buffer("other", nbytes, 0, true);

        mpt_fill(buffer.bytes, nbytes, conf.rank == 0 ? round : 0);
        MPT_OK(nixl_broadcast(conf_world, 0, buffer.bytes, nbytes, MPT_PATIENCE));
        MPT_CHECK(buffer.bytes, nbytes, round);
        conf_drop_buffer(&buffer);
    }
}

static void prepared_collectives_go_with_others(void)
{
    static const enum mpt_collective kinds[] = {MPT_ALLREDUCE, MPT_ALLTOALLV, MPT_BROADCAST,
                                                MPT_REDUCE_SCATTER};
    struct prepared all[4];

    conf_need_world();
    for (int i = 0; i < 4; i++) {
        prepare(&all[i], kinds[i], 1 << 18, i != 3);
    }
    for (unsigned round = 0; round < 2 * N_STARTS; round++) {
        for (unsigned i = 0; i < 4; i++) {
            run_both(&all[(round + i) % 4], round);
        }
        use_other_regions(round);
    }
    for (int i = 0; i < 4; i++) {
        drop(&all[i]);
    }
}

static void prepared_collectives_are_started_one_behind_the_other(void)
{
    int64_t value = 1, sums[2] = {0};
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_coll *coll[2] = {NULL};
    struct nixl_req *reqs[2 * N_STARTS] = {NULL};
    struct nixl_op op;

    conf_need_world();
    args.src = &value;
    args.count = 1;
    args.type = NIXL_TYPE_INT64;
    for (int i = 0; i < 2; i++) {
        op = op_prepare(&coll[i]);
        args.dst = &sums[i];
        MPT_OK(nixl_allreduce_x(conf_world, &args, &op, NULL));
        args.src = &sums[0]; /* of the second one: what the first one has made */
    }
    memset(&args, 0xff, sizeof(args)); /* may be reused at once */
    for (int i = 0; i < 2 * N_STARTS; i++) {
        int status = nixl_coll_start_x(coll[i % 2], NULL, &reqs[i]);

        MPT_STATUS(status, conf.size > 1 ? NIXL_INPROGRESS : NIXL_OK);
    }
    for (int i = 0; i < 2 * N_STARTS; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
    MPT_EQ(sums[0], conf.size);
    MPT_EQ(sums[1], (int64_t)conf.size * conf.size);
    MPT_OK(nixl_coll_free(coll[0]));
    MPT_OK(nixl_coll_free(coll[1]));
}

/* ---- handles --------------------------------------------------------------------------------- */

static void a_prepared_collective_in_use_is_not_freed(void)
{
    struct nixl_coll *coll = NULL;
    struct nixl_op op = op_prepare(&coll);
    struct nixl_req *req = NULL;

    conf_need_world();
    MPT_OK(nixl_barrier_x(conf_world, &op, NULL));
    if (conf.rank == 0) { /* the others come when it is told */
        MPT_STATUS(nixl_coll_start_x(coll, NULL, &req), NIXL_INPROGRESS);
        MPT_STATUS(nixl_coll_free(coll), NIXL_E_IN_USE);
    }
    mpt_barrier();
    if (conf.rank != 0) {
        MPT_OK(nixl_coll_start(coll, MPT_PATIENCE));
    }
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_coll_free(coll));
    MPT_STATUS(nixl_coll_free(coll), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_coll_start(coll, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_coll_start_x(coll, NULL, &req), NIXL_E_INVALID_ARG);
}

static void prepared_collectives_end_with_their_team(void)
{
    struct nixl_coll *coll = NULL;
    struct nixl_op op = op_prepare(&coll);
    struct nixl_team *team;
    struct buffer buffer = conf_buffer("gone", 1 << 18, 0, true);

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_broadcast_x(team, 0, buffer.bytes, buffer.nbytes, &op, NULL));
    MPT_OK(nixl_coll_start(coll, MPT_PATIENCE));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
    MPT_STATUS(nixl_coll_start(coll, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_coll_free(coll), NIXL_E_INVALID_ARG);
    conf_drop_buffer(&buffer);
}

static void a_broken_team_starts_nothing(void)
{
    struct nixl_coll *coll = NULL;
    struct nixl_op op = op_prepare(&coll);
    struct nixl_team *team;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier_x(team, &op, NULL));
    mpt_barrier(); /* a team that breaks ends what others still prepare */
    if (conf.rank == 0) {
        MPT_STATUS(nixl_coll_start(coll, MPT_MS), NIXL_E_TIMEOUT);
    }
    mpt_barrier();
    MPT_STATUS(nixl_coll_start(coll, MPT_PATIENCE), NIXL_E_CANCELED);
    MPT_OK(nixl_coll_free(coll)); /* before its team */
    MPT_OK(nixl_team_free(team));
}

/* Other ranks that a preparation waits for: those that share memory with this one. */
static bool is_beside_others(void)
{
    struct nixl_team *node;
    bool is_beside;

    MPT_OK(nixl_team_node(MPT_PATIENCE, &node));
    is_beside = nixl_team_size(node) > 1;
    MPT_OK(nixl_team_free(node));
    return is_beside;
}

static void a_preparation_is_waited_for(void)
{
    struct nixl_coll *coll = NULL;
    struct nixl_op op = op_prepare(&coll);
    struct nixl_req *req = NULL;
    struct nixl_cq *cq;

    conf_need_world();
    MPT_STATUS(nixl_barrier_x(conf_world, &op, &req), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_cq_open(NULL, &cq));
    op.cq = cq;
    MPT_STATUS(nixl_barrier_x(conf_world, &op, NULL), NIXL_E_INVALID_ARG);
    op = op_prepare(NULL);
    MPT_STATUS(nixl_barrier_x(conf_world, &op, NULL), NIXL_E_INVALID_ARG);
    op = op_prepare(&coll);
    op.timeout_ns = NIXL_AT_ONCE;
    if (is_beside_others()) {
        MPT_STATUS(nixl_barrier_x(conf_world, &op, NULL), NIXL_E_AGAIN);
    }
    MPT_TRUE(coll == NULL && req == NULL);
    op.timeout_ns = 0;
    MPT_OK(nixl_barrier_x(conf_world, &op, NULL));
    op = (struct nixl_op)NIXL_OP_INIT;
    op.cq = cq; /* which a start takes */
    if (nixl_coll_start_x(coll, &op, NULL) == NIXL_INPROGRESS) {
        struct nixl_cq_entry entry;
        size_t n = 0;

        MPT_OK(nixl_cq_wait(cq, &entry, 1, MPT_PATIENCE, &n));
        MPT_TRUE(n == 1 && entry.status == NIXL_OK);
    }
    op.flags = NIXL_OP_PREPARE;
    MPT_STATUS(nixl_coll_start_x(coll, &op, NULL), NIXL_E_UNSUPPORTED);
    MPT_OK(nixl_coll_free(coll));
    MPT_OK(nixl_cq_close(cq));
}

static void a_preparation_that_times_out_breaks_the_team(void)
{
    struct nixl_coll *coll = NULL;
    struct nixl_op op = op_prepare(&coll);
    struct nixl_team *team;
    int me;

    MPT_OK(nixl_team_node(MPT_PATIENCE, &team)); /* members on other hosts are not waited for */
    me = nixl_team_rank(team);
    if (me == 0 && nixl_team_size(team) > 1) {
        op.timeout_ns = MPT_MS;
        MPT_STATUS(nixl_barrier_x(team, &op, NULL), NIXL_E_TIMEOUT);
        op.timeout_ns = 0;
    }
    mpt_barrier();
    if (nixl_team_size(team) > 1) {
        MPT_STATUS(nixl_barrier_x(team, &op, NULL), NIXL_E_CANCELED);
        MPT_TRUE(coll == NULL);
    }
    MPT_OK(nixl_team_free(team));
}

/* Members that prepare different collectives are told, and the team stays whole. */
static void members_prepare_the_same(void)
{
    struct nixl_coll *coll = NULL;
    struct nixl_op op = op_prepare(&coll);
    struct nixl_team *team; /* members on other hosts are not asked */
    char bytes[64] = "";
    bool is_first;

    MPT_OK(nixl_team_node(MPT_PATIENCE, &team));
    is_first = nixl_team_rank(team) == 0;
    if (nixl_team_size(team) > 1) {
        MPT_STATUS(nixl_broadcast_x(team, 0, bytes, is_first ? 8 : 16, &op, NULL),
                   NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_broadcast_x(team, is_first, bytes, 8, &op, NULL), NIXL_E_INVALID_ARG);
        MPT_STATUS(is_first ? nixl_barrier_x(team, &op, NULL)
                            : nixl_broadcast_x(team, 0, bytes, 8, &op, NULL),
                   NIXL_E_INVALID_ARG);
        MPT_TRUE(coll == NULL);
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
}

const struct guarantee conf_prepared[] = {
    {"coll_start", NULL, 0},
    {"every_collective_can_be_prepared", every_collective_can_be_prepared, 0},
    {"prepared_collectives_go_with_others", prepared_collectives_go_with_others, 0},
    {"prepared_collectives_are_started_one_behind_the_other",
     prepared_collectives_are_started_one_behind_the_other, 0},
    {"a_prepared_collective_in_use_is_not_freed", a_prepared_collective_in_use_is_not_freed,
     CONF_PEERS},
    {"prepared_collectives_end_with_their_team", prepared_collectives_end_with_their_team, 0},
    {"a_broken_team_starts_nothing", a_broken_team_starts_nothing, CONF_PEERS},
    {"a_preparation_is_waited_for", a_preparation_is_waited_for, 0},
    {"a_preparation_that_times_out_breaks_the_team", a_preparation_that_times_out_breaks_the_team,
     0},
    {"members_prepare_the_same", members_prepare_the_same, 0},
    {0},
};
