/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on collectives that are started and waited for later, and on teams that are broken. */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

#define N_STARTED 12
#define N_VALUES  50000

/* ---- what was started ends, in the order of the calls ---------------------------------------- */

static void what_was_started_goes_on_by_itself(void)
{
    struct nixl_team *team;
    struct nixl_req *reqs[N_STARTED] = {NULL};
    int64_t *values[N_STARTED];
    unsigned seed = 7;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    for (int i = 0; i < N_STARTED; i++) {
        struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
        int status;

        values[i] = calloc(N_VALUES, sizeof(int64_t));
        MPT_TRUE(values[i] != NULL);
        for (int k = 0; k < N_VALUES; k++) {
            values[i][k] = (int64_t)i * k + conf.rank;
        }
        args.src = args.dst = values[i];
        args.count = i % 2 == 0 ? N_VALUES : 1;
        args.type = NIXL_INT64;
        status = nixl_allreduce_nb(team, &args, &reqs[i]);
        MPT_STATUS(status, conf.size > 1 ? NIXL_INPROGRESS : NIXL_OK);
        memset(&args, 0xff, sizeof(args)); /* may be reused at once */
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE)); /* waits for them */
    for (int n = 0; n < N_STARTED; n++) {
        int i = (int)((seed = seed * 5 + 3) % N_STARTED); /* all, in a strange order */

        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
        MPT_TRUE(reqs[i] == NULL);
    }
    for (int i = 0; i < N_STARTED; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
        for (int k = 0; k < (i % 2 == 0 ? N_VALUES : 1); k++) {
            MPT_EQ(values[i][k], (int64_t)conf.size * i * k + conf.size * (conf.size - 1) / 2);
        }
        free(values[i]);
    }
    MPT_OK(nixl_team_free(team));
}

/* One after the other of all the calls, each with arrays that are gone when it runs. */
static void every_collective_can_be_started(void)
{
    size_t n = (size_t)conf.size, *sizes = calloc(2 * n, sizeof(size_t)), *offsets = sizes + n;
    int own = conf.rank, sum = -1, prefix = -1, *all = calloc(n, sizeof(int));
    int *swapped = calloc(n, sizeof(int)), *mine = calloc(n, sizeof(int));
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_vector_args vector = NIXL_VECTOR_ARGS_INIT;
    struct nixl_req *reqs[8] = {NULL};
    struct nixl_team *team;

    MPT_TRUE(sizes != NULL && all != NULL && swapped != NULL && mine != NULL);
    for (size_t i = 0; i < n; i++) {
        sizes[i] = sizeof(int);
        offsets[i] = i * sizeof(int);
        mine[i] = conf.rank * 100 + (int)i;
    }
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    args.src = &own;
    args.count = 1;
    args.type = NIXL_INT32;
    args.dst = &sum;
    MPT_TRUE(nixl_reduce_nb(team, 0, &args, &reqs[0]) >= 0);
    args.dst = &prefix;
    MPT_TRUE(nixl_scan_nb(team, &args, &reqs[1]) >= 0);
    vector.src = &own;
    vector.dst = all;
    vector.nbytes = sizeof(int);
    vector.dst_nbytes = sizes;
    vector.dst_offsets = offsets;
    MPT_TRUE(nixl_allgatherv_nb(team, &vector, &reqs[2]) >= 0);
    MPT_TRUE(nixl_alltoall_nb(team, mine, swapped, sizeof(int), &reqs[3]) >= 0);
    memset(sizes, 0xff, 2 * n * sizeof(size_t));
    MPT_TRUE(nixl_barrier_nb(team, &reqs[4]) >= 0);
    MPT_TRUE(nixl_broadcast_nb(team, 0, &own, 0, &reqs[5]) >= 0);
    for (int i = 0; i < 6; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
    MPT_EQ(prefix, conf.rank * (conf.rank + 1) / 2);
    MPT_EQ(sum, conf.rank == 0 ? conf.size * (conf.size - 1) / 2 : -1);
    for (int i = 0; i < conf.size; i++) {
        MPT_EQ(all[i], i);
        MPT_EQ(swapped[i], i * 100 + conf.rank);
    }
    MPT_STATUS(nixl_barrier_nb(team, NULL), NIXL_ERR_INVALID_ARG);
    MPT_STATUS(nixl_barrier_nb(NULL, &reqs[0]), NIXL_ERR_INVALID_ARG);
    MPT_OK(nixl_team_free(team));
    free(sizes);
    free(all);
    free(swapped);
    free(mine);
}

/* Teams of the same members whose collectives are started in different orders do not block. */
static void started_collectives_of_several_teams_do_not_wait_for_each_other(void)
{
    struct nixl_team *teams[2];
    struct nixl_req *reqs[2] = {NULL};

    MPT_OK(nixl_team_world(MPT_PATIENCE, &teams[0]));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &teams[1]));
    for (unsigned round = 0; round < conf_rounds(50); round++) {
        int first = conf.rank % 2;

        MPT_TRUE(nixl_barrier_nb(teams[first], &reqs[first]) >= 0);
        MPT_TRUE(nixl_barrier_nb(teams[1 - first], &reqs[1 - first]) >= 0);
        MPT_OK(nixl_req_wait(&reqs[0], MPT_PATIENCE));
        MPT_OK(nixl_req_wait(&reqs[1], MPT_PATIENCE));
    }
    MPT_OK(nixl_team_free(teams[0]));
    MPT_OK(nixl_team_free(teams[1]));
}

/* ---- broken teams ---------------------------------------------------------------------------- */

/*
 * A team that everybody has used. Who is through its barrier may break it while others are still in
 * there, and would hear of that: so all meet once more.
 */
static struct nixl_team *world_that_all_have(void)
{
    struct nixl_team *team;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    mpt_barrier();
    return team;
}

/* The team is broken for all, but its members are not lost: another one is made of them. */
static void check_broken(struct nixl_team *team)
{
    struct nixl_team *next;

    MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_ERR_CANCELED);
    MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &next));
    MPT_EQ(nixl_team_size(next), conf.size);
    MPT_OK(nixl_barrier(next, MPT_PATIENCE));
    MPT_OK(nixl_team_free(next));
    MPT_OK(nixl_team_free(team));
}

static void a_timeout_breaks_the_team_for_all(void)
{
    struct nixl_team *team = world_that_all_have();

    if (conf.rank == 0) { /* the others do not come */
        MPT_STATUS(nixl_barrier(team, MPT_MS), NIXL_ERR_TIMEOUT);
    }
    mpt_barrier();
    check_broken(team);
}

static void a_cancel_breaks_the_team_for_all(void)
{
    enum nixl_outcome outcome = NIXL_OUTCOME_DONE;
    struct nixl_req *req = NULL;
    struct nixl_team *team = world_that_all_have();

    if (conf.rank == 0) {
        MPT_STATUS(nixl_barrier_nb(team, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        MPT_EQ(outcome, NIXL_OUTCOME_PARTIAL);
        MPT_TRUE(req == NULL);
    } else if (conf.rank > 1 && conf.rank == conf.size - 1) { /* rank 1 never comes */
        MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_ERR_CANCELED);
    }
    mpt_barrier();
    check_broken(team);
}

static void a_team_is_given_back_with_requests(void)
{
    struct nixl_req *req = NULL;
    struct nixl_team *team = world_that_all_have();

    if (conf.rank == 0) { /* nobody else comes */
        MPT_STATUS(nixl_barrier_nb(team, &req), NIXL_INPROGRESS);
    }
    MPT_OK(nixl_team_free(team));
    if (conf.rank == 0) {
        MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_ERR_CANCELED);
    }
}

const struct guarantee conf_later[] = {
    {"collective", NULL, 0},
    {"what_was_started_goes_on_by_itself", what_was_started_goes_on_by_itself, 0},
    {"every_collective_can_be_started", every_collective_can_be_started, 0},
    {"started_collectives_of_several_teams_do_not_wait_for_each_other",
     started_collectives_of_several_teams_do_not_wait_for_each_other, 0},
    {"a_timeout_breaks_the_team_for_all", a_timeout_breaks_the_team_for_all, CONF_PEERS},
    {"a_cancel_breaks_the_team_for_all", a_cancel_breaks_the_team_for_all, CONF_PEERS},
    {"a_team_is_given_back_with_requests", a_team_is_given_back_with_requests, CONF_PEERS},
    {0},
};
