/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/xfer.h
 * Prepared transfers: many pieces at once, started repeatedly.
 */
#ifndef NIXLRUN_XFER_H
#define NIXLRUN_XFER_H

#include <nixlrun/base.h>
#include <nixlrun/op.h>
#include <nixlrun/region.h>
#include <nixlrun/request.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nixl_xfer; /**< a prepared transfer: which bytes of one side go with which of the other */

enum nixl_xfer_op {
    NIXL_XFER_PUT = 0, /**< from local memory into a rank's segments of regions */
    NIXL_XFER_GET = 1, /**< the other way */
};

/**
 * Blocks of one size: one entry of a side of a prepared transfer.
 *
 * Block i begins at `offset` + n * `stride`, where n is index[i], or i if there is no index. So one
 * entry is a piece (`nblocks` 1), strided blocks (no index), a list of blocks by number (stride:
 * the bytes from one number to the next), or a list of arbitrary places (stride 1: the index holds
 * bytes). The index belongs to the caller and is not copied; it may change between starts.
 *
 * Of a region of extents, a block lies within one extent. With `nextents`, the entry stands for as
 * many entries, one for each extent from `first_extent` on: the same blocks of each, with `offset`
 * counted from the extent's beginning. So block b of 160 tensors is one entry and one index; the
 * other side has the blocks in the same order, all of one extent before the next.
 */
struct nixl_blocks {
    size_t struct_nbytes;
    struct nixl_region *region; /**< remote: the rank's part of it; local: this rank's, or NULL */
    void *addr;                 /**< local memory, if `region` is NULL; else NULL */
    uint64_t offset;            /**< from the start of the segment, or from `addr` */
    uint64_t block_nbytes;      /**< > 0 */
    uint64_t stride;            /**< any value; ignored for a single block without index */
    uint64_t nblocks;           /**< 0: an entry without blocks; NIXL_BLOCKS_INIT sets 1 */
    const uint64_t *index;      /**< NULL, or nblocks numbers in any order */
    uint32_t first_extent;      /**< only with `nextents` */
    uint32_t nextents;          /**< 0: `offset` counts through the whole segment */
};
#define NIXL_BLOCKS_INIT                                                                           \
    {                                                                                              \
        sizeof(struct nixl_blocks), NULL, NULL, 0, 0, 0, 1, NULL, 0, 0                             \
    }

/** In nixl_blocks.nextents: to the last extent that the segment has when a start begins. */
#define NIXL_ALL_EXTENTS UINT32_MAX

/**
 * Prepare a transfer of many pieces between local memory and one rank's segments of regions.
 *
 * Both sides are lists of blocks, and either may span several regions. They may be divided
 * differently, as long as their total sizes agree: the first byte of one side corresponds to the
 * first of the other, and so on. Queries the rank for segments that are not known yet, checks every
 * range, copies the entries (not the indices) and moves nothing. Takes no memory and next to no
 * time per block.
 *
 * @param op       what the starts will do
 * @param rank     the other side; may be the caller
 * @param local    array of nlocal entries, each made with NIXL_BLOCKS_INIT
 * @param remote   array of nremote entries; their regions must stay open while the transfer is used
 * @param xfer_p   the transfer, to be freed with nixl_xfer_free()
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG    a bad operation, rank, entry or handle; a side without entries;
 *                               sides of different size (the detail says which one and why)
 * @return NIXL_E_RANGE          a block lies outside its segment, on either side
 * and as nixl_put(). Threads: any.
 */
NIXL_API int nixl_xfer_create(enum nixl_xfer_op op, int rank, const struct nixl_blocks *local,
                              size_t nlocal, const struct nixl_blocks *remote, size_t nremote,
                              struct nixl_xfer **xfer_p) NIXL_MUST_CHECK;

/** A side of a prepared transfer. */
enum nixl_xfer_side { NIXL_XFER_LOCAL = 0, NIXL_XFER_REMOTE = 1 };

/**
 * Give an entry another index, or another number of blocks, for the next starts. Not needed if only
 * the numbers in the index change. The next start checks it, so that both sides can be set one
 * after the other.
 * @param entry    0 .. number of entries of that side - 1
 * @param nblocks  blocks of that entry from now on, in each of its extents
 * @param index    as in struct nixl_blocks
 * @return NIXL_OK, NIXL_E_INVALID_ARG, NIXL_E_IN_USE (a start is in flight). Threads: any, one
 *         at a time for one transfer.
 */
NIXL_API int nixl_xfer_set_index(struct nixl_xfer *xfer, enum nixl_xfer_side side, size_t entry,
                                 uint64_t nblocks, const uint64_t *index) NIXL_MUST_CHECK;

/**
 * Start a prepared transfer: any number of times, one start at a time for each transfer.
 *
 * Reads the indices as they are now, checks every range, then moves. Indices and local memory must
 * not change until it is complete. Pieces that are adjacent on both sides move as one. Pieces land
 * in any order; if destinations overlap, it is unspecified which piece remains. Returns soon: on
 * one host up to 256 KiB are copied within the call; of larger transfers, or of more than some
 * hundred pieces, the first 128 KiB, and the rest in the background as with nixl_put_x().
 *
 * @param req_p  NULL: the transfer keeps the request, for nixl_xfer_wait() and nixl_xfer_cancel().
 *               Else the request, written only with NIXL_INPROGRESS, for nixl_req_wait(),
 *               nixl_req_wait_any(), nixl_req_test() and nixl_req_cancel()
 * @return NIXL_OK               complete
 * @return NIXL_INPROGRESS       started
 * @return NIXL_E_IN_USE         the last start was not waited for
 * @return NIXL_E_INVALID_ARG    a bad handle; sides of different size after nixl_xfer_set_index()
 * @return NIXL_E_RANGE          an index points outside a segment; nothing moved
 * and as nixl_put(), in which case some pieces may have moved; a failure known at once makes no
 * request, any other ends the request. After NIXL_E_STALE, nixl_region_query() finds the new
 * segment; the transfer need not be prepared again. Threads: any.
 */
NIXL_API int nixl_xfer_start(struct nixl_xfer *xfer, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_xfer_start(). With neither a request nor a queue the call waits for the
 * end. NIXL_OP_NOTE: a notification to the rank after the last byte: of a put all is then visible,
 * of a get all was read. NIXL_OP_SIGNAL: a signal of the rank changes after a put, whose start ends
 * then. Neither happens if the transfer fails or is canceled. NIXL_OP_DURABLE: a put ends, and
 * these two come, when its bytes are on the medium; all its remote regions are files. On a stream:
 * NIXL_E_UNSUPPORTED.
 */
NIXL_API int nixl_xfer_start_x(struct nixl_xfer *xfer, const struct nixl_op *op,
                               struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Wait for the last start that gave no request; as nixl_req_wait(). NIXL_OK if none is in flight;
 * NIXL_E_INVALID_ARG if the caller has its request.
 */
NIXL_API int nixl_xfer_wait(struct nixl_xfer *xfer, int64_t timeout_ns) NIXL_MUST_CHECK;

/** Stop the last start that gave no request; as nixl_req_cancel(). Pieces that moved stay. */
NIXL_API int nixl_xfer_cancel(struct nixl_xfer *xfer, int64_t timeout_ns,
                              int32_t *outcome_p) NIXL_MUST_CHECK;

/** What is known of a prepared transfer. */
struct nixl_xfer_info {
    size_t struct_nbytes;
    uint64_t nbytes;           /**< of one start */
    uint64_t nblocks;          /**< of the side that has more blocks */
    uint64_t memory_nbytes;    /**< that the library uses for it, without the caller's indices */
    uint64_t estimated_ns;     /**< what the next start is expected to take; 0: not known */
    uint64_t nstarts;          /**< complete starts; the fields below are about the last one */
    uint64_t npieces;          /**< moved, after merging */
    uint64_t took_ns;          /**< from the call to the last byte */
    uint64_t had_estimated_ns; /**< what was expected before it */
};
#define NIXL_XFER_INFO_INIT                                                                        \
    {                                                                                              \
        sizeof(struct nixl_xfer_info), 0, 0, 0, 0, 0, 0, 0, 0                                      \
    }

/**
 * Query a prepared transfer: before a start, the time it is expected to take; after it, the time it
 * took. The first estimate comes from the expected rates of the route (nixl_route_query_segment()),
 * later ones are corrected by the times of earlier starts.
 * @return NIXL_OK, NIXL_E_INVALID_ARG. Threads: any.
 */
NIXL_API int nixl_xfer_query(const struct nixl_xfer *xfer,
                             struct nixl_xfer_info *info_p) NIXL_MUST_CHECK;

/**
 * Free a prepared transfer. @return NIXL_OK; NIXL_E_IN_USE: a start is in flight;
 * NIXL_E_INVALID_ARG. The last nixl_finalize() frees all of them. Threads: any, but no other call
 * may use the handle.
 */
NIXL_API int nixl_xfer_free(struct nixl_xfer *xfer);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_XFER_H */
