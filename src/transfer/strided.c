/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strided put and get in one call: blocks at equal distances. If the transport moves lists at
 * once, it is given the blocks in short lists. All other cases, and the rest of a list that cannot
 * be done at once, use a prepared transfer that exists for the call only. No lock.
 */
#include "config.h"

#include "region/region.h"
#include "core/trace.h"
#include "transfer/staging.h"
#include "transfer/transfer.h"
#include "util/env.h"
#include "util/status.h"
#include "transfer/op.h"

#define LIST_BLOCKS 64                /* in one list; on the stack */
#define LIST_NBYTES ((size_t)4 << 20) /* approximate; bounds how long a segment is entered */

/* A call and its remaining blocks. */
struct strided {
    const char *operation;
    enum nxr_op_kind kind;
    int rank;
    struct nixl_region *region;
    uint64_t offset;
    uint64_t stride; /* in the segment */
    char *local;
    uint64_t local_stride;
    size_t block_nbytes;
    size_t nblocks;
};

/* The bytes from the start of the first block to the end of the last one. False: overflow. */
static bool find_span(const struct strided *call, uint64_t stride, uint64_t *nbytes_p)
{
    return !__builtin_mul_overflow(stride, call->nblocks - 1, nbytes_p) &&
           !__builtin_add_overflow(*nbytes_p, call->block_nbytes, nbytes_p);
}

static void take_off(struct strided *call, size_t n_done)
{
    call->offset += n_done * call->stride;
    call->local += n_done * call->local_stride;
    call->nblocks -= n_done;
}

/* NIXL_OK; NIXL_E_AGAIN: the rest cannot be done at once. */
static int strided_move_at_once(struct strided *call, struct nxr_segment *segment,
                                const struct nxr_transport *mover)
{
    struct nxr_piece pieces[LIST_BLOCKS];
    size_t most = LIST_NBYTES / call->block_nbytes + 1;
    uint64_t total_nbytes = call->nblocks * call->block_nbytes;
    int status = NIXL_OK;

    most = most < LIST_BLOCKS ? most : LIST_BLOCKS;
    while (call->nblocks > 0 && status == NIXL_OK) {
        size_t n = call->nblocks < most ? call->nblocks : most, n_done;

        for (size_t i = 0; i < n; i++) {
            pieces[i] =
                (struct nxr_piece){call->offset + i * call->stride,
                                   call->local + i * call->local_stride, call->block_nbytes};
        }
        status = nxr_op_move_list(mover, segment, call->kind, pieces, n, total_nbytes, &n_done);
        take_off(call, n_done);
    }
    return status;
}

/*
 * Wait for the transfer. If it is not complete in time it is canceled, so that nothing moves after
 * the call returns.
 */
static int finish_transfer(const struct strided *call, struct nixl_xfer *xfer, int status)
{
    if (status == NIXL_INPROGRESS) {
        status = nixl_xfer_wait(xfer, nxr_env.op_timeout);
    }
    if (status == NIXL_E_TIMEOUT) {
        if (nixl_xfer_cancel(xfer, NIXL_FOREVER, NULL) != NIXL_OK) {
            return nxr_fail_inner(NIXL_E_TRANSPORT, call->operation, call->rank);
        }
        status = nxr_fail(status, call->operation, call->rank, "", 0,
                          "not complete within NIXLRUN_OP_TIMEOUT; stopped");
    }
    (void)nixl_xfer_free(xfer);
    return status == NIXL_OK ? status : nxr_fail_inner(status, call->operation, call->rank);
}

static int move_by_transfer(const struct strided *call)
{
    struct nixl_blocks here = NIXL_BLOCKS_INIT, there = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;
    int status;

    here.addr = call->local;
    here.stride = call->local_stride;
    there.region = call->region;
    there.offset = call->offset;
    there.stride = call->stride;
    here.block_nbytes = there.block_nbytes = call->block_nbytes;
    here.nblocks = there.nblocks = call->nblocks;
    status = nixl_xfer_create(call->kind == NXR_OP_PUT ? NIXL_XFER_PUT : NIXL_XFER_GET, call->rank,
                              &here, 1, &there, 1, &xfer);
    if (status != NIXL_OK) {
        return nxr_fail_inner(status, call->operation, call->rank);
    }
    return finish_transfer(call, xfer, nixl_xfer_start(xfer, NULL));
}

static int move(struct strided *call)
{
    uint64_t there = 0, here = 0, offset = call->offset;
    struct nxr_segment *segment;
    bool is_empty = call->nblocks == 0 || call->block_nbytes == 0;
    int status;

    if (!is_empty &&
        (!find_span(call, call->stride, &there) || !find_span(call, call->local_stride, &here))) {
        return nxr_fail(NIXL_E_RANGE, call->operation, call->rank, "", 0,
                        "%zu blocks of %zu bytes at these strides exceed any memory", call->nblocks,
                        call->block_nbytes);
    }
    status = nxr_transfer_check(call->operation, call->rank, call->region, call->local, here);
    if (status == NIXL_OK) {
        status =
            nxr_transfer_find_segment(call->operation, call->rank, call->region,
                                      nxr_op_forbidden_by(call->kind), &offset, there, &segment);
    }
    if (nxr_region_extents(call->region, call->rank) != NULL && !is_empty) {
        return move_by_transfer(call); /* whose blocks may lie in several extents */
    }
    if (status != NIXL_OK || is_empty) {
        return status;
    }
    status = strided_move_at_once(call, segment, nxr_segment_mover(segment, call->local));
    if (status == NIXL_E_AGAIN) {
        return move_by_transfer(call);
    }
    return status == NIXL_OK
               ? status
               : nxr_transfer_fail_copy(call->operation, call->kind, status, call->region, segment);
}

static int call_put_strided(int rank, struct nixl_region *region, uint64_t offset, size_t stride,
                            const void *src, size_t src_stride, size_t block_nbytes, size_t nblocks)
{
    struct strided call = {.operation = "nixl_put_strided",
                           .kind = NXR_OP_PUT,
                           .rank = rank,
                           .region = region,
                           .offset = offset,
                           .stride = stride,
                           .local = (void *)(uintptr_t)src,
                           .local_stride = src_stride,
                           .block_nbytes = block_nbytes,
                           .nblocks = nblocks};

    return move(&call);
}

int nixl_put_strided(int rank, struct nixl_region *region, uint64_t offset, size_t stride,
                     const void *src, size_t src_stride, size_t block_nbytes, size_t nblocks)
{
    return NXR_TRACED(
        NXR_TRACE_PUT, "nixl_put_strided", rank, 0, 0,
        call_put_strided(rank, region, offset, stride, src, src_stride, block_nbytes, nblocks));
}

static int call_get_strided(int rank, struct nixl_region *region, uint64_t offset, size_t stride,
                            void *dst, size_t dst_stride, size_t block_nbytes, size_t nblocks)
{
    struct strided call = {.operation = "nixl_get_strided",
                           .kind = NXR_OP_GET,
                           .rank = rank,
                           .region = region,
                           .offset = offset,
                           .stride = stride,
                           .local = dst,
                           .local_stride = dst_stride,
                           .block_nbytes = block_nbytes,
                           .nblocks = nblocks};

    return move(&call);
}

int nixl_get_strided(int rank, struct nixl_region *region, uint64_t offset, size_t stride,
                     void *dst, size_t dst_stride, size_t block_nbytes, size_t nblocks)
{
    return NXR_TRACED(
        NXR_TRACE_GET, "nixl_get_strided", rank, 0, 0,
        call_get_strided(rank, region, offset, stride, dst, dst_stride, block_nbytes, nblocks));
}
