/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a call on a team fails: it waits for news of a death that explains the failure, tells the
 * other hosts, and records the failure. No lock of its own.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/team.h"
#include "util/clock.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdio.h>

#define NEWS_NS (1 * NXR_S) /* how long the news of a death may take */

/* May a death be the cause? A connection broke, or a member gave up. */
static bool may_be_of_a_loss(int status)
{
    return status == NIXL_E_TRANSPORT || status == NIXL_E_STALE;
}

static bool team_has_lost_one(void *arg)
{
    return nxr_team_has_lost_one(arg);
}

int nxr_team_explain(struct nixl_team *team, int status)
{
    int cause = status == NIXL_E_CANCELED ? atomic_exchange(&team->cause, NIXL_OK) : status;

    if (!may_be_of_a_loss(cause) || nxr_agreements_are_stopping() ||
        nxr_wait(team_has_lost_one, team, NEWS_NS) != NIXL_OK) {
        return status;
    }
    atomic_store(&team->broken, NIXL_E_PEER_LOST);
    return NIXL_E_PEER_LOST;
}

void nxr_team_tell_hosts(const struct nixl_team *team)
{
    nxr_mailbox_break(team, &team->boot);
}

/*
 * "ranks 1, 2": the members on this host that are behind the caller. If none is, a phrase for the
 * other ranks that are waited for.
 */
static void name_late_members(const struct nixl_team *team, char *text, size_t nbytes)
{
    const struct nxr_node *node = &team->node;
    int n_late = 0, n_named = 0;
    size_t used;

    for (int i = 0; i < node->size && node->head != NULL; i++) {
        n_late += i != node->me && !nxr_node_has_reached(node, i, node->phase);
    }
    if (n_late == 0) {
        snprintf(text, nbytes,
                 node->size < team->size ? "ranks on other hosts" : "ranks that are behind");
        return;
    }
    used = (size_t)snprintf(text, nbytes, "rank%s", n_late > 1 ? "s" : "");
    for (int i = 0; i < node->size && used + 16 < nbytes; i++) {
        if (i != node->me && !nxr_node_has_reached(node, i, node->phase)) {
            used += (size_t)snprintf(text + used, nbytes - used, "%s %d", n_named > 0 ? "," : "",
                                     team->ranks[team->local[i]]);
            n_named++;
        }
    }
    if (n_named < n_late) {
        snprintf(text + used, nbytes - used, ", ...");
    }
}

int nxr_team_fail_lost(const struct nixl_team *team, const char *operation, int rank)
{
    int team_rank = nxr_team_rank_of(team, rank);
    bool has_left = team_rank >= 0 && nxr_peer_has_left(rank);
    const char *lost = nxr_peer_why_lost(rank);

    return nxr_fail(NIXL_E_PEER_LOST, operation, rank, "", 0, "%s of the team %s%s",
                    team_rank >= 0 ? nxr_identity_name(&team->members[team_rank]) : "a member",
                    lost[0] != '\0' ? "is lost: "
                    : team->lost_leaves && !has_left
                        ? "has called nixl_finalize(), and takes part in no call any more"
                    : has_left ? "has left"
                               : "has died",
                    lost);
}

int nxr_team_end(struct nixl_team *team, int status)
{
    char why[200];

    nxr_team_break_node(team, status, atomic_load(&team->lost_rank));
    status = nxr_team_explain(team, status);
    nxr_node_wait_visits(team);
    /* Every rank learns by itself of a death in its job, but not of one in another. */
    if (status == NIXL_E_PEER_LOST ? team->is_mixed || atomic_load(&team->lost_leaves)
                                   : status != NIXL_E_CANCELED) {
        nxr_team_tell_hosts(team);
    }
    if (status == NIXL_E_PEER_LOST) {
        if (team->is_mixed && !atomic_load(&team->lost_leaves) && !nxr_team_has_lost_one(team)) {
            (void)nxr_wait(team_has_lost_one, team, NEWS_NS);
        }
        return nxr_team_fail_lost(team, team->operation, atomic_load(&team->lost_rank));
    }
    if (status == NIXL_E_TIMEOUT) {
        name_late_members(team, why, sizeof(why));
        return nxr_fail(status, team->operation, -1, "", 0,
                        "timed out in %s waiting for %s; the team is broken", team->operation, why);
    }
    if (status == NIXL_E_CANCELED) {
        return nxr_fail(status, team->operation, -1, "", 0,
                        "the team is broken by an earlier failure, a cancel or another member");
    }
    snprintf(why, sizeof(why), "%s",
             nixl_last_error()->status == status ? nixl_last_error()->text : nixl_strerror(status));
    return nxr_fail(status, team->operation, -1, "", 0, "%s; the team is broken", why);
}
