/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team whose members call at different times. One that has waited in vain calls again, and goes
 * on where it was; the last rank comes late each time. With "fail N" no team is made of these N
 * ranks, because the last one has another table of algorithms.
 */
#define _GNU_SOURCE /* gettid */
#include "test/net/bed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHORT_NS (50 * MPT_MS)

static int late; /* the last rank to call */

/* The others have given up waiting, or are at it; only then the late one comes. */
static void come_late(const char *name)
{
    if (nixl_rank() != late) {
        bed_mark(name, nixl_rank());
        return;
    }
    for (int rank = 0; rank < late; rank++) {
        bed_await_mark(name, rank);
    }
}

/* Ask again and again, without waiting, for what ends between two calls. */
static int poll_split(struct nixl_team *from, int color, struct nixl_team **team_p)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int status;

    do {
        MPT_LT(mpt_now_ns(), end_ns);
        status = nixl_team_split(from, color, 0, 0, team_p);
    } while (status == NIXL_INPROGRESS);
    return status;
}

static int poll_world(struct nixl_team **team_p)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int status;

    do {
        MPT_LT(mpt_now_ns(), end_ns);
        status = nixl_team_world(0, team_p);
    } while (status == NIXL_INPROGRESS);
    return status;
}

static void use(struct nixl_team *team, int size)
{
    MPT_EQ(nixl_team_size(team), size);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
}

static void call_again(void)
{
    struct nixl_team *team = NULL;

    if (nixl_rank() != late) {
        MPT_STATUS(nixl_team_world(SHORT_NS, &team), NIXL_E_TIMEOUT);
        MPT_STATUS(nixl_team_world(SHORT_NS, &team), NIXL_E_TIMEOUT);
    }
    come_late("again");
    MPT_OK(nixl_team_world(nixl_rank() == 0 ? NIXL_FOREVER : MPT_PATIENCE, &team));
    use(team, nixl_size());
}

static void poll(void)
{
    struct nixl_team *team = NULL;

    if (nixl_rank() != late) {
        MPT_STATUS(nixl_team_world(0, &team), NIXL_INPROGRESS);
    }
    come_late("poll");
    MPT_OK(poll_world(&team));
    use(team, nixl_size());
}

/* One member timed out, and another did not: also then they meet, in either form. */
static void mix_forms(void)
{
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;

    if (nixl_rank() == 0) {
        MPT_STATUS(nixl_team_world_x(NULL, &team, &req), NIXL_INPROGRESS);
        MPT_STATUS(nixl_req_test(&req), NIXL_INPROGRESS);
        MPT_STATUS(nixl_team_world(SHORT_NS, &team), NIXL_E_IN_USE);
    } else if (nixl_rank() != late) {
        MPT_STATUS(nixl_team_world(SHORT_NS, &team), NIXL_E_TIMEOUT);
    }
    come_late("mix");
    if (nixl_rank() == 0) {
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    } else {
        MPT_OK(nixl_team_world(NIXL_FOREVER, &team));
    }
    use(team, nixl_size());
}

static void cancel_one(void)
{
    const int ranks[] = {late, 0};
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;

    if (nixl_rank() == 0) {
        MPT_STATUS(nixl_team_create_x(ranks, 2, NULL, &team, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
        MPT_TRUE(team == NULL);
    }
    come_late("cancel");
    if (nixl_rank() == 0 || nixl_rank() == late) {
        MPT_OK(nixl_team_create(ranks, 2, MPT_PATIENCE, &team));
        MPT_EQ(nixl_team_rank(team), nixl_rank() == late ? 0 : 1);
        use(team, 2);
    }
}

static void make_node_later(void)
{
    struct nixl_team *team = NULL;

    if (nixl_rank() != late) {
        MPT_STATUS(nixl_team_node(SHORT_NS, &team), NIXL_E_TIMEOUT);
    }
    come_late("node");
    MPT_OK(nixl_team_node(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
}

/* Dividing a team goes on, too: as long as it is the same choice, and beside its collectives. */
static void split_later(void)
{
    struct nixl_team *world = NULL, *team = NULL;
    struct nixl_req *req = NULL;
    int color = nixl_rank() % 2;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    if (nixl_rank() != late) {
        MPT_STATUS(nixl_team_split(world, color, 1, 0, &team), NIXL_INPROGRESS);
        MPT_STATUS(nixl_team_split(world, color, 1, SHORT_NS, &team), NIXL_E_TIMEOUT);
        MPT_STATUS(nixl_team_split(world, color + 1, 1, SHORT_NS, &team), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_team_split(world, color, 0, SHORT_NS, &team), NIXL_E_INVALID_ARG);
    }
    MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    if (nixl_rank() == 0) {
        MPT_STATUS(nixl_team_split_x(world, color, 1, NULL, &team, &req), NIXL_INPROGRESS);
        MPT_STATUS(nixl_team_split(world, color, 1, SHORT_NS, &team), NIXL_E_IN_USE);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
        MPT_STATUS(nixl_team_split_x(world, color, 1, NULL, &team, &req), NIXL_INPROGRESS);
    }
    come_late("split");
    if (nixl_rank() == 0) {
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    } else {
        MPT_OK(nixl_team_split(world, color, 1, MPT_PATIENCE, &team));
    }
    use(team, (nixl_size() + 1 - color) / 2);
    use(world, nixl_size());
}

/* Who is in none of the new teams learns that, too, however late it asks. */
static void split_without(void)
{
    struct nixl_team *world = NULL, *team = NULL, *none;
    bool is_in = nixl_rank() != 0;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    for (int i = 0; i < 3; i++) {
        none = world;
        if (is_in) {
            MPT_OK(nixl_team_split(world, 1, 0, MPT_PATIENCE, &team));
            use(team, nixl_size() - 1);
        } else if (i == 2) { /* it gives the team back, and never learns */
            MPT_GE(nixl_team_split(world, NIXL_NO_COLOR, 0, 0, &none), NIXL_OK);
        } else {
            MPT_OK(poll_split(world, NIXL_NO_COLOR, &none));
            MPT_TRUE(none == NULL);
        }
    }
    MPT_OK(nixl_team_free(world));
}

/* What a thread waits for without a limit: a split of `from`, or the team of all ranks. */
struct waiter {
    struct nixl_team *from, *team;
    atomic_int tid;
};

static void *wait_for_team(void *arg)
{
    struct waiter *waiter = arg;
    int status;

    atomic_store(&waiter->tid, gettid());
    do {
        status = waiter->from != NULL
                     ? nixl_team_split(waiter->from, 0, 0, NIXL_FOREVER, &waiter->team)
                     : nixl_team_world(NIXL_FOREVER, &waiter->team);
    } while (status == NIXL_E_IN_USE); /* the other thread was just asking */
    MPT_OK(status);
    return NULL;
}

/* While one thread waits, another one gets nothing, and leaves it alone. */
static void ask_beside(const struct waiter *waiter)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_team *team = NULL;
    int status;

    while (atomic_load(&waiter->tid) == 0) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
    mpt_bring(atomic_load(&waiter->tid), 0, "S"); /* it has begun to wait */
    do {
        MPT_LT(mpt_now_ns(), end_ns);
        status = waiter->from != NULL ? nixl_team_split(waiter->from, 0, 0, 0, &team)
                                      : nixl_team_world(0, &team);
    } while (status == NIXL_INPROGRESS); /* the thread sleeps somewhere before */
    MPT_STATUS(status, NIXL_E_IN_USE);
    MPT_STATUS(waiter->from != NULL ? nixl_team_split(waiter->from, 0, 0, NIXL_FOREVER, &team)
                                    : nixl_team_world(NIXL_FOREVER, &team),
               NIXL_E_IN_USE);
    MPT_TRUE(team == NULL);
}

static void wait_in_two_threads(const char *name, struct nixl_team *from)
{
    struct waiter waiter = {.from = from};
    pthread_t thread;

    if (nixl_rank() == 0) {
        MPT_EQ(pthread_create(&thread, NULL, wait_for_team, &waiter), 0);
        ask_beside(&waiter);
    }
    come_late(name);
    if (nixl_rank() == 0) {
        MPT_EQ(pthread_join(thread, NULL), 0);
    } else {
        MPT_OK(from != NULL ? nixl_team_split(from, 0, 0, MPT_PATIENCE, &waiter.team)
                            : nixl_team_world(MPT_PATIENCE, &waiter.team));
    }
    use(waiter.team, nixl_size());
}

/* Another such team can be made after that: all members have made as many calls. */
static void make_in_two_threads(void)
{
    struct nixl_team *world = NULL, *team = NULL;

    wait_in_two_threads("threads", NULL);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    wait_in_two_threads("split_threads", world);
    MPT_OK(nixl_team_split(world, 0, 0, MPT_PATIENCE, &team));
    use(team, nixl_size());
    use(world, nixl_size());
}

/* A team that is broken can be divided, where its members live. */
static void split_broken(void)
{
    struct nixl_team *world = NULL, *team = NULL;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    if (nixl_rank() != late) {
        MPT_NE(nixl_barrier(world, SHORT_NS), NIXL_OK);
    }
    come_late("broken");
    MPT_STATUS(nixl_barrier(world, MPT_PATIENCE), NIXL_E_CANCELED);
    for (int i = 0; i < 2; i++) {
        MPT_OK(nixl_team_split(world, 0, 0, MPT_PATIENCE, &team));
        use(team, nixl_size());
    }
    MPT_OK(nixl_team_free(world));
}

/* A team that is divided in the background is given back: the others get what they want. */
static void free_divided(void)
{
    struct nixl_team *world = NULL, *team = NULL;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    if (nixl_rank() != late) {
        MPT_STATUS(nixl_team_split(world, 0, 0, 0, &team), NIXL_INPROGRESS);
        MPT_OK(nixl_team_free(world));
        MPT_STATUS(nixl_team_split(world, 0, 0, 0, &team), NIXL_E_INVALID_ARG);
    }
    come_late("divided");
    if (nixl_rank() == late) {
        MPT_OK(nixl_team_split(world, 0, 0, MPT_PATIENCE, &team));
        MPT_EQ(nixl_team_size(team), nixl_size());
        MPT_OK(nixl_team_free(team));
        MPT_OK(nixl_team_free(world));
    }
}

static void shrink_later(void)
{
    struct nixl_team *team = NULL, *same = NULL;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    if (nixl_rank() != late) {
        MPT_STATUS(nixl_team_shrink(team, 0, &same), NIXL_INPROGRESS);
        MPT_STATUS(nixl_team_shrink(team, SHORT_NS, &same), NIXL_E_TIMEOUT);
    }
    come_late("shrink");
    MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &same));
    use(same, nixl_size());
    MPT_OK(nixl_team_free(team));
}

/* Two teams of the same ranks are two teams. */
static void make_two(void)
{
    struct nixl_team *first, *second;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &first));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &second));
    MPT_TRUE(first != second);
    MPT_OK(nixl_barrier(second, MPT_PATIENCE));
    MPT_OK(nixl_barrier(first, MPT_PATIENCE));
    MPT_OK(nixl_team_free(first));
    use(second, nixl_size());
}

static void refuse(void)
{
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;
    int self = nixl_rank();

    MPT_STATUS(nixl_team_world(-1, &team), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_world_x(NULL, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create_x(NULL, 1, NULL, &team, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_create_x(&self, 0, NULL, &team, &req), NIXL_E_INVALID_ARG);
    MPT_TRUE(team == NULL && req == NULL);
}

/* No other member calls: neither the request nor the thread behind it outlives the rank. */
static void leave_unfinished(void)
{
    const int ranks[] = {0, late};
    static struct nixl_team *team;
    struct nixl_req *req = NULL;

    if (nixl_rank() == 0) {
        MPT_STATUS(nixl_team_create_x(ranks, 2, NULL, &team, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_detach(&req));
    }
    if (nixl_rank() == late) {
        MPT_STATUS(nixl_team_world(0, &team), NIXL_INPROGRESS);
    }
}

static void hear_other_table(int status)
{
    MPT_STATUS(status, NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_last_error()->rank, late);
    MPT_HAS("NIXLRUN_COLL_TABLE");
}

/* The late one has another table: who asks only when the others have heard so hears it, too. */
static void fail_later(void)
{
    struct nixl_team *team = NULL;

    if (nixl_rank() == 0) {
        MPT_STATUS(nixl_team_world(0, &team), NIXL_INPROGRESS);
    }
    come_late("fail");
    if (nixl_rank() != 0) {
        hear_other_table(nixl_team_world(NIXL_FOREVER, &team));
    }
    bed_meet("failed");
    if (nixl_rank() == 0) {
        hear_other_table(poll_world(&team));
    }
    hear_other_table(nixl_team_world(MPT_PATIENCE, &team)); /* all have made as many calls */
    MPT_TRUE(team == NULL);
}

static void try_all(void)
{
    refuse();
    call_again();
    poll();
    mix_forms();
    cancel_one();
    make_node_later();
    split_later();
    split_without();
    make_in_two_threads();
    split_broken();
    free_divided();
    shrink_later();
    make_two();
    leave_unfinished();
}

int main(int argc, char **argv)
{
    bool fails = argc > 2 && strcmp(argv[1], "fail") == 0;
    const char *rank = getenv("PMIX_RANK");

    mpt_start();
    if (fails && rank != NULL && atoi(rank) == atoi(argv[2]) - 1) {
        MPT_EQ(setenv("NIXLRUN_COLL_TABLE", "flat_up_to=5", 1), 0);
    }
    MPT_OK(nixl_init(NULL));
    late = nixl_size() - 1;
    if (fails) {
        fail_later();
    } else {
        try_all();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
