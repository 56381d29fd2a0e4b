/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large reductions on buffers that all members reach in place (buffer.h). Each member combines its
 * share of the operands of all, a piece at a time, and while the piece is in its cache copies it to
 * all that want it. So every operand is read once, every result is written once, and no member
 * waits before the end. In place works, too: a share of all buffers is read and then written by one
 * member alone.
 *
 * Operands that are not mapped here are read into this member's slot, one after the other; the
 * intermediate result is next to them. The order of the operands is that of the members, as in
 * slots.
 */
#include "config.h"

#include "collective/node_collective.h"
#include "collective/phase.h"
#include "util/coll_table.h"

/* This member's share, and the piece of it that is in progress. */
struct work {
    const struct nxr_reduction *what;
    size_t at;     /* in the operands */
    size_t nbytes; /* of the piece */
    char *result;
    bool is_mapped; /* the operands of all others are mapped */
};

/* Does a member get the results of the others? */
static bool wants_all(const struct nxr_reduction *what, int member)
{
    return what->kind == NXR_ALLREDUCE || (what->kind == NXR_REDUCE && member == what->root);
}

/* The operands of a member: where they are mapped, or copied to `room`. */
static int get_operands(struct nixl_team *team, const struct work *work, int member, char *room,
                        const char **operands_p)
{
    if (member == team->node.me) {
        *operands_p = (const char *)work->what->src + work->at;
        return NIXL_OK;
    }
    *operands_p = nxr_buffer_src(team, member);
    if (*operands_p != NULL) {
        *operands_p += work->at;
        return NIXL_OK;
    }
    *operands_p = room;
    return nxr_buffer_read(team, member, work->at, room, work->nbytes);
}

/*
 * Combine one operand after the other, the last into the result, which may overlay this member's
 * operands.
 */
static int combine_in_turn(struct nixl_team *team, const struct work *work)
{
    struct nxr_node *node = &team->node;
    char *so_far = nxr_node_slot(node, node->me), *room = so_far + NXR_NODE_SLOT_NBYTES / 2;
    const char *left, *right;
    int status = get_operands(team, work, 0, so_far, &left);

    for (int i = 1; i < node->size && status == NIXL_OK; i++) {
        char *to = i == node->size - 1 ? work->result : so_far;

        status = get_operands(team, work, i, room, &right);
        if (status == NIXL_OK) {
            nxr_combine_two(&work->what->combine, to, left, right, work->nbytes);
            left = to;
        }
    }
    return status;
}

static int combine_piece(struct nixl_team *team, const struct work *work)
{
    const struct nxr_node *node = &team->node;

    if (!work->is_mapped) {
        return combine_in_turn(team, work);
    }
    for (int i = 0; i < node->size; i++) {
        const char *src = i == node->me ? work->what->src : nxr_buffer_src(team, i);

        team->srcs[i] = src + work->at;
    }
    nxr_node_combine(team, &work->what->combine, work->result, work->nbytes);
    return NIXL_OK;
}

/*
 * Where a piece of this member's share is combined: in its dst, or in its slot if only others want
 * it.
 */
static char *direct_result_of(const struct nixl_team *team, const struct nxr_reduction *what,
                              size_t at, size_t in_share)
{
    if (what->kind == NXR_REDUCE_SCATTER) {
        return (char *)what->dst + in_share;
    }
    return wants_all(what, team->node.me) ? (char *)what->dst + at
                                          : nxr_node_slot(&team->node, team->node.me);
}

static int give_piece(struct nixl_team *team, const struct work *work)
{
    const struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    /* Each starts with another member, so that not all write the same memory at once. */
    for (int k = 1; k < node->size && status == NIXL_OK; k++) {
        int member = (node->me + k) % node->size;

        if (wants_all(work->what, member)) {
            status = nxr_buffer_write(team, member, work->at, work->result, work->nbytes);
        }
    }
    return status;
}

static int direct_do_share(struct nixl_team *team, const struct nxr_reduction *what)
{
    const struct nxr_node *node = &team->node;
    struct nxr_reduce_range range = nxr_reduce_range(what, nxr_reduce_share(team, what), node->me);
    size_t element = what->combine.element_nbytes;
    struct work work = {.what = what, .is_mapped = true};
    size_t piece;
    int status = NIXL_OK;

    for (int i = 0; i < node->size; i++) {
        work.is_mapped &= i == node->me || nxr_buffer_src(team, i) != NULL;
    }
    piece = work.is_mapped ? nxr_coll_table.reduce_piece : nxr_coll_table.process_vm_piece;
    piece = piece / element * element;
    for (work.at = range.begin; work.at < range.end && status == NIXL_OK; work.at += piece) {
        work.nbytes = range.end - work.at < piece ? range.end - work.at : piece;
        work.result = direct_result_of(team, what, work.at, work.at - range.begin);
        status = combine_piece(team, &work);
        if (status == NIXL_OK) {
            status = give_piece(team, &work);
        }
    }
    return status;
}

/* The bytes behind src that all members combine. */
static size_t direct_src_nbytes_of(const struct nixl_team *team, const struct nxr_reduction *what)
{
    size_t share = nxr_reduce_share(team, what), end = 0;

    for (int i = 0; i < team->node.size; i++) {
        struct nxr_reduce_range range = nxr_reduce_range(what, share, i);

        end = range.end > end ? range.end : end;
    }
    return end;
}

enum nxr_trial_operation nxr_node_reduce_operation(const struct nxr_reduction *what)
{
    switch (what->kind) {
    case NXR_REDUCE:
        return NXR_TRIAL_REDUCE;
    case NXR_ALLREDUCE:
        return NXR_TRIAL_ALLREDUCE;
    default:
        return NXR_TRIAL_REDUCE_SCATTER;
    }
}

int nxr_node_reduce_direct(struct nixl_team *team, const struct nxr_reduction *what, bool is_small,
                           struct nxr_trial_run *run, bool *is_done_p)
{
    struct nxr_node *node = &team->node;
    struct nxr_offer offer = {.src = what->src, .src_nbytes = direct_src_nbytes_of(team, what)};
    enum nxr_trial_operation of = nxr_node_reduce_operation(what);
    unsigned wanted = NXR_BUFFER_SRC, shared = 0;
    int status;

    if (what->kind != NXR_REDUCE_SCATTER) {
        wanted |= NXR_BUFFER_DST;
    }
    if (wants_all(what, node->me)) {
        offer.dst = what->dst;
        offer.dst_nbytes = what->nbytes;
    }
    /* In place, the part would be written where another member reads its operands. */
    offer.has_no_src = what->kind == NXR_REDUCE_SCATTER && what->src == what->dst;
    status = is_small ? nxr_trial_offer_small(team, of, what->nbytes, wanted, &offer, &shared, run)
                      : nxr_trial_offer(team, of, what->nbytes, wanted, &offer, &shared, run);
    *is_done_p = status == NIXL_OK && shared == wanted;
    if (!*is_done_p) {
        return status;
    }
    status = nxr_node_reuse_slot(team);
    if (status == NIXL_OK) {
        status = direct_do_share(team, what);
    }
    if (status != NIXL_OK) {
        return status;
    }
    /* The others have read this member's operands, and written their results. */
    nxr_node_publish(node, node->phase + 1);
    nxr_node_lend_slot(node, node->me);
    status = nxr_node_wait_all(team, node->phase);
    return status == NIXL_OK ? nxr_node_check(team) : status;
}
