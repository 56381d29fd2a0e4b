/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that die in the midst of nixl_team_reform(): reform_kill FIRST. The ranks form groups of
 * four, each with a scenario of its own: group g has number FIRST + g, which says which member dies
 * and before which of its messages, those by which the members agree and those that make the team.
 * The program is linked with the library's own functions, two of which are wrapped here, so deaths
 * come at exact points. The survivors end within the patience: with a team that is broken or with
 * the loss of that member, and then make a team of their own, at once.
 */
#include "mptest.h"

#include "collective/mailbox.h"
#include "collective/reform_say.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GROUP 4

static int members[GROUP], me, victim;
static int dies_at = -1;
static atomic_int n_messages;

bool __real_nxr_reform_tell(const struct nxr_reform *reform, int member, enum nxr_reform_step step);
bool __wrap_nxr_reform_tell(const struct nxr_reform *reform, int member, enum nxr_reform_step step);
int __real_nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                            const struct nxr_mailbox_swap *swap);
int __wrap_nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                            const struct nxr_mailbox_swap *swap);

static void die_if_due(void)
{
    if (dies_at >= 0 && atomic_fetch_add(&n_messages, 1) == dies_at) {
        kill(getpid(), SIGKILL);
        abort();
    }
}

bool __wrap_nxr_reform_tell(const struct nxr_reform *reform, int member, enum nxr_reform_step step)
{
    die_if_due();
    return __real_nxr_reform_tell(reform, member, step);
}

int __wrap_nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                            const struct nxr_mailbox_swap *swap)
{
    die_if_due();
    return __real_nxr_mailbox_swap(team, post, swap);
}

static void join_group(int first)
{
    int n_groups = nixl_size() / GROUP, group = nixl_rank() % n_groups;

    for (int i = 0; i < GROUP; i++) {
        members[i] = group + i * n_groups;
        me = members[i] == nixl_rank() ? i : me;
    }
    victim = (first + group) % GROUP;
    printf("scenario %d: the member at place %d dies before message %d\n", first + group, victim,
           (first + group) / GROUP);
    dies_at = me == victim ? (first + group) / GROUP : -1;
}

int main(int argc, char **argv)
{
    struct nixl_team *team = NULL, *rest;
    int survivors[GROUP], n = 0, status;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    join_group(argc > 1 ? atoi(argv[1]) : 0);
    status = nixl_team_reform(members, GROUP, MPT_PATIENCE, &team);
    if (me == victim) {
        kill(getpid(), SIGKILL); /* it has fewer messages */
    }
    if (status == NIXL_OK) {
        status = nixl_barrier(team, MPT_PATIENCE);
        MPT_OK(nixl_team_free(team));
    }
    MPT_STATUS(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, members[victim]);
    for (int i = 0; i < GROUP; i++) {
        survivors[n] = members[i];
        n += i != victim;
    }
    MPT_OK(nixl_team_reform(survivors, GROUP - 1, MPT_PATIENCE, &rest));
    mpt_check_team(rest, 1, 100);
    MPT_OK(nixl_team_free(rest));
    mpt_finalize();
    return mpt_passed();
}
