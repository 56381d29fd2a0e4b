/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a team. All members of the call know each other's ranks and the number of the call, and so
 * the names of each other's mailboxes. Over these they tell each other, along a tree, which host
 * they seem to be on and what they choose. Each then finds the first member on its own host,
 * verifies that they share it, and reports the result. Now each member knows its team: all members,
 * or some of them. The first member on each host makes the memory that the host shares, and all
 * report whether they are ready. How the call ends is agreed upon (agreement.h). No lock of its
 * own.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/making.h"
#include "collective/tree.h"
#include "util/clock.h"
#include "util/coll_table.h"
#include "util/hash.h"
#include "util/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mailboxes for making teams: words and a little data. */
#define BOOT_SLOT_NBYTES 4096
#define BOOT_SLOTS       2

/* Mailboxes for data: slots of this size, or smaller if there are many members. */
#define POST_SLOT_NBYTES     (1ul << 20)
#define POST_SLOT_MIN_NBYTES (4ul << 10)
#define POST_SLOTS           4
#define POST_NBYTES          (64ul << 20)
_Static_assert(BOOT_SLOTS <= NXR_MAILBOX_SLOTS && POST_SLOTS <= NXR_MAILBOX_SLOTS, "");

/*
 * What a member publishes first. Two members may share a host if the name or the boot id is equal.
 */
struct hint {
    uint64_t host_name;
    uint64_t boot_id;
    uint64_t table;     /* a hash of the limits between algorithms: the same on all members */
    int32_t is_crowded; /* its cores are too few for the ranks that share them */
    struct nxr_choice choice;
};

/* A call under way on this member. */
struct attempt {
    const struct nxr_wanted *wanted;
    uint64_t call;
    struct nixl_team *all;  /* the members of the call, with the mailboxes for making teams */
    struct nixl_team *team; /* the team of this member: `all`, or some of them; NULL: none */
    struct hint *hints;     /* [all->size] */
    int32_t *leader_of;     /* [all->size]: the first team rank on each one's host */
    int *team_ranks;        /* [team->size]: team ranks in `all` */
    int *host_of;           /* [all->size]: the host of the team that a leader leads, or -1 */
    int other_tables;       /* the member whose limits differ from the first one's, or -1 */
    bool is_ready;          /* the team is made, except for the verdict */
};

/* ---- members that share a host --------------------------------------------------------------- */

static struct hint own_hint(const struct nxr_wanted *wanted)
{
    const struct nxr_card *card = &nxr_job.card.head;
    struct hint hint = {.host_name = ~(uint64_t)nxr_job.rank, /* matches no other member */
                        .boot_id = ~(uint64_t)nxr_job.rank,
                        .table = nxr_coll_table_hash(),
                        .is_crowded = nxr_job.is_oversubscribed,
                        .choice = wanted->choice};

    if ((card->flags & NXR_CARD_NOT_LOCAL) == 0) {
        hint.host_name = nxr_hash(card->host, strlen(card->host));
        hint.boot_id = nxr_hash(card->boot_id, strlen(card->boot_id));
    }
    return hint;
}

/* Every member says the same, whether it has found it itself or has heard of it. */
static int fail_tables(const struct nxr_wanted *wanted, int team_rank)
{
    int rank = wanted->ranks[team_rank];

    return nxr_fail(NIXL_E_INVALID_ARG, wanted->operation, rank, "", 0,
                    "%s has other limits than %s: NIXLRUN_COLL_TABLE and "
                    "NIXLRUN_COLL_TABLE_FILE must be the same on all",
                    nxr_rank_name(rank), nxr_rank_name(wanted->ranks[0]));
}

/* Members with different limits would wait for each other forever; all members detect it here. */
static int compare_tables(struct attempt *attempt)
{
    const struct nixl_team *all = attempt->all;

    for (int i = 1; i < all->size; i++) {
        if (attempt->hints[i].table != attempt->hints[0].table) {
            attempt->other_tables = i;
            return fail_tables(attempt->wanted, i);
        }
    }
    return NIXL_OK;
}

static bool may_share_host(const struct hint *a, const struct hint *b)
{
    return a->choice.color == b->choice.color &&
           (a->host_name == b->host_name || a->boot_id == b->boot_id);
}

/* The first member of the same color that is verified to be on this host. */
static int team_make_find_leader(struct nixl_team *all, const struct hint *hints, int32_t *leader_p)
{
    *leader_p = all->me;
    for (int i = 0; i < all->me; i++) {
        int scope = may_share_host(&hints[i], &hints[all->me]) ? nixl_scope(all->ranks[i])
                                                               : NIXL_SCOPE_REMOTE;

        if (scope < 0) {
            return nxr_team_break(all, scope, all->ranks[i]);
        }
        if (scope == NIXL_SCOPE_LOCAL) {
            *leader_p = i;
            return NIXL_OK;
        }
    }
    return NIXL_OK;
}

static int find_hosts(struct attempt *attempt)
{
    struct nixl_team *all = attempt->all;
    int status;

    attempt->hints[all->me] = own_hint(attempt->wanted);
    status = nxr_tree_tell_all(all, attempt->hints, sizeof(*attempt->hints));
    if (status == NIXL_OK) {
        status = compare_tables(attempt);
    }
    if (status == NIXL_OK) {
        status = team_make_find_leader(all, attempt->hints, &attempt->leader_of[all->me]);
    }
    return status == NIXL_OK
               ? nxr_tree_tell_all(all, attempt->leader_of, sizeof(*attempt->leader_of))
               : status;
}

/* ---- members of the team --------------------------------------------------------------------- */

/* A team of `size` members whose ranks are not known yet; NULL: no memory. */
static struct nixl_team *new_team(const struct attempt *attempt, uint64_t id, int size)
{
    const struct nxr_wanted *wanted = attempt->wanted;
    struct nixl_team *team = nxr_team_new();

    if (team == NULL) {
        return NULL;
    }
    nxr_team_begin(team, wanted->operation, wanted->timeout_ns);
    team->deadline = wanted->deadline;
    team->id = team->origin = id;
    team->call = attempt->call;
    team->size = size;
    team->me = -1;
    team->ranks = calloc((size_t)size, sizeof(int));
    team->members = calloc((size_t)size, sizeof(*team->members));
    team->srcs = calloc((size_t)size, sizeof(*team->srcs));
    if (team->ranks == NULL || team->members == NULL || team->srcs == NULL) {
        nxr_team_drop(team);
        return NULL;
    }
    return team;
}

static void set_member(struct nixl_team *team, int team_rank, int rank,
                       const struct nxr_identity *identity)
{
    team->ranks[team_rank] = rank;
    team->members[team_rank] = *identity;
    team->me = rank == nxr_job.rank ? team_rank : team->me;
    team->is_mixed |= identity->job != nxr_job.self.job;
}

/* The members of the call. */
static void set_all(struct nixl_team *all, const struct nxr_wanted *wanted)
{
    for (int i = 0; i < all->size; i++) {
        const struct nxr_identity at = nxr_identity_at(wanted->ranks[i]);

        set_member(all, i, wanted->ranks[i], wanted->members != NULL ? &wanted->members[i] : &at);
    }
    nxr_team_admit(all);
}

/* Is the member at that team rank of the call in this member's team? */
static bool is_with_me(const struct attempt *attempt, int team_rank)
{
    int me = attempt->all->me;

    return attempt->wanted->kind == NXR_TEAM_OF_NODE
               ? attempt->leader_of[team_rank] == attempt->leader_of[me]
               : attempt->hints[team_rank].choice.color == attempt->hints[me].choice.color;
}

/* The members in their new order: by key, then by team rank. Returns how many. */
static int choose_places(const struct attempt *attempt)
{
    const struct hint *hints = attempt->hints;
    int *team_ranks = attempt->team_ranks, n = 0;

    for (int i = 0; i < attempt->all->size; i++) {
        int at = n;

        if (!is_with_me(attempt, i)) {
            continue;
        }
        while (at > 0 && hints[team_ranks[at - 1]].choice.key > hints[i].choice.key) {
            team_ranks[at] = team_ranks[at - 1];
            at--;
        }
        team_ranks[at] = i;
        n++;
    }
    return n;
}

static int choose_team(struct attempt *attempt)
{
    struct nixl_team *all = attempt->all;
    bool is_of_node = attempt->wanted->kind == NXR_TEAM_OF_NODE;
    int color = attempt->wanted->choice.color, size = choose_places(attempt);
    uint64_t number = (uint64_t)(is_of_node ? attempt->leader_of[all->me] : color) + 1;

    if (attempt->wanted->kind == NXR_TEAM_OF_RANKS) {
        attempt->team = all;
    } else if (color != NIXL_NO_COLOR) {
        attempt->team = size > 0 ? new_team(attempt, nxr_hash_mix(all->id, number), size) : NULL;
        if (attempt->team == NULL) {
            return NIXL_E_NO_MEMORY;
        }
        for (int i = 0; i < size; i++) {
            int from = attempt->team_ranks[i];

            set_member(attempt->team, i, all->ranks[from], &all->members[from]);
        }
        nxr_team_admit(attempt->team);
    }
    return NIXL_OK;
}

static int make_host_tables(struct nixl_team *team)
{
    size_t n = (size_t)team->size;

    team->node_of = calloc(n, sizeof(int));
    team->leaders = calloc(n, sizeof(int));
    team->local = calloc(n, sizeof(int));
    team->local_index = calloc(n, sizeof(int));
    return team->node_of != NULL && team->leaders != NULL && team->local != NULL &&
                   team->local_index != NULL
               ? NIXL_OK
               : NIXL_E_NO_MEMORY;
}

/* Number the hosts, and find the members on this one. */
static int number_hosts(struct attempt *attempt)
{
    struct nixl_team *team = attempt->team;
    int own_leader = attempt->leader_of[attempt->all->me], status = make_host_tables(team);

    for (int i = 0; i < attempt->all->size; i++) {
        attempt->host_of[i] = -1;
    }
    for (int i = 0; i < team->size && status == NIXL_OK; i++) {
        int leader = attempt->leader_of[attempt->team_ranks[i]];

        if (leader < 0 || leader >= attempt->all->size) {
            return NIXL_E_INTERNAL;
        }
        if (attempt->host_of[leader] < 0) {
            attempt->host_of[leader] = team->n_nodes;
            team->leaders[team->n_nodes++] = i;
        }
        team->node_of[i] = attempt->host_of[leader];
        team->local_index[i] = -1;
        if (leader == own_leader) {
            team->local_index[i] = team->node.size;
            team->local[team->node.size++] = i;
            team->node.is_crowded |= attempt->hints[attempt->team_ranks[i]].is_crowded != 0;
        }
    }
    if (status == NIXL_OK) {
        team->my_node = team->node_of[team->me];
        team->node.me = team->local_index[team->me];
    }
    return status;
}

/* ---- ways to meet ---------------------------------------------------------------------------- */

/* Names that no user can have: regions of the library begin with a control character. */
static void make_name(char *name, size_t name_nbytes, const struct nixl_team *team,
                      const char *what)
{
    snprintf(name, name_nbytes, "%cteam %016llx %s", NXR_REGION_INTERNAL,
             (unsigned long long)team->id, what);
}

static int open_boot(struct nixl_team *team)
{
    char name[64];

    make_name(name, sizeof(name), team, "boot");
    return nxr_mailbox_open(&team->boot, name, team->size, BOOT_SLOT_NBYTES, BOOT_SLOTS);
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
    return nxr_mailbox_open(&team->post, name, team->size, slot, POST_SLOTS);
}

static int open_ways(const struct attempt *attempt)
{
    struct nixl_team *team = attempt->team;
    int status = team != attempt->all ? open_boot(team) : NIXL_OK;
    char name[64];

    if (status == NIXL_OK) {
        make_name(name, sizeof(name), team, "node");
        status = nxr_node_open(team, name);
    }
    return status == NIXL_OK ? open_post(team) : status;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Without a failure: each member reports that it is ready, and learns that all are. */
static int team_make_conclude(const struct attempt *attempt)
{
    const struct nxr_verdict success = {.status = NIXL_OK, .member = -1};
    struct nixl_team *all = attempt->all;
    char nothing = 0;
    int status = nxr_tree_gather(all, &nothing, 0);

    if (status == NIXL_OK) {
        status = nxr_tree_hear(all, &nothing, 0);
    }
    if (status == NIXL_OK && nxr_agreement_write(all->call, &success).status != NIXL_OK) {
        status = NIXL_E_CANCELED; /* another member has seen a death earlier */
    }
    if (status == NIXL_OK) {
        all->call = 0; /* it has its verdict, so nothing ends waits on it */
        nxr_fail_quiet_begin();
        (void)nxr_tree_pass(all, &nothing, 0); /* members that this does not reach visit others */
        nxr_fail_quiet_end();
    }
    return status;
}

/* Why the team could not be made: a death that explains it, if there is one. */
static int team_make_explain(const struct attempt *attempt, struct nixl_team *team, int status)
{
    if (status == NIXL_OK || nxr_agreement_is_written(attempt->call)) {
        return status;
    }
    status = nxr_team_explain(team, status);
    return nxr_team_break(attempt->all, status, atomic_load(&team->lost_rank));
}

/* What this member proposes after a failure of its own. */
static struct nxr_verdict propose(const struct attempt *attempt, int status)
{
    const struct nixl_team *all = attempt->all;
    struct nxr_verdict proposal = {.status = status, .member = all != NULL ? all->me : -1};

    if (status == NIXL_E_INVALID_ARG && attempt->other_tables >= 0) {
        proposal.member = attempt->other_tables;
        proposal.cause = NXR_VERDICT_TABLES;
    }
    if (status == NIXL_E_PEER_LOST && all != NULL) {
        int rank = atomic_load(&all->lost_rank);
        int lost = nxr_team_rank_of(all, rank >= 0 ? rank : nixl_last_error()->rank);

        if (lost >= 0) {
            proposal.member = lost;
            proposal.has_left = nxr_peer_has_left(all->ranks[lost]);
            if (atomic_load(&all->lost_leaves) && !proposal.has_left) {
                proposal.cause = NXR_VERDICT_LEAVES;
            }
        } else {
            proposal.status = NIXL_E_TRANSPORT;
        }
    }
    return proposal;
}

/* Record the agreed failure. `own` is this member's own status. */
static int fail_make(const struct attempt *attempt, const struct nxr_verdict *verdict, int own)
{
    const char *operation = attempt->wanted->operation;
    const struct nixl_error error = *nixl_last_error();
    int rank = verdict->member >= 0 ? attempt->wanted->ranks[verdict->member] : -1;
    char why[200];

    if (verdict->status == NIXL_E_PEER_LOST && attempt->all != NULL) {
        nxr_team_hear_of_loss(attempt->all, verdict->member,
                              verdict->cause == NXR_VERDICT_LEAVES ? NXR_LOSS_LEAVES
                              : verdict->has_left != 0             ? NXR_LOSS_LEFT
                                                                   : NXR_LOSS_DIED);
        return nxr_rank_is_lost(rank) ? nxr_peer_fail_lost(operation, rank, "")
                                      : nxr_team_fail_lost(attempt->all, operation, rank);
    }
    if (verdict->cause == NXR_VERDICT_TABLES) {
        return fail_tables(attempt->wanted, verdict->member);
    }
    if (verdict->status != own) {
        return nxr_fail(verdict->status, operation, rank, "", 0, "%s cannot take part: %s",
                        rank >= 0 ? nxr_rank_name(rank) : "a member",
                        nixl_strerror(verdict->status));
    }
    snprintf(why, sizeof(why), "%s", error.status == own ? error.text : nixl_strerror(own));
    return nxr_fail(own, operation, error.status == own ? error.rank : -1, "", 0,
                    "cannot create the team: %s", why);
}

/* This member has failed, or knows of a failure: reach the verdict. */
static int team_make_settle(const struct attempt *attempt, int status)
{
    const struct nxr_wanted *wanted = attempt->wanted;
    struct nxr_verdict verdict = propose(attempt, status);

    if (nxr_agreement_visit(attempt->call, wanted->ranks, wanted->size, wanted->deadline,
                            &verdict) != NIXL_OK) {
        return nxr_fail(NIXL_E_CANCELED, wanted->operation, -1, "", 0,
                        "this rank is leaving the job");
    }
    if (verdict.member >= wanted->size) {
        verdict = (struct nxr_verdict){.status = NIXL_E_INTERNAL, .member = -1};
    }
    if (verdict.status == NIXL_OK && !attempt->is_ready) {
        verdict.status = NIXL_E_INTERNAL; /* no member writes that before this one is ready */
    }
    return verdict.status == NIXL_OK ? NIXL_OK : fail_make(attempt, &verdict, status);
}

/* ---- the call -------------------------------------------------------------------------------- */

static int attempt_begin(struct attempt *attempt)
{
    const struct nxr_wanted *wanted = attempt->wanted;
    size_t n = (size_t)wanted->size;

    attempt->all = new_team(attempt, attempt->call, wanted->size);
    attempt->hints = calloc(n, sizeof(*attempt->hints));
    attempt->leader_of = calloc(n, sizeof(*attempt->leader_of));
    attempt->team_ranks = calloc(n, sizeof(*attempt->team_ranks));
    attempt->host_of = calloc(n, sizeof(*attempt->host_of));
    if (attempt->all == NULL || attempt->hints == NULL || attempt->leader_of == NULL ||
        attempt->team_ranks == NULL || attempt->host_of == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    set_all(attempt->all, wanted);
    if (wanted->divided != NULL && !wanted->divided->is_boot_worn) {
        attempt->all->boot = wanted->divided->boot;
        attempt->all->is_boot_borrowed = true;
        return NIXL_OK;
    }
    return open_boot(attempt->all);
}

/* Make everything except the verdict. */
static int team_make_prepare(struct attempt *attempt)
{
    int status = team_make_explain(attempt, attempt->all, find_hosts(attempt));

    if (status == NIXL_OK) {
        status = choose_team(attempt);
    }
    if (status == NIXL_OK && attempt->team != NULL) {
        status = number_hosts(attempt);
        if (status == NIXL_OK) {
            status = team_make_explain(attempt, attempt->team, open_ways(attempt));
        }
    }
    attempt->is_ready = status == NIXL_OK;
    return status;
}

static void attempt_end(struct attempt *attempt, int status)
{
    struct nixl_team *team = attempt->team;

    if (attempt->all != NULL && (attempt->all != team || status != NIXL_OK)) {
        nxr_team_drop(attempt->all);
    }
    if (team != NULL && team != attempt->all && status != NIXL_OK) {
        nxr_team_drop(team);
    }
    free(attempt->hints);
    free(attempt->leader_of);
    free(attempt->team_ranks);
    free(attempt->host_of);
}

static void complete(struct nixl_team *team)
{
    if (team->node.head != NULL) {
        team->node.full_fence =
            nxr_barrier_is_full() || atomic_load(&team->node.head->needs_full_fence) != 0;
    }
    team->call = 0;
    nxr_team_opened(team);
}

int nxr_team_make(const struct nxr_wanted *wanted, uint64_t call, struct nixl_team **team_p)
{
    struct attempt attempt = {.wanted = wanted, .call = call, .other_tables = -1};
    int status = attempt_begin(&attempt);

    if (status == NIXL_OK) {
        status = team_make_prepare(&attempt);
    }
    if (status == NIXL_OK) {
        status = team_make_explain(&attempt, attempt.all, team_make_conclude(&attempt));
    }
    if (status != NIXL_OK) {
        if (wanted->divided != NULL) {
            wanted->divided->is_boot_worn = true;
        }
        status = team_make_settle(&attempt, status);
    }
    if (status == NIXL_OK && attempt.team != NULL) {
        complete(attempt.team);
    }
    attempt_end(&attempt, status);
    if (status == NIXL_OK) {
        *team_p = attempt.team;
    }
    return status;
}
