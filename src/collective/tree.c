/* SPDX-License-Identifier: Apache-2.0 */
/* The tree along which the members that make a team tell each other. No state, no lock. */
#include "config.h"

#include "collective/tree.h"
#include "collective/team.h"

/*
 * The gather tree: member m gathers from m + 1, m + 2, m + 4, ... as far as its lowest bit allows,
 * so that each subtree is a range of team ranks.
 */
static int tree_end(int team_rank, int bit, int size)
{
    return team_rank + bit < size ? team_rank + bit : size;
}

int nxr_tree_gather(struct nixl_team *team, char *table, size_t nbytes)
{
    int bit = 1, status = NIXL_OK;

    for (; bit < team->size && (team->me & bit) == 0 && status == NIXL_OK; bit *= 2) {
        int child = team->me + bit, end = tree_end(child, bit, team->size);

        if (child < team->size) {
            status = nxr_mailbox_receive(team, &team->boot, child, table + (size_t)child * nbytes,
                                         (size_t)(end - child) * nbytes);
        }
    }
    if (team->me != 0 && status == NIXL_OK) {
        int end = tree_end(team->me, bit, team->size);

        status =
            nxr_mailbox_send(team, &team->boot, team->me - bit, table + (size_t)team->me * nbytes,
                             (size_t)(end - team->me) * nbytes);
    }
    return status;
}

int nxr_tree_hear(struct nixl_team *team, char *table, size_t nbytes)
{
    int bit = team->me & -team->me; /* the lowest */

    return team->me == 0 ? NIXL_OK
                         : nxr_mailbox_receive(team, &team->boot, team->me - bit, table,
                                               (size_t)team->size * nbytes);
}

int nxr_tree_pass(struct nixl_team *team, char *table, size_t nbytes)
{
    int bit = 1, status = NIXL_OK;

    while (bit < team->size && (team->me & bit) == 0) {
        bit *= 2;
    }
    for (bit /= 2; bit > 0 && status == NIXL_OK; bit /= 2) {
        if (team->me + bit < team->size) {
            status = nxr_mailbox_send(team, &team->boot, team->me + bit, table,
                                      (size_t)team->size * nbytes);
        }
    }
    return status;
}

int nxr_tree_tell_all(struct nixl_team *team, void *table, size_t nbytes)
{
    int status = nxr_tree_gather(team, table, nbytes);

    if (status == NIXL_OK) {
        status = nxr_tree_hear(team, table, nbytes);
    }
    return status == NIXL_OK ? nxr_tree_pass(team, table, nbytes) : status;
}
