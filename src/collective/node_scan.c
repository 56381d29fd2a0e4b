/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large prefixes on one host, along a chain: each member adds its operands to the sums of those
 * before it, which it reads in the slot of the member before, and has the new sums in its own slot
 * for the next one. So each reads as much as the others, however many there are. Operands are cut
 * into pieces, which go into a few places in turn, so that the next member works at a piece while
 * this one works at the following. A member waits for its two neighbours only: if calls follow each
 * other, they go on in the next places, and the first members are ahead by a few of them.
 *
 * Each piece is a phase: its sums are in this member's slot, at the place of that phase, and it no
 * longer needs those of the member before. The order of the operands is that of the members, as in
 * slots.
 */
#include "config.h"

#include "collective/node_collective.h"
#include "collective/phase.h"

#define N_PLACES         16
#define MIN_PIECE_NBYTES 8192

struct scan {
    const struct nxr_reduction *what;
    size_t piece_nbytes;
    uint64_t begun; /* the last phase before */
};

/*
 * Long pieces cost less, but the last of many members begins later by a piece for each before it.
 * Two members with calls in a row: 32 KiB take half as long by pieces of 32 KiB as by those of 8.
 */
static size_t scan_piece(const struct nxr_node *node, const struct nxr_reduction *what)
{
    size_t element = what->combine.element_nbytes, place = NXR_NODE_SLOT_NBYTES / N_PLACES;
    size_t least = place / (size_t)node->size, piece = what->nbytes / N_PLACES;

    least = least > MIN_PIECE_NBYTES ? least : MIN_PIECE_NBYTES;
    piece = piece < least ? least : piece < place ? piece : place;
    return piece / element * element;
}

static char *scan_place_of(const struct nxr_node *node, int member, uint64_t phase)
{
    return nxr_node_slot(node, member) + phase % N_PLACES * (NXR_NODE_SLOT_NBYTES / N_PLACES);
}

/* The operands of this member on top of the sums of those before it; dst may be src. */
static void scan_add(const struct nxr_node *node, const struct scan *scan, size_t i, char *to,
                     size_t nbytes)
{
    const char *src = (const char *)scan->what->src + i * scan->piece_nbytes;
    uint64_t phase = scan->begun + i + 1;

    if (node->me > 0) {
        nxr_combine_two(&scan->what->combine, to, scan_place_of(node, node->me - 1, phase), src,
                        nbytes);
    } else if (to != src) {
        nxr_copy(to, src, nbytes);
    }
}

/* Piece i: its sums for the next member, and its result; in place works. */
static void scan_combine(struct nxr_node *node, const struct scan *scan, size_t i, size_t nbytes)
{
    const struct nxr_reduction *what = scan->what;
    char *dst = (char *)what->dst + i * scan->piece_nbytes;
    bool is_last = node->me + 1 == node->size;
    uint64_t phase = scan->begun + i + 1;

    if (!is_last) {
        scan_add(node, scan, i, scan_place_of(node, node->me, phase), nbytes);
    } else if (!what->is_exclusive) {
        scan_add(node, scan, i, dst, nbytes);
    }
    if (what->is_exclusive && node->me > 0) {
        nxr_copy(dst, scan_place_of(node, node->me - 1, phase), nbytes);
    }
    nxr_node_publish(node, phase);
    if (!what->is_exclusive && !is_last) {
        nxr_copy(dst, scan_place_of(node, node->me, phase), nbytes);
    }
}

static int scan_do_piece(struct nixl_team *team, const struct scan *scan, size_t i, size_t nbytes)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = scan->begun + i + 1;
    int status = node->me > 0 ? nxr_node_wait(team, node->me - 1, phase) : NIXL_OK;

    if (status == NIXL_OK && phase > N_PLACES && node->me + 1 < node->size) {
        status = nxr_node_wait(team, node->me + 1, phase - N_PLACES);
    }
    if (status == NIXL_OK) {
        scan_combine(node, scan, i, nbytes);
    }
    return status;
}

int nxr_node_scan(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    const struct scan scan = {
        .what = what, .piece_nbytes = scan_piece(node, what), .begun = node->phase};
    int reader = node->me + 1 < node->size ? node->me + 1 : node->me;
    bool goes_on = node->slot_due == node->scanned; /* nothing else was in the slot since */
    int status = goes_on ? NIXL_OK : nxr_node_reuse_slot(team);

    for (size_t i = 0, at = 0; at < what->nbytes && status == NIXL_OK; i++) {
        size_t left = what->nbytes - at,
               nbytes = left < scan.piece_nbytes ? left : scan.piece_nbytes;

        status = scan_do_piece(team, &scan, i, nbytes);
        at += nbytes;
    }
    if (status != NIXL_OK) {
        return status;
    }
    /* The result was copied out of the own slot: only `reader` still reads it. */
    nxr_node_publish(node, node->phase + 1);
    nxr_node_lend_slot(node, reader);
    node->scanned = node->slot_due;
    return NIXL_OK;
}
