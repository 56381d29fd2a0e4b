/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives among the members on one host, numbered as in struct nxr_node. Collectives of whole
 * teams are composed of these. All members of the host call with the same sizes. Functions return
 * NIXL_OK; any other status ends the call under way, and the team is broken.
 */
#ifndef NXR_COLLECTIVE_NODE_COLLECTIVE_H
#define NXR_COLLECTIVE_NODE_COLLECTIVE_H

#include "collective/buffer.h"
#include "collective/team.h"
#include "collective/trial.h"

enum nxr_reduce_kind { NXR_REDUCE, NXR_ALLREDUCE, NXR_REDUCE_SCATTER, NXR_SCAN };

/* A reduction; dst may be src. NXR_REDUCE: dst of the root only. */
struct nxr_reduction {
    enum nxr_reduce_kind kind;
    bool is_exclusive; /* SCAN: without the member's own src; the first dst is not changed */
    int root;
    struct nxr_combine combine;
    const void *src;
    void *dst;
    size_t nbytes;        /* of src */
    const size_t *begins; /* SCATTER: offset in src of each member's part; NULL: contiguous */
};

#define NXR_REDUCE_NO_PART SIZE_MAX /* in begins */

int nxr_node_reduce(struct nixl_team *team, const struct nxr_reduction *what);

/* What the trials call it; NXR_SCAN has none, and gets any. */
enum nxr_trial_operation nxr_node_reduce_operation(const struct nxr_reduction *what);

/* NXR_ALLREDUCE of operands that fit into a cell, among two or more members. */
int nxr_node_allreduce_cells(struct nixl_team *team, const struct nxr_reduction *what);

/*
 * A large reduction other than NXR_SCAN, on buffers in place; is_small: its operands would fit into
 * cells. *is_done_p: false if they cannot be reached, or cells or slots are to be used, and nothing
 * was done. The caller ends *run (trial.h).
 */
int nxr_node_reduce_direct(struct nixl_team *team, const struct nxr_reduction *what, bool is_small,
                           struct nxr_trial_run *run, bool *is_done_p);

/* A large reduction other than NXR_SCAN on any buffers, if members share cores; no `begins'. */
int nxr_node_reduce_chain(struct nixl_team *team, const struct nxr_reduction *what);

/* A large NXR_SCAN. */
int nxr_node_scan(struct nixl_team *team, const struct nxr_reduction *what);

/*
 * Combine what team->srcs has of each member, nbytes of it, into dst. Members that run at the same
 * time fetch ahead. Those that share cores do not: what they read has mostly just been written by
 * the same core, and asking for it takes longer (64 KiB, 4 members on 2 cores: 6 %).
 */
void nxr_node_combine(const struct nixl_team *team, const struct nxr_combine *combine, void *dst,
                      size_t nbytes);

/*
 * Bytes that each member combines, in whole elements; the last members may have less, or nothing.
 */
size_t nxr_reduce_share(const struct nixl_team *team, const struct nxr_reduction *what);

/* The range that a member combines; `share` is nxr_reduce_share(). */
struct nxr_reduce_range {
    size_t begin; /* in src */
    size_t end;
};
struct nxr_reduce_range nxr_reduce_range(const struct nxr_reduction *what, size_t share,
                                         int member);

int nxr_node_barrier(struct nixl_team *team);

/*
 * Data that moves. Arrays have an entry for each team rank of the team, of which those on this
 * host are used; NULL: all pieces are `nbytes` long and contiguous in the order of team ranks.
 */
struct nxr_exchange {
    int root;         /* team rank: the sender or receiver, if not all are */
    bool all_send;    /* else the root; then dst is one piece */
    bool all_receive; /* else the root */
    bool is_private;  /* src has a piece for each team rank; else src is one piece, for all */
    bool is_vector;   /* members do not know each other's sizes */
    const void *src;
    void *dst;     /* may be src */
    size_t nbytes; /* of a piece, if there is no array */
    const size_t *src_nbytes;
    const size_t *src_offsets;
    const size_t *dst_nbytes;
    const size_t *dst_offsets;
};

int nxr_node_exchange(struct nixl_team *team, const struct nxr_exchange *what);

/* root: its number on this host. */
int nxr_node_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes);

#endif
