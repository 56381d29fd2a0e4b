/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on teams: their members, their team ranks, and that they do not disturb each other. */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every member says its rank: the team is the one that was asked for. */
static void check_members(struct nixl_team *team, const int *ranks, int size, int me)
{
    int *told = calloc((size_t)size, sizeof(int));
    int own = conf.rank;

    MPT_TRUE(told != NULL);
    MPT_EQ(nixl_team_size(team), size);
    MPT_EQ(nixl_team_rank(team), me);
    MPT_OK(nixl_allgather(team, &own, told, sizeof(own), MPT_PATIENCE));
    for (int i = 0; i < size; i++) {
        MPT_EQ(told[i], ranks[i]);
        MPT_EQ(nixl_team_translate(team, i, NULL), ranks[i]);
        MPT_EQ(nixl_team_translate(NULL, ranks[i], team), i);
    }
    free(told);
}

static void teams_have_the_members_that_were_asked_for(void)
{
    int ranks[64] = {0}, n = 0, odd = conf.rank % 2, me = -1;
    struct nixl_team *world, *team;

    MPT_TRUE(conf.size <= 64);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    for (int i = 0; i < conf.size; i++) {
        ranks[i] = i;
    }
    check_members(world, ranks, conf.size, conf.rank);

    /* All, in reverse. */
    for (int i = 0; i < conf.size; i++) {
        ranks[i] = conf.size - 1 - i;
    }
    MPT_OK(nixl_team_create(ranks, (size_t)conf.size, MPT_PATIENCE, &team));
    check_members(team, ranks, conf.size, conf.size - 1 - conf.rank);
    MPT_EQ(nixl_team_translate(world, 0, team), conf.size - 1);
    MPT_OK(nixl_team_free(team));

    /* Odd and even ranks side by side. */
    for (int i = odd; i < conf.size; i += 2) {
        me = i == conf.rank ? n : me;
        ranks[n++] = i;
    }
    MPT_OK(nixl_team_strided(odd, 2, (size_t)n, MPT_PATIENCE, &team));
    check_members(team, ranks, n, me);
    if (conf.size > 1) {
        MPT_EQ(nixl_team_translate(world, 1 - odd, team), NIXL_E_NOT_FOUND);
    }
    MPT_OK(nixl_team_free(team));
    MPT_OK(nixl_team_free(world));
}

static void a_team_is_divided_by_color_and_key(void)
{
    struct nixl_team *world, *team, *half;
    int ranks[64] = {0}, n = 0, me = -1, mine = conf.rank % 2;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    /* Keys fall: team ranks are in reverse. */
    MPT_OK(nixl_team_split(world, mine, -conf.rank, MPT_PATIENCE, &team));
    for (int i = conf.size - 1; i >= 0; i--) {
        if (i % 2 == mine) {
            me = i == conf.rank ? n : me;
            ranks[n++] = i;
        }
    }
    check_members(team, ranks, n, me);

    /* Equal keys: by team rank. The first of each is left out. */
    MPT_OK(nixl_team_split(team, me == 0 ? NIXL_NO_COLOR : 7, 3, MPT_PATIENCE, &half));
    if (me == 0) {
        MPT_TRUE(half == NULL);
    } else {
        check_members(half, ranks + 1, n - 1, me - 1);
        MPT_OK(nixl_team_free(half));
    }
    MPT_OK(nixl_team_free(team));
    MPT_OK(nixl_team_free(world));
}

static void a_node_team_has_the_ranks_of_this_host(void)
{
    int ranks[64] = {0}, n = 0, me = -1;
    struct nixl_team *team;

    for (int i = 0; i < conf.size; i++) {
        if (mpt_scope(i) != NIXL_SCOPE_REMOTE) {
            me = i == conf.rank ? n : me;
            ranks[n++] = i;
        }
    }
    MPT_OK(nixl_team_node(MPT_PATIENCE, &team));
    check_members(team, ranks, n, me);
    MPT_OK(nixl_team_free(team));
}

static void a_team_without_a_loss_shrinks_to_itself(void)
{
    struct nixl_team *world, *first, *second;
    int ranks[64] = {0};

    for (int i = 0; i < conf.size; i++) {
        ranks[i] = i;
    }
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    MPT_OK(nixl_team_shrink(world, MPT_PATIENCE, &first));
    MPT_OK(nixl_team_shrink(first, MPT_PATIENCE, &second));
    check_members(second, ranks, conf.size, conf.rank);
    check_members(first, ranks, conf.size, conf.rank);
    MPT_OK(nixl_team_free(first));
    MPT_OK(nixl_team_free(second));
    MPT_OK(nixl_team_free(world));
}

static void a_reformed_team_is_one_of_the_processes_named(void)
{
    struct nixl_team *first, *second;
    int ranks[64] = {0};

    for (int i = 0; i < conf.size; i++) {
        ranks[i] = conf.size - 1 - i;
    }
    MPT_OK(nixl_team_reform(ranks, (size_t)conf.size, MPT_PATIENCE, &first));
    check_members(first, ranks, conf.size, conf.size - 1 - conf.rank);
    /* The same processes again: another team. */
    MPT_OK(nixl_team_reform(ranks, (size_t)conf.size, NIXL_FOREVER, &second));
    check_members(second, ranks, conf.size, conf.size - 1 - conf.rank);
    MPT_OK(nixl_team_free(first));
    check_members(second, ranks, conf.size, conf.size - 1 - conf.rank);
    MPT_OK(nixl_team_free(second));
}

static void many_teams_come_and_go(void)
{
    struct nixl_team *teams[3];
    unsigned n = conf_rounds(100);

    for (unsigned round = 0; round < n; round++) {
        MPT_OK(nixl_team_world(MPT_PATIENCE, &teams[round % 3]));
        MPT_OK(nixl_barrier(teams[round % 3], MPT_PATIENCE));
        if (round % 3 == 2) {
            for (int i = 0; i < 3; i++) {
                MPT_OK(nixl_barrier(teams[i], MPT_PATIENCE));
                MPT_OK(nixl_team_free(teams[i]));
            }
        }
    }
    for (unsigned i = 0; i < n % 3; i++) {
        MPT_OK(nixl_team_free(teams[i]));
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *sum_again_and_again(void *arg)
{
    struct nixl_team *team = arg;
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    unsigned n = conf_rounds(300);
    uint64_t sum;

    args.src = args.dst = &sum;
    args.count = 1;
    args.type = NIXL_TYPE_UINT64;
    for (unsigned round = 0; round < n; round++) {
        sum = round;
        MPT_OK(nixl_allreduce(team, &args, MPT_PATIENCE));
        MPT_EQ(sum, (uint64_t)round * (uint64_t)conf.size);
    }
    return NULL;
}

static void teams_run_side_by_side(void)
{
    struct nixl_team *teams[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        MPT_OK(nixl_team_world(MPT_PATIENCE, &teams[i]));
    }
    for (int i = 0; i < 3; i++) {
        MPT_EQ(pthread_create(&threads[i], NULL, sum_again_and_again, teams[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        MPT_EQ(pthread_join(threads[i], NULL), 0);
        MPT_OK(nixl_team_free(teams[i]));
    }
}

/* Each in a thread of its own, from the making to the end: all ranks but one. */
static void *work_without_one(void *arg)
{
    int without = *(const int *)arg, ranks[64] = {0}, n = 0;
    struct nixl_team *team;

    for (int rank = 0; rank < conf.size; rank++) {
        if (rank != without) {
            ranks[n++] = rank;
        }
    }
    for (unsigned round = 0; round < conf_rounds(10); round++) {
        MPT_OK(nixl_team_create(ranks, (size_t)n, MPT_PATIENCE, &team));
        for (int root = 0; root < n; root++) {
            char bytes[3000];

            memset(bytes, ranks[root] == conf.rank ? root + 1 : 0, sizeof(bytes));
            MPT_OK(nixl_broadcast(team, root, bytes, sizeof(bytes), MPT_PATIENCE));
            MPT_CHECK_BYTES(bytes, sizeof(bytes), root + 1);
            MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        }
        MPT_OK(nixl_team_free(team));
    }
    return NULL;
}

static void teams_that_overlap_run_side_by_side(void)
{
    pthread_t threads[64];
    int without[64];

    MPT_TRUE(conf.size <= 64);
    for (int i = 0; i < conf.size; i++) {
        without[i] = i;
        if (i != conf.rank) {
            MPT_EQ(pthread_create(&threads[i], NULL, work_without_one, &without[i]), 0);
        }
    }
    for (int i = 0; i < conf.size; i++) {
        if (i != conf.rank) {
            MPT_EQ(pthread_join(threads[i], NULL), 0);
        }
    }
}

/* ---- waiting for members --------------------------------------------------------------------- */

/* Some members start a request, some ask again and again, some wait. */
static struct nixl_team *make_in_own_way(void)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_team *team = NULL;
    struct nixl_req *req;
    int status = NIXL_INPROGRESS;

    if (conf.rank % 3 == 0) {
        MPT_STATUS(nixl_team_world_x(NULL, &team, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    } else if (conf.rank % 3 == 1) {
        while ((status = nixl_team_world(0, &team)) == NIXL_INPROGRESS) {
            MPT_LT(mpt_now_ns(), end_ns);
        }
        MPT_OK(status);
    } else {
        MPT_OK(nixl_team_world(NIXL_FOREVER, &team));
    }
    return team;
}

static struct nixl_team *divide_in_own_way(struct nixl_team *world)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int color = conf.rank % 2, status = NIXL_INPROGRESS;
    struct nixl_team *team = NULL;
    struct nixl_req *req;

    if (conf.rank % 3 == 0) {
        MPT_STATUS(nixl_team_split_x(world, color, 0, NULL, &team, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    } else if (conf.rank % 3 == 1) {
        while ((status = nixl_team_split(world, color, 0, 0, &team)) == NIXL_INPROGRESS) {
            MPT_LT(mpt_now_ns(), end_ns);
        }
        MPT_OK(status);
    } else {
        MPT_OK(nixl_team_split(world, color, 0, NIXL_FOREVER, &team));
    }
    return team;
}

static void members_divide_each_in_its_own_way(void)
{
    struct nixl_team *world = make_in_own_way();

    for (int i = 0; i < 3; i++) {
        struct nixl_team *team = divide_in_own_way(world);

        MPT_EQ(nixl_team_size(team), (conf.size + 1 - conf.rank % 2) / 2);
        MPT_OK(nixl_barrier(world, MPT_PATIENCE)); /* what divides a team leaves it as it is */
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        MPT_OK(nixl_team_free(team));
    }
    MPT_OK(nixl_team_free(world));
}

static void members_wait_each_in_its_own_way(void)
{
    for (int i = 0; i < 3; i++) {
        struct nixl_team *team = make_in_own_way();

        MPT_EQ(nixl_team_size(team), conf.size);
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        MPT_OK(nixl_team_free(team));
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The pages of all shared memory that this rank has made and not closed. */
static uint64_t count_shared_nbytes(void)
{
    struct rlimit limit;
    uint64_t nbytes = 0;

    MPT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int fd = 0; fd < (int)limit.rlim_cur && fd < 4096; fd++) {
        char link[32], name[64] = "";
        struct stat info;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, "nixlrun-region") != NULL &&
            fstat(fd, &info) == 0) {
            nbytes += (uint64_t)info.st_blocks * 512;
        }
    }
    return nbytes;
}

/* The large buffers of teams appear when they are used, also where others have mapped them. */
static void a_team_takes_little_memory_before_it_is_used(void)
{
    struct nixl_team *teams[50];
    uint64_t before = count_shared_nbytes(), now;
    const size_t n = sizeof(teams) / sizeof(teams[0]);

    for (size_t i = 0; i < n; i++) {
        MPT_OK(nixl_team_world(MPT_PATIENCE, &teams[i]));
    }
    for (size_t i = 0; i < n; i++) {
        MPT_OK(nixl_barrier(teams[i], MPT_PATIENCE));
    }
    now = count_shared_nbytes();
    if (now > before + n * ((size_t)100 << 10)) {
        mpt_fail(__FILE__, __LINE__, "%zu teams take %llu KiB, each of them %llu; allowed: 100", n,
                 (unsigned long long)(now - before) >> 10,
                 (unsigned long long)(now - before) / n >> 10);
    }
    for (size_t i = 0; i < n; i++) {
        MPT_OK(nixl_team_free(teams[i]));
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void wrong_ranks_make_no_team(void)
{
    int ranks[] = {conf.rank, conf.rank, conf.size};
    struct nixl_team *team = NULL, *world;
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_team_world(MPT_PATIENCE, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_world(-1, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_world_x(NULL, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create_x(ranks, 2, NULL, &team, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_node(-1, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_node(MPT_PATIENCE, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create(NULL, 1, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create(ranks, 0, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create(ranks, 2, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create(ranks + 2, 1, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create(ranks, SIZE_MAX, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_strided(0, -1, 2, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_strided(0, 1, SIZE_MAX, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(NULL, 1, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(ranks, 0, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(ranks, 2, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(ranks + 2, 1, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(ranks, SIZE_MAX, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(ranks, 1, 0, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(ranks, 1, -1, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform(ranks, 1, MPT_PATIENCE, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_reform_x(ranks, 2, NULL, &team, &req), NIXL_E_INVALID_ARG);
    if (conf.size > 1) {
        ranks[0] = conf.next;
        MPT_STATUS(nixl_team_reform(ranks, 1, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_team_create(ranks, 1, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    }
    MPT_TRUE(team == NULL);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    MPT_STATUS(nixl_team_split(world, -2, 0, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_split(world, 0, 0, MPT_PATIENCE, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_split(NULL, 0, 0, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_shrink(NULL, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_shrink(world, -1, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_split_x(world, -2, 0, NULL, &team, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_split_x(world, 0, 0, NULL, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_TRUE(team == NULL && req == NULL);
    MPT_STATUS(nixl_team_free(NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_team_size(NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_team_rank(NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_team_translate(world, conf.size, NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_team_translate(world, -1, NULL), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    MPT_OK(nixl_team_free(world));
    MPT_EQ(nixl_team_size(world), NIXL_E_INVALID_ARG);
}

const struct guarantee conf_team[] = {
    {"team", NULL, 0},
    {"teams_have_the_members_that_were_asked_for", teams_have_the_members_that_were_asked_for, 0},
    {"a_team_is_divided_by_color_and_key", a_team_is_divided_by_color_and_key, 0},
    {"a_node_team_has_the_ranks_of_this_host", a_node_team_has_the_ranks_of_this_host, 0},
    {"a_reformed_team_is_one_of_the_processes_named", a_reformed_team_is_one_of_the_processes_named,
     0},
    {"a_team_without_a_loss_shrinks_to_itself", a_team_without_a_loss_shrinks_to_itself, 0},
    {"many_teams_come_and_go", many_teams_come_and_go, 0},
    {"teams_run_side_by_side", teams_run_side_by_side, CONF_THREADS},
    {"teams_that_overlap_run_side_by_side", teams_that_overlap_run_side_by_side, CONF_THREADS},
    {"members_wait_each_in_its_own_way", members_wait_each_in_its_own_way, 0},
    {"members_divide_each_in_its_own_way", members_divide_each_in_its_own_way, 0},
    {"a_team_takes_little_memory_before_it_is_used", a_team_takes_little_memory_before_it_is_used,
     0},
    {"wrong_ranks_make_no_team", wrong_ranks_make_no_team, 0},
    {0},
};
