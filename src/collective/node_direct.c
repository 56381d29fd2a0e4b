/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large data that moves on one host, copied once, from its source to its destination (buffer.h), if
 * that is faster than through slots (trial.h). A member that receives reads what the senders have
 * for it. In a gather, the senders write, so that the root does not do all the work; in a
 * broadcast, all members do both. Data may be device memory.
 */
#include "config.h"

#include "collective/device.h"
#include "collective/node_piece.h"
#include "collective/plan.h"
#include "util/coll_table.h"

/* Shares of a broadcast end at pages: process_vm calls take whole ones. */
#define SHARE_UNIT 4096

/* How many bytes of src others read. */
static size_t src_nbytes_of(const struct nixl_team *team, const struct nxr_exchange *what)
{
    size_t end = 0;

    if (!what->is_private) {
        return what->nbytes;
    }
    if (what->src_nbytes == NULL) {
        return (size_t)team->size * what->nbytes;
    }
    for (int i = 0; i < team->size; i++) {
        size_t piece_end = what->src_offsets[i] + what->src_nbytes[i];

        end = piece_end > end ? piece_end : end;
    }
    return end;
}

/* How many bytes of dst others write. */
static size_t dst_nbytes_of(const struct nixl_team *team, const struct nxr_exchange *what)
{
    size_t end = 0;

    for (int i = 0; i < team->node.size; i++) {
        struct nxr_node_piece piece = nxr_node_piece_from(team, what, i);
        size_t piece_end = (size_t)(piece.dst - (char *)what->dst) + piece.nbytes;

        end = piece_end > end ? piece_end : end;
    }
    return end;
}

static bool is_gather(const struct nxr_exchange *what)
{
    return what->all_send && !what->all_receive;
}

/* A piece in a buffer of its owner. */
struct place {
    size_t offset;
    size_t nbytes;
};

/*
 * Publish in the slot where each member's piece is. A call with different sizes needs it, since
 * members do not know each other's.
 */
static int direct_tell_places(struct nixl_team *team, const size_t *offsets, const size_t *nbytes)
{
    struct nxr_node *node = &team->node;
    struct place *places = (void *)nxr_node_slot(node, node->me);
    int status = nxr_node_reuse_slot(team);

    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        places[i] = (struct place){offsets[team->local[i]], nbytes[team->local[i]]};
    }
    return status;
}

/* Where the piece of this member is: in the src of its sender, or in the dst of a gather's root. */
static struct place place_at(const struct nixl_team *team, const struct nxr_exchange *what,
                             int owner)
{
    const struct nxr_node *node = &team->node;

    return what->is_vector
               ? ((const struct place *)(void *)nxr_node_slot(node, owner))[node->me]
               : (struct place){(size_t)team->local[node->me] * what->nbytes, what->nbytes};
}

static int copy_from_src(struct nixl_team *team, const struct nxr_exchange *what)
{
    struct nxr_node *node = &team->node;
    int status = nxr_node_copy_own(team, what);

    for (int k = 1; k < node->size && nxr_node_receives(team, what, node->me) && status == NIXL_OK;
         k++) {
        int i = (node->me + k) % node->size;
        struct nxr_node_piece piece = nxr_node_piece_from(team, what, i);

        if (nxr_node_sends(team, what, i) && piece.nbytes > 0) {
            size_t at = what->is_private ? place_at(team, what, i).offset : 0;

            status = nxr_buffer_read(team, i, at, piece.dst, piece.nbytes);
        }
    }
    if (status != NIXL_OK) {
        return status;
    }
    nxr_node_publish(node, node->phase + 1);
    if (nxr_node_sends(team, what, node->me)) {
        nxr_node_lend_slot(node, -1); /* until then src is read, and the places in the slot */
        status = nxr_node_wait_receivers(team, what, node->phase);
    }
    return status == NIXL_OK ? nxr_node_check(team) : status;
}

/* A gather in which each member writes its piece into the root's dst, all at the same time. */
static int copy_to_root(struct nixl_team *team, const struct nxr_exchange *what)
{
    struct nxr_node *node = &team->node;
    int root = team->local_index[what->root], status;

    if (node->me == root) {
        status = nxr_node_copy_own(team, what);
    } else {
        struct place place = place_at(team, what, root);
        size_t nbytes = what->nbytes < place.nbytes ? what->nbytes : place.nbytes;

        status = nxr_buffer_write(team, root, place.offset, what->src, nbytes);
    }
    if (status != NIXL_OK) {
        return status;
    }
    nxr_node_publish(node, node->phase + 1);
    if (node->me == root) {
        status = nxr_node_wait_all(team, node->phase);
        nxr_node_lend_slot(node, node->me); /* all have read the places in it */
    }
    return status == NIXL_OK ? nxr_node_check(team) : status;
}

enum nxr_trial_operation nxr_node_exchange_operation(const struct nxr_exchange *what)
{
    if (what->is_private) {
        return what->all_send ? NXR_TRIAL_ALLTOALL : NXR_TRIAL_SCATTER;
    }
    return what->all_receive ? NXR_TRIAL_ALLGATHER : NXR_TRIAL_GATHER;
}

/* Describe the buffers that others may use in place, and publish what they cannot compute. */
static int make_offer(struct nixl_team *team, const struct nxr_exchange *what,
                      struct nxr_offer *offer)
{
    bool is_sender = nxr_node_sends(team, what, team->node.me);
    bool is_receiver = nxr_node_receives(team, what, team->node.me);

    *offer = (struct nxr_offer){
        .has_device = is_receiver && nxr_range_find(what->dst) != NULL,
        .is_rooted = !what->all_send || !what->all_receive,
    };
    if (offer->is_rooted) {
        offer->root = team->local_index[what->root];
    }
    if (is_sender) {
        offer->src = what->src;
        offer->src_nbytes = src_nbytes_of(team, what);
        offer->has_no_src = what->is_private && what->src == what->dst; /* it is overwritten */
    }
    if (is_gather(what) && !is_receiver) {
        offer->cannot_write = nxr_range_find(what->src) != NULL;
    } else if (is_gather(what)) {
        offer->src = NULL;
        offer->dst = what->dst;
        offer->dst_nbytes = dst_nbytes_of(team, what);
        return what->is_vector ? direct_tell_places(team, what->dst_offsets, what->dst_nbytes)
                               : NIXL_OK;
    }
    return is_sender && what->is_private && what->is_vector
               ? direct_tell_places(team, what->src_offsets, what->src_nbytes)
               : NIXL_OK;
}

int nxr_node_exchange_large(struct nixl_team *team, const struct nxr_exchange *what, size_t largest)
{
    unsigned wanted = is_gather(what) ? NXR_BUFFER_DST : NXR_BUFFER_SRC, shared = 0;
    enum nxr_trial_operation of = nxr_node_exchange_operation(what);
    bool is_small = nxr_node_is_small(team, what, largest);
    struct nxr_trial_run run = {.trial = NULL};
    struct nxr_offer offer;
    int status;

    if (largest < nxr_coll_table.direct_from) {
        return nxr_plan_is_making(team) ? NXR_PLANNED
                                        : nxr_node_exchange_slots(team, what, largest);
    }
    status = make_offer(team, what, &offer);
    if (status == NIXL_OK && is_small) {
        status = nxr_trial_offer_small(team, of, largest, wanted, &offer, &shared, &run);
    } else if (status == NIXL_OK) {
        status = nxr_trial_offer(team, of, largest, wanted, &offer, &shared, &run);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = (shared & NXR_BUFFER_DST) != 0 ? copy_to_root(team, what)
             : (shared & NXR_BUFFER_SRC) != 0
                 ? copy_from_src(team, what)
                 : nxr_node_exchange_copies(team, what, largest, is_small);
    return status == NIXL_OK ? nxr_trial_end(team, &run) : status;
}

/*
 * A broadcast in which all members work: the root copies as much to each of the others as each of
 * them copies from the root.
 */
static int broadcast_shares(struct nixl_team *team, int root, char *buf, size_t nbytes)
{
    struct nxr_node *node = &team->node;
    size_t given = nbytes / (size_t)node->size / SHARE_UNIT * SHARE_UNIT;
    int status = NIXL_OK;

    if (node->me != root) {
        status = nxr_buffer_read(team, root, given, buf + given, nbytes - given);
    }
    for (int k = 1; k < node->size && node->me == root && status == NIXL_OK; k++) {
        status = nxr_buffer_write(team, (root + k) % node->size, 0, buf, given);
    }
    if (status != NIXL_OK) {
        return status;
    }
    nxr_node_publish(node, node->phase + 1);
    status = node->me == root ? nxr_node_wait_all(team, node->phase)
                              : nxr_node_wait(team, root, node->phase);
    return status == NIXL_OK ? nxr_node_check(team) : status;
}

int nxr_node_broadcast_large(struct nixl_team *team, int root, void *buf, size_t nbytes)
{
    const struct nxr_exchange what = {
        .root = team->local[root], .all_receive = true, .src = buf, .dst = buf, .nbytes = nbytes};
    bool is_small = nbytes <= nxr_node_cell_up_to(&team->node, false);
    struct nxr_trial_run run = {.trial = NULL};
    struct nxr_offer offer = {.src = NULL};
    unsigned shared = 0;
    int status;

    if (nbytes < nxr_coll_table.direct_from) {
        return nxr_plan_is_making(team) ? NXR_PLANNED
                                        : nxr_node_exchange_slots(team, &what, nbytes);
    }
    if (team->node.me == root) {
        offer = (struct nxr_offer){.src = buf, .src_nbytes = nbytes};
    } else {
        offer = (struct nxr_offer){.dst = buf, .dst_nbytes = nbytes};
    }
    offer.has_device = nxr_range_find(buf) != NULL;
    offer.is_rooted = true;
    offer.root = root;
    status = is_small ? nxr_trial_offer_small(team, NXR_TRIAL_BROADCAST, nbytes, NXR_BUFFER_SRC,
                                              &offer, &shared, &run)
                      : nxr_trial_offer(team, NXR_TRIAL_BROADCAST, nbytes, NXR_BUFFER_SRC, &offer,
                                        &shared, &run);
    if (status != NIXL_OK) {
        return status;
    }
    if (shared == (NXR_BUFFER_SRC | NXR_BUFFER_DST)) {
        status = broadcast_shares(team, root, buf, nbytes);
    } else if ((shared & NXR_BUFFER_SRC) != 0) {
        status = copy_from_src(team, &what);
    } else if (is_small) {
        status = nxr_node_broadcast_cell(team, root, buf, nbytes);
    } else {
        status = nxr_node_exchange_slots(team, &what, nbytes);
    }
    return status == NIXL_OK ? nxr_trial_end(team, &run) : status;
}
