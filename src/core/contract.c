/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What transports and the core promise each other about segments and operations, as conditions for
 * assertions (transports/transport.h, util/debug.h). Only in debug builds. No state.
 */
#include "core/job.h"
#include "transports/transport.h"
#include "util/debug.h"

#ifdef NXR_DEBUG
bool nxr_segment_may_be_opened(const struct nxr_segment *segment)
{
    return nxr_core_is_locked() && segment->peer != NULL && segment->transport != NULL &&
           segment->key.generation != 0 && segment->nbytes != 0 &&
           segment->nbytes == segment->key.nbytes && segment->id == segment->key.id &&
           atomic_load(&segment->generation) == 0;
}

bool nxr_segment_may_be_closed(const struct nxr_segment *segment)
{
    return nxr_core_is_locked() && atomic_load(&segment->generation) == 0;
}

static bool segment_has_piece(const struct nxr_segment *segment, const struct nxr_piece *piece)
{
    return piece->local != NULL && piece->nbytes > 0 && piece->offset <= segment->nbytes &&
           piece->nbytes <= segment->nbytes - piece->offset;
}

bool nxr_segment_may_move(const struct nxr_segment *segment, uint64_t offset, const void *local,
                          size_t nbytes)
{
    const struct nxr_piece piece = {offset, (void *)local, nbytes};

    return !nxr_core_is_locked() && segment_has_piece(segment, &piece);
}

bool nxr_list_may_move(const struct nxr_segment *segment, enum nxr_op_kind kind,
                       const struct nxr_piece *pieces, size_t n_pieces)
{
    bool may = !nxr_core_is_locked() && (kind == NXR_OP_PUT || kind == NXR_OP_GET) &&
               n_pieces > 0 && n_pieces <= NXR_LIST_MAX;

    for (size_t i = 0; may && i < n_pieces; i++) {
        may = segment_has_piece(segment, &pieces[i]);
    }
    return may;
}

/* In the order of a stream an operation may be empty: it ends when the stream has come to it. */
bool nxr_op_may_start(const struct nxr_op *op)
{
    if (op->ended == NULL || atomic_load(&op->has_ended)) {
        return false;
    }
    if (op->kind == NXR_OP_ATOMIC || (op->stream != NULL && op->nbytes == 0)) {
        return !nxr_core_is_locked();
    }
    return op->pieces != NULL
               ? nxr_list_may_move(op->segment, op->kind, op->pieces, op->n_pieces)
               : nxr_segment_may_move(op->segment, op->offset, op->local, op->nbytes);
}
#endif
