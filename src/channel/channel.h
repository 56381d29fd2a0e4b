/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: each producer has a ring of slots in the consumer's memory, its lane. Everything is
 * made of regions: the slots, in memory of any kind; the consumer's ledger, in which a producer
 * records what it has published; and the producer's credit, one word in which the consumer records
 * what it has given back. Each word has one writer. Data is visible before the stamp that announces
 * it: the stamp is a release store if the ledger is mapped, otherwise a signal after the puts.
 *
 * A channel for any rank has a lane for each rank of the consumer's job from the beginning, all in
 * one ledger and one region of slots. An attached process gets a lane when it opens its end, with a
 * ledger and slots of its own (attached_lane.c): to its producer it is a channel for it alone.
 */
#ifndef NXR_CHANNEL_CHANNEL_H
#define NXR_CHANNEL_CHANNEL_H

#include "core/job.h"
#include "core/stats.h"
#include "util/list.h"
#include "util/symbol.h"

#define NXR_CHANNEL_OPEN 0x6e78722d6368616eull

/* The ledger: head, then a line for each lane, then the stamps of all lanes. */
struct nxr_ledger_head {
    uint64_t slot_nbytes;
    uint64_t nslots;
    int64_t peer;                 /* the consumer's number of the only producer, or NIXL_ANY_RANK */
    struct nxr_identity producer; /* of that number; else zeros */
    int64_t status;               /* NIXL_OK, or why there are no slots for the producer */
    char unused[16];
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

/* The memory of an attached process's lane. nxr_channels_lock, but for `has_ended`. */
struct nxr_attached_lane {
    struct nxr_list link; /* of struct nxr_attached_lanes, unless the lane is in use */
    struct nxr_identity producer;
    int number;                 /* the attachment's */
    uint64_t id;                /* in the names of its regions */
    struct nixl_region *ledger; /* NULL: not made yet, or closed */
    struct nixl_region *slots;  /* likewise */
    bool is_refused;            /* there are no slots for it, as its ledger says */
    bool has_died;              /* it has ended, and this process has not detached it */
    _Atomic bool has_ended;     /* it publishes no more */
};

/* Of a channel for any rank: lanes of attached processes that are not in use. nxr_channels_lock. */
struct nxr_attached_lanes {
    struct nxr_list wanted;        /* to be made by the service thread */
    struct nxr_list made;          /* to be used by the consumer's thread */
    struct nxr_list closing;       /* done with; copies into them are under way */
    bool is_open;                  /* lanes may be wanted */
    bool is_making;                /* the service thread makes one */
    bool is_stopped;               /* the end is being closed */
    _Atomic bool has_news;         /* there is one in `made`, or a lane in use has ended */
    struct nixl_mem_params params; /* of their slots */
    char *device;                  /* of `params` */
};

/* The consumer's side of one producer. */
struct nxr_lane {
    struct nxr_lane_line *line;
    struct nxr_stamp *stamps;
    char *slots;
    int number;                         /* the producer's; may be lost, and replaced */
    struct nxr_attached_lane *attached; /* its memory; NULL: the channel's */
    uint64_t n_received;
    uint64_t n_released;
    uint64_t n_told;           /* of these, the number reported to the producer */
    uint64_t receive, release; /* the slots that are next, counted in the lane */
    struct nixl_region *credit;
    _Atomic uint64_t *credit_word; /* mapped; else NULL */
    bool is_credit_asked;
    bool has_credit;  /* the credit can be reached, mapped or not */
    uint64_t opening; /* of the line, whose credit this is */

    /* Processes that have ended without closing their end; the last one. nxr_channels_lock. */
    _Atomic unsigned n_deaths;
    _Atomic uint32_t dead;
    unsigned n_deaths_told; /* of these, the number that nixl_channel_recv() has reported */
    struct nxr_stats_named *counted; /* its items; NULL: none came yet */
};

/* Offsets of a lane's parts in the ledger, and of a slot in the slots. */
static inline uint64_t nxr_lane_line_at(unsigned lane)
{
    return sizeof(struct nxr_ledger_head) + lane * sizeof(struct nxr_lane_line);
}

#define NXR_CHANNEL_LINE 64 /* slots begin on lines of their own */

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
    struct nixl_context *context;    /* that the name is in, and the regions' events are for */
    struct nxr_stats_named *counted; /* producer: its items; a consumer of any rank: waits */
    bool is_closing;                 /* a close has started; it may be called again */
    struct nxr_list link;            /* of the open, or the retired ones */

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
    struct nxr_lane *lanes; /* those of attached processes last */
    unsigned n_own_lanes;   /* the others, in `ledger` and `slots` */
    struct nxr_attached_lanes attached;
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

/* In the ledger of that many lanes. */
static inline uint64_t nxr_stamp_in(unsigned n_lanes, uint64_t nslots, unsigned lane, uint64_t slot)
{
    return nxr_lane_line_at(n_lanes) + (lane * nslots + slot) * sizeof(struct nxr_stamp);
}

static inline uint64_t nxr_stamp_at(const struct nixl_channel *channel, unsigned lane,
                                    uint64_t slot)
{
    return nxr_stamp_in(channel->n_lanes, channel->nslots, lane, slot);
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

/* All open ends, and its lock, under which no other is taken. */
extern NXR_HIDDEN pthread_mutex_t nxr_channels_lock;
extern NXR_HIDDEN struct nxr_list nxr_channels_open;

/* Make, and open, a region in the channel's context. As nixl_region_alloc(), nixl_region_open(). */
int nxr_channel_alloc_region(const struct nixl_channel *channel, const char *name, size_t nbytes,
                             struct nixl_region **region_p);
int nxr_channel_open_region(const struct nixl_channel *channel, const char *name,
                            struct nixl_region **region_p);

/*
 * Open the consumer's memory for a producer's end, and take a lane in it. NIXL_OK, or a recorded
 * failure; what was opened is closed with the channel. (producer.c)
 */
int nxr_channel_open_producer(struct nixl_channel *channel);

/* Close a region handle, if there is one. NIXL_OK: it is closed, and *region_p is NULL. */
int nxr_channel_close_region(struct nixl_region **region_p, int64_t timeout_ns);

/* NIXL_OK, or why the handle is not valid: the failure of `operation`, recorded. */
int nxr_channel_check_open(const char *operation, const struct nixl_channel *channel);

/* ---- the users of a lane, one after the other (lane.c) --------------------------------------- */

/* The consumer: where lane `index` of a ledger of n_lanes is, and whose. */
void nxr_lane_place(const struct nixl_channel *channel, struct nxr_lane *lane, char *ledger_bytes,
                    unsigned n_lanes, unsigned index);

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

/* Has the lane an item that is not received yet? */
static inline bool nxr_lane_has_item(const struct nxr_lane *lane)
{
    return atomic_load_explicit(&lane->stamps[lane->receive].item, memory_order_acquire) ==
           lane->n_received + 1;
}

static inline bool nxr_lane_has_closed(const struct nxr_lane *lane)
{
    return atomic_load_explicit(&lane->line->closed, memory_order_acquire) != 0;
}

/* The producer of the lane has ended without closing its end. nxr_channels_lock. */
void nxr_lane_note_death(struct nixl_channel *channel, struct nxr_lane *lane, uint32_t incarnation);

/*
 * The lane of a process that has ended without closing its end, if all that it had published is
 * received; it counts as reported. n_lanes: none.
 */
unsigned nxr_lane_take_death(struct nixl_channel *channel);

/*
 * Find a producer's credit, with the first slot that is given back to it. The credit existed before
 * the first item; it is gone if the producer has closed or died.
 */
void nxr_lane_find_credit(const struct nixl_channel *channel, struct nxr_lane *lane, int rank);

/* Unmap and close the lane's credit. */
void nxr_lane_drop_credit(const struct nixl_channel *channel, unsigned number);

/* ---- lanes of attached processes (attached_lane.c) ------------------------------------------- */

/*
 * The names of the regions of an attached process's lane: `which` is "ledger" or "slots". Its id is
 * of the producer's attachment, so that a process that attaches anew gets a lane of its own.
 */
void nxr_attached_lane_region_name(char *text, const char *name, const char *which, uint64_t id);
uint64_t nxr_attached_lane_id(const struct nxr_peer *consumer);

void nxr_attached_lanes_init(struct nixl_channel *channel);

/*
 * The consumer's end is open: make lanes when they are asked for, with slots in memory of `params`,
 * which were checked; NULL: the default. NIXL_OK, or NIXL_E_NO_MEMORY, recorded.
 */
int nxr_attached_lanes_open(struct nixl_channel *channel, const struct nixl_mem_params *params);

/* Make peers' questions about the regions of lanes that do not exist make these. */
void nxr_attached_lanes_register(void);

/* Service thread: make the lanes that are wanted. */
void nxr_attached_lanes_serve(void);

/* The consumer's thread: begin to use the lanes that were made. May be called while waiting. */
void nxr_attached_lanes_adopt(struct nixl_channel *channel);

/* The same, and free the lanes of processes that have ended, once nothing is left in them. */
void nxr_attached_lanes_update(struct nixl_channel *channel);

/* A process has ended, and whether the consumer is to hear of it. nxr_channels_lock. */
void nxr_attached_lanes_note_end(struct nixl_channel *channel, const struct nxr_peer *peer,
                                 bool has_died);

/* Is a lane of that peer in use? nxr_channels_lock. */
bool nxr_attached_lanes_use(const struct nixl_channel *channel, const struct nxr_peer *peer);

/* The consumer closes its end: make no more. */
void nxr_attached_lanes_stop(struct nixl_channel *channel);

/* Then close their regions. As nixl_region_close(), and may be repeated like that. */
int nxr_attached_lanes_close(struct nixl_channel *channel, int64_t timeout_ns);

/* Free what is left, but for regions. */
void nxr_attached_lanes_free(struct nixl_channel *channel);

/* ---- counting (count.c) ---------------------------------------------------------------------- */

/* The record for what an end has with a rank, or -1. Never NULL. */
struct nxr_stats_named *nxr_channel_count_as(const struct nixl_channel *channel, int rank);

/* The producer's; what a consumer has from that lane; what it waits for (of its only producer). */
static inline struct nxr_stats_named *nxr_channel_counted(struct nixl_channel *channel)
{
    if (__builtin_expect(channel->counted == NULL, 0)) {
        channel->counted = nxr_channel_count_as(channel, channel->peer);
    }
    return channel->counted;
}

static inline struct nxr_stats_named *nxr_channel_lane_counted(struct nixl_channel *channel,
                                                               unsigned lane)
{
    if (__builtin_expect(channel->lanes[lane].counted == NULL, 0)) {
        channel->lanes[lane].counted = nxr_channel_count_as(channel, channel->lanes[lane].number);
    }
    return channel->lanes[lane].counted;
}

static inline struct nxr_stats_named *nxr_channel_waits_counted(struct nixl_channel *channel)
{
    return channel->producer != NULL ? nxr_channel_lane_counted(channel, 0)
                                     : nxr_channel_counted(channel);
}

static inline void nxr_channel_count(struct nxr_stats_named *record, uint64_t nbytes)
{
    nxr_stats_add(&record->n[NXR_STATS_OPS], 1);
    nxr_stats_add(&record->n[NXR_STATS_NBYTES], nbytes);
}

/* The end is closed: others that are alike may count on. */
void nxr_channel_count_end(const struct nixl_channel *channel);

/* ---- both ends ------------------------------------------------------------------------------- */

/* A producer closes: notify the consumer, after all items. */
void nxr_channel_say_closed(struct nixl_channel *channel);

/* The last finalize: release everything. */
void nxr_channels_free(void);

extern const struct nxr_subsystem nxr_channel_subsystem;

#endif
