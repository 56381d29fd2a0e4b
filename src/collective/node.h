/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a team that share a host, and the memory that they share: a region of the first of
 * them, mapped by all. In it, each member has
 *   - a line with the number of its last phase, which only grows;
 *   - flags, a line each, by which it publishes a phase to a few members: a writer that serves one
 *     member after the other then does not take the cache line on which the others spin;
 *   - a few cells for small data: the phase and the data behind it, so that one cache line carries
 *     both. Longer data of a cell lies apart, in pages of its own. In a crowd, the cells of all
 *     members for a phase lie side by side: where many processes share a core, each page that a
 *     turn touches is a miss in the TLB. Otherwise a cell has a page of its own: a core that reads
 *     neighbouring cells prefetches the next ones, whose writers then take the lines back;
 *   - a slot for large data;
 *   - a line for its sleep.
 * A collective is a number of phases, the same on all members. A member publishes a phase when it
 * has done its part of it; others wait for that. Nothing else is exchanged: no message, no lock.
 *
 * Writers: each member writes its own lines, cells and slot. The slots with the sums of a chain
 * (node_reduce_chain.c) are written by all members, one after the other. Sleepers and wakers write
 * the words for sleep. Any member may write the words that say that the team is broken, and which
 * phase all have published. A cell is reused NXR_NODE_CELLS phases later: its writer first waits
 * until all have left the phase that read it (nxr_node_reuse_cell()).
 */
#ifndef NXR_COLLECTIVE_NODE_H
#define NXR_COLLECTIVE_NODE_H

#include "core/control.h"
#include "region/region.h"

#define NXR_NODE_FLAGS       32
#define NXR_NODE_CELLS       8            /* a power of two */
#define NXR_NODE_CELL_SHORT  248          /* bytes that lie behind the phase */
#define NXR_NODE_CELL_NBYTES 4096         /* of a cell that has a page; in a crowd it is short */
#define NXR_NODE_CELL_ROOM   (64ul << 10) /* bytes that a cell has at most, in whole pages */
#define NXR_NODE_SLOT_NBYTES (1024u << 10)
#define NXR_NODE_MAX         2000 /* members: a slot has a piece for each */
#define NXR_NODE_TOLD_FROM   6    /* members of a crowd that tell each other what they know */

/* What has become of a member that a team has lost. */
enum nxr_loss {
    NXR_LOSS_DIED,
    NXR_LOSS_LEFT,
    NXR_LOSS_LEAVES, /* it is in its last nixl_finalize(), and answers until that ends */
};

struct nxr_node_head {
    _Atomic uint32_t needs_full_fence;                   /* a member has no membarrier */
    _Atomic uint64_t kernels_since;                      /* phase, or 0: see nxr_node_kernels() */
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t n_asleep; /* approximate: wakers check the lines */
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t known;    /* in a crowd: see nxr_node_tell_known() */
    _Alignas(NXR_LINE_NBYTES) _Atomic int32_t broken;    /* 0, or why: NIXL_E_* */
    _Atomic uint64_t lost;                               /* PEER_LOST: nxr_node_lost_word() */
};

/*
 * Which member is lost, by its team rank, and what has become of it, in one word: readers never see
 * the one without the other. 0: unknown.
 */
static inline uint64_t nxr_node_lost_word(int team_rank, enum nxr_loss loss)
{
    return (uint64_t)(uint32_t)(team_rank + 1) << 32 | loss;
}

static inline int nxr_node_lost_member(uint64_t lost)
{
    return (int)(uint32_t)(lost >> 32) - 1;
}

static inline enum nxr_loss nxr_node_loss(uint64_t lost)
{
    return (enum nxr_loss)(uint32_t)lost;
}

struct nxr_node_line {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t phase;
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t doorbell; /* futex */
    _Atomic uint32_t waits_for;   /* 0: awake, or 1 + the member whose phase it waits for */
    _Atomic uint32_t is_aside;    /* in a crowd: has yielded its core, and waits for its turn */
    _Atomic uint32_t is_visiting; /* writes into buffers of other members */
};

struct nxr_node_flag {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t phase;
};

struct nxr_node_cell {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t phase;
    unsigned char bytes[NXR_NODE_CELL_SHORT];
};
_Static_assert(sizeof(struct nxr_node_cell) % NXR_LINE_NBYTES == 0, "cells fill their lines");

/* Data that is not short, and fits into the page of a cell, begins with its second cache line. */
#define NXR_NODE_CELL_MIDDLE (NXR_NODE_CELL_NBYTES - NXR_LINE_NBYTES)

struct nxr_node {
    int size; /* members on this host */
    int me;   /* this one among them */
    struct nixl_region *region;
    struct nxr_node_head *head; /* NULL: a member that is alone on its host shares nothing */
    struct nxr_node_line *lines;
    struct nxr_node_flag *flags; /* [size][NXR_NODE_FLAGS] */
    char *cells;                 /* see nxr_node_cell() */
    char *long_cells;            /* [size][NXR_NODE_CELLS][NXR_NODE_CELL_ROOM] */
    char *slots;
    bool full_fence;
    size_t moving_nbytes; /* large data of all members in the call under way; else 0 */
    bool yields_at_once;  /* in this call, in a crowd, others do not publish soon: see node.c */
    bool is_crowded;      /* some member has to yield its core while it waits; all members agree */
    uint64_t phase;       /* that this member has published */
    uint64_t known;       /* that all are known to have published */
    uint64_t slot_due;    /* when its readers have published this, this member's slot is free */
    uint64_t scanned;     /* slot_due after the last scan by pieces */
    int slot_reader; /* the only member that reads it, or -1: all may; the own number: nobody */
};

struct nixl_team;

/*
 * Share memory among the members on this host: team->local, in ascending order, which includes the
 * caller. The first makes the memory, under `name`. NIXL_OK or the failure.
 */
int nxr_node_open(struct nixl_team *team, const char *name);
void nxr_node_close(struct nixl_team *team);

/*
 * Around each write into a buffer of another member. A visit is refused if the team is broken; the
 * status is then as from nxr_team_look(). The member that breaks the team waits until all visits
 * have ended or the visitors have died, but at most a second for a visitor that was stopped.
 */
int nxr_node_visit(struct nixl_team *team);
void nxr_node_leave(struct nxr_node *node);
void nxr_node_wait_visits(struct nixl_team *team);

/* Map the first pages of a slot now, so that its first use takes no longer than others. */
void nxr_node_populate_slot(const struct nxr_node *node, int member, size_t nbytes);

/* A phase of a member that another one waits for. */
struct nxr_node_awaited {
    int member;
    uint64_t phase;
    const struct nxr_node_flag *flag; /* NULL: published on the member's line or in its cell */
};

/* The slow paths of the functions below, and of those in phase.h. */
int nxr_node_wait_slow(struct nixl_team *team, const struct nxr_node_awaited *awaited);
int nxr_node_wait_each(struct nixl_team *team, uint64_t phase);
void nxr_node_wake(struct nxr_node *node);

/* Wake every member that sleeps. */
void nxr_node_wake_all(struct nxr_node *node);

/* In a crowd [NXR_NODE_CELLS][size], side by side; else [size][NXR_NODE_CELLS], of a page each. */
static inline struct nxr_node_cell *nxr_node_cell(const struct nxr_node *node, int member,
                                                  uint64_t phase)
{
    size_t of_member = (size_t)member, of_phase = phase % NXR_NODE_CELLS;
    size_t at = node->is_crowded
                    ? (of_phase * (size_t)node->size + of_member) * sizeof(struct nxr_node_cell)
                    : (of_member * NXR_NODE_CELLS + of_phase) * NXR_NODE_CELL_NBYTES;

    return (void *)(node->cells + at);
}

/* Where a cell has its data, `nbytes` in all: writer and readers know how many. */
static inline unsigned char *nxr_node_cell_bytes(const struct nxr_node *node, int member,
                                                 uint64_t phase, size_t nbytes)
{
    struct nxr_node_cell *cell = nxr_node_cell(node, member, phase);
    size_t number = (size_t)member * NXR_NODE_CELLS + phase % NXR_NODE_CELLS;

    if (nbytes <= NXR_NODE_CELL_SHORT) {
        return cell->bytes;
    }
    return nbytes <= NXR_NODE_CELL_MIDDLE && !node->is_crowded
               ? (unsigned char *)cell + NXR_LINE_NBYTES
               : (unsigned char *)node->long_cells + number * NXR_NODE_CELL_ROOM;
}

static inline struct nxr_node_flag *nxr_node_flag(const struct nxr_node *node, int member,
                                                  size_t flag)
{
    return &node->flags[(size_t)member * NXR_NODE_FLAGS + flag];
}

static inline char *nxr_node_slot(const struct nxr_node *node, int member)
{
    return node->slots + (size_t)member * NXR_NODE_SLOT_NBYTES;
}

/* Round down to whole cache lines. */
static inline size_t nxr_node_lines_down(size_t nbytes)
{
    return nbytes / NXR_LINE_NBYTES * NXR_LINE_NBYTES;
}

/* Acquire: whoever sees the phase sees what the member did before it published the phase. */
static inline bool nxr_node_has_reached(const struct nxr_node *node, int member, uint64_t phase)
{
    return atomic_load_explicit(&node->lines[member].phase, memory_order_acquire) >= phase ||
           atomic_load_explicit(&nxr_node_cell(node, member, phase)->phase, memory_order_acquire) >=
               phase;
}

/*
 * In a large crowd, a member that finds that all have published a phase tells the others. One that
 * gets its core back then reads one line instead of those of all members, which other members of
 * its core have evicted. The word may fall back, since it is only a hint; release and acquire,
 * because whoever believes it sees what all did before they published the phase.
 */
static inline void nxr_node_tell_known(struct nxr_node *node, uint64_t phase)
{
    node->known = phase;
    if (node->is_crowded && node->size >= NXR_NODE_TOLD_FROM &&
        atomic_load_explicit(&node->head->known, memory_order_relaxed) < phase) {
        atomic_store_explicit(&node->head->known, phase, memory_order_release);
    }
}

static inline bool nxr_node_is_told(struct nxr_node *node, uint64_t phase)
{
    uint64_t known = 0;

    if (node->is_crowded && node->size >= NXR_NODE_TOLD_FROM) {
        known = atomic_load_explicit(&node->head->known, memory_order_acquire);
    }
    if (known < phase) {
        return false;
    }
    node->known = known;
    return true;
}

/*
 * Kernels in reductions: a member that wants them says so once, before it publishes kernels_since.
 * All members act on it NXR_NODE_CELLS phases later: a member that starts a call then knows that
 * all have published that phase, and so sees the wish.
 */
static inline void nxr_node_want_kernels(struct nxr_node *node)
{
    uint64_t nobody = 0;

    if (atomic_load_explicit(&node->head->kernels_since, memory_order_relaxed) == 0) {
        atomic_compare_exchange_strong(&node->head->kernels_since, &nobody, node->phase + 1);
    }
}

/*
 * Does a member want them? The answer counts phases up to NXR_NODE_CELLS ago, which all have
 * published.
 */
static inline bool nxr_node_kernels(const struct nxr_node *node)
{
    uint64_t since = atomic_load_explicit(&node->head->kernels_since, memory_order_relaxed);

    return since != 0 && since + NXR_NODE_CELLS <= node->phase;
}

/* False: certainly not, and no member has to be waited for to know that. */
static inline bool nxr_node_may_have_kernels(const struct nxr_node *node)
{
    return node->head != NULL &&
           (node->known + NXR_NODE_CELLS < node->phase || nxr_node_kernels(node));
}

/* Wake the members that wait for what this member has just published. */
static inline void nxr_node_rouse(struct nxr_node *node)
{
    nxr_barrier_light(node->full_fence);
    if (__builtin_expect(atomic_load_explicit(&node->head->n_asleep, memory_order_relaxed) != 0,
                         0)) {
        nxr_node_wake(node);
    }
}

static inline void nxr_node_published(struct nxr_node *node, uint64_t phase)
{
    node->phase = phase;
    nxr_node_rouse(node);
}

/* Its slot is read by `reader`, or by all (-1), before they publish this member's last phase. */
static inline void nxr_node_lend_slot(struct nxr_node *node, int reader)
{
    node->slot_due = node->phase;
    node->slot_reader = reader;
}

/*
 * This member has done its part of the next phase. That is published on its line or, if its cell
 * has data, only in the cell, so that one cache line changes hands.
 */
static inline void nxr_node_publish(struct nxr_node *node, uint64_t phase)
{
    atomic_store_explicit(&node->lines[node->me].phase, phase, memory_order_release);
    nxr_node_published(node, phase);
}

/* Publish a phase to the members that wait for this flag of this member. */
static inline void nxr_node_raise_flag(struct nxr_node *node, size_t flag, uint64_t phase)
{
    atomic_store_explicit(&nxr_node_flag(node, node->me, flag)->phase, phase, memory_order_release);
    nxr_node_rouse(node);
}

static inline void nxr_node_publish_cell(struct nxr_node *node, uint64_t phase)
{
    atomic_store_explicit(&nxr_node_cell(node, node->me, phase)->phase, phase,
                          memory_order_release);
    nxr_node_published(node, phase);
}

#endif
