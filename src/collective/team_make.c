/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a team. All members know its ranks and its id, and so the names of each other's mailboxes.
 * Over these they tell each other, along a tree, on which host they seem to be; each then proves
 * for itself who is the first member on its host, and tells that; the first ones make the memory
 * that a host shares, and all tell whether they have it. No lock of its own.
 */
#include "config.h"

#include "collective/team.h"
#include "util/clock.h"
#include "util/coll_table.h"
#include "util/hash.h"
#include "util/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mailboxes for making teams: words and a little data. */
#define BOOT_SLOT_NBYTES 512
#define BOOT_SLOTS       2

/* Mailboxes for data: slots of this size, or less where there are many members. */
#define POST_SLOT_NBYTES     (1ul << 20)
#define POST_SLOT_MIN_NBYTES (4ul << 10)
#define POST_SLOTS           4
#define POST_NBYTES          (64ul << 20)

/* ---- telling each other ---------------------------------------------------------------------- */

/*
 * Who hears from whom: member m gathers from m + 1, m + 2, m + 4, ... as far as its lowest bit
 * allows, so that each subtree is a range of places.
 */
static int subtree_end(int place, int bit, int size)
{
    return place + bit < size ? place + bit : size;
}

static int gather_up(struct nixl_team *team, char *table, size_t nbytes)
{
    int bit = 1, status = NIXL_OK;

    for (; bit < team->size && (team->me & bit) == 0 && status == NIXL_OK; bit *= 2) {
        int child = team->me + bit, end = subtree_end(child, bit, team->size);

        if (child < team->size) {
            status = nxr_post_receive(team, &team->boot, child, table + (size_t)child * nbytes,
                                      (size_t)(end - child) * nbytes);
        }
    }
    if (team->me != 0 && status == NIXL_OK) {
        int end = subtree_end(team->me, bit, team->size);

        status = nxr_post_send(team, &team->boot, team->me - bit, table + (size_t)team->me * nbytes,
                               (size_t)(end - team->me) * nbytes);
    }
    return status;
}

static int spread_down(struct nixl_team *team, char *table, size_t nbytes)
{
    int bit = 1, status = NIXL_OK;

    while (bit < team->size && (team->me & bit) == 0) {
        bit *= 2;
    }
    if (team->me != 0) {
        status =
            nxr_post_receive(team, &team->boot, team->me - bit, table, (size_t)team->size * nbytes);
    }
    for (bit /= 2; bit > 0 && status == NIXL_OK; bit /= 2) {
        if (team->me + bit < team->size) {
            status = nxr_post_send(team, &team->boot, team->me + bit, table,
                                   (size_t)team->size * nbytes);
        }
    }
    return status;
}

int nxr_team_tell_all(struct nixl_team *team, void *table, size_t nbytes)
{
    int status = gather_up(team, table, nbytes);

    return status == NIXL_OK ? spread_down(team, table, nbytes) : status;
}

/* ---- who shares a host ----------------------------------------------------------------------- */

/* What makes two members candidates: one of the two is equal, as for connections. */
struct host_hint {
    uint64_t name;
    uint64_t boot_id;
    uint64_t table; /* the limits between algorithms, which all members have to have alike */
};

static struct host_hint own_hint(void)
{
    const struct nxr_card *card = &nxr_job.card.head;
    uint64_t table = nxr_coll_table_hash();

    if ((card->flags & NXR_CARD_NOT_LOCAL) != 0) { /* like nobody else */
        return (struct host_hint){~(uint64_t)nxr_job.rank, ~(uint64_t)nxr_job.rank, table};
    }
    return (struct host_hint){nxr_hash(card->host, strlen(card->host)),
                              nxr_hash(card->boot_id, strlen(card->boot_id)), table};
}

/* Members with other limits would wait for each other for ever; all members see it here. */
static int compare_tables(const struct nixl_team *team, const struct host_hint *hints)
{
    for (int i = 1; i < team->size; i++) {
        if (hints[i].table != hints[0].table) {
            return nxr_fail(NIXL_ERR_INVALID_ARG, team->operation, team->ranks[i], "", 0,
                            "rank %d has other limits than rank %d: NIXLRUN_COLL_TABLE and "
                            "NIXLRUN_COLL_TABLE_FILE have to be the same on all",
                            team->ranks[i], team->ranks[0]);
        }
    }
    return NIXL_OK;
}

/* The first member that is proven to be on this host. */
static int find_leader(const struct nixl_team *team, const struct host_hint *hints, int *leader_p)
{
    const struct host_hint *own = &hints[team->me];

    for (int i = 0; i < team->me; i++) {
        if (hints[i].name == own->name || hints[i].boot_id == own->boot_id) {
            int scope = nixl_scope(team->ranks[i]);

            if (scope < 0) {
                return scope;
            }
            if (scope == NIXL_SCOPE_LOCAL) {
                *leader_p = i;
                return NIXL_OK;
            }
        }
    }
    *leader_p = team->me;
    return NIXL_OK;
}

/* From the first member on each one's host: hosts by number, and who is on this one. */
static int number_hosts(struct nixl_team *team, const int32_t *leader_of)
{
    size_t n = (size_t)team->size;

    team->node_of = calloc(n, sizeof(int));
    team->leaders = calloc(n, sizeof(int));
    team->local = calloc(n, sizeof(int));
    team->local_index = calloc(n, sizeof(int));
    if (team->node_of == NULL || team->leaders == NULL || team->local == NULL ||
        team->local_index == NULL) {
        return NIXL_ERR_NO_MEMORY;
    }
    for (int i = 0; i < team->size; i++) {
        int leader = leader_of[i];

        if (leader < 0 || leader > i || leader_of[leader] != leader) {
            return NIXL_ERR_INTERNAL;
        }
        if (leader == i) {
            team->leaders[team->n_nodes] = i;
            team->node_of[i] = team->n_nodes++;
        } else {
            team->node_of[i] = team->node_of[leader];
        }
        team->local_index[i] = -1;
        if (leader == leader_of[team->me]) {
            team->local_index[i] = team->node.size;
            team->local[team->node.size++] = i;
        }
    }
    team->my_node = team->node_of[team->me];
    team->node.me = team->local_index[team->me];
    return NIXL_OK;
}

/*
 * The first member on each one's host. Who does not find it tells its failure instead, which
 * agree() makes that of all.
 */
static int tell_leaders(struct nixl_team *team, int32_t *leader_of, struct host_hint *hints)
{
    int leader = 0, status;

    hints[team->me] = own_hint();
    status = nxr_team_tell_all(team, hints, sizeof(*hints));
    if (status != NIXL_OK) {
        return status;
    }
    status = compare_tables(team, hints);
    if (status == NIXL_OK) {
        status = find_leader(team, hints, &leader);
    }
    if (status == NIXL_ERR_PEER_LOST) {
        return status;
    }
    leader_of[team->me] = status == NIXL_OK ? leader : status;
    return nxr_team_tell_all(team, leader_of, sizeof(*leader_of));
}

/* *outcome_p: how it went for this member; the members have to agree on it. */
static int find_hosts(struct nixl_team *team, int *outcome_p)
{
    struct host_hint *hints = calloc((size_t)team->size, sizeof(*hints));
    int32_t *leader_of = calloc((size_t)team->size, sizeof(*leader_of));
    int status = NIXL_ERR_NO_MEMORY;

    if (hints != NULL && leader_of != NULL) {
        status = tell_leaders(team, leader_of, hints);
    }
    if (status == NIXL_OK) {
        *outcome_p = leader_of[team->me] < 0 ? leader_of[team->me] : NIXL_OK;
        for (int i = 0; i < team->size && *outcome_p == NIXL_OK; i++) {
            *outcome_p = leader_of[i] < 0 ? NIXL_INPROGRESS : NIXL_OK; /* of another member */
        }
        if (*outcome_p == NIXL_OK) {
            *outcome_p = number_hosts(team, leader_of);
        }
    }
    free(hints);
    free(leader_of);
    return status;
}

/* ---- ways to meet ---------------------------------------------------------------------------- */

/* Names that no user has: regions of the library begin with a control character. */
static void make_name(char *name, size_t name_nbytes, const struct nixl_team *team,
                      const char *what)
{
    snprintf(name, name_nbytes, "%cteam %016llx %s", NXR_REGION_INTERNAL,
             (unsigned long long)team->id, what);
}

static int open_post(struct nixl_team *team)
{
    size_t slot =
        POST_NBYTES / POST_SLOTS / (size_t)team->size / POST_SLOT_MIN_NBYTES * POST_SLOT_MIN_NBYTES;
    char name[64];

    if (team->n_nodes == 1) {
        return NIXL_OK;
    }
    slot = slot < POST_SLOT_NBYTES ? slot : POST_SLOT_NBYTES;
    slot = slot > POST_SLOT_MIN_NBYTES ? slot : POST_SLOT_MIN_NBYTES;
    make_name(name, sizeof(name), team, "post");
    return nxr_post_open(&team->post, name, team->size, slot, POST_SLOTS);
}

/*
 * All tell how it went for them: it went well only if it did for all. NIXL_INPROGRESS: well here,
 * and another member has failed.
 */
static int agree(struct nixl_team *team, int status, bool *is_agreed_p)
{
    int32_t *statuses = calloc((size_t)team->size, sizeof(*statuses));
    int told;

    if (statuses == NULL) {
        return NIXL_ERR_NO_MEMORY;
    }
    statuses[team->me] = status;
    told = nxr_team_tell_all(team, statuses, sizeof(*statuses));
    *is_agreed_p = told == NIXL_OK;
    for (int i = 0; i < team->size && status >= NIXL_OK && told == NIXL_OK; i++) {
        if (statuses[i] < NIXL_OK) {
            status = nxr_fail(statuses[i], team->operation, team->ranks[i], "", 0,
                              "rank %d cannot take part: %s", team->ranks[i],
                              nixl_strerror(statuses[i]));
        }
    }
    free(statuses);
    return status == NIXL_OK ? told : status;
}

static int connect_members(struct nixl_team *team, bool *is_agreed_p)
{
    char name[64];
    int status, outcome = NIXL_OK;

    make_name(name, sizeof(name), team, "boot");
    status = nxr_post_open(&team->boot, name, team->size, BOOT_SLOT_NBYTES, BOOT_SLOTS);
    if (status == NIXL_OK) {
        status = find_hosts(team, &outcome);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (outcome == NIXL_OK) {
        make_name(name, sizeof(name), team, "node");
        outcome = nxr_node_open(team, name);
        if (outcome != NIXL_OK && team->node.me == 0) {
            nxr_team_tell_hosts(team); /* others wait for that memory, and not in agree() */
            *is_agreed_p = true;
            return outcome;
        }
    }
    if (outcome == NIXL_OK) {
        outcome = open_post(team);
    }
    status = agree(team, outcome, is_agreed_p);
    if (status == NIXL_OK && team->node.head != NULL) {
        team->node.full_fence =
            nxr_barrier_is_full() || atomic_load(&team->node.head->needs_full_fence) != 0;
    }
    return status;
}

/* ---- the team -------------------------------------------------------------------------------- */

static int fail_make(struct nixl_team *team, int status)
{
    const struct nixl_error error = *nixl_last_error();
    char why[200];

    if (status == NIXL_ERR_TIMEOUT) {
        return nxr_fail(status, team->operation, -1, "", 0, "not all members came in time");
    }
    if (status == NIXL_ERR_PEER_LOST) {
        return nxr_peer_fail_lost(team->operation, atomic_load(&team->lost_rank), "");
    }
    snprintf(why, sizeof(why), "%s", error.status == status ? error.text : nixl_strerror(status));
    return nxr_fail(status, team->operation, error.status == status ? error.rank : -1, "", 0,
                    "cannot make the team: %s", why);
}

int nxr_team_make(const char *operation, uint64_t id, const int *ranks, int size,
                  int64_t timeout_ns, bool *is_agreed_p, struct nixl_team **team_p)
{
    struct nixl_team *team = nxr_team_new();
    bool is_agreed = false;
    int status = NIXL_OK;

    if (team == NULL) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, -1, "", 0, "no memory for a team");
    }
    nxr_team_begin(team, operation, timeout_ns);
    team->id = team->origin = id;
    team->size = size;
    team->me = -1;
    team->ranks = calloc((size_t)size, sizeof(int));
    team->srcs = calloc((size_t)size, sizeof(*team->srcs));
    if (team->ranks == NULL || team->srcs == NULL) {
        status = NIXL_ERR_NO_MEMORY;
    }
    for (int i = 0; i < size && status == NIXL_OK; i++) {
        team->ranks[i] = ranks[i];
        team->me = ranks[i] == nxr_job.rank ? i : team->me;
    }
    if (status == NIXL_OK) {
        status = connect_members(team, &is_agreed);
        is_agreed |= nxr_post_is_broken(&team->boot, size);
    }
    if (is_agreed_p != NULL) {
        *is_agreed_p = is_agreed;
    }
    if (status != NIXL_OK) {
        status = nxr_team_explain(team, status);
        fail_make(team, status);
        nxr_team_drop(team);
        return status;
    }
    nxr_team_opened(team);
    *team_p = team;
    return NIXL_OK;
}
