/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of an exchange: where a member has what it sends, and where to put what it receives.
 */
#ifndef NXR_COLLECTIVE_NODE_PIECE_H
#define NXR_COLLECTIVE_NODE_PIECE_H

#include "collective/node_collective.h"

/*
 * What a member copies into its slot in one round, if all do so and share cores: what all of them
 * copy should stay in the shared cache.
 */
#define NXR_NODE_CROWD_NBYTES (256ul << 10)

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

/* Through the slots, where all have a piece for each; `largest` of all. (node_alltoall.c) */
int nxr_node_alltoall_slots(struct nixl_team *team, const struct nxr_exchange *what,
                            size_t largest);

#endif
