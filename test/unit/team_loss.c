/* SPDX-License-Identifier: Apache-2.0 */
/* What members of a team tell each other of a loss: which member it is, and what became of it. */
#include "fake_job.h"

#include "collective/team.h"

#include "test/unit/unit.h"

#define SIZE 3

/* Rank 1 is the first member, this process the last one. */
static int ranks[SIZE] = {1, 2, 0};
static struct nxr_identity members[SIZE];
static struct nxr_node_head head;
static struct nxr_node_line lines[SIZE];

static void setup(void)
{
    fake_job_start(0);
    for (int i = 0; i < SIZE; i++) {
        members[i] = nxr_peer_get(ranks[i])->identity;
    }
}

static void set_up_team(struct nixl_team *team)
{
    team->size = SIZE;
    team->me = SIZE - 1;
    team->ranks = ranks;
    team->members = members;
    team->operation = "nixl_barrier";
    atomic_store(&team->lost_rank, -1);
    team->node = (struct nxr_node){.size = SIZE, .me = SIZE - 1, .head = &head, .lines = lines};
}

/* A member that knows only that some member is lost does not make the others bury the first one. */
Test(team_loss, of_an_unknown_member, .init = setup)
{
    static struct nixl_team breaker, other;

    set_up_team(&breaker);
    set_up_team(&other);
    cr_assert_eq(nxr_team_break(&breaker, NIXL_E_PEER_LOST, -1), NIXL_E_PEER_LOST);
    cr_expect_eq(nxr_team_look(&other, -1), NIXL_E_PEER_LOST);
    cr_expect_eq(atomic_load(&other.lost_rank), -1);
    cr_expect_eq(nxr_rank_is_lost(1), false);
    cr_expect_eq(nxr_rank_is_lost(2), false);
}

Test(team_loss, of_a_known_member, .init = setup)
{
    static struct nixl_team breaker, other;

    set_up_team(&breaker);
    set_up_team(&other);
    cr_assert_eq(nxr_team_break(&breaker, NIXL_E_PEER_LOST, 2), NIXL_E_PEER_LOST);
    cr_expect_eq(nxr_team_look(&other, -1), NIXL_E_PEER_LOST);
    cr_expect_eq(atomic_load(&other.lost_rank), 2);
    cr_expect_eq(nxr_rank_is_lost(1), false);
    cr_expect_eq(nxr_rank_is_lost(2), true);
}
