/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mailboxes between the members of a team, on any hosts. Each member has, in a region of its own, a
 * word and some slots for each other member. A message is cut into slots. The sender puts a piece
 * into the next slot and then sets its word there, which says how many pieces it has sent and how
 * many it has taken out of its own mailbox from that member: so the announcement and the credit
 * travel together. A member allocates nothing but its mailbox; unused parts take no memory.
 *
 * At most one message at a time is in progress in each direction between two members. Lock: none;
 * one thread of a process at a time works for a team.
 */
#ifndef NXR_COLLECTIVE_MAILBOX_H
#define NXR_COLLECTIVE_MAILBOX_H

#include "collective/combine.h"
#include "region/region.h"

struct nixl_team;
struct nxr_mailbox_path;

#define NXR_MAILBOX_SLOTS 4

struct nxr_mailbox {
    struct nixl_region *region; /* NULL: closed */
    size_t slot_nbytes;
    uint32_t n_slots;               /* <= NXR_MAILBOX_SLOTS */
    struct nxr_mailbox_path *paths; /* [size of the team] */
};

/* A message to one member and one from another, at the same time. */
struct nxr_mailbox_swap {
    int to; /* team rank; -1: none */
    const void *src;
    size_t src_nbytes;
    int from; /* team rank; -1: none */
    void *dst;
    size_t dst_nbytes;
    const struct nxr_combine *combine; /* what arrives is the left operand; NULL: it goes to dst */
    const void *operand;               /* the right one; NULL: dst */
    bool is_right;                     /* ... what arrives is the right operand */
    size_t element_nbytes;             /* of src, if the receiver combines it; else 0 */
};

/* Make this member's mailbox. NIXL_OK, or the failure of nxr_region_alloc_internal(). */
int nxr_mailbox_open(struct nxr_mailbox *post, const char *name, int size, size_t slot_nbytes,
                     uint32_t n_slots);
void nxr_mailbox_close(struct nxr_mailbox *post);

/*
 * Send and receive. Any thread of this process may write into dst until the call returns; none does
 * after it has returned, with whatever status. Pieces are whole elements if they are combined, and
 * both sides have to cut alike. NIXL_OK; any other status ends the call under way, and the team is
 * broken.
 */
int nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                     const struct nxr_mailbox_swap *swap);

/*
 * `n_pieces` are about to come from a member, in several messages; between these, this member waits
 * for nothing else. If the sender needs to know what was taken before it can send all of them, make
 * sure that it can be told. Returns as nxr_team_look().
 */
int nxr_mailbox_expect(struct nixl_team *team, struct nxr_mailbox *post, int from, size_t n_pieces);

/*
 * Tell the members that the team is broken, within seconds: those on other hosts, or all members if
 * they do not share memory yet.
 */
void nxr_mailbox_break(const struct nixl_team *team, const struct nxr_mailbox *post);

/*
 * The word of a member in a mailbox, on a line of its own: pieces sent << 32 | pieces taken. After
 * those of all members comes the one that says that the team is broken.
 */
static inline uint64_t nxr_mailbox_word_offset(int team_rank)
{
    return (uint64_t)team_rank * NXR_LINE_NBYTES;
}

static inline uint64_t nxr_mailbox_read_word(const struct nxr_mailbox *post, int team_rank)
{
    const char *own = nixl_region_addr(post->region);
    const void *word = own + nxr_mailbox_word_offset(team_rank);

    return atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_acquire);
}

/* What another member has reported: that the team is broken, and why; 0: nothing. */
static inline uint64_t nxr_mailbox_broken(const struct nxr_mailbox *post, int size)
{
    return post->region != NULL ? nxr_mailbox_read_word(post, size) : 0;
}

#define NXR_MAILBOX_LEAVES 0x8000u /* in that word: the lost member is in nixl_finalize() */

/* The word that says so: the status, and which member is lost, by its team rank; -1: none. */
static inline uint64_t nxr_mailbox_broken_word(int status, int lost_member, bool leaves)
{
    return (uint64_t)(uint32_t)(lost_member + 1) << 16 | (leaves ? NXR_MAILBOX_LEAVES : 0) |
           (uint64_t)-status;
}

/* ... with which status; NIXL_OK: nothing was reported. */
static inline int nxr_mailbox_cause(uint64_t word)
{
    return -(int)(word & INT16_MAX);
}

/* ... whether the lost member is only leaving. */
static inline bool nxr_mailbox_leaves(uint64_t word)
{
    return (word & NXR_MAILBOX_LEAVES) != 0;
}

/* ... and which member is lost. */
static inline int nxr_mailbox_lost(uint64_t word)
{
    return (int)(uint32_t)(word >> 16) - 1;
}

static inline int nxr_mailbox_send(struct nixl_team *team, struct nxr_mailbox *post, int to,
                                   const void *src, size_t nbytes)
{
    const struct nxr_mailbox_swap swap = {.to = to, .src = src, .src_nbytes = nbytes, .from = -1};

    return nxr_mailbox_swap(team, post, &swap);
}

/* The same with operands, for a member that combines them. */
static inline int nxr_mailbox_send_operands(struct nixl_team *team, struct nxr_mailbox *post,
                                            int to, const struct nxr_combine *combine,
                                            const void *src, size_t nbytes)
{
    const struct nxr_mailbox_swap swap = {.to = to,
                                          .src = src,
                                          .src_nbytes = nbytes,
                                          .from = -1,
                                          .element_nbytes = combine->element_nbytes};

    return nxr_mailbox_swap(team, post, &swap);
}

static inline int nxr_mailbox_receive(struct nixl_team *team, struct nxr_mailbox *post, int from,
                                      void *dst, size_t nbytes)
{
    const struct nxr_mailbox_swap swap = {.to = -1, .from = from, .dst = dst, .dst_nbytes = nbytes};

    return nxr_mailbox_swap(team, post, &swap);
}

#endif
