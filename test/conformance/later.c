/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on collectives that are started and waited for later, and on teams that are broken. */
#include "conformance.h"

#include <stdio.h>
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
        args.type = NIXL_TYPE_INT64;
        status = nixl_allreduce_x(team, &args, NULL, &reqs[i]);
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

/* A collective and its buffers. Word k of member i's piece for member j is i * 1000 + j + k. */
struct started {
    enum mpt_collective which;
    struct mpt_call call;
    int32_t *src, *dst;
    struct nixl_req *req;
};

static void start(struct started *started, enum mpt_collective which, struct nixl_team *team,
                  size_t nbytes)
{
    size_t n_words = nbytes / sizeof(int32_t), n = (size_t)conf.size;
    int root = (int)which % conf.size;

    *started = (struct started){.which = which};
    started->src = malloc(n * nbytes);
    started->dst = calloc(n, nbytes);
    MPT_TRUE(started->src != NULL && started->dst != NULL);
    for (size_t i = 0; i < n * n_words; i++) {
        started->src[i] = (int32_t)((size_t)conf.rank * 1000 + i / n_words + i % n_words);
    }
    if (which == MPT_BROADCAST && conf.rank == root) {
        memcpy(started->dst, started->src, nbytes);
    }
    started->call = (struct mpt_call){team, root, started->src, started->dst, nbytes, NULL};
    MPT_STATUS(mpt_collective(which, &started->call, &started->req),
               conf.size > 1 ? NIXL_INPROGRESS : NIXL_OK);
}

/* How many pieces this member gets. */
static int n_pieces(const struct started *started)
{
    switch (started->which) {
    case MPT_BARRIER:
        return 0;
    case MPT_GATHER:
    case MPT_GATHERV:
        return conf.rank == started->call.root ? conf.size : 0;
    case MPT_ALLGATHER:
    case MPT_ALLGATHERV:
    case MPT_ALLTOALL:
    case MPT_ALLTOALLV:
        return conf.size;
    case MPT_REDUCE:
        return conf.rank == started->call.root;
    default:
        return 1;
    }
}

/* The first word of a piece; in a sum of `n_summed` members the next ones grow by so many. */
static int first_word(const struct started *started, int piece, int *n_summed)
{
    int n = conf.size;

    *n_summed = 1;
    switch (started->which) {
    case MPT_BROADCAST:
        return started->call.root * 1000;
    case MPT_SCATTER:
    case MPT_SCATTERV:
        return started->call.root * 1000 + conf.rank;
    case MPT_GATHER:
    case MPT_GATHERV:
    case MPT_ALLGATHER:
    case MPT_ALLGATHERV:
        return piece * 1000;
    case MPT_ALLTOALL:
    case MPT_ALLTOALLV:
        return piece * 1000 + conf.rank;
    default:
        *n_summed = started->which == MPT_SCAN ? conf.rank + 1 : n;
        return *n_summed * (*n_summed - 1) / 2 * 1000 +
               (started->which == MPT_REDUCE_SCATTER ? n * conf.rank : 0);
    }
}

static void end(struct started *started)
{
    size_t n_words = started->call.nbytes / sizeof(int32_t);

    MPT_OK(nixl_req_wait(&started->req, MPT_PATIENCE));
    for (int piece = 0; piece < n_pieces(started); piece++) {
        int n_summed, first = first_word(started, piece, &n_summed);

        for (size_t k = 0; k < n_words; k++) {
            int32_t word = started->dst[(size_t)piece * n_words + k];

            if (word != first + n_summed * (int)k) {
                mpt_fail(__FILE__, __LINE__, "collective %d of %zu bytes: word %zu of %d is %d",
                         (int)started->which, started->call.nbytes, k, piece, (int)word);
            }
        }
    }
    free(started->src);
    free(started->dst);
}

/* One after the other of all the calls, each with arrays that are gone when it runs. */
static void every_collective_can_be_started(void)
{
    static const size_t sizes[] = {4, 4000, 400000};
    struct started started[MPT_N_COLLECTIVES];
    struct nixl_req *req = NULL;
    struct nixl_team *team;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int which = 0; which < MPT_N_COLLECTIVES; which++) {
            start(&started[which], (enum mpt_collective)which, team, sizes[i]);
        }
        for (int which = MPT_N_COLLECTIVES - 1; which >= 0; which--) {
            end(&started[which]);
        }
    }
    MPT_TRUE(nixl_broadcast_x(team, 0, NULL, 0, NULL, &req) >= 0);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_STATUS(nixl_barrier_x(NULL, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_team_free(team));
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

        MPT_TRUE(nixl_barrier_x(teams[first], NULL, &reqs[first]) >= 0);
        MPT_TRUE(nixl_barrier_x(teams[1 - first], NULL, &reqs[1 - first]) >= 0);
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

    MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_E_CANCELED);
    MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &next));
    MPT_EQ(nixl_team_size(next), conf.size);
    MPT_OK(nixl_barrier(next, MPT_PATIENCE));
    MPT_OK(nixl_team_free(next));
    MPT_OK(nixl_team_free(team));
}

/* Rank 0 waits, and no other comes. It cannot tell how far those on other hosts are. */
static void check_who_is_late(const char *text)
{
    MPT_TRUE(strncmp(text, "timed out in nixl_barrier waiting for rank", 42) == 0);
    for (int rank = 1; rank < conf.size; rank++) {
        char in_front[16], at_end[16];

        snprintf(in_front, sizeof(in_front), " %d,", rank);
        snprintf(at_end, sizeof(at_end), " %d;", rank);
        MPT_EQ(strstr(text, in_front) != NULL || strstr(text, at_end) != NULL,
               nixl_scope(rank) == NIXL_SCOPE_LOCAL);
    }
}

static void a_timeout_breaks_the_team_for_all(void)
{
    struct nixl_team *team = world_that_all_have();

    if (conf.rank == 0) { /* the others do not come */
        MPT_STATUS(nixl_barrier(team, MPT_MS), NIXL_E_TIMEOUT);
        check_who_is_late(nixl_last_error()->text);
    }
    mpt_barrier();
    check_broken(team);
}

/* What was started holds up a call, which does nothing itself, but fails as if it had begun. */
static void a_timeout_behind_what_was_started_breaks_the_team_for_all(void)
{
    struct nixl_req *req = NULL;
    struct nixl_team *team = world_that_all_have();

    if (conf.rank == 0) {
        MPT_STATUS(nixl_barrier_x(team, NULL, &req), NIXL_INPROGRESS);
        MPT_STATUS(nixl_barrier(team, MPT_MS), NIXL_E_TIMEOUT);
        MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    } else if (conf.rank > 1 && conf.rank == conf.size - 1) { /* rank 1 never comes */
        MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_E_CANCELED);
    }
    mpt_barrier();
    check_broken(team);
}

static void a_cancel_breaks_the_team_for_all(void)
{
    int32_t outcome = NIXL_OUTCOME_DONE;
    struct nixl_req *req = NULL;
    struct nixl_team *team = world_that_all_have();

    if (conf.rank == 0) {
        MPT_STATUS(nixl_barrier_x(team, NULL, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        MPT_EQ(outcome, NIXL_OUTCOME_PARTIAL);
        MPT_TRUE(req == NULL);
    } else if (conf.rank > 1 && conf.rank == conf.size - 1) { /* rank 1 never comes */
        MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_E_CANCELED);
    }
    mpt_barrier();
    check_broken(team);
}

static void a_team_is_given_back_with_requests(void)
{
    struct nixl_req *req = NULL;
    struct nixl_team *team = world_that_all_have();

    if (conf.rank == 0) { /* no other member calls */
        MPT_STATUS(nixl_barrier_x(team, NULL, &req), NIXL_INPROGRESS);
    }
    MPT_OK(nixl_team_free(team));
    if (conf.rank == 0) {
        MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    }
}

const struct guarantee conf_later[] = {
    {"collective", NULL, 0},
    {"what_was_started_goes_on_by_itself", what_was_started_goes_on_by_itself, 0},
    {"every_collective_can_be_started", every_collective_can_be_started, 0},
    {"started_collectives_of_several_teams_do_not_wait_for_each_other",
     started_collectives_of_several_teams_do_not_wait_for_each_other, 0},
    {"a_timeout_breaks_the_team_for_all", a_timeout_breaks_the_team_for_all, CONF_PEERS},
    {"a_timeout_behind_what_was_started_breaks_the_team_for_all",
     a_timeout_behind_what_was_started_breaks_the_team_for_all, CONF_PEERS},
    {"a_cancel_breaks_the_team_for_all", a_cancel_breaks_the_team_for_all, CONF_PEERS},
    {"a_team_is_given_back_with_requests", a_team_is_given_back_with_requests, CONF_PEERS},
    {0},
};
