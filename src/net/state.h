/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: the opened networks, and for each remote peer its
 * endpoints, outgoing messages, incoming bulk and records, and operations under way. Everything is
 * guarded by nxr_net.lock unless stated otherwise.
 */
#ifndef NXR_NET_STATE_H
#define NXR_NET_STATE_H

#include "net/clients.h"
#include "net/net.h"
#include "net/offer.h"
#include "net/wire.h"
#include "core/peer_slot.h"
#include "core/request.h"
#include "transports/network.h"
#include "util/lock.h"
#include "util/symbol.h"

/* An operation at a module; `ended` is called when the module has ended it. */
struct net_op {
    struct nxr_net_op op;
    void (*ended)(struct net_op *op, int status); /* NULL: it has ended */
};

/* A network of this build. Constant after start. */
struct net {
    const char *name;
    const struct nxr_network *module; /* NULL: not loaded */
    const struct nxr_net_attr *attr;
    void *library;
    bool is_open;
    unsigned index;
    unsigned n_peers;   /* that are or may be reached over it */
    bool is_doubted;    /* it did not reach a peer in time, and has reached none since */
    bool is_doubt_told; /* the user was warned of it */
    char why[200];      /* why it is not open */
    struct nxr_transport transport;
    _Atomic unsigned known_kinds;   /* of device memory: those that the library took, and */
    _Atomic unsigned unknown_kinds; /* ... those that it refused; bits by enum nixl_mem_kind */
    struct nxr_list free_outs; /* struct net_out to fill; each has room for the longest message */
    unsigned n_free_outs;
};

/* Called when bulk has left, or when it never will. */
typedef void net_left_fn(void *arg, int status);

/* An outgoing message: being filled, queued, or at the module. */
struct net_out {
    struct net_op op;
    struct nxr_list link;
    struct net *net;
    struct net_peer *np;
    const void *bulk;
    size_t bulk_nbytes;
    net_left_fn *bulk_left; /* called when the bulk has left; NULL: there is no bulk */
    void *bulk_arg;
    void *kept; /* a copy of the bulk, whose owner does not wait for it any more; or NULL */
    size_t nbytes;
    _Alignas(8) unsigned char bytes[];
};

/* How an operation moves its bytes. */
enum net_how {
    NET_PIECES, /* in messages, one or several */
    NET_BULK,   /* as bulk behind a message */
    NET_RMA,    /* the network itself reads and writes */
    NET_LIST,   /* a list of small gets, whose answers are gathered in messages */
    NET_ATOMIC, /* the change of a word, which the owner answers */
};

/* A put or get under way. */
struct net_move {
    struct nxr_list link;
    struct nxr_list wait_link; /* np->waiting, while it waits for room */
    struct nxr_op *user;       /* the request's */
    struct net_peer *np;
    struct net_segment *segment;
    enum net_how how;
    uint64_t id;       /* returned in answers; for a list the first of n_ids, one for each piece */
    uint64_t n_ids;    /* 1, or the number of pieces of a list */
    uint64_t n_asked;  /* NET_LIST: how many pieces were asked of the owner, and */
    uint64_t n_got;    /* ... how many have arrived, in order */
    uint64_t issued;   /* NET_RMA: bytes handed over; NET_LIST: bytes asked for */
    unsigned n_pieces; /* NET_RMA: pieces handed over that have not ended */
    int status;
    bool is_at_module; /* the module may touch the local buffer */

    struct net_out *out; /* a put's NET_BULK: the message, while is_at_module */
};

/* What this process knows of a peer's segment beyond struct nxr_segment. */
struct net_segment {
    struct nxr_list link; /* np->segments */
    struct nxr_segment *segment;
    struct nxr_net_key *key; /* NET_RMA */
    enum net_how how;
    enum net_how how_else; /* NET_RMA: used until the network that carries bulk is reached */
    unsigned n_at_module;  /* RMA pieces under way */
    bool owes_ack;         /* the owner has closed the region, and waits until n_at_module is 0 */
};

/*
 * An own region that bulk moves into or out of. All bulk of one region shares one in-flight slot:
 * the control page has fewer slots than peers may have puts and gets under way.
 */
struct net_hold {
    struct nxr_list link; /* nxr_net.holds */
    struct nxr_inflight_slot *slot;
    uint32_t id;
    unsigned n_users;
};

/* Incoming bulk: records that were sent after it wait until it has landed (see in.c). */
struct net_landing {
    struct nxr_list link; /* np->landings, by seq */
    struct net_peer *np;
    uint64_t seq;
    struct net_hold *hold; /* a put into an own region */
    struct net_move *move; /* the answer to an own get */

    /* It goes into a posted buffer: */
    struct nxr_net_posted *posted; /* NULL: it does not */
    const struct net *receiver;    /* the network that brings it */
    char *place;                   /* where it would go otherwise */
};

/* A record that waits for bulk that was sent before it. */
struct net_pending {
    struct nxr_list link;
    uint64_t after; /* seq of the last bulk to wait for */
    net_take_fn *take;
    struct nxr_net_record record[]; /* with its body */
};

struct net_peer {
    struct nxr_peer *peer;
    struct nxr_identity identity; /* constant: messages of another process are dropped */

    /*
     * Reaching it (net/connect.c): the networks in common, best first, and the state of trying
     * them.
     */
    struct net *choices[NXR_NET_MAX];
    unsigned n_choices;
    unsigned n_tried;    /* the first n_tried are being tried at once; 0: nothing to send yet */
    unsigned failed;     /* choices that will not reach it, as bits */
    int64_t next_try_at; /* when to try one more */
    bool is_reached;     /* true: `messages` and `bulk` below are final */
    bool is_bulk_reached;
    struct net *messages;
    struct net *bulk;
    struct nxr_net_ep *eps[NXR_NET_MAX]; /* by net->index; opened when first used */
    struct nxr_full_card card;
    bool is_greeted; /* HELLO was sent or is queued */
    bool is_held;    /* nothing is sent before it has greeted: it knows a former process here */
    bool is_dead;
    bool has_left;                 /* it said goodbye */
    char why_lost[NXR_WHY_NBYTES]; /* why the network lost the peer; "": unknown */

    /* The largest put, get answer, get of a list, and piece that go inside a message. */
    size_t put_max;
    size_t get_max;
    size_t list_get_max;
    size_t piece_max;

    /* Outgoing. */
    struct net_out *batch; /* being filled; NULL: none */
    struct nxr_list queue; /* struct net_out that the module had no room for, in order */
    size_t queued_nbytes;
    struct nxr_list corked_link; /* nxr_net.corked, while the batch waits for more */
    struct nxr_list busy_link;   /* nxr_net.busy, while queue or waiting has members */
    int64_t pushed_at;
    unsigned pushed_round; /* nxr_net.n_user_rounds at that time */
    unsigned n_burst;

    /* Order. */
    uint64_t flush_asked;  /* the last FLUSH sent */
    uint64_t flush_heard;  /* the last one answered */
    bool is_dirty;         /* a put or word was sent after flush_asked */
    bool expects_flush;    /* the last puts were flushed: send FLUSH along with a put */
    bool is_flush_used;    /* nxr_net_flush() was called since the last put */
    unsigned n_writes;     /* RMA puts that have not ended */
    uint64_t rma_nbytes;   /* under way by RMA, for operations of this process */
    uint64_t rma_window;   /* most of these at a time; 0: not measured yet */
    bool has_late_unheard; /* what may land late was sent after the last answered flush: bulk, and
                              puts into memory of devices and storage */

    /*
     * Puts and signals of the peer that were dropped here. While is_late, its notifications are
     * marked and its words stay as they are: its program does not know yet.
     */
    uint64_t n_dropped;
    struct nxr_net_refused refusal; /* the last one; its n_dropped is what the peer was told */
    bool is_late;
    uint64_t n_refused; /* of our own, as the peer has counted them */

    /* Notifications: our use of the peer's ring for us, and our own ring for it. */
    uint64_t tx_tail;
    uint64_t tx_limit;
    bool wants_credit; /* a notification found no room */
    uint64_t rx_told;  /* the peer's limit in our ring, as in the last credit, */
    uint64_t rx_sent;  /* ... and as in the last one that is known to have gone out */
    struct nxr_ring_tx ring;

    /* Incoming. */
    struct nxr_list landings;
    uint64_t landing_seq;
    struct nxr_list pending;
    unsigned n_busy_words; /* in device memory: pending records sent after them wait */
    unsigned n_keepers;    /* other work that refers to it, for which no record waits */

    /* Operations of this process. */
    struct nxr_list moves;
    struct nxr_list waiting;
    struct nxr_list words; /* struct net_atomic: on the stack of the waiting thread */
    struct nxr_list segments;
    uint64_t last_id;

    /* Silence (net/alive.c). */
    int64_t heard_at;
    int64_t pinged_at;     /* 0: no ping is unanswered */
    uint64_t heard_nbytes; /* since the last tick */
    bool is_suspect;       /* it is watched and does not answer: its whole host may be down */
};

/* Work that needs job.lock and is done after the round. */
enum net_later_what {
    NET_LATER_MESSAGE, /* a whole message from a rank whose greeting was not taken yet */
    NET_LATER_CONTROL, /* a control message, checked */
    NET_LATER_LOST,    /* the rank counts as lost */
    NET_LATER_LEFT,
};

struct net_later {
    struct nxr_list link;
    enum net_later_what what;
    int rank;
    size_t nbytes;
    _Alignas(8) unsigned char bytes[];
};

/* A process that must be lost; another one of its rank, which has come back, must not. */
struct net_mark {
    const struct nxr_peer *peer; /* NULL: there was none yet */
    bool is_set;
};

struct net_state {
    struct nxr_spin lock;
    struct net nets[NXR_NET_MAX];
    size_t n_nets;
    struct nxr_list corked; /* struct net_peer whose batch waits for more records */
    atomic_bool is_kicked;  /* the service thread was kicked to uncork; read without the lock */
    struct nxr_list busy;   /* struct net_peer for which something waits for room */
    struct nxr_list ended;  /* struct net_move: their requests are completed after the round */
    struct nxr_list later;  /* struct net_later */
    atomic_bool has_ended;  /* `ended` has members; read without the lock, as is has_later */
    atomic_bool has_later;
    unsigned n_rounds;
    unsigned n_user_rounds;      /* rounds of user threads */
    struct net_mark *must_lose;  /* [n_numbers]: no memory for something from that rank */
    int n_numbers;               /* of peers, for which there is room */
    unsigned n_to_lose;          /* ranks in must_lose, to be lost after the round */
    unsigned n_later_messages;   /* NET_LATER_MESSAGE entries, including the one being taken */
    int taking_rank;             /* the sender of the one being taken; -1: none */
    bool is_in_round;            /* the thread that runs the round does what is deferred */
    atomic_bool is_trying;       /* some peer is to be sent something and not reached; hint */
    bool is_for_passive;         /* no user thread waits: peers need the service thread */
    atomic_bool is_round_wanted; /* the service thread asks the holder of the lock for one */
    bool is_receiving; /* in a module's progress() or close(): answers may wait for its end */
    const struct net *receiver;      /* whose progress() it is; NULL: none */
    bool must_wake;                  /* something was delivered in this round */
    struct nxr_inflight_slot *guard; /* for accesses that end before the lock is released */
    unsigned char *aligned;          /* copy of a message that arrived unaligned; or NULL */
    size_t aligned_nbytes;
    struct nxr_list holds;    /* struct net_hold */
    struct nxr_list posted;   /* struct nxr_net_posted */
    struct nxr_list closings; /* struct net_closing (net/key.c) */
    unsigned n_landings;      /* of all peers */
    int64_t now;              /* of this round */
    int64_t tick_at;          /* when to check for silence again */
    uint64_t n_dropped;       /* messages and records dropped */
};

extern NXR_HIDDEN struct net_state nxr_net;

static inline void net_lock(void)
{
    nxr_spin_lock(&nxr_net.lock);
}

static inline void net_unlock(void)
{
    nxr_spin_unlock(&nxr_net.lock);
}

/*
 * What this folder keeps of each peer: its remote half; NULL: on this host, or not connected yet.
 */
struct net_slot {
    struct net_peer *_Atomic np; /* set once it is complete */
};
extern NXR_HIDDEN struct nxr_peer_slot nxr_net_slot; /* of nxr_net_subsystem */

/* The remote half of a peer; NULL: none yet. Any thread. */
static inline struct net_peer *net_peer_at(const struct nxr_peer *peer)
{
    const struct net_slot *slot = nxr_peer_slot_of(peer, &nxr_net_slot);

    return atomic_load_explicit(&slot->np, memory_order_acquire);
}

/*
 * The module of a network, for a call into it: one thread at a time is inside, and none once it is
 * closed. Caller holds the lock. Only reach() is called without it.
 */
static inline const struct nxr_network *net_module(const struct net *net)
{
    NXR_ASSERT(nxr_spin_is_mine(&nxr_net.lock) && net->is_open);
    return net->module;
}

/* The remote half of a rank, once it exists. Any thread. */
static inline struct net_peer *net_peer_of(int rank)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);

    return peer != NULL ? net_peer_at(peer) : NULL;
}

/* Does bulk move by the network's own reads and writes? */
static inline bool net_uses_rma(const struct net *net)
{
    return net->attr->has_rma && (net->attr->is_rma_better || !net->attr->has_bulk);
}

/* The most that the head, a record's header and its fixed part take of a message. */
#define NET_MESSAGE_OVERHEAD 128

#endif
