/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of elements that may be too large for shared memory to hold one of each member.
 * Operands are not combined on the way: each member that wants a result receives the operands of
 * all, some elements at a time, and combines them in the order of the members. No lock, no state.
 */
#include "config.h"

#include "collective/call.h"
#include "collective/device.h"
#include "collective/whole.h"

#include <stdlib.h>

#define SCRATCH_NBYTES ((size_t)4 << 20) /* unless one element of each member takes more */

struct whole {
    const struct nxr_reduction *what;
    size_t part_nbytes;  /* of what a member gets a result of */
    size_t piece_nbytes; /* of a part, at most, in one round */
    char *operands;      /* [size]: a piece of each member's, those before what arrived last */
    char *packed;        /* SCATTER: a piece of the part for each member; else NULL */
};

/* As many whole elements as there is room for. */
static size_t whole_piece_of(const struct nixl_team *team, const struct nxr_reduction *what,
                             size_t part)
{
    size_t element = what->combine.element_nbytes;
    size_t piece = SCRATCH_NBYTES / (size_t)team->size / element * element;

    piece = piece > element ? piece : element;
    return piece < part ? piece : part;
}

/* A piece of the part for each member, contiguous. */
static int whole_pack(struct nixl_team *team, const struct whole *whole, size_t at, size_t nbytes)
{
    const char *src = (const char *)whole->what->src + at;
    int status = NIXL_OK;

    for (int i = 0; i < team->size && status == NIXL_OK; i++) {
        status = nxr_team_copy(team, whole->packed + (size_t)i * nbytes,
                               src + (size_t)i * whole->part_nbytes, nbytes);
    }
    return status;
}

/* Receive a piece of all operands that the result is made of. */
static int whole_gather(struct nixl_team *team, const struct whole *whole, size_t at, size_t nbytes)
{
    const struct nxr_reduction *what = whole->what;
    bool is_scatter = whole->packed != NULL;
    struct nxr_call call = {.kind = NXR_CALL_EXCHANGE,
                            .exchange = {.all_send = true,
                                         .all_receive = what->kind != NXR_REDUCE,
                                         .is_private = is_scatter,
                                         .root = what->root,
                                         .src = (const char *)what->src + at,
                                         .dst = whole->operands,
                                         .nbytes = nbytes}};
    int status = is_scatter ? whole_pack(team, whole, at, nbytes) : NIXL_OK;

    if (is_scatter) {
        call.exchange.src = whole->packed;
    }
    call.has_device = nxr_range_is_device(call.exchange.src);
    return status == NIXL_OK ? nxr_call_run_plain(team, &call) : status;
}

/* How many operands, from the first on, this member combines. */
static int count_operands(const struct nixl_team *team, const struct nxr_reduction *what)
{
    if (what->kind == NXR_SCAN) {
        return team->me + !what->is_exclusive;
    }
    return what->kind == NXR_REDUCE && team->me != what->root ? 0 : team->size;
}

static int whole_run_round(struct nixl_team *team, const struct whole *whole, size_t at,
                           size_t nbytes)
{
    const struct nxr_reduction *what = whole->what;
    int n_operands = count_operands(team, what), status = whole_gather(team, whole, at, nbytes);

    for (int i = 1; i < n_operands && status == NIXL_OK; i++) {
        nxr_combine_two(&what->combine, whole->operands, whole->operands,
                        whole->operands + (size_t)i * nbytes, nbytes);
    }
    return status == NIXL_OK && n_operands > 0
               ? nxr_team_copy(team, (char *)what->dst + at, whole->operands, nbytes)
               : status;
}

static int whole_run_rounds(struct nixl_team *team, const struct whole *whole)
{
    int status = NIXL_OK;

    for (size_t at = 0; at < whole->part_nbytes && status == NIXL_OK; at += whole->piece_nbytes) {
        size_t left = whole->part_nbytes - at;

        status = whole_run_round(team, whole, at,
                                 left < whole->piece_nbytes ? left : whole->piece_nbytes);
    }
    return status;
}

int nxr_whole_reduce(struct nixl_team *team, const struct nxr_reduction *what)
{
    bool is_scatter = what->kind == NXR_REDUCE_SCATTER;
    size_t size = (size_t)team->size;
    struct whole whole = {.what = what, .part_nbytes = what->nbytes / (is_scatter ? size : 1)};
    int status;

    whole.piece_nbytes = whole_piece_of(team, what, whole.part_nbytes);
    if (whole.piece_nbytes == 0) {
        return NIXL_OK;
    }
    whole.operands = calloc(size, whole.piece_nbytes);
    whole.packed = is_scatter ? calloc(size, whole.piece_nbytes) : NULL;
    if (whole.operands != NULL && (whole.packed != NULL || !is_scatter)) {
        status = whole_run_rounds(team, &whole);
    } else {
        status = nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
    }
    free(whole.operands);
    free(whole.packed);
    return status;
}
