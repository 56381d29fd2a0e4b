/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last rank is in its last nixl_finalize(), which waits for the others. These begin calls on
 * teams with it, without a limit of time. Modes:
 *   "leave"  it takes part in none of them: all end, on each rank with the same failure, and the
 *            others make a team of their own
 *   "work"   it has started its part, and not waited for it: the call completes, however late the
 *            others come
 */
#include "mptest.h"

#include <string.h>

#define N_TEAMS 5
#define LATE_NS (2500 * MPT_MS) /* a wait asks earlier whether its peer leaves */

static struct nixl_team *teams[N_TEAMS];
static int leaver;

static void make_teams(void)
{
    for (int i = 0; i < N_TEAMS; i++) {
        MPT_OK(nixl_team_world(MPT_PATIENCE, &teams[i]));
        MPT_OK(nixl_barrier(teams[i], MPT_PATIENCE));
    }
}

static void hear_never(int status)
{
    MPT_STATUS(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, leaver);
    MPT_HAS("nixl_finalize");
    MPT_EQ(nixl_peer_state(leaver), NIXL_PEER_ALIVE);
}

static void make_none(void)
{
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;

    hear_never(nixl_team_world(NIXL_FOREVER, &team));
    MPT_STATUS(nixl_team_world_x(NULL, &team, &req), NIXL_INPROGRESS);
    hear_never(nixl_req_wait(&req, NIXL_FOREVER));
    hear_never(nixl_team_node(NIXL_FOREVER, &team));
    hear_never(nixl_team_split(teams[0], 0, nixl_rank(), NIXL_FOREVER, &team));
}

static void call_none(void)
{
    struct nixl_req *req = NULL;
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    int64_t sum[2] = {1, 2};

    args.src = args.dst = sum;
    args.count = 2;
    args.type = NIXL_TYPE_INT64;
    hear_never(nixl_barrier(teams[1], NIXL_FOREVER));
    MPT_STATUS(nixl_barrier_x(teams[2], NULL, &req), NIXL_INPROGRESS);
    hear_never(nixl_req_wait(&req, NIXL_FOREVER));
    hear_never(nixl_broadcast(teams[3], leaver, sum, sizeof(sum), NIXL_FOREVER));
    hear_never(nixl_allreduce(teams[4], &args, NIXL_FOREVER));
    MPT_STATUS(nixl_barrier(teams[1], NIXL_FOREVER), NIXL_E_PEER_LOST);
}

/* Those that stay. */
static void work_without(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_team *rest, *smaller;

    MPT_OK(nixl_team_strided(0, 1, (size_t)leaver, NIXL_FOREVER, &rest));
    mpt_check_team(rest, 5, 64);
    MPT_OK(nixl_team_free(rest));
    MPT_OK(nixl_team_shrink(teams[1], NIXL_FOREVER, &smaller));
    MPT_EQ(nixl_team_size(smaller), leaver);
    mpt_check_team(smaller, 6, 64);
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
}

static void stay_busy(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    if (nixl_rank() == 1) {
        MPT_STATUS(nixl_notify_recv(0, 1, UINT64_MAX, LATE_NS, &note), NIXL_E_TIMEOUT);
    }
    MPT_OK(nixl_barrier(teams[0], NIXL_FOREVER));
}

int main(int argc, char **argv)
{
    bool works = argc > 1 && strcmp(argv[1], "work") == 0;
    struct nixl_req *req = NULL;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    leaver = nixl_size() - 1;
    make_teams();
    if (nixl_rank() == leaver && works) {
        MPT_STATUS(nixl_barrier_x(teams[0], NULL, &req), NIXL_INPROGRESS);
    }
    if (nixl_rank() != leaver && works) {
        stay_busy();
    } else if (nixl_rank() != leaver) {
        make_none();
        call_none();
        work_without();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
