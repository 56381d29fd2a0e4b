/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl_team_reform() where nobody dies, by name: reform CASE, with four ranks. Each case ends with
 * a team of all, made at once after what has failed.
 */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE     4
#define TAG_GO   1
#define TAG_PID  2
#define SHORT_NS (1500 * MPT_MS)

static const int all[SIZE] = {0, 1, 2, 3};
static int rank;

/* ---- helpers --------------------------------------------------------------------------------- */

static struct nixl_team *reform(const int *ranks, size_t nranks)
{
    struct nixl_team *team = NULL;

    MPT_OK(nixl_team_reform(ranks, nranks, MPT_PATIENCE, &team));
    MPT_EQ(nixl_team_size(team), (int)nranks);
    return team;
}

/* All ranks, at once: nothing of what has failed is left. */
static void reform_all(uint64_t seed)
{
    struct nixl_team *team = reform(all, SIZE);

    MPT_EQ(nixl_team_rank(team), rank);
    mpt_check_team(team, seed, 100);
    MPT_OK(nixl_team_free(team));
}

/* The call fails, and names a rank. */
static void expect_words(int who, const char *words)
{
    if (nixl_last_error()->rank != who || strstr(nixl_last_error()->text, words) == NULL) {
        mpt_fail(__FILE__, __LINE__, "rank %d: %s; expected: rank %d, '%s'",
                 nixl_last_error()->rank, nixl_last_error()->text, who, words);
    }
}

static void expect_failure(const int *ranks, size_t nranks, int64_t timeout_ns, int status, int who,
                           const char *words)
{
    struct nixl_team *team = NULL;

    MPT_EQ(nixl_team_reform(ranks, nranks, timeout_ns, &team), status);
    MPT_TRUE(team == NULL);
    expect_words(who, words);
}

static void say(int to, const void *bytes, size_t nbytes)
{
    MPT_OK(nixl_notify(to, TAG_GO, bytes, nbytes, MPT_PATIENCE));
}

static struct nixl_note hear(int from)
{
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(from, TAG_GO, UINT64_MAX, MPT_PATIENCE, &note));
    return note;
}

/* ---- teams ----------------------------------------------------------------------------------- */

/* Teams that were re-formed are teams as all others. */
static void plain(void)
{
    static const int odd[3] = {3, 1, 2}, alone[1] = {2};
    struct nixl_team *team = reform(all, SIZE), *other, *part, *rest, *world;

    for (size_t nwords = 1; nwords <= 100000; nwords *= 10) {
        mpt_check_team(team, nwords, nwords);
    }
    if (rank != 0) {
        other = reform(odd, 3);
        MPT_EQ(nixl_team_translate(other, 0, NULL), 3);
        MPT_EQ(nixl_team_translate(NULL, 2, other), 2);
        MPT_EQ(nixl_team_translate(team, 1, other), 1);
        MPT_EQ(nixl_team_translate(team, 0, other), NIXL_E_NOT_FOUND);
        mpt_check_team(other, 5, 1000);
        MPT_OK(nixl_team_free(other));
    }
    if (rank == 2) {
        other = reform(alone, 1);
        mpt_check_team(other, 6, 10);
        MPT_OK(nixl_team_free(other));
    }
    MPT_OK(nixl_team_split(team, rank % 2, -rank, MPT_PATIENCE, &part));
    MPT_EQ(nixl_team_size(part), 2);
    mpt_check_team(part, 7, 1000);
    MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &rest));
    mpt_check_team(rest, 8, 1000);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    mpt_check_team(world, 9, 1000);
    MPT_OK(nixl_team_free(world));
    MPT_OK(nixl_team_free(rest));
    MPT_OK(nixl_team_free(part));
    MPT_OK(nixl_team_free(team));
    for (int i = 0; i < 50; i++) {
        reform_all((uint64_t)i);
    }
}

static void *reform_in_context(void *arg)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_team *team;

    op.context = arg;
    op.timeout_ns = MPT_PATIENCE;
    for (int i = 0; i < 20; i++) {
        MPT_OK(nixl_team_reform_x(all, SIZE, &op, &team, NULL));
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        MPT_OK(nixl_team_free(team));
    }
    return NULL;
}

/* Two at the same time in two contexts; in one, the second is refused. With requests. */
static void requests(void)
{
    static const char *const names[2] = {"first", "second"};
    struct nixl_context *contexts[2];
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;
    struct nixl_team *team = NULL;
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        MPT_OK(nixl_context_open(names[i], NULL, &contexts[i]));
        MPT_EQ(pthread_create(&threads[i], NULL, reform_in_context, contexts[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        MPT_EQ(pthread_join(threads[i], NULL), 0);
        MPT_OK(nixl_context_close(contexts[i]));
    }
    if (rank != 0) {
        (void)hear(0);
    } else {
        MPT_STATUS(nixl_team_reform_x(all, SIZE, NULL, &team, &req), NIXL_INPROGRESS);
        MPT_EQ(nixl_team_reform(all, SIZE, MPT_S, &team), NIXL_E_IN_USE);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
        op.timeout_ns = 50 * MPT_MS;
        MPT_STATUS(nixl_team_reform_x(all, SIZE, &op, &team, &req), NIXL_INPROGRESS);
        MPT_EQ(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_TIMEOUT);
        for (int other = 1; other < SIZE; other++) {
            say(other, NULL, 0);
        }
    }
    for (int i = 0; i < 10; i++) {
        MPT_STATUS(nixl_team_reform_x(all, SIZE, NULL, &team, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        mpt_check_team(team, (uint64_t)i, 10);
        MPT_OK(nixl_team_free(team));
    }
}

/* ---- those who do not call ------------------------------------------------------------------- */

/* A request tells the same as a call that waits. */
static void expect_late_request(int who, const char *words)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;

    op.timeout_ns = SHORT_NS;
    MPT_STATUS(nixl_team_reform_x(all, SIZE, &op, &team, &req), NIXL_INPROGRESS);
    MPT_EQ(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_TIMEOUT);
    expect_words(who, words);
}

/* Rank `who` comes late; the others name it. */
static void missing(int who, const char *words)
{
    if (rank == who) {
        for (int other = 0; other < SIZE; other++) {
            if (other != who) {
                (void)hear(other);
            }
        }
    } else {
        expect_failure(all, SIZE, SHORT_NS, NIXL_E_TIMEOUT, who, words);
        expect_late_request(who, words);
        say(who, NULL, 0);
    }
    reform_all(1);
}

static void no_member(void)
{
    missing(2, "rank 2 has not called");
}

static void no_coordinator(void)
{
    missing(0, "rank 0, the lowest of the members, does not answer");
}

/* A member waits briefly again and again, and the others long. */
static void impatient(void)
{
    struct nixl_team *team;
    int status = NIXL_E_TIMEOUT;

    if (rank == 1) {
        for (int i = 0; i < 5; i++) {
            MPT_EQ(nixl_team_reform(all, SIZE, 100 * MPT_MS, &team), NIXL_E_TIMEOUT);
            MPT_TRUE(nixl_last_error()->text[0] != '\0');
        }
        say(3, NULL, 0);
    } else if (rank == 3) {
        (void)hear(1);
    }
    while (status == NIXL_E_TIMEOUT) {
        status = nixl_team_reform(all, SIZE, rank == 1 ? MPT_S : MPT_PATIENCE, &team);
    }
    MPT_OK(status);
    mpt_check_team(team, 2, 10);
    MPT_OK(nixl_team_free(team));
}

/* ---- those who disagree ---------------------------------------------------------------------- */

static void other_order(void)
{
    static const int turned[SIZE] = {0, 1, 3, 2};

    if (rank == 3) {
        expect_failure(turned, SIZE, MPT_PATIENCE, NIXL_E_INVALID_ARG, 0,
                       "rank 0 names the same 4 members in another order");
    } else {
        expect_failure(all, SIZE, MPT_PATIENCE, NIXL_E_INVALID_ARG, 3,
                       "rank 3 names the same 4 members in another order");
    }
    reform_all(3);
}

/* Two overlap: each names who has the other list, unless the other one has given up first. */
static void overlap(void)
{
    static const int upper[2] = {2, 3};
    int other = rank == 2 ? 3 : 2, status = NIXL_E_INVALID_ARG;
    struct nixl_team *team;

    if (rank == 2) {
        expect_failure(upper, 2, MPT_PATIENCE, NIXL_E_INVALID_ARG, 3,
                       "rank 3 names other members: 4, and this call 2");
    }
    while (status == NIXL_E_INVALID_ARG) {
        status = nixl_team_reform(all, SIZE, MPT_PATIENCE, &team);
        MPT_TRUE(status == NIXL_OK || nixl_last_error()->rank == other);
    }
    MPT_OK(status);
    mpt_check_team(team, 4, 100);
    MPT_OK(nixl_team_free(team));
}

/* One has called for the next team already: the others are not disturbed by it. */
static void ahead(void)
{
    static const int pair[2] = {0, 1};

    if (rank < 2) {
        struct nixl_team *team = reform(pair, 2);

        mpt_check_team(team, 5, 10);
        MPT_OK(nixl_team_free(team));
    }
    reform_all(5);
}

/* ---- those who are stopped ------------------------------------------------------------------- */

/*
 * A rank is stopped while the others call, which name it. When it goes on, its own call either has
 * failed, too, or takes part in the next one of the others.
 */
static void stop(int who, bool is_amid)
{
    int by = who == 0 ? 1 : 0, status = NIXL_E_TIMEOUT;
    struct nixl_team *team;
    struct nixl_note note;
    pid_t pid = getpid();

    if (rank == who) {
        say(by, &pid, sizeof(pid));
    } else if (rank == by) {
        note = hear(who);
        memcpy(&pid, note.payload, sizeof(pid));
        mpt_bring(pid, SIGSTOP, "T");
        for (int other = 0; other < SIZE; other++) {
            if (other != by && other != who && !is_amid) {
                say(other, NULL, 0);
            }
        }
    } else if (!is_amid) {
        (void)hear(by);
    }
    if (rank != who) {
        MPT_EQ(nixl_team_reform(all, SIZE, 2 * MPT_S, &team), NIXL_E_TIMEOUT);
        MPT_TRUE(is_amid || nixl_last_error()->rank == who);
        if (rank != by) {
            say(by, NULL, 0);
        }
    }
    if (rank == by) {
        for (int other = 0; other < SIZE; other++) {
            if (other != by && other != who) {
                (void)hear(other);
            }
        }
        mpt_bring(pid, SIGCONT, "RSD");
    }
    while (status == NIXL_E_TIMEOUT) {
        status = nixl_team_reform(all, SIZE, rank == who ? 3 * MPT_S : MPT_PATIENCE, &team);
    }
    MPT_OK(status);
    mpt_check_team(team, 6, 100);
    MPT_OK(nixl_team_free(team));
}

static void stopped_coordinator(void)
{
    stop(0, false);
}

static void stopped_member(void)
{
    stop(3, false);
}

/* It is stopped while the others are connecting to it. */
static void stopped_amid(void)
{
    stop(0, true);
}

/*
 * A member finalizes while the others re-form a team with it, under --elastic: they are told who
 * has left, at once, and make the team without it. Rank 3 leaves when all others have begun, as far
 * as they can say so; the coordinator leaves in the other case.
 */
static void leave_amid(int who)
{
    int others[SIZE - 1], n = 0;
    struct nixl_team *team = NULL;
    int64_t began_ns;
    int status;

    for (int i = 0; i < SIZE; i++) {
        if (i != who) {
            others[n++] = i;
        }
    }
    if (rank == who) {
        for (int i = 0; i < n; i++) {
            (void)hear(others[i]);
        }
        mpt_finalize();
        exit(mpt_passed());
    }
    say(who, NULL, 0);
    began_ns = mpt_now_ns();
    status = nixl_team_reform(all, SIZE, MPT_PATIENCE, &team);
    MPT_EQ(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, who);
    MPT_LT(mpt_now_ns() - began_ns, MPT_PATIENCE / 2);
    team = reform(others, SIZE - 1);
    mpt_check_team(team, 9, 100);
    MPT_OK(nixl_team_free(team));
    mpt_finalize();
    exit(mpt_passed());
}

static void member_leaves(void)
{
    leave_amid(3);
}

static void coordinator_leaves(void)
{
    leave_amid(0);
}

/* ---- the program ----------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"plain", plain},
                 {"requests", requests},
                 {"no_member", no_member},
                 {"no_coordinator", no_coordinator},
                 {"impatient", impatient},
                 {"other_order", other_order},
                 {"overlap", overlap},
                 {"ahead", ahead},
                 {"stopped_coordinator", stopped_coordinator},
                 {"stopped_member", stopped_member},
                 {"stopped_amid", stopped_amid},
                 {"member_leaves", member_leaves},
                 {"coordinator_leaves", coordinator_leaves}};
    const char *name = argc > 1 ? argv[1] : "";

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), SIZE);
    rank = nixl_rank();
    mpt_barrier();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].run();
        }
    }
    mpt_barrier();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
