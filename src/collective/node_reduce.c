/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions on one host. Small operands are put into cells, and each member that wants the result
 * combines all of them; if many share cores, the first one does it for all. Large operands are cut
 * into a share per member, and each member combines its share, a piece of every share at a time. In
 * a round, each member copies its operands for the others into its slot, combines the piece of its
 * own share, and copies the results of the others out of their slots. If all can reach the buffers
 * of all, this is done without slots (node_reduce_direct.c); if members share cores, one after the
 * other (node_reduce_chain.c). Large prefixes go along a chain (node_scan.c).
 *
 * Operands are always combined in the order of the members, no matter which member does it.
 */
#include "config.h"

#include "collective/node_collective.h"
#include "collective/phase.h"
#include "collective/plan.h"
#include "util/coll_table.h"
#include "util/symbol.h"

/* Large shares end at pages: process_vm calls take whole ones. */
#define SHARE_UNIT 4096

/* In a crowd, members that combine operands from this size on do not publish soon. */
#define LONG_NBYTES (32ul << 10)

/* Members of a crowd from which on the first one combines small operands for all. */
#define BY_FIRST_FROM 16

/* ---- small: in cells ------------------------------------------------------------------------- */

/*
 * Where an operand is read. This member's own is read where the caller has it: its cell is on the
 * way to the other cores, and to read it would fetch it back.
 */
static inline const char *operand_of(const struct nixl_team *team, const struct nxr_reduction *what,
                                     int member, uint64_t phase)
{
    return member == team->node.me
               ? what->src
               : (const char *)nxr_node_cell_bytes(&team->node, member, phase, what->nbytes);
}

static int combine_cells(struct nixl_team *team, const struct nxr_reduction *what, uint64_t phase,
                         int n_members)
{
    if (n_members == 0) {
        return NIXL_OK;
    }
    for (int i = 0; i < n_members; i++) {
        team->srcs[i] = operand_of(team, what, i, phase);
    }
    nxr_combine_all(&what->combine, what->dst, team->srcs, (size_t)n_members, what->nbytes);
    return NIXL_OK;
}

static bool has_first(const struct nxr_node *node)
{
    return node->is_crowded && node->size >= BY_FIRST_FROM;
}

/*
 * In a crowd, where a core reads the cells of all members for each of its own: the first one alone
 * reads them, and has the result in its cell of the next phase.
 */
static int allreduce_by_first(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status = nxr_node_put_cell(team, what->src, what->nbytes);

    if (status == NIXL_OK && node->me == 0) {
        status = nxr_node_wait_cells(team, phase);
        if (status == NIXL_OK) {
            combine_cells(team, what, phase, node->size);
            status = nxr_node_put_cell(team, what->dst, what->nbytes);
        }
        return status;
    }
    if (status == NIXL_OK) {
        status = nxr_node_put_cell(team, NULL, 0);
    }
    if (status == NIXL_OK) {
        status = nxr_node_wait_cell(team, 0, phase + 1);
    }
    if (status == NIXL_OK) {
        nxr_copy(what->dst, nxr_node_cell_bytes(node, 0, phase + 1, what->nbytes), what->nbytes);
        node->known = phase; /* the first one has waited for all */
    }
    return status;
}

NXR_HOT int nxr_node_allreduce_cells(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status;

    if (has_first(node)) {
        return allreduce_by_first(team, what);
    }
    status = nxr_node_put_cell(team, what->src, what->nbytes);
    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    if (__builtin_expect(status != NIXL_OK, 0)) {
        return status;
    }
    if (node->size == 2) {
        nxr_combine_two(&what->combine, what->dst, operand_of(team, what, 0, phase),
                        operand_of(team, what, 1, phase), what->nbytes);
        return NIXL_OK;
    }
    return combine_cells(team, what, phase, node->size);
}

static int reduce_cells(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status = nxr_node_put_cell(team, what->src, what->nbytes);

    if (status == NIXL_OK && node->me == what->root) {
        status = nxr_node_wait_cells(team, phase);
        if (status == NIXL_OK) {
            combine_cells(team, what, phase, node->size);
        }
    }
    return status;
}

static int scan_cells(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    int status = nxr_node_put_cell(team, what->src, what->nbytes);

    for (int i = 0; i < node->me && status == NIXL_OK; i++) {
        status = nxr_node_wait_cell(team, i, phase);
    }
    return status == NIXL_OK ? combine_cells(team, what, phase, node->me + !what->is_exclusive)
                             : status;
}

static int reduce_scatter_cells(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    uint64_t phase = node->phase + 1;
    size_t part = what->nbytes / (size_t)node->size, at = part * (size_t)node->me;
    int status = nxr_node_put_cell(team, what->src, what->nbytes);

    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        team->srcs[i] = operand_of(team, what, i, phase) + at;
    }
    if (status == NIXL_OK) {
        nxr_combine_all(&what->combine, what->dst, team->srcs, (size_t)node->size, part);
    }
    return status;
}

/* ---- large: shares --------------------------------------------------------------------------- */

/* How the operands are cut. */
struct shares {
    const struct nxr_reduction *what;
    size_t share_nbytes; /* the last ones may have less, or nothing */
    size_t piece_nbytes; /* of a share, in one round */
    size_t room_nbytes;  /* for a piece, in a slot */
    size_t n_rounds;
};

/* A piece of a share: where it begins in the operands, and how long it is. */
struct piece {
    size_t at;
    size_t nbytes;
};

static struct piece node_reduce_piece_of(const struct shares *shares, int member, size_t round)
{
    struct nxr_reduce_range range = nxr_reduce_range(shares->what, shares->share_nbytes, member);
    struct piece piece = {.at = range.begin + round * shares->piece_nbytes};

    if (piece.at < range.end) {
        size_t left = range.end - piece.at;

        piece.nbytes = left < shares->piece_nbytes ? left : shares->piece_nbytes;
    }
    return piece;
}

/* Round down to whole elements, and to whole cache lines if elements fit into lines. */
static size_t round_down(size_t nbytes, size_t element_nbytes)
{
    size_t unit = NXR_LINE_NBYTES % element_nbytes == 0 ? NXR_LINE_NBYTES : element_nbytes;

    return nbytes < unit ? element_nbytes : nbytes / unit * unit;
}

size_t nxr_reduce_share(const struct nixl_team *team, const struct nxr_reduction *what)
{
    size_t size = (size_t)team->node.size, element = what->combine.element_nbytes;
    size_t unit = NXR_LINE_NBYTES % element == 0 ? NXR_LINE_NBYTES : element, n_units;

    if (what->kind == NXR_REDUCE_SCATTER) {
        return what->nbytes / size;
    }
    if (what->nbytes / size >= SHARE_UNIT && SHARE_UNIT % unit == 0) {
        unit = SHARE_UNIT;
    }
    n_units = (what->nbytes + unit - 1) / unit;
    return (n_units + size - 1) / size * unit;
}

struct nxr_reduce_range nxr_reduce_range(const struct nxr_reduction *what, size_t share, int member)
{
    size_t begin = (size_t)member * share, end = begin + share;

    if (what->begins != NULL) {
        begin = what->begins[member];
        return begin == NXR_REDUCE_NO_PART ? (struct nxr_reduce_range){0, 0}
                                           : (struct nxr_reduce_range){begin, begin + share};
    }
    end = end < what->nbytes ? end : what->nbytes;
    return (struct nxr_reduce_range){begin, end};
}

/*
 * A slot has the operands for each of the others, and the results. There are two sets of these,
 * used in turn, so that one may still be read; one is enough if there is one round. Rounds are as
 * few as possible, because each waits for all members.
 */
static struct shares node_reduce_cut(const struct nixl_team *team, const struct nxr_reduction *what)
{
    size_t n_others = (size_t)team->node.size - 1, element = what->combine.element_nbytes;
    size_t n_results = what->kind == NXR_REDUCE_SCATTER ? 0 : 1;
    struct shares shares = {.what = what, .share_nbytes = nxr_reduce_share(team, what)};
    size_t room = nxr_node_lines_down(NXR_NODE_SLOT_NBYTES / (n_others + n_results));

    if (shares.share_nbytes > room) {
        room = nxr_node_lines_down(NXR_NODE_SLOT_NBYTES / (n_others + 2 * n_results));
    }
    shares.room_nbytes = room;
    shares.piece_nbytes =
        shares.share_nbytes > room ? round_down(room, element) : shares.share_nbytes;
    shares.n_rounds = (shares.share_nbytes + shares.piece_nbytes - 1) / shares.piece_nbytes;
    return shares;
}

/* Where `owner` has the operands for `member` in its slot. */
static char *operands_of(const struct nixl_team *team, const struct shares *shares, int owner,
                         int member)
{
    size_t place = (size_t)(member < owner ? member : member - 1);

    return nxr_node_slot(&team->node, owner) + place * shares->room_nbytes;
}

/* Where a member has its result of a round. */
static char *node_reduce_result_of(const struct nixl_team *team, const struct shares *shares,
                                   int member, size_t round)
{
    size_t n_others = (size_t)team->node.size - 1;

    return nxr_node_slot(&team->node, member) + (n_others + round % 2) * shares->room_nbytes;
}

static void node_reduce_copy_in(const struct nixl_team *team, const struct shares *shares,
                                size_t round)
{
    const struct nxr_node *node = &team->node;

    for (int i = 0; i < node->size; i++) {
        struct piece piece = node_reduce_piece_of(shares, i, round);

        if (i != node->me && piece.nbytes > 0) {
            nxr_copy(operands_of(team, shares, node->me, i),
                     (const char *)shares->what->src + piece.at, piece.nbytes);
        }
    }
}

void nxr_node_combine(const struct nixl_team *team, const struct nxr_combine *combine, void *dst,
                      size_t nbytes)
{
    const struct nxr_node *node = &team->node;

    if (node->is_crowded) {
        nxr_combine_all(combine, dst, team->srcs, (size_t)node->size, nbytes);
    } else {
        nxr_combine_members(combine, dst, team->srcs, (size_t)node->size, (size_t)node->me, nbytes);
    }
}

static void node_reduce_combine_block(struct nixl_team *team, const struct shares *shares,
                                      const struct piece *piece, size_t at, size_t nbytes, char *to)
{
    const struct nxr_node *node = &team->node;

    for (int i = 0; i < node->size; i++) {
        team->srcs[i] = i == node->me ? (const char *)shares->what->src + piece->at + at
                                      : operands_of(team, shares, i, node->me) + at;
    }
    nxr_node_combine(team, &shares->what->combine, to, nbytes);
}

/*
 * Combine the piece of this member's share, block by block. A member that wants the result combines
 * into its dst, and copies from its cache to where the others read: a copy takes over cache lines
 * that the others have read without reading them, while other stores would wait for each line.
 */
static void combine_own(struct nixl_team *team, const struct shares *shares, size_t round)
{
    const struct nxr_reduction *what = shares->what;
    struct piece piece = node_reduce_piece_of(shares, team->node.me, round);
    size_t element = what->combine.element_nbytes;
    size_t block = nxr_coll_table.reduce_piece / element * element;
    bool is_in_dst = what->kind != NXR_REDUCE || team->node.me == what->root;
    char *result = node_reduce_result_of(team, shares, team->node.me, round), *dst = what->dst;

    dst += what->kind == NXR_REDUCE_SCATTER ? round * shares->piece_nbytes : piece.at;
    for (size_t at = 0; at < piece.nbytes; at += block) {
        size_t nbytes = piece.nbytes - at < block ? piece.nbytes - at : block;

        node_reduce_combine_block(team, shares, &piece, at, nbytes,
                                  (is_in_dst ? dst : result) + at);
        if (what->kind == NXR_ALLREDUCE) {
            nxr_copy(result + at, dst + at, nbytes);
        }
    }
}

/* Copy the results of the others. */
static void node_reduce_copy_out(const struct nixl_team *team, const struct shares *shares,
                                 size_t round)
{
    const struct nxr_node *node = &team->node;

    /* Each starts with another member, so that not all read the same memory at once. */
    for (int i = 1; i < node->size; i++) {
        int member = (node->me + i) % node->size;
        struct piece piece = node_reduce_piece_of(shares, member, round);

        if (piece.nbytes > 0) {
            nxr_copy((char *)shares->what->dst + piece.at,
                     node_reduce_result_of(team, shares, member, round), piece.nbytes);
        }
    }
}

/*
 * One round: operands are there; this member's piece is combined; results are there. A member that
 * starts the next round has read what it wanted, so what it read may be overwritten once all have
 * published the second of these phases.
 */
static int node_reduce_run_round(struct nixl_team *team, const struct shares *shares, size_t round)
{
    struct nxr_node *node = &team->node;
    bool wants_all = shares->what->kind == NXR_ALLREDUCE ||
                     (shares->what->kind == NXR_REDUCE && node->me == shares->what->root);
    int status = round > 0 ? nxr_node_wait_all(team, node->phase) : NIXL_OK;

    if (status == NIXL_OK) {
        node_reduce_copy_in(team, shares, round);
        nxr_node_publish(node, node->phase + 1);
        status = nxr_node_wait_all(team, node->phase);
    }
    if (status == NIXL_OK) {
        combine_own(team, shares, round);
        nxr_node_publish(node, node->phase + 1);
    }
    if (status == NIXL_OK && wants_all) {
        status = nxr_node_wait_all(team, node->phase);
        if (status == NIXL_OK) {
            node_reduce_copy_out(team, shares, round);
        }
    }
    return status;
}

static int reduce_slots(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct nxr_node *node = &team->node;
    struct shares shares = node_reduce_cut(team, what);
    int status = nxr_node_reuse_slot(team);

    for (size_t round = 0; round < shares.n_rounds && status == NIXL_OK; round++) {
        status = node_reduce_run_round(team, &shares, round);
    }
    if (status == NIXL_OK) {
        nxr_node_publish(node, node->phase + 1);
        nxr_node_lend_slot(node, -1);
    }
    return status;
}

NXR_HOT static int reduce_in_cells(struct nixl_team *team, const struct nxr_reduction *what)
{
    switch (what->kind) {
    case NXR_ALLREDUCE:
        return nxr_node_allreduce_cells(team, what);
    case NXR_REDUCE:
        return reduce_cells(team, what);
    case NXR_REDUCE_SCATTER:
        return reduce_scatter_cells(team, what);
    default:
        return scan_cells(team, what);
    }
}

/* In place, or else through cells if the operands are small, or through slots. */
static int reduce_shares(struct nixl_team *team, const struct nxr_reduction *what, bool is_small)
{
    struct nxr_trial_run run = {.trial = NULL};
    bool is_direct = false;
    int status = NIXL_OK;

    if (what->nbytes >= nxr_coll_table.direct_from) {
        status = nxr_node_reduce_direct(team, what, is_small, &run, &is_direct);
    } else if (nxr_plan_is_making(team)) {
        status = NXR_PLANNED;
    }
    if (status == NIXL_OK && !is_direct && is_small) {
        status = reduce_in_cells(team, what);
    } else if (status == NIXL_OK && !is_direct) {
        bool is_chain = team->node.is_crowded && what->begins == NULL &&
                        what->nbytes >= nxr_coll_table.chain_from;

        team->node.yields_at_once = what->nbytes >= LONG_NBYTES;
        status = is_chain ? nxr_node_reduce_chain(team, what) : reduce_slots(team, what);
        team->node.yields_at_once = false;
    }
    return status == NIXL_OK ? nxr_trial_end(team, &run) : status;
}

/* ---- all ------------------------------------------------------------------------------------- */

/*
 * Operands that go into cells: those of all members have a limit, if each member reads them, and
 * the operands of one have a limit, if more than two members have cores of their own, which then
 * share the work.
 */
static bool is_for_cells(const struct nixl_team *team, const struct nxr_reduction *what)
{
    const struct nxr_node *node = &team->node;
    bool one_reads = what->kind == NXR_REDUCE || (what->kind == NXR_ALLREDUCE && has_first(node));
    bool shares_cores = node->is_crowded || node->size == 2;

    if (what->begins != NULL ||
        what->nbytes > (shares_cores ? NXR_NODE_CELL_ROOM : NXR_NODE_CELL_MIDDLE)) {
        return false;
    }
    return (node->is_crowded && one_reads) ||
           what->nbytes * (size_t)node->size <= nxr_coll_table.cells_up_to;
}

/* Do the members know without asking each other that such operands go into cells? */
static bool needs_no_offer(struct nixl_team *team, const struct nxr_reduction *what)
{
    return what->nbytes < nxr_coll_table.direct_from ||
           (what->kind != NXR_SCAN &&
            nxr_trial_needs_no_offer(team, nxr_node_reduce_operation(what), what->nbytes));
}

NXR_HOT int nxr_node_reduce(struct nixl_team *team, const struct nxr_reduction *what)
{
    bool is_small = is_for_cells(team, what), goes_into_cells;

    if (what->nbytes == 0) {
        return NIXL_OK;
    }
    if (team->node.size == 1) {
        if (what->dst != what->src && !what->is_exclusive) {
            nxr_copy(what->dst, what->src, what->nbytes);
        }
        return NIXL_OK;
    }
    goes_into_cells = is_small && needs_no_offer(team, what);
    if (nxr_plan_is_making(team) && (goes_into_cells || what->kind == NXR_SCAN)) {
        team->plan->is_in_cells = goes_into_cells && what->kind == NXR_ALLREDUCE;
        return NXR_PLANNED;
    }
    if (goes_into_cells) {
        return reduce_in_cells(team, what);
    }
    return what->kind == NXR_SCAN ? nxr_node_scan(team, what) : reduce_shares(team, what, is_small);
}
