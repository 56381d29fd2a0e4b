/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running collectives in which this member, or another one, has device memory: as collectives on
 * host memory, whole or in pieces. Members do not tell each other about their memory, except in
 * large reductions, which all have to cut alike. No lock.
 */
#include "config.h"

#include "collective/device.h"
#include "collective/two_level.h"
#include "util/coll_table.h"

/* ---- data that moves ------------------------------------------------------------------------- */

/* The bytes of this member's src and dst; 0: not used. */
struct extent {
    size_t src;
    size_t dst;
};

static struct extent device_call_extent_of(const struct nixl_team *team,
                                           const struct nxr_exchange *what)
{
    size_t nbytes = what->nbytes, all_nbytes = (size_t)team->size * nbytes;
    bool is_root = team->me == what->root;
    struct extent extent = {0, 0};

    if (what->all_send || is_root) {
        extent.src = what->is_private ? all_nbytes : nbytes;
    }
    if (what->all_receive || is_root) {
        extent.dst = what->all_send ? all_nbytes : nbytes;
    }
    return extent;
}

/* All of it in one copy each way: many small ones would take longer. */
static int exchange_staged(struct nixl_team *team, const struct nxr_exchange *what,
                           const struct extent *extent)
{
    bool is_broadcast = !what->all_send && !what->is_private, is_root = team->me == what->root;
    bool has_src = nxr_range_find(what->src) != NULL, has_dst = nxr_range_find(what->dst) != NULL;
    char *src = team->device->stages[0].memory, *dst = team->device->stages[1].memory;
    struct nxr_call copy = {.kind = NXR_CALL_EXCHANGE, .exchange = *what};
    int status = NIXL_OK;

    if (is_broadcast) {
        dst = src;
    }
    if (has_src) {
        copy.exchange.src = src;
    }
    if (has_dst) {
        copy.exchange.dst = dst;
    }
    if (has_src && extent->src > 0) {
        status = nxr_team_copy(team, src, what->src, extent->src);
    }
    if (status == NIXL_OK) {
        status = nxr_call_run_on_host(team, &copy);
    }
    if (status == NIXL_OK && has_dst && extent->dst > 0 && !(is_broadcast && is_root)) {
        status = nxr_team_copy(team, what->dst, dst, extent->dst);
    }
    return status;
}

static int exchange(struct nixl_team *team, const struct nxr_call *call)
{
    const struct nxr_exchange *what = &call->exchange;
    struct extent extent = device_call_extent_of(team, what);
    size_t room = nxr_device_stage_nbytes(team);
    /* On one host, large pieces mostly move directly, without a stage. */
    bool is_direct = team->n_nodes == 1 && what->nbytes >= nxr_coll_table.direct_from;
    int status;

    if (what->is_vector || is_direct || extent.src > room || extent.dst > room) {
        return nxr_call_run_on_host(team, call); /* which moves bytes by nxr_team_copy() */
    }
    status = nxr_device_need(team, NULL);
    return status == NIXL_OK ? exchange_staged(team, what, &extent)
                             : nxr_team_break(team, status, -1);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* How a reduction is cut: operands have a part for each member, or one; pieces cut every part. */
struct pieces {
    const struct nxr_reduction *what;
    const struct nxr_range *src; /* NULL: host memory */
    const struct nxr_range *dst; /* the same; also NULL if no result is wanted here */
    size_t n_parts;
    size_t part_nbytes;
    size_t piece_nbytes; /* of a part */
    size_t n;
};

static struct pieces device_call_cut(const struct nixl_team *team, const struct nxr_reduction *what)
{
    struct pieces pieces = {.what = what, .src = nxr_range_find(what->src), .n_parts = 1};
    size_t room = nxr_device_stage_nbytes(team);

    if (what->kind != NXR_REDUCE || team->me == what->root) {
        pieces.dst = nxr_range_find(what->dst);
    }
    if (what->kind == NXR_REDUCE_SCATTER) {
        pieces.n_parts = (size_t)team->size;
    }
    pieces.part_nbytes = what->nbytes / pieces.n_parts;
    pieces.piece_nbytes = room / pieces.n_parts;
    pieces.piece_nbytes -= pieces.piece_nbytes % what->combine.element_nbytes;
    pieces.n = (pieces.part_nbytes + pieces.piece_nbytes - 1) / pieces.piece_nbytes;
    return pieces;
}

static struct nxr_device_stage *stage_of(const struct nixl_team *team, size_t i)
{
    return &team->device->stages[i % NXR_DEVICE_STAGES];
}

static size_t device_call_nbytes_of(const struct pieces *pieces, size_t i)
{
    size_t left = pieces->part_nbytes - i * pieces->piece_nbytes;

    return left < pieces->piece_nbytes ? left : pieces->piece_nbytes;
}

/* Must the operands of a piece lie in a stage? Those of several parts are gathered there. */
static bool is_staged(const struct pieces *pieces)
{
    return pieces->src != NULL || (pieces->n_parts > 1 && pieces->n > 1);
}

/* Copy the operands of piece `i` into its stage, which is free. */
static void bring(const struct nixl_team *team, const struct pieces *pieces, size_t i)
{
    struct nxr_device_stage *stage = stage_of(team, i);
    const char *src = (const char *)pieces->what->src + i * pieces->piece_nbytes;
    size_t nbytes = device_call_nbytes_of(pieces, i);

    if (!is_staged(pieces)) {
        return;
    }
    for (size_t k = 0; k < pieces->n_parts; k++) {
        struct nxr_device_piece *piece = &stage->down.pieces[k];

        *piece = (struct nxr_device_piece){stage->memory + k * nbytes,
                                           src + k * pieces->part_nbytes, nbytes};
        if (pieces->src == NULL) {
            nxr_copy(piece->dst, piece->src, nbytes);
        }
    }
    if (pieces->src != NULL) {
        nxr_device_begin(&stage->down, NULL, pieces->src, pieces->n_parts);
    }
}

/* Reduce piece `i` in host memory; the result is in the stage or at its destination. */
static int reduce_piece(struct nixl_team *team, const struct pieces *pieces, size_t i)
{
    struct nxr_device_stage *stage = stage_of(team, i);
    struct nxr_call call = {.kind = NXR_CALL_REDUCTION, .reduction = *pieces->what};
    size_t at = i * pieces->piece_nbytes;

    call.reduction.nbytes = device_call_nbytes_of(pieces, i) * pieces->n_parts;
    call.reduction.src = is_staged(pieces) ? stage->memory : (const char *)pieces->what->src + at;
    if (pieces->dst != NULL) {
        call.reduction.dst = stage->memory;
    } else if (pieces->what->dst != NULL) {
        call.reduction.dst = (char *)pieces->what->dst + at;
    }
    return nxr_call_run_on_host(team, &call);
}

/* Copy the result of piece `i` to its destination. */
static void device_call_take(const struct nixl_team *team, const struct pieces *pieces, size_t i)
{
    struct nxr_device_stage *stage = stage_of(team, i);
    bool has_result = !pieces->what->is_exclusive || team->me > 0;

    if (pieces->dst != NULL && has_result) {
        stage->up.pieces[0] =
            (struct nxr_device_piece){(char *)pieces->what->dst + i * pieces->piece_nbytes,
                                      stage->memory, device_call_nbytes_of(pieces, i)};
        nxr_device_begin(&stage->up, pieces->dst, NULL, 1);
    }
}

static int reduce_pieces(struct nixl_team *team, const struct pieces *pieces)
{
    int status = NIXL_OK;

    bring(team, pieces, 0);
    for (size_t i = 0; i < pieces->n && status == NIXL_OK; i++) {
        status = nxr_device_end(&stage_of(team, i)->down);
        if (status == NIXL_OK && i + 1 < pieces->n) {
            status = nxr_device_end(&stage_of(team, i + 1)->up);
            if (status == NIXL_OK) {
                bring(team, pieces, i + 1);
            }
        }
        if (status == NIXL_OK) {
            status = reduce_piece(team, pieces, i);
        }
        if (status == NIXL_OK) {
            device_call_take(team, pieces, i);
        }
    }
    for (size_t i = 0; i < NXR_DEVICE_STAGES; i++) {
        int down = nxr_device_end(&team->device->stages[i].down);
        int up = nxr_device_end(&team->device->stages[i].up);

        status = status != NIXL_OK ? status : down != NIXL_OK ? down : up;
    }
    return status;
}

/* Does any member have device memory? All members call this. */
static int device_call_ask(struct nixl_team *team, bool has_device, bool *is_there_p)
{
    const struct nixl_reduce_args args = {.type = NIXL_TYPE_UINT8, .op = NIXL_REDUCE_MAX};
    unsigned char mine = has_device, all = 0;
    const struct nxr_call call = {.kind = NXR_CALL_REDUCTION,
                                  .reduction = {.kind = NXR_ALLREDUCE,
                                                .combine = nxr_combine_choose(&args),
                                                .src = &mine,
                                                .dst = &all,
                                                .nbytes = 1}};
    int status = nxr_call_run_on_host(team, &call);

    *is_there_p = all != 0;
    return status;
}

static int device_call_reduce(struct nixl_team *team, const struct nxr_call *call)
{
    struct pieces pieces;
    bool is_there = call->has_device, is_done = false;
    int status = nxr_device_reduce(team, call, &is_done);

    if (status != NIXL_OK || is_done) {
        return status;
    }
    pieces = device_call_cut(team, &call->reduction);
    if (call->reduction.nbytes > nxr_device_stage_nbytes(team)) {
        status = device_call_ask(team, is_there, &is_there);
    }
    if (status != NIXL_OK || !is_there) {
        return status == NIXL_OK ? nxr_call_run_on_host(team, call) : status;
    }
    status = nxr_device_need(team, pieces.src);
    if (status == NIXL_OK && pieces.dst != NULL) {
        status = nxr_device_need(team, pieces.dst);
    }
    if (status == NIXL_OK) {
        status = reduce_pieces(team, &pieces);
    }
    return status == NIXL_OK ? status : nxr_team_break(team, status, -1);
}

/* ---- all ------------------------------------------------------------------------------------- */

int nxr_device_call_run(struct nixl_team *team, const struct nxr_call *call)
{
    return call->kind == NXR_CALL_REDUCTION ? device_call_reduce(team, call) : exchange(team, call);
}
