/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Using the tokens of other ranks: read the slot that a token names, compare it, claim the buffer,
 * move the data, and report the end to the exposer. Before the claim nothing is changed; at the
 * claim everything else has been checked. No lock; pair_handle.c has one.
 */
#include "config.h"

#include "pair/pair.h"
#include "core/request.h"
#include "core/trace.h"
#include "region/extents.h"
#include "transfer/op.h"
#include "transfer/transfer.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdlib.h>
#include <string.h>

/* A buffer that this rank has claimed. */
struct nxr_claim {
    struct nxr_segment *table; /* of the exposer */
    uint32_t slot;
    uint32_t turn;
    struct nxr_pair_handle *handle;
};

/* ---- the exposer's word ---------------------------------------------------------------------- */

static uint64_t claim_word_offset(uint32_t slot)
{
    return (uint64_t)slot * sizeof(struct nxr_pair_slot) + offsetof(struct nxr_pair_slot, word);
}

static int swap_word(struct nxr_segment *table, uint32_t slot, uint64_t expected, uint64_t desired,
                     bool is_signal, uint64_t *seen_p)
{
    const struct nxr_atomic atomic = {.op = NXR_ATOMIC_COMPARE_SWAP,
                                      .type = NIXL_TYPE_UINT64,
                                      .offset = claim_word_offset(slot),
                                      .operand = desired,
                                      .compare = expected};

    return nxr_atomic_change(table, &atomic, is_signal, seen_p);
}

/* Report to the exposer how it ended. */
static void claim_tell_end(const struct nxr_claim *claim, int status, bool is_touched)
{
    int place = claim->table->peer->place;
    uint64_t begun = nxr_pair_word(claim->turn, place, NXR_PAIR_BEGUN), seen;
    uint64_t ended = nxr_pair_word(claim->turn, place, nxr_pair_ended(status, is_touched));
    int told = swap_word(claim->table, claim->slot, begun, ended, true, &seen);

    if (told != NIXL_OK) {
        nxr_debug(CORE, "cannot notify %s of the end of a buffer that it exposed: %s",
                  nxr_peer_name(claim->table->peer), nixl_strerror(told));
    }
}

/*
 * The transfer of a claim has ended: report it to the exposer, and free the claim. Any thread;
 * job.lock may be held.
 */
static void claim_end(struct nxr_claim *claim, int status, bool is_touched)
{
    if (!nxr_peer_is_lost(claim->table->peer)) {
        claim_tell_end(claim, status, is_touched);
    }
    if (claim->handle != NULL) {
        nxr_pair_handle_give(claim->handle);
    }
    free(claim);
}

/* The request that moves a claimed buffer: `owned` is the claim. */
static void claim_req_ended(struct nixl_req *req, int status)
{
    claim_end(req->owned, status, req->op.nbytes_done > 0 || status != NIXL_E_CANCELED);
}

static const struct nxr_req_owner claim_owner = {.has_peer = true,
                                                 .start = nxr_op_submit,
                                                 .ended = claim_req_ended,
                                                 .describe = nxr_op_describe};

/* ---- looking at a token ---------------------------------------------------------------------- */

/* A call that uses a token. */
struct use {
    const char *operation;
    struct nxr_token token;
    int rank; /* of the exposer, as calls name it; -1: not known yet */
    struct nxr_segment *table;
    struct nxr_pair_slot slot; /* as it was read */
};

static int claim_refuse(const struct use *use, int status, const char *why)
{
    return nxr_token_refuse(use->operation, use->rank, status, why);
}

static int read_token(const char *operation, const char *text, struct use *use)
{
    int status;

    use->operation = operation;
    use->rank = -1;
    status = nxr_token_read(operation, text, &use->token, &use->rank);
    if (status != NIXL_OK) {
        return status;
    }
    if (use->token.use == NXR_TOKEN_GRANT) {
        return claim_refuse(use, NIXL_E_INVALID_ARG,
                            "it is of a grant: give it to a put or get, in struct nixl_op");
    }
    return use->token.slot < NXR_PAIR_N_SLOTS
               ? NIXL_OK
               : claim_refuse(use, NIXL_E_INVALID_ARG, "there is no such slot");
}

/* Refuse: the word is not the one that the token was issued with. */
static int refuse_word(const struct use *use, uint64_t word)
{
    unsigned state = nxr_pair_word_state(word);

    if (nxr_pair_word_turn(word) == use->token.turn && (state & NXR_PAIR_ENDED) != 0) {
        switch (nxr_pair_status(word)) {
        case NIXL_E_EXPIRED:
            return claim_refuse(use, NIXL_E_EXPIRED, "its lifetime is over");
        case NIXL_E_CANCELED:
            return claim_refuse(use, NIXL_E_CANCELED, "it was taken back, or declined");
        default:
            break;
        }
    }
    return claim_refuse(use, NIXL_E_STALE,
                        state == NXR_PAIR_BEGUN ? "another rank uses it"
                                                : "it has already been used");
}

/* The exposer's record must match the token. */
static int compare_slot(const struct use *use)
{
    const struct nxr_token *token = &use->token;
    const struct nxr_pair_slot *slot = &use->slot;
    uint64_t word = atomic_load_explicit(&use->slot.word, memory_order_relaxed);

    if (memcmp(slot->nonce, token->nonce, sizeof(slot->nonce)) != 0) {
        return claim_refuse(use, NIXL_E_STALE, "its buffer is not exposed now");
    }
    if (word != nxr_pair_word(token->turn, 0, NXR_PAIR_OPEN)) {
        return refuse_word(use, word);
    }
    if (slot->use != (uint32_t)token->use || slot->nbytes != token->nbytes) {
        return claim_refuse(use, NIXL_E_INVALID_ARG, "its use or size is not what was exposed");
    }
    if (slot->rank != NIXL_ANY_RANK && slot->rank != use->table->peer->place) {
        return claim_refuse(use, NIXL_E_INVALID_ARG, "it is for another rank");
    }
    return NIXL_OK;
}

/* Read the slot that the token names. */
static int claim_read_slot(struct use *use)
{
    uint64_t offset = (uint64_t)use->token.slot * sizeof(use->slot);
    struct nixl_region *region;
    int status = nxr_token_check_maker(use->operation, &use->token, use->rank);

    if (status == NIXL_OK) {
        status = nxr_pair_handle_tables(use->operation, &region);
    }
    if (status == NIXL_OK) {
        status = nxr_transfer_find_segment(use->operation, use->rank, region, 0, &offset,
                                           sizeof(use->slot), &use->table);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = nixl_get(use->rank, region, offset, &use->slot, sizeof(use->slot));
    if (status != NIXL_OK) {
        return nxr_fail_inner(status, use->operation, use->rank);
    }
    use->slot.name[NIXL_NAME_MAX] = '\0';
    return compare_slot(use);
}

/* ---- claiming -------------------------------------------------------------------------------- */

/*
 * Claim the buffer: from here on it is this rank's, or the claim has failed. A claim
 * that got no answer may still take effect: its end is sent behind it, and else changes nothing.
 */
static int claim_buffer(const struct use *use, const struct nxr_claim *claim)
{
    uint64_t open = nxr_pair_word(use->token.turn, 0, NXR_PAIR_OPEN), seen = 0;
    uint64_t begun = nxr_pair_word(use->token.turn, use->table->peer->place, NXR_PAIR_BEGUN);
    int status = swap_word(use->table, use->token.slot, open, begun, false, &seen);

    if (status != NIXL_OK) {
        if (status != NIXL_E_PEER_LOST && status != NIXL_E_STALE) {
            claim_tell_end(claim, NIXL_E_CANCELED, false);
        }
        return nxr_fail(status, use->operation, use->rank, "", 0,
                        "cannot claim the buffer of %s: %s", nxr_rank_name(use->rank),
                        nixl_strerror(status));
    }
    return seen == open ? NIXL_OK : refuse_word(use, seen);
}

static struct nxr_claim *claim_new(const struct use *use)
{
    struct nxr_claim *claim = malloc(sizeof(*claim));

    if (claim != NULL) {
        *claim = (struct nxr_claim){
            .table = use->table, .slot = use->token.slot, .turn = use->token.turn};
    }
    return claim;
}

static int fail_memory(const struct use *use)
{
    return nxr_fail(NIXL_E_NO_MEMORY, use->operation, use->rank, "", 0, "no memory to use a token");
}

/* Find the segment that was exposed, not a later one of the same name, and the place in it. */
static int claim_find_segment(const struct use *use, struct nixl_region *region, struct nxr_op *op)
{
    struct nxr_segment **segment_p = &op->segment;
    int rank = use->rank, status = NIXL_OK;

    *segment_p = nxr_region_segment(region, rank);
    if (*segment_p == NULL || (*segment_p)->key.generation != use->slot.generation) {
        status = nxr_region_resolve(use->operation, region, rank, true, nxr_env.resolve_timeout,
                                    segment_p);
    }
    if (status == NIXL_E_TIMEOUT ||
        (status == NIXL_OK && (*segment_p)->key.generation != use->slot.generation)) {
        return claim_refuse(use, NIXL_E_STALE, "the region of its buffer was closed");
    }
    return status == NIXL_OK
               ? nxr_extents_place(use->operation, region, segment_p, &op->offset, op->nbytes)
               : status;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* Check everything else, so that only the transfer itself can fail after the claim. */
static int claim_prepare(const struct use *use, struct nxr_op *op,
                         struct nxr_pair_handle **handle_p)
{
    int status;

    *handle_p = nxr_pair_handle_take(use->slot.name);
    if (*handle_p == NULL) {
        return fail_memory(use);
    }
    status =
        nxr_transfer_check(use->operation, use->rank, (*handle_p)->region, op->local, op->nbytes);
    if (status == NIXL_OK) {
        status = claim_find_segment(use, (*handle_p)->region, op);
    }
    if (status == NIXL_OK && !nxr_segment_allows(op->segment, nxr_op_forbidden_by(op->kind))) {
        status = nxr_region_fail_access(use->operation, (*handle_p)->region, op->segment,
                                        nxr_op_forbidden_by(op->kind));
    }
    if (status != NIXL_OK) {
        nxr_pair_handle_give(*handle_p);
    }
    return status;
}

/* Claim the buffer and start. */
static int claim_run(const struct use *use, struct nxr_op *op, struct nixl_req **req_p)
{
    struct nxr_claim *claim = claim_new(use);
    struct nixl_req *req = nxr_request_new(use->operation, &claim_owner, claim);
    struct nxr_pair_handle *handle = NULL;
    int status = claim != NULL && req != NULL ? NIXL_OK : fail_memory(use);

    if (status == NIXL_OK) {
        status = claim_prepare(use, op, &handle);
    }
    if (status == NIXL_OK) {
        status = claim_buffer(use, claim);
        if (status != NIXL_OK) {
            nxr_pair_handle_give(handle);
        }
    }
    if (status != NIXL_OK || op->nbytes == 0) {
        free(req);
        if (status != NIXL_OK) {
            free(claim);
            return status;
        }
        claim->handle = handle;
        claim_end(claim, NIXL_OK, false);
        return NIXL_OK;
    }
    claim->handle = handle;
    nxr_request_begin(req, op);
    if (nxr_request_is_done(req)) {
        return nxr_request_finish(use->operation, &req);
    }
    *req_p = req;
    nxr_request_leave();
    return NIXL_INPROGRESS;
}

static int use_token(struct use *use, enum nixl_pair_use wanted, const char *text, void *local,
                     size_t nbytes, struct nixl_req **req_p)
{
    struct nxr_op op = {.kind = wanted == NIXL_PAIR_READ ? NXR_OP_GET : NXR_OP_PUT,
                        .local = local,
                        .nbytes = nbytes};
    int status = read_token(use->operation, text, use);

    if (status != NIXL_OK) {
        return status;
    }
    if (req_p == NULL || (local == NULL && nbytes > 0)) {
        return nxr_fail(NIXL_E_INVALID_ARG, use->operation, use->rank, "", 0, "%s",
                        req_p == NULL ? "req_p is NULL" : "the local buffer is NULL");
    }
    if (use->token.use != (enum nxr_token_use)wanted) {
        return claim_refuse(use, NIXL_E_INVALID_ARG,
                            wanted == NIXL_PAIR_READ ? "its buffer is to be written, not read"
                                                     : "its buffer is to be read, not written");
    }
    if (use->token.nbytes != nbytes) {
        return nxr_fail(NIXL_E_INVALID_ARG, use->operation, use->rank, "", 0,
                        "the token is of a buffer of %llu bytes, not %zu",
                        (unsigned long long)use->token.nbytes, nbytes);
    }
    status = claim_read_slot(use);
    op.offset = use->slot.offset;
    return status == NIXL_OK ? claim_run(use, &op, req_p) : status;
}

static int call_pair_read(const char *token, void *dst, size_t nbytes, struct nixl_req **req_p)
{
    struct use use = {.operation = "nixl_pair_read"};

    return use_token(&use, NIXL_PAIR_READ, token, dst, nbytes, req_p);
}

int nixl_pair_read(const char *token, void *dst, size_t nbytes, struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_pair_read", -1, nbytes, 0,
                      call_pair_read(token, dst, nbytes, req_p));
}

static int call_pair_write(const char *token, const void *src, size_t nbytes,
                           struct nixl_req **req_p)
{
    struct use use = {.operation = "nixl_pair_write"};

    return use_token(&use, NIXL_PAIR_WRITE, token, (void *)src, nbytes, req_p);
}

int nixl_pair_write(const char *token, const void *src, size_t nbytes, struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_pair_write", -1, nbytes, 0,
                      call_pair_write(token, src, nbytes, req_p));
}

int nixl_pair_decline(const char *token)
{
    struct use use = {.operation = "nixl_pair_decline"};
    struct nxr_claim *claim;
    int status = read_token(use.operation, token, &use);

    if (status == NIXL_OK) {
        status = claim_read_slot(&use);
    }
    if (status != NIXL_OK) {
        return status;
    }
    claim = claim_new(&use);
    status = claim != NULL ? claim_buffer(&use, claim) : fail_memory(&use);
    if (status != NIXL_OK) {
        free(claim);
        return status;
    }
    claim_end(claim, NIXL_E_CANCELED, false);
    return NIXL_OK;
}

int nixl_pair_query(const char *token, struct nixl_pair_info *info_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_pair_info, NIXL_PAIR_INFO_INIT, nbytes);
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    struct use use = {.operation = "nixl_pair_query"};
    int status = read_token(use.operation, token, &use);

    if (status == NIXL_OK) {
        status = nxr_struct_check(use.operation, "info_p", &type, info_p);
    }
    if (status != NIXL_OK) {
        return status;
    }
    info.rank = use.rank;
    info.use = (int32_t)use.token.use;
    info.nbytes = use.token.nbytes;
    nxr_struct_write(&type, &info, info_p);
    return NIXL_OK;
}
