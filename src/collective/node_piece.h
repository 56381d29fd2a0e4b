/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of an exchange: where a member has what it sends, and where to put what it receives.
 */
#ifndef NXR_COLLECTIVE_NODE_PIECE_H
#define NXR_COLLECTIVE_NODE_PIECE_H

#include "collective/node_collective.h"
#include "collective/phase.h"
#include "util/coll_table.h"

/*
 * What a member copies into its slot in one round, if all do so and share cores: what all of them
 * copy should stay in the shared cache.
 */
#define NXR_NODE_CROWD_NBYTES (256ul << 10)

/*
 * Where a slot has one piece, and members have cores of their own, the receivers follow the sender:
 * it is cut into parts, which go into so many places in turn. Phases of shorter parts would cost
 * more than their copies; those of a gather do so sooner, since its root goes from one sender to
 * the next in each of them.
 */
#define NXR_NODE_STREAM_PLACES 8
#define NXR_NODE_STREAM_NBYTES 8192
#define NXR_NODE_GATHER_NBYTES 32768

static inline size_t nxr_node_stream_part(size_t nbytes, size_t least)
{
    size_t part = nbytes / NXR_NODE_STREAM_PLACES, most = nxr_coll_table.copy_piece / 2;

    part = part < most ? part : most;
    return part < least ? least : part;
}

struct nxr_node_piece {
    const char *src;
    char *dst;
    size_t nbytes;
};

/* What a sending member has for member `i` of this host. */
static inline struct nxr_node_piece nxr_node_piece_to(const struct nixl_team *team,
                                                      const struct nxr_exchange *what, int i)
{
    size_t team_rank = (size_t)team->local[i];
    const char *src = what->src;

    if (!what->is_private) {
        return (struct nxr_node_piece){.src = src, .nbytes = what->nbytes};
    }
    if (what->src_nbytes == NULL) {
        return (struct nxr_node_piece){.src = src + team_rank * what->nbytes,
                                       .nbytes = what->nbytes};
    }
    return (struct nxr_node_piece){.src = src + what->src_offsets[team_rank],
                                   .nbytes = what->src_nbytes[team_rank]};
}

/* What a receiving member expects from member `i` of this host. */
static inline struct nxr_node_piece nxr_node_piece_from(const struct nixl_team *team,
                                                        const struct nxr_exchange *what, int i)
{
    size_t team_rank = (size_t)team->local[i];
    char *dst = what->dst;

    if (!what->all_send) {
        return (struct nxr_node_piece){.dst = dst, .nbytes = what->nbytes};
    }
    if (what->dst_nbytes == NULL) {
        return (struct nxr_node_piece){.dst = dst + team_rank * what->nbytes,
                                       .nbytes = what->nbytes};
    }
    return (struct nxr_node_piece){.dst = dst + what->dst_offsets[team_rank],
                                   .nbytes = what->dst_nbytes[team_rank]};
}

/* How many bytes of a piece lie in the window that starts at `at`. */
static inline size_t nxr_node_piece_in(size_t piece_nbytes, size_t at, size_t window_nbytes)
{
    size_t left = piece_nbytes > at ? piece_nbytes - at : 0;

    return left < window_nbytes ? left : window_nbytes;
}

/* Does member `i` of this host send, or receive? */
static inline bool nxr_node_sends(const struct nixl_team *team, const struct nxr_exchange *what,
                                  int i)
{
    return what->all_send || team->local[i] == what->root;
}

static inline bool nxr_node_receives(const struct nixl_team *team, const struct nxr_exchange *what,
                                     int i)
{
    return what->all_receive || team->local[i] == what->root;
}

/* Does another member of this host read what this one has? */
static inline bool nxr_node_has_readers(const struct nixl_team *team,
                                        const struct nxr_exchange *what)
{
    int root = team->local_index[what->root], me = team->node.me;

    return what->all_receive ? nxr_node_sends(team, what, me) : root != me;
}

/* Wait until all that read from this member have published a phase. */
static inline int nxr_node_wait_receivers(struct nixl_team *team, const struct nxr_exchange *what,
                                          uint64_t phase)
{
    int root = what->all_receive ? -1 : team->local_index[what->root];

    if (root < 0) {
        return nxr_node_wait_all(team, phase);
    }
    return root == team->node.me ? NIXL_OK : nxr_node_wait(team, root, phase);
}

/* Copy what this member has for itself. */
int nxr_node_copy_own(struct nixl_team *team, const struct nxr_exchange *what);

/* Pieces in a cell or slot of a sender. */
static inline size_t nxr_node_pieces_of(const struct nixl_team *team,
                                        const struct nxr_exchange *what)
{
    return what->is_private && team->node.size > 1 ? (size_t)team->node.size - 1 : 1;
}

/*
 * What a member sends at most through its cell, whose readers wait until all of it is there. Slots
 * are read while they are filled, and in a scatter each member waits for its own part only: where
 * more than two members have cores of their own, slots take less time for larger data.
 */
static inline size_t nxr_node_cell_up_to(const struct nxr_node *node, bool is_scatter)
{
    size_t most = nxr_coll_table.exchange_up_to;

    if (node->is_crowded || node->size == 2) {
        return most;
    }
    return is_scatter && most > NXR_NODE_CELL_MIDDLE ? NXR_NODE_CELL_MIDDLE : most / 2;
}

/* Does it go through cells, unless buffers lie in regions? Then it needs no trial. */
static inline bool nxr_node_is_small(const struct nixl_team *team, const struct nxr_exchange *what,
                                     size_t largest)
{
    bool is_scatter = what->is_private && !what->all_send;

    size_t most = nxr_node_cell_up_to(&team->node, is_scatter);

    return largest <= most && largest * nxr_node_pieces_of(team, what) <= most;
}

/* Copied twice: through the cells if it is small, else through the slots. (node_exchange.c) */
int nxr_node_exchange_copies(struct nixl_team *team, const struct nxr_exchange *what,
                             size_t largest, bool is_small);
int nxr_node_broadcast_cell(struct nixl_team *team, int root, void *buf, size_t nbytes);

/*
 * Through the slots, `largest` of all pieces: one for all, in windows (node_exchange.c), one for
 * each, of all (node_alltoall.c) or of one member (node_scatter.c).
 */
int nxr_node_exchange_slots(struct nixl_team *team, const struct nxr_exchange *what,
                            size_t largest);
int nxr_node_alltoall_slots(struct nixl_team *team, const struct nxr_exchange *what,
                            size_t largest);

int nxr_node_scatter_slots(struct nixl_team *team, const struct nxr_exchange *what, size_t largest);

/* What the trials call it. */
enum nxr_trial_operation nxr_node_exchange_operation(const struct nxr_exchange *what);

/* Large pieces: from where they lie, or through cells or slots. (node_direct.c) */
int nxr_node_exchange_large(struct nixl_team *team, const struct nxr_exchange *what,
                            size_t largest);
int nxr_node_broadcast_large(struct nixl_team *team, int root, void *buf, size_t nbytes);

#endif
