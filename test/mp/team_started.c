/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to a team while something is under way that was only started, on 2 ranks, of which
 * the second is on another host if there are two. Modes:
 *   "cancel"  a cancel races with the end of the call: if it has broken the team, the other member
 *             learns of it, and does not wait in vain
 *   "split"   a team is freed that is being divided, or has been: nobody can take the part any
 *             more, so it does not stay
 *   "reform"  a cancel races with the end of a re-forming: if the other member has got the team all
 *             the same, it finds it broken, and can call again
 *   "shrink"  a shrink behind such a call waits as long as its timeout says, and says so
 */
#include "mptest.h"

#include <stdio.h>
#include <string.h>

#define N_ROUNDS 400
#define N_SPLITS 80
#define SHORT_NS (300 * MPT_MS)

/* NIXL_OK, or the team is broken by the cancel. */
static void expect_whole_or_canceled(int status)
{
    MPT_TRUE(status == NIXL_OK || status == NIXL_E_CANCELED);
}

static void spend_ns(int64_t for_ns)
{
    int64_t end_ns = mpt_now_ns() + for_ns;

    while (mpt_now_ns() < end_ns) {
    }
}

/*
 * The root of a small broadcast has done its part without waiting for the other member, which may
 * still be in the barrier, if it does not run, and learns there that the team is broken.
 */
static void cancel_in_time_or_late(int round)
{
    struct nixl_team *team;
    struct nixl_req *req = NULL;
    int64_t value = round;
    int status;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    status = nixl_barrier(team, MPT_PATIENCE);
    if (nixl_rank() == 0) {
        MPT_OK(status);
        MPT_STATUS(nixl_broadcast_x(team, 0, &value, sizeof(value), NULL, &req), NIXL_INPROGRESS);
        spend_ns(round % 40 * MPT_US);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
    } else {
        expect_whole_or_canceled(status);
        expect_whole_or_canceled(nixl_broadcast(team, 0, &value, sizeof(value), MPT_PATIENCE));
    }
    expect_whole_or_canceled(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
}

static void shrink_behind(void)
{
    struct nixl_team *team, *smaller = NULL;
    struct nixl_req *req = NULL;
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    if (nixl_rank() == 0) {
        MPT_STATUS(nixl_barrier_x(team, NULL, &req), NIXL_INPROGRESS);
        MPT_STATUS(nixl_team_shrink(team, 0, &smaller), NIXL_INPROGRESS);
        MPT_STATUS(nixl_team_shrink(team, SHORT_NS, &smaller), NIXL_E_TIMEOUT);
        MPT_OK(nixl_notify(1, 1, NULL, 0, MPT_PATIENCE));
    } else {
        MPT_OK(nixl_notify_recv(0, 1, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    }
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &smaller));
    MPT_OK(nixl_barrier(smaller, MPT_PATIENCE));
    MPT_OK(nixl_team_free(smaller));
    MPT_OK(nixl_team_free(team));
}

static const int both[] = {0, 1};

/* Start, cancel, and call again unless the team was there before. */
static void reform_again(int round)
{
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;
    int32_t outcome;

    MPT_STATUS(nixl_team_reform_x(both, 2, NULL, &team, &req), NIXL_INPROGRESS);
    spend_ns(round % 60 * 50 * MPT_US);
    MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
    if (outcome != NIXL_OUTCOME_DONE) {
        MPT_OK(nixl_team_reform(both, 2, MPT_PATIENCE, &team));
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
}

static void reform_until_whole(void)
{
    struct nixl_team *team;
    int status;

    do {
        MPT_OK(nixl_team_reform(both, 2, MPT_PATIENCE, &team));
        status = nixl_barrier(team, MPT_PATIENCE);
        expect_whole_or_canceled(status);
        MPT_OK(nixl_team_free(team));
    } while (status != NIXL_OK);
}

static int count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    int c, n = 0;

    MPT_TRUE(file != NULL);
    while ((c = getc(file)) != EOF) {
        n += c == '\n';
    }
    fclose(file);
    return n;
}

/* Rank 0 leaves its part of the split to the library. */
static void split_and_free(void)
{
    struct nixl_team *team, *part = NULL;
    int status;

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    if (nixl_rank() == 0) {
        status = nixl_team_split(team, 0, 0, 0, &part);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    } else {
        MPT_OK(nixl_team_split(team, 0, 0, MPT_PATIENCE, &part));
    }
    if (part != NULL) {
        MPT_OK(nixl_team_free(part));
    }
    MPT_OK(nixl_team_free(team));
}

static void split_many(void)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int n_before;

    for (int i = 0; i < N_SPLITS / 4; i++) { /* what is made once, or kept for reuse */
        split_and_free();
    }
    n_before = count_mappings();
    for (int i = 0; i < N_SPLITS; i++) {
        split_and_free();
    }
    while (count_mappings() > n_before + N_SPLITS / 2) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    if (strcmp(mode, "cancel") == 0) {
        for (int round = 0; round < N_ROUNDS; round++) {
            cancel_in_time_or_late(round);
        }
    } else if (strcmp(mode, "reform") == 0) {
        for (int round = 0; round < N_ROUNDS; round++) {
            if (nixl_rank() == 0) {
                reform_again(round);
            } else {
                reform_until_whole();
            }
        }
    } else if (strcmp(mode, "split") == 0) {
        split_many();
    } else {
        shrink_behind();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
