/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long prepared transfers are expected to take, and how long they took. The first estimate is
 * based on the route's known figures; each complete start corrects later estimates. Lock:
 * nxr_xfers_lock.
 */
#include "config.h"

#include "core/route.h"
#include "util/status.h"
#include "util/struct.h"
#include "transfer/xfer.h"

/*
 * The cost of each piece in addition to its bytes, in ns, by method. Measured with nixl_bench on
 * two cores of an Intel Xeon: a call of the copy function; the share of a process_vm call, with
 * its pinning of pages; an operation of the bounce buffer; a record in a message; an operation of
 * the network. Measured on an H200: a piece of a list that a kernel copies.
 */
static const unsigned piece_ns[] = {
    [NXR_METHOD_NONE] = 0,      [NXR_METHOD_MEMCPY] = 15,   [NXR_METHOD_PROCESS_VM] = 200,
    [NXR_METHOD_BOUNCE] = 2000, [NXR_METHOD_MESSAGE] = 500, [NXR_METHOD_RMA] = 1000,
    [NXR_METHOD_DEVICE] = 20,
};

/* The weight of earlier starts in the correction; the last start has the rest. */
#define OLD_SHARE 0.75

/*
 * Where an entry begins. NULL: since the latest start its region was closed, or got other memory,
 * so that what the start has found may be freed.
 */
static const struct nxr_place *xfer_query_place(const struct nixl_xfer *xfer,
                                                enum nixl_xfer_side which,
                                                const struct nxr_blocks *blocks)
{
    struct nixl_region *region = blocks->region;
    bool is_there;

    if (region == NULL) {
        return &blocks->place;
    }
    if (!nxr_region_is_open(region)) {
        return NULL;
    }
    if (blocks->extents == NULL) {
        is_there = which == NIXL_XFER_LOCAL ||
                   nxr_region_segment(region, xfer->rank) == blocks->place.segment;
    } else if (which == NIXL_XFER_LOCAL) {
        is_there = region->extents == blocks->extents;
    } else {
        is_there = nxr_region_extents(region, xfer->rank) == blocks->extents;
    }
    return is_there ? nxr_blocks_first_place(blocks) : NULL;
}

/* An address on the local side, which shows the kind of its memory; NULL: it is not known. */
static const void *local_memory(const struct nixl_xfer *xfer)
{
    const struct nxr_side *local = &xfer->sides[NIXL_XFER_LOCAL];

    for (size_t i = 0; i < local->n_entries; i++) {
        const struct nxr_place *place =
            local->blocks[i].nblocks > 0
                ? xfer_query_place(xfer, NIXL_XFER_LOCAL, &local->blocks[i])
                : NULL;

        if (place != NULL) {
            return place->base;
        }
    }
    return NULL;
}

/* The estimate from the route alone; 0: not known. */
static double xfer_query_expect(const struct nixl_xfer *xfer)
{
    const struct nxr_side *remote = &xfer->sides[NIXL_XFER_REMOTE];
    const struct nxr_side *local = &xfer->sides[NIXL_XFER_LOCAL];
    double sum = 0;

    for (size_t i = 0; i < remote->n_entries; i++) {
        const struct nxr_blocks *blocks = &remote->blocks[i];
        const struct nxr_place *place = xfer_query_place(xfer, NIXL_XFER_REMOTE, blocks);
        struct nxr_segment *segment = place != NULL ? place->segment : NULL;
        uint64_t nbytes = blocks->block_nbytes * blocks->nblocks * blocks->n_rounds;
        uint64_t latency_ns, mbps;

        if (nbytes == 0 || segment == NULL) {
            continue;
        }
        nxr_route_expect_between(segment, local_memory(xfer), &latency_ns, &mbps);
        if (mbps == 0) {
            return 0;
        }
        sum = sum == 0 ? (double)latency_ns : sum;
        sum += (double)nbytes * 1000 / (double)mbps;
        /* If the local side has more blocks, these are the pieces. */
        sum += (double)nbytes * (double)piece_ns[segment->method] *
               (double)(local->nblocks > remote->nblocks ? local->nblocks : remote->nblocks) /
               (double)remote->nbytes;
    }
    return sum;
}

/* The figure that the correction applies to: the expected time, or else a mere guess. */
static double guess(const struct nixl_xfer *xfer)
{
    double expected = xfer_query_expect(xfer);

    return expected > 0 ? expected : (double)xfer->sides[NIXL_XFER_REMOTE].nbytes;
}

uint64_t nxr_xfer_estimate(const struct nixl_xfer *xfer)
{
    return (uint64_t)(xfer->correction > 0 ? guess(xfer) * xfer->correction
                                           : xfer_query_expect(xfer));
}

void nxr_xfer_learn(struct nixl_xfer *xfer, uint64_t took_ns)
{
    double guessed = guess(xfer);

    if (guessed > 0 && took_ns > 0) {
        double now = (double)took_ns / guessed;

        xfer->correction =
            xfer->correction > 0 ? OLD_SHARE * xfer->correction + (1 - OLD_SHARE) * now : now;
    }
    xfer->n_complete++;
    xfer->last_pieces = xfer->n_pieces;
    xfer->took_ns = took_ns;
    xfer->had_estimated_ns = xfer->estimated_ns;
}

static uint64_t memory_nbytes(const struct nixl_xfer *xfer)
{
    return sizeof(*xfer) + xfer->max_staged * sizeof(struct nxr_piece) +
           (xfer->sides[0].n_entries + xfer->sides[1].n_entries) * sizeof(struct nxr_blocks) +
           nxr_xfer_slots_nbytes(xfer);
}

int nixl_xfer_query(const struct nixl_xfer *xfer, struct nixl_xfer_info *info_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_xfer_info, NIXL_XFER_INFO_INIT, nblocks);
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    int status = nxr_xfer_check("nixl_xfer_query", xfer);
    const struct nxr_side *sides;

    if (status == NIXL_OK) {
        status = nxr_struct_check("nixl_xfer_query", "info_p", &type, info_p);
    }
    if (status != NIXL_OK) {
        return status;
    }
    sides = xfer->sides;
    pthread_mutex_lock(&nxr_xfers_lock);
    info.nbytes = sides[0].nbytes;
    info.nblocks = sides[0].nblocks > sides[1].nblocks ? sides[0].nblocks : sides[1].nblocks;
    info.memory_nbytes = memory_nbytes(xfer);
    info.estimated_ns = nxr_xfer_estimate(xfer);
    info.nstarts = xfer->n_complete;
    info.npieces = xfer->last_pieces;
    info.took_ns = xfer->took_ns;
    info.had_estimated_ns = xfer->had_estimated_ns;
    pthread_mutex_unlock(&nxr_xfers_lock);
    nxr_struct_write(&type, &info, info_p);
    return NIXL_OK;
}
