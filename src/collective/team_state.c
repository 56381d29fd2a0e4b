/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a team is whole: breaking it, and finding out that it is broken, that a member has died,
 * or that the call under way has run out of time. The other files of this folder are built on this
 * one. No lock: `broken`, `lost_rank` and `cause` are atomic, and the first reason stays.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/team.h"
#include "core/event.h"
#include "core/life.h"
#include "util/clock.h"
#include "util/lock.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdio.h>
#include <string.h>

int64_t nxr_team_deadline(struct nixl_team *team)
{
    if (team->deadline == 0) {
        team->deadline = nxr_deadline(team->timeout_ns);
    }
    return team->deadline;
}

int64_t nxr_team_left(struct nixl_team *team)
{
    return nxr_left(team->timeout_ns, nxr_team_deadline(team));
}

void nxr_team_break_node(struct nixl_team *team, int status, int lost_rank)
{
    struct nxr_node *node = &team->node;
    int32_t whole = NIXL_OK;

    if (node->head == NULL) {
        return;
    }
    if (lost_rank >= 0) {
        enum nxr_loss loss = atomic_load(&team->lost_leaves) ? NXR_LOSS_LEAVES
                             : nxr_peer_has_left(lost_rank)  ? NXR_LOSS_LEFT
                                                             : NXR_LOSS_DIED;

        atomic_store(&node->head->lost,
                     nxr_node_lost_word(nxr_team_rank_of(team, lost_rank), loss));
    }
    atomic_compare_exchange_strong(&node->head->broken, &whole, status);
    nxr_fence_full();
    nxr_node_wake_all(node);
}

int nxr_team_break(struct nixl_team *team, int status, int lost_rank)
{
    int whole = NIXL_OK, none = -1;

    lost_rank = status == NIXL_E_PEER_LOST ? lost_rank : -1;
    atomic_compare_exchange_strong(&team->lost_rank, &none, lost_rank);
    if (atomic_compare_exchange_strong(&team->broken, &whole, status)) {
        nxr_team_break_node(team, status, lost_rank);
    }
    return status;
}

int nxr_team_rank_of(const struct nixl_team *team, int rank)
{
    for (int i = 0; i < team->size; i++) {
        if (team->ranks[i] == rank) {
            return i;
        }
    }
    return -1;
}

/*
 * A member has left in order. It may have done its part of the call under way, so only one that
 * waits for it breaks the team. Those that sleep look again.
 */
static void team_member_left(struct nixl_team *team)
{
    if (team->node.head != NULL) {
        nxr_fence_full();
        nxr_node_wake_all(&team->node);
    }
}

int nxr_team_look_for_deaths(struct nixl_team *team)
{
    int n_deaths = nxr_event_n_deaths(), n_seen;

    /* The service thread checks, too. A death that both see is counted once, so none is skipped. */
    while ((n_seen = atomic_load(&team->n_deaths_seen)) < n_deaths) {
        int rank = nxr_event_death(n_seen);

        if (nxr_team_rank_of(team, rank) >= 0) {
            if (!nxr_peer_has_left(rank)) {
                return nxr_team_break(team, NIXL_E_PEER_LOST, rank);
            }
            team_member_left(team);
        }
        atomic_compare_exchange_strong(&team->n_deaths_seen, &n_seen, n_seen + 1);
    }
    return NIXL_OK;
}

bool nxr_team_has_lost(const struct nixl_team *team, int team_rank)
{
    struct nxr_peer *peer = nxr_peer_find(team->ranks[team_rank]);

    if (team_rank == team->me) {
        return false;
    }
    return peer == NULL ? team->members[team_rank].job != nxr_job.self.job
                        : nxr_life_check(peer) ||
                              !nxr_identity_is(&peer->identity, &team->members[team_rank]);
}

bool nxr_team_has_lost_one(struct nixl_team *team)
{
    for (int i = 0; i < team->size; i++) {
        if (nxr_team_has_lost(team, i)) {
            atomic_store(&team->lost_rank, team->ranks[i]);
            return true;
        }
    }
    return false;
}

void nxr_team_hear_of_loss(struct nixl_team *team, int team_rank, enum nxr_loss loss)
{
    int rank = team_rank >= 0 && team_rank < team->size ? team->ranks[team_rank] : -1;
    struct nxr_peer *peer;

    if (loss == NXR_LOSS_LEAVES) {
        atomic_store(&team->lost_leaves, true);
        nxr_leaving_hear(rank);
        return;
    }
    if (rank < 0 || team->is_mixed) {
        return;
    }
    pthread_mutex_lock(&nxr_job.lock);
    peer = nxr_peer_get_locked(rank);
    if (peer == NULL || !nxr_identity_is(&peer->identity, &team->members[team_rank])) {
        /* another process has taken its place */
    } else if (loss == NXR_LOSS_LEFT) {
        nxr_life_left_locked(rank);
    } else {
        nxr_life_lost_locked(rank);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* A member reports that this one is lost. */
static int team_lose(struct nixl_team *team, int team_rank, enum nxr_loss loss)
{
    bool is_member = team_rank >= 0 && team_rank < team->size;

    nxr_team_hear_of_loss(team, team_rank, loss);
    return nxr_team_break(team, NIXL_E_PEER_LOST, is_member ? team->ranks[team_rank] : -1);
}

/* What others have found: in memory shared on this host, or reported by another host. */
static int look_at_others(struct nixl_team *team)
{
    const struct nxr_node_head *head = team->node.head;
    int status = head != NULL ? atomic_load(&head->broken) : NIXL_OK;

    if (status == NIXL_E_PEER_LOST) {
        uint64_t lost = atomic_load(&head->lost);

        return team_lose(team, nxr_node_lost_member(lost), nxr_node_loss(lost));
    }
    if (status == NIXL_OK && !team->is_boot_borrowed) {
        uint64_t word = nxr_mailbox_broken(&team->boot, team->size); /* others may replace it */

        status = nxr_mailbox_cause(word);
        if (status == NIXL_E_PEER_LOST) {
            return team_lose(team, nxr_mailbox_lost(word),
                             nxr_mailbox_leaves(word) ? NXR_LOSS_LEAVES : NXR_LOSS_DIED);
        }
    }
    if (status != NIXL_OK) {
        atomic_store(&team->cause, status);
        return nxr_team_break(team, NIXL_E_CANCELED, -1);
    }
    return NIXL_OK;
}

/*
 * Has the awaited member ended? If it has left in order, the first call says no, and the caller
 * checks once more: all that the member has done is visible by then.
 */
static bool team_awaits_lost(struct nixl_team *team, int team_rank)
{
    if (!nxr_team_has_lost(team, team_rank)) {
        return false;
    }
    if (team->left_awaited == team_rank + 1 || !nxr_peer_has_left(team->ranks[team_rank])) {
        return true;
    }
    team->left_awaited = team_rank + 1;
    nxr_wake_self();
    return false;
}

/* The member that is waited for has begun to leave without its part of the call. */
static int team_lose_leaving(struct nixl_team *team, int team_rank)
{
    atomic_store(&team->lost_leaves, true);
    return nxr_team_break(team, NIXL_E_PEER_LOST, team->ranks[team_rank]);
}

int nxr_team_look(struct nixl_team *team, int team_rank)
{
    int status = atomic_load(&team->broken);

    if (status != NIXL_OK) {
        return status == NIXL_E_PEER_LOST ? status : NIXL_E_CANCELED;
    }
    if (nxr_agreements_are_stopping()) {
        return nxr_team_break(team, NIXL_E_CANCELED, -1);
    }
    if (team->call != 0 && nxr_agreement_is_written(team->call)) {
        return NIXL_E_CANCELED; /* the team may still be made: it is not broken */
    }
    status = nxr_team_look_for_deaths(team);
    if (status == NIXL_OK) {
        status = look_at_others(team);
    }
    if (status == NIXL_OK && team_rank >= 0 && team_awaits_lost(team, team_rank)) {
        status = nxr_team_break(team, NIXL_E_PEER_LOST, team->ranks[team_rank]);
    }
    if (status == NIXL_OK && team_rank >= 0 &&
        nxr_leaving_never_comes(&team->leaving, team->ranks[team_rank])) {
        status = team_lose_leaving(team, team_rank);
    }
    if (status == NIXL_OK && team->timeout_ns > 0 && nxr_team_left(team) <= 1 &&
        nxr_now_ns() >= team->deadline) {
        status = nxr_team_break(team, NIXL_E_TIMEOUT, -1);
    }
    return status;
}

int nxr_team_check(const char *operation, const struct nixl_team *team)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && !nxr_team_is_open(team)) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s",
                          team == NULL ? "the team is NULL" : "the team was freed");
    }
    return status;
}

/* ---- for observers --------------------------------------------------------------------------- */

void nxr_team_describe(const void *about, struct nxr_wait_record *record)
{
    const struct nxr_team_wait *wait = about;
    const struct nixl_team *team = wait->team;

    nxr_describe(record, NXR_WAIT_TEAM, team->operation,
                 wait->team_rank >= 0 ? team->ranks[wait->team_rank] : -1);
    record->team = team->id;
    nxr_describe_members(record, team->ranks, team->size);
}

/* ---- counting -------------------------------------------------------------------------------- */

/* "nixl_barrier_x" counts as "barrier". */
static struct nxr_stats_named *take_record_of(const char *operation, int size)
{
    static const char prefix[] = "nixl_";
    char name[NXR_STATS_NAME];
    size_t nbytes;

    operation += strncmp(operation, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    snprintf(name, sizeof(name), "%s", operation);
    nbytes = strlen(name);
    if (nbytes > 2 && strcmp(name + nbytes - 2, "_x") == 0) {
        name[nbytes - 2] = '\0';
    }
    return nxr_stats_named_take(&(const struct nxr_stats_key){.op = NXR_STATS_COLLECTIVE,
                                                              .peer = NXR_STATS_NO_PEER,
                                                              .transport = name,
                                                              .name = name,
                                                              .n_members = (unsigned)size});
}

struct nxr_stats_named *nxr_team_count_as(struct nixl_team *team, unsigned slot)
{
    for (int i = 0; i < NXR_TEAM_COUNTED - 1 && team->counted[slot].operation != NULL; i++) {
        if (team->counted[slot].operation == team->operation) {
            return team->counted[slot].record;
        }
        slot = (slot + 1) % NXR_TEAM_COUNTED;
    }
    nxr_stats_named_give(team->counted[slot].record);
    team->counted[slot].operation = team->operation;
    team->counted[slot].record = take_record_of(team->operation, team->size);
    return team->counted[slot].record;
}

void nxr_team_count_end(struct nixl_team *team)
{
    for (int i = 0; i < NXR_TEAM_COUNTED; i++) {
        nxr_stats_named_give(team->counted[i].record);
        team->counted[i].operation = NULL;
        team->counted[i].record = NULL;
    }
}
