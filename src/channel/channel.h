/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: each producer has a ring of slots in the consumer's memory, its lane. Everything is
 * made of regions: the slots, in memory of any kind; the consumer's ledger, in which a producer
 * records what it has published; and the producer's credit, one word in which the consumer records
 * what it has given back. Each word has one writer. Data is visible before the stamp that announces
 * it: the stamp is a release store if the ledger is mapped, otherwise a signal after the puts.
 */
#ifndef NXR_CHANNEL_CHANNEL_H
#define NXR_CHANNEL_CHANNEL_H

#include "core/job.h"

#define NXR_CHANNEL_OPEN 0x6e78722d6368616eull

/* The ledger: head, then a line for each lane, then the stamps of all lanes. */
struct nxr_ledger_head {
    uint64_t slot_nbytes;
    uint64_t nslots;
    int64_t peer;                 /* the consumer's number of the only producer, or NIXL_ANY_RANK */
    struct nxr_identity producer; /* of that number; else zeros */
    char unused[24];
};
_Static_assert(sizeof(struct nxr_ledger_head) == 64, "read by the other end");

/*
 * A lane outlives those who use it: a producer that opens its end again, or a process that has come
 * back, goes on where the former one has ended. The consumer writes `released`, the producer the
 * rest, `opening` after all else.
 */
struct nxr_lane_line {
    _Atomic uint64_t closed;      /* 1: the producer will publish no more */
    _Atomic uint64_t opening;     /* how often a producer has opened its end here */
    _Atomic uint64_t first;       /* items that were published before the latest opening */
    _Atomic uint64_t incarnation; /* of the process that has done that */
    _Atomic uint64_t released;    /* items that have been given back */
    char unused[24];
};
_Static_assert(sizeof(struct nxr_lane_line) == 64, "written by the other end");

/* Of a slot: which item it holds, counted from 1, and its size in bytes. */
struct nxr_stamp {
    uint64_t nbytes;
    _Atomic uint64_t item;
};

/* The consumer's side of one producer. */
struct nxr_lane {
    uint64_t n_received;
    uint64_t n_released;
    uint64_t n_told;           /* of these, the number reported to the producer */
    uint64_t receive, release; /* the slots that are next, counted in the lane */
    struct nixl_region *credit;
    _Atomic uint64_t *credit_word; /* mapped; else NULL */
    bool is_credit_asked;
    bool has_credit;  /* the credit can be reached, mapped or not */
    uint64_t opening; /* of the line, whose credit this is */

    /* Processes that have ended without closing their end; the latest of them. channels_lock. */
    _Atomic unsigned n_deaths;
    _Atomic uint32_t dead;
    unsigned n_deaths_told; /* of these, the number that nixl_channel_recv() has reported */
};

/* Offsets of a lane's parts in the ledger, and of a slot in the slots. */
static inline uint64_t nxr_lane_line_at(unsigned lane)
{
    return sizeof(struct nxr_ledger_head) + lane * sizeof(struct nxr_lane_line);
}

struct nixl_channel {
    _Atomic uint64_t magic; /* NXR_CHANNEL_OPEN while open */
    enum nixl_channel_role role;
    int peer; /* or NIXL_ANY_RANK */
    uint64_t slot_nbytes, stride;
    uint64_t nslots;
    unsigned n_lanes;
    struct nixl_region *ledger, *slots;
    char *ledger_bytes; /* own or mapped; NULL: neither */
    char *slot_bytes;   /* likewise */
    char *name;
    bool is_closing;      /* a close has started; it may be called again */
    struct nxr_list link; /* of the open, or the retired ones */

    /* Producer. */
    struct nixl_region *credit;
    const _Atomic uint64_t *credit_word; /* own memory */
    struct nxr_peer *consumer;
    unsigned lane;
    uint64_t n_published;
    uint64_t publish;      /* the slot that is next */
    uint64_t n_given_back; /* of the published slots, when the credit was last read */
    char *staging;         /* [nslots], if the consumer's are not mapped */
    bool is_acquired;

    /* Consumer. */
    struct nxr_lane *lanes;
    struct nxr_peer *producer; /* NULL: any number of them */
    unsigned next_lane;        /* to check first, so that no producer starves */
    _Atomic unsigned n_deaths; /* the sum of the lanes', if there is any number of producers */
    unsigned n_deaths_told;
};

/* Slots are used in turn; a division for each item would take longer than everything else. */
static inline uint64_t nxr_slot_after(const struct nixl_channel *channel, uint64_t slot)
{
    return slot + 1 == channel->nslots ? 0 : slot + 1;
}

static inline uint64_t nxr_stamp_at(const struct nixl_channel *channel, unsigned lane,
                                    uint64_t slot)
{
    return nxr_lane_line_at(channel->n_lanes) +
           (lane * channel->nslots + slot) * sizeof(struct nxr_stamp);
}

static inline uint64_t nxr_slot_at(const struct nixl_channel *channel, unsigned lane, uint64_t slot)
{
    return (lane * channel->nslots + slot) * channel->stride;
}

/* The name of a region of the consumer: which one. */
void nxr_channel_region_name(char *text, const char *name, const char *which);

/*
 * The name of a producer's credit, which differs for each consumer: for one of the producer's job
 * its rank tells, for an attached one its whole identity.
 */
void nxr_channel_credit_name(char *text, const char *name, const struct nxr_identity *consumer,
                             bool is_attached);

/* NIXL_OK, or why the handle is not valid: the failure of `operation`, recorded. */
int nxr_channel_check_open(const char *operation, const struct nixl_channel *channel);

static inline struct nxr_lane_line *nxr_lane_line_of(const struct nixl_channel *channel,
                                                     unsigned lane)
{
    return (struct nxr_lane_line *)(void *)(channel->ledger_bytes + nxr_lane_line_at(lane));
}

/* ---- the users of a lane, one after the other (lane.c) --------------------------------------- */

/*
 * A producer takes its lane, to go on behind the items of the former one. The consumer's memory is
 * open, mapped or not. NIXL_OK, or a recorded failure.
 */
int nxr_lane_take(struct nixl_channel *channel);

/*
 * After the consumer has released items of the lane: the peer that gets the lane's credit. NULL:
 * none, or another process has taken its place.
 */
struct nxr_peer *nxr_lane_debtor(struct nixl_channel *channel, unsigned number);

/* A process has ended that may be a producer. channels_lock. */
void nxr_lane_note_death(struct nixl_channel *channel, const struct nxr_peer *peer);

/*
 * The lane of a process that has ended without closing its end, if all that it had published is
 * received; it counts as reported. n_lanes: none.
 */
unsigned nxr_lane_take_death(struct nixl_channel *channel);

/* Unmap and close the lane's credit. */
void nxr_lane_drop_credit(const struct nixl_channel *channel, unsigned number);

/* ---- both ends ------------------------------------------------------------------------------- */

/* A producer closes: notify the consumer, after all items. */
void nxr_channel_say_closed(struct nixl_channel *channel);

/* The last finalize: release everything. */
void nxr_channels_free(void);

extern const struct nxr_subsystem nxr_channel_subsystem;

#endif
