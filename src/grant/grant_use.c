/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Using a grant: check the operation, and start it, with a place and a use of the grant. On one
 * host all of that is done within the call; between hosts the words of the grant are changed step
 * by step (grant_lease.c). The last lease that ended within its call is kept for the next operation
 * (lease_spare). No lock.
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
    uint64_t offset = what->piece.offset;
    int status = check_region(operation, opened, what->region);

    if (status == NIXL_OK && nxr_region_segment(what->region, what->rank) == NULL) {
        status = nxr_transfer_find_segment(operation, what->rank, what->region,
                                           nxr_op_forbidden_by(what->kind), &offset, what->nbytes,
                                           &segment);
    }
    if (status == NIXL_OK &&
        !nxr_grant_pieces_have(&opened->pieces, nxr_region_extents(what->region, what->rank),
                               what->piece.offset, what->nbytes)) {
        status = refuse_block(operation, opened, what->piece.offset, what->nbytes);
    }
    return status;
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

/*
 * A lease for a token, nothing taken yet: the one that was kept, if it is for that token. NULL:
 * *status_p is the failure, recorded.
 */
static struct nxr_lease *lease_new(const char *operation, const struct nxr_granted *what,
                                   int *status_p)
{
    struct nxr_lease *lease = atomic_exchange(&lease_spare, NULL);
    struct nxr_grant_opened *opened;

    if (lease != NULL && what->token != NULL && lease->opened->rank == what->rank &&
        strcmp(lease->opened->text, what->token) == 0) {
        return lease;
    }
    if (lease != NULL) {
        lease_drop(lease);
    }
    *status_p = nxr_grant_open(operation, what->token, what->rank, &opened);
    if (*status_p != NIXL_OK) {
        return NULL;
    }
    lease = lease_make(operation, opened);
    if (lease == NULL) {
        nxr_grant_give(opened);
        *status_p =
            nxr_fail(NIXL_E_NO_MEMORY, operation, what->rank, "", 0, "no memory to use a grant");
    }
    return lease;
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

/* A lease for the operation, which its grant allows. NULL: *status_p is the failure, recorded. */
static struct nxr_lease *granted_check(const char *operation, const struct nxr_granted *what,
                                       int *status_p)
{
    struct nxr_lease *lease = lease_new(operation, what, status_p);

    if (lease == NULL) {
        return NULL;
    }
    lease->operation = operation;
    lease->what = *what;
    lease->req->operation = operation;
    lease->req->op.nbytes = what->nbytes;
    *status_p = check_use(lease, what);
    if (*status_p == NIXL_OK) {
        *status_p = find_table(lease, what->rank);
    }
    if (*status_p != NIXL_OK) {
        lease_keep(lease);
        return NULL;
    }
    return lease;
}

/* It has ended within the call, and so has the lease. */
static int granted_over(struct nxr_lease *lease, int status)
{
    if (status == NIXL_E_STALE) {
        status = nxr_fail(status, lease->operation, lease->opened->rank, "", 0, "%s",
                          nxr_lease_why_stale);
    } else if (status < 0) {
        status = nxr_lease_fail(lease, status);
    }
    lease_keep(lease);
    return status;
}

/* A use was taken: move, and give the place back. */
static int granted_run(struct nxr_lease *lease, struct nixl_req **req_p)
{
    struct nixl_req *under_way = NULL;
    int status = lease->what.move(lease->operation, &lease->what, &under_way);

    if (status == NIXL_INPROGRESS) {
        nxr_lease_continue(lease, NXR_LEASE_MOVE, under_way, req_p);
        return status;
    }
    if (status < 0) { /* it is recorded */
        nxr_lease_abort(lease);
        lease_keep(lease);
        return status;
    }
    status = nxr_lease_leave(lease, &under_way);
    if (status == NIXL_INPROGRESS) {
        nxr_lease_continue(lease, NXR_LEASE_LEAVE, under_way, req_p);
        return status;
    }
    return granted_over(lease, status);
}

static int granted_start(const char *operation, const struct nxr_granted *what,
                         struct nixl_req **req_p)
{
    int status;
    struct nxr_lease *lease = granted_check(operation, what, &status);

    if (lease == NULL) {
        nxr_granted_drop(what);
        return status;
    }
    if (lease->table->method != NXR_METHOD_MEMCPY) {
        return nxr_lease_start(lease, req_p);
    }
    status = nxr_lease_enter(lease);
    if (status != NIXL_OK) {
        lease_keep(lease);
        nxr_granted_drop(what);
        return status;
    }
    return granted_run(lease, req_p);
}

static const struct nxr_granting granting = {.start = granted_start};

void nxr_grant_register(void)
{
    nxr_granting = &granting;
    nxr_grant_register_messages();
}
