/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions by kernels, among members on one host whose buffers are all CUDA memory in regions
 * that all devices reach. Each member's device reduces its share of the operands of all, in the
 * order of the members, and writes the result to all that want it. A call in place works too: a
 * share of all buffers is read and then written by one device alone. No kernel waits for another
 * one: the members wait on the host, before the first kernel and after the last.
 *
 * A kernel is a visit (node.h): a call that fails does not return while others use its buffers. No
 * lock.
 */
#include "config.h"

#include "collective/device.h"
#include "collective/phase.h"
#include "memory/reduce.h"

/* of a share, in one kernel: takes less than 10 ms across NVLink */
#define VISIT_NBYTES ((size_t)1 << 30)

/* ---- whether --------------------------------------------------------------------------------- */

static bool wants_result(const struct nxr_reduction *what, int member)
{
    return what->kind != NXR_REDUCE || member == what->root;
}

/* Do all members know that one of them has asked for kernels? */
static int ask_team(struct nixl_team *team, bool *is_wanted_p)
{
    struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    *is_wanted_p = false;
    if (team->n_nodes > 1 || node->size < 2 || node->size > NXR_REDUCE_MAX) {
        return NIXL_OK;
    }
    if (node->phase > NXR_NODE_CELLS) {
        status = nxr_node_wait_all(team, node->phase - NXR_NODE_CELLS);
    }
    *is_wanted_p = status == NIXL_OK && nxr_node_kernels(node);
    return status;
}

static bool is_aligned(const void *addr, size_t nbytes)
{
    return (uintptr_t)addr % nbytes == 0;
}

/*
 * The device that does this member's share. NULL: there is no kernel for this call here. A scan, or
 * a reduce-scatter in place, would write where others still read.
 */
static const struct nxr_range *device_reduce_find_device(const struct nixl_team *team,
                                                         const struct nxr_reduction *what)
{
    const void *dst = wants_result(what, team->node.me) ? what->dst : NULL;
    size_t element = what->combine.element_nbytes;
    bool is_split = what->kind == NXR_SCAN || what->kind == NXR_REDUCE_SCATTER;

    if (what->combine.fn == NULL || what->is_exclusive || !is_aligned(what->src, element) ||
        !is_aligned(dst, element) || (is_split && dst == what->src)) {
        return NULL;
    }
    return nxr_reduce_by(what->src, dst);
}

/* ---- the own share --------------------------------------------------------------------------- */

/* Where a member's buffers are, for this member's device. */
static const char *src_of(const struct nixl_team *team, const struct nxr_reduction *what,
                          int member)
{
    return member == team->node.me ? what->src : nxr_buffer_src_for_kernels(team, member);
}

static char *dst_of(const struct nixl_team *team, const struct nxr_reduction *what, int member)
{
    return member == team->node.me ? what->dst : nxr_buffer_dst_for_kernels(team, member);
}

/* The bytes of all operands that this member combines, and where their result goes. */
struct share {
    size_t begin;
    size_t nbytes;
    size_t dst_begin;
};

static struct share share_of(const struct nixl_team *team, const struct nxr_reduction *what)
{
    size_t whole = nxr_reduce_share(team, what), begin = whole * (size_t)team->node.me;
    struct share share = {.begin = begin, .nbytes = whole, .dst_begin = begin};

    if (what->kind == NXR_SCAN) {
        return (struct share){.nbytes = what->nbytes};
    }
    if (what->kind == NXR_REDUCE_SCATTER) {
        share.dst_begin = 0;
    } else if (begin >= what->nbytes) {
        share.nbytes = 0;
    } else if (what->nbytes - begin < whole) {
        share.nbytes = what->nbytes - begin;
    }
    return share;
}

static void device_reduce_fill(const struct nixl_team *team, const struct nxr_reduction *what,
                               const struct share *share, struct nxr_device_reduction *reduction)
{
    int n_srcs = what->kind == NXR_SCAN ? team->node.me + 1 : team->node.size;
    bool is_own = what->kind == NXR_SCAN || what->kind == NXR_REDUCE_SCATTER;

    *reduction = (struct nxr_device_reduction){
        .type = what->combine.type, .op = what->combine.op, .nbytes = share->nbytes};
    for (int i = 0; i < n_srcs; i++) {
        reduction->srcs[reduction->n_srcs++] = src_of(team, what, i) + share->begin;
    }
    for (int k = 0; k < team->node.size; k++) {
        int member = (team->node.me + k) % team->node.size;

        if (is_own ? k == 0 : wants_result(what, member)) {
            reduction->dsts[reduction->n_dsts++] = dst_of(team, what, member) + share->dst_begin;
        }
    }
}

/* Run one kernel and wait for it. If it does not end, the visit is not left. */
static int run_kernel(struct nixl_team *team, const struct nxr_device_reduction *reduction,
                      const struct nxr_range *by)
{
    int status = nxr_node_visit(team);

    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_device_run(team, reduction, by);
    if (status != NIXL_E_IN_USE) {
        nxr_node_leave(&team->node);
    }
    return status == NIXL_OK ? status : nxr_team_break(team, status, -1);
}

static int device_reduce_do_share(struct nixl_team *team, const struct nxr_reduction *what,
                                  const struct nxr_range *by)
{
    const struct share whole = share_of(team, what);
    struct nxr_device_reduction reduction;
    int status = NIXL_OK;

    for (size_t at = 0; at < whole.nbytes && status == NIXL_OK; at += VISIT_NBYTES) {
        size_t left = whole.nbytes - at;
        struct share piece = {whole.begin + at, left < VISIT_NBYTES ? left : VISIT_NBYTES,
                              whole.dst_begin + at};

        device_reduce_fill(team, what, &piece, &reduction);
        status = at > 0 ? nxr_team_look(team, -1) : NIXL_OK;
        if (status == NIXL_OK) {
            status = run_kernel(team, &reduction, by);
        }
    }
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The buffers of all are offered, and held. */
static int reduce_offered(struct nixl_team *team, const struct nxr_reduction *what,
                          const struct nxr_range *by)
{
    struct nxr_node *node = &team->node;
    int status = device_reduce_do_share(team, what, by);

    if (status != NIXL_OK) {
        return status;
    }
    /* The others have read this member's operands, and written their results. */
    nxr_node_publish(node, node->phase + 1);
    status = nxr_node_wait_all(team, node->phase);
    return status == NIXL_OK ? nxr_node_check(team) : status;
}

static int device_reduce_reduce(struct nixl_team *team, const struct nxr_reduction *what,
                                const struct nxr_range *by, bool *is_done_p)
{
    struct nxr_node *node = &team->node;
    struct nxr_offer offer = {
        .src = what->src, .src_nbytes = what->nbytes, .for_kernels = true, .by = by};
    unsigned shared = 0;
    int status;

    offer.is_in_region = true;
    if (what->kind == NXR_ALLREDUCE || (what->kind == NXR_REDUCE && node->me == what->root)) {
        offer.dst = what->dst;
        offer.dst_nbytes = what->nbytes;
    }
    status = nxr_buffers_offer(team, &offer, &shared);
    *is_done_p = status == NIXL_OK && shared == NXR_BUFFER_KERNELS;
    if (*is_done_p) {
        status = reduce_offered(team, what, by);
    }
    if (by != NULL && status != NIXL_E_IN_USE) { /* a kernel that continues keeps what it uses */
        nxr_buffers_release(team);
    }
    return status;
}

int nxr_device_reduce(struct nixl_team *team, const struct nxr_call *call, bool *is_done_p)
{
    const struct nxr_reduction *what = &call->reduction;
    const struct nxr_range *by;
    bool is_wanted = false;
    int status;

    *is_done_p = false;
    if (what->nbytes == 0) {
        return NIXL_OK;
    }
    status = ask_team(team, &is_wanted);
    if (status != NIXL_OK) {
        return status;
    }
    by = call->has_device ? device_reduce_find_device(team, what) : NULL;
    if (is_wanted) {
        return device_reduce_reduce(team, what, by, is_done_p);
    }
    if (by != NULL && team->node.head != NULL) {
        nxr_node_want_kernels(&team->node);
    }
    return NIXL_OK;
}
