/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Using a grant: check the operation, take a place and a use, and give the place back. The last
 * lease that ended within its call is kept for the next operation (lease_spare). No lock.
 */
#include "config.h"

#include "grant/grant.h"
#include "core/request.h"
#include "sync/atomic.h"
#include "sync/granted.h"
#include "transfer/transfer.h"
#include "util/log.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

static struct nxr_lease *_Atomic lease_spare;

/* ---- may it? --------------------------------------------------------------------------------- */

static int refuse_region(const char *operation, const struct nxr_grant_opened *opened,
                         const struct nixl_region *region)
{
    return nxr_fail(NIXL_E_ACCESS, operation, opened->rank, "", 0,
                    "the grant is for blocks of region '%s', not of '%s'",
                    nxr_region_label(opened->name), nxr_region_label(region->name));
}

static int refuse_block(const char *operation, const struct nxr_grant_opened *opened, uint64_t at,
                        uint64_t nbytes)
{
    return nxr_fail(
        NIXL_E_ACCESS, operation, opened->rank, "", 0,
        "%llu bytes at offset %llu of region '%s' are not, or not all, among the blocks "
        "that %s has lent",
        (unsigned long long)nbytes, (unsigned long long)at, nxr_region_label(opened->name),
        nxr_rank_name(opened->rank));
}

static int check_right(const char *operation, const struct nxr_grant_opened *opened,
                       enum nxr_op_kind kind)
{
    const bool is_put = kind == NXR_OP_PUT;

    return (opened->rights & (is_put ? NIXL_GRANT_WRITE : NIXL_GRANT_READ)) != 0
               ? NIXL_OK
               : nxr_fail(NIXL_E_ACCESS, operation, opened->rank, "", 0,
                          "the grant is without %s: its blocks may only be %s",
                          is_put ? "NIXL_GRANT_WRITE" : "NIXL_GRANT_READ",
                          is_put ? "read" : "written");
}

static int check_region(const char *operation, const struct nxr_grant_opened *opened,
                        const struct nixl_region *region)
{
    return strcmp(region->name, opened->name) == 0 ? NIXL_OK
                                                   : refuse_region(operation, opened, region);
}

/* All blocks of a prepared transfer. */
static int check_side(const char *operation, const struct nxr_grant_opened *opened,
                      const struct nxr_side *side)
{
    for (size_t i = 0; i < side->n_entries; i++) {
        const struct nxr_blocks *blocks = &side->blocks[i];
        int status = check_region(operation, opened, blocks->region);
        uint64_t at;

        if (status != NIXL_OK) {
            return status;
        }
        if (!nxr_grant_pieces_have_blocks(&opened->pieces, blocks, &at)) {
            return refuse_block(operation, opened, at, blocks->block_nbytes);
        }
    }
    return NIXL_OK;
}

/* The bytes of a put or get. Whether its region has extents there is known once it was looked up.
 */
static int check_bytes(const char *operation, const struct nxr_grant_opened *opened,
                       const struct nxr_granted *what)
{
    struct nxr_segment *segment = NULL;
    uint64_t offset = what->offset;
    int status = check_region(operation, opened, what->region);

    if (status == NIXL_OK && nxr_region_segment(what->region, what->rank) == NULL) {
        status = nxr_transfer_find_segment(operation, what->rank, what->region,
                                           nxr_op_forbidden_by(what->kind), &offset, what->nbytes,
                                           &segment);
    }
    if (status == NIXL_OK &&
        !nxr_grant_pieces_have(&opened->pieces, nxr_region_extents(what->region, what->rank),
                               what->offset, what->nbytes)) {
        status = refuse_block(operation, opened, what->offset, what->nbytes);
    }
    return status;
}

/* ---- entering and leaving -------------------------------------------------------------------- */

static uint64_t lease_record(const struct nxr_lease *lease)
{
    return (uint64_t)lease->opened->token.slot * sizeof(struct nxr_grant_record);
}

static struct nxr_atomic swap_of(uint64_t offset, uint64_t expected, uint64_t desired)
{
    return (struct nxr_atomic){.op = NXR_ATOMIC_COMPARE_SWAP,
                               .type = NIXL_TYPE_UINT64,
                               .offset = offset,
                               .operand = desired,
                               .compare = expected};
}

static uint64_t place_offset(const struct nxr_lease *lease, uint32_t place)
{
    return lease_record(lease) + offsetof(struct nxr_grant_record, places) +
           place * sizeof(uint64_t);
}

/* The word of a place that this process has. */
static uint64_t my_place(const struct nxr_lease *lease)
{
    return nxr_grant_place(lease->opened->token.turn, lease->table->peer->place);
}

static int fail_word(const struct nxr_lease *lease, int status)
{
    return status == NIXL_E_PEER_LOST
               ? nxr_peer_fail_lost(lease->operation, lease->opened->rank, "")
               : nxr_fail(status, lease->operation, lease->opened->rank, "", 0,
                          "cannot enter or leave the grant of %s: %s",
                          nxr_rank_name(lease->opened->rank), nixl_strerror(status));
}

/* Take an empty place; those of one user are tried from the same one on. */
static int take_place(struct nxr_lease *lease)
{
    const uint64_t mine = my_place(lease);

    for (uint32_t i = 0; i < NXR_GRANT_N_PLACES; i++) {
        uint32_t place = (nxr_grant_place_user(mine) + i) % NXR_GRANT_N_PLACES;
        const struct nxr_atomic swap = swap_of(place_offset(lease, place), 0, mine);
        uint64_t seen;
        int status = nxr_atomic_change(lease->table, &swap, false, &seen);

        if (status != NIXL_OK) {
            return fail_word(lease, status);
        }
        if (seen == 0) {
            lease->place = place;
            return NIXL_OK;
        }
    }
    return nxr_fail(NIXL_E_LIMIT, lease->operation, lease->opened->rank, "", 0,
                    "%u operations use the grant at this moment, which is the limit; try again",
                    NXR_GRANT_N_PLACES);
}

/* Take a use of the word, if the grant is open. */
static int take_use(struct nxr_lease *lease)
{
    struct nxr_grant_opened *opened = lease->opened;
    uint64_t word = atomic_load_explicit(&opened->word, memory_order_relaxed);
    int state = nxr_grant_word_state(word, opened->token.turn);

    while (state == NIXL_GRANT_OPEN) {
        const uint64_t used = nxr_grant_word_used(word);
        const struct nxr_atomic swap =
            swap_of(lease_record(lease) + offsetof(struct nxr_grant_record, word), word, used);
        uint64_t seen;
        int status = nxr_atomic_change(lease->table, &swap, false, &seen);

        if (status != NIXL_OK) {
            return fail_word(lease, status);
        }
        atomic_store_explicit(&opened->word, seen == word ? used : seen, memory_order_relaxed);
        if (seen == word) {
            return NIXL_OK;
        }
        word = seen;
        state = nxr_grant_word_state(word, opened->token.turn);
    }
    return nxr_grant_refuse(lease->operation, opened->rank, state);
}

int nxr_lease_enter(struct nxr_lease *lease)
{
    int status = take_place(lease);

    if (status == NIXL_OK) {
        status = take_use(lease);
        if (status != NIXL_OK) {
            nxr_lease_abort(lease);
        }
    }
    return status;
}

struct nxr_atomic nxr_lease_leaving(const struct nxr_lease *lease)
{
    return swap_of(place_offset(lease, lease->place), my_place(lease), 0);
}

void nxr_lease_abort(const struct nxr_lease *lease)
{
    const struct nxr_atomic swap = nxr_lease_leaving(lease);
    uint64_t seen;
    int status = nxr_peer_is_lost(lease->table->peer)
                     ? NIXL_OK
                     : nxr_atomic_change(lease->table, &swap, true, &seen);

    if (status != NIXL_OK) {
        nxr_debug(CORE, "cannot tell %s that a use of its grant is over: %s",
                  nxr_peer_name(lease->table->peer), nixl_strerror(status));
    }
}

/* ---- leases ---------------------------------------------------------------------------------- */

static struct nxr_lease *lease_make(const char *operation, struct nxr_grant_opened *opened)
{
    struct nxr_lease *lease = malloc(sizeof(*lease));

    if (lease != NULL) {
        *lease = (struct nxr_lease){.opened = opened};
        nxr_list_init(&lease->link);
        lease->req = nxr_request_new(operation, &nxr_lease_owner, lease);
    }
    if (lease == NULL || lease->req == NULL) {
        free(lease);
        return NULL;
    }
    lease->req->lost_rank = opened->rank;
    return lease;
}

void nxr_lease_free(struct nxr_lease *lease)
{
    nxr_grant_give(lease->opened);
    free(lease);
}

/* Free a lease whose request nobody has. */
static void lease_drop(struct nxr_lease *lease)
{
    free(lease->req);
    nxr_lease_free(lease);
}

/* The same, but keep it, as the next operation may have the same token. */
static void lease_keep(struct nxr_lease *lease)
{
    struct nxr_lease *former = atomic_exchange(&lease_spare, lease);

    if (former != NULL) {
        lease_drop(former);
    }
}

void nxr_lease_drop_spare(void)
{
    struct nxr_lease *lease = atomic_exchange(&lease_spare, NULL);

    if (lease != NULL) {
        lease_drop(lease);
    }
}

/* A lease for a token, nothing taken yet: the one that was kept, if it is for that token. */
static int lease_new(const char *operation, const struct nxr_granted *what,
                     struct nxr_lease **lease_p)
{
    struct nxr_lease *lease = atomic_exchange(&lease_spare, NULL);
    struct nxr_grant_opened *opened;
    int status;

    if (lease != NULL && what->token != NULL && lease->opened->rank == what->rank &&
        strcmp(lease->opened->text, what->token) == 0) {
        *lease_p = lease;
        return NIXL_OK;
    }
    if (lease != NULL) {
        lease_drop(lease);
    }
    status = nxr_grant_open(operation, what->token, what->rank, &opened);
    if (status != NIXL_OK) {
        return status;
    }
    *lease_p = lease_make(operation, opened);
    if (*lease_p == NULL) {
        nxr_grant_give(opened);
        return nxr_fail(NIXL_E_NO_MEMORY, operation, what->rank, "", 0, "no memory to use a grant");
    }
    return NIXL_OK;
}

/* ---- for sync -------------------------------------------------------------------------------- */

static int check_use(const struct nxr_lease *lease, const struct nxr_granted *what)
{
    int status = check_right(lease->operation, lease->opened, what->kind);

    if (status != NIXL_OK) {
        return status;
    }
    return what->side != NULL ? check_side(lease->operation, lease->opened, what->side)
                              : check_bytes(lease->operation, lease->opened, what);
}

/* Find the owner's table, which must be that of the process that has made the token. */
static int find_table(struct nxr_lease *lease, int rank)
{
    const struct nxr_token *token = &lease->opened->token;
    int status = nxr_grant_table_of(lease->operation, rank, &lease->table);

    if (status == NIXL_OK && !nxr_identity_is(&lease->table->peer->identity, &token->maker)) {
        status = nxr_token_check_maker(lease->operation, token, rank); /* it says why */
        status = status == NIXL_OK ? nxr_grant_refuse(lease->operation, rank, 0) : status;
    }
    return status;
}

static int granted_begin(const char *operation, const struct nxr_granted *what,
                         struct nxr_lease **lease_p)
{
    struct nxr_lease *lease = NULL;
    int status = lease_new(operation, what, &lease);

    if (status != NIXL_OK || lease == NULL) {
        return status;
    }
    lease->operation = operation;
    lease->req->operation = operation;
    lease->req->op.nbytes = what->nbytes;
    status = check_use(lease, what);
    if (status == NIXL_OK) {
        status = find_table(lease, what->rank);
    }
    if (status == NIXL_OK) {
        status = nxr_lease_enter(lease);
    }
    if (status != NIXL_OK) {
        lease_keep(lease);
        return status;
    }
    *lease_p = lease;
    return NIXL_OK;
}

/* It has ended within the call, and so has the lease. */
static int granted_over(struct nxr_lease *lease, int status)
{
    if (status == NIXL_E_STALE) {
        status = nxr_fail(status, lease->operation, lease->opened->rank, "", 0, "%s",
                          nxr_lease_why_stale);
    } else if (status < 0) {
        status = fail_word(lease, status);
    }
    lease_keep(lease);
    return status;
}

static int granted_end(struct nxr_lease *lease, int status, struct nixl_req *started,
                       struct nixl_req **req_p)
{
    struct nixl_req *leaving = NULL;

    if (status == NIXL_INPROGRESS) {
        nxr_lease_continue(lease, started, false, req_p);
        return status;
    }
    if (status < 0) { /* it is recorded */
        nxr_lease_abort(lease);
        lease_keep(lease);
        return status;
    }
    status = nxr_lease_leave(lease, &leaving);
    if (status == NIXL_INPROGRESS) {
        nxr_lease_continue(lease, leaving, true, req_p);
        return status;
    }
    return granted_over(lease, status);
}

static const struct nxr_granting granting = {.begin = granted_begin, .end = granted_end};

void nxr_grant_register(void)
{
    nxr_granting = &granting;
    nxr_grant_register_messages();
}
