/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: the opened networks, and for each remote peer its
 * endpoints, outgoing messages, incoming bulk and records, and operations under way. Everything is
 * guarded by nxr_net.lock unless stated otherwise.
 */
#ifndef NXR_NET_STATE_H
#define NXR_NET_STATE_H

#include "net/net.h"
#include "net/offer.h"
#include "net/wire.h"
#include "core/peer_slot.h"
#include "core/request.h"
#include "transports/network.h"
#include "util/lock.h"

struct net_peer;

/* Handles a record that nxr_net_next_record() has validated. Caller holds the lock. */
typedef void net_take_fn(struct net_peer *np, const struct nxr_net_record *record);

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
};

/* A record that waits for bulk that was sent before it. */
struct net_gated {
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
    bool has_bulk_unheard; /* bulk was sent after the last answered flush */

    /* Notifications: our use of the peer's ring for us, and our own ring for it. */
    uint64_t tx_tail;
    uint64_t tx_limit;
    bool wants_credit;  /* a notification found no room */
    uint64_t rx_pushed; /* slots consumed of our ring, as in the last credit sent at once */
    struct nxr_ring_tx ring;

    /* Incoming. */
    struct nxr_list landings;
    uint64_t landing_seq;
    struct nxr_list gated;
    unsigned n_busy_words; /* in device memory: gated records sent after them wait */

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
    unsigned n_user_rounds;    /* rounds of user threads */
    bool *must_lose;           /* [size]: no memory for something from that rank */
    unsigned n_to_lose;        /* ranks in must_lose, to be lost after the round */
    unsigned n_later_messages; /* NET_LATER_MESSAGE entries, including the one being taken */
    int taking_rank;           /* the sender of the one being taken; -1: none */
    bool is_in_round;          /* the thread that runs the round does what is deferred */
    bool is_trying;            /* some peer has something to send and is not reached yet */
    bool is_for_passive;       /* no user thread waits: peers need the service thread */
    bool is_receiving; /* in a module's progress() or close(): answers may wait for its end */
    bool must_wake;    /* something was delivered in this round */
    struct nxr_inflight_slot *guard; /* for accesses that end before the lock is released */
    unsigned char *aligned;          /* copy of a message that arrived unaligned; or NULL */
    size_t aligned_nbytes;
    struct nxr_list holds;    /* struct net_hold */
    struct nxr_list closings; /* struct net_closing (net/key.c) */
    unsigned n_landings;      /* of all peers */
    int64_t now;              /* of this round */
    int64_t tick_at;          /* when to check for silence again */
    uint64_t n_dropped;       /* messages and records dropped */
};

extern struct net_state nxr_net;

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
extern struct nxr_peer_slot nxr_net_slot; /* of nxr_net_subsystem */

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

/* ---- out.c ----------------------------------------------------------------------------------- */

/*
 * Append a record to the peer's batch and return its body, of body_nbytes, to be filled. Sends the
 * batch first if the record does not fit. NULL: no memory, or the peer is dead.
 */
void *nxr_net_begin(struct net_peer *np, enum nxr_net_type type, size_t body_nbytes);

/* The same for a record that the peer waits for: if there is no memory, the peer is given up. */
void *nxr_net_begin_answer(struct net_peer *np, enum nxr_net_type type, size_t body_nbytes);

/*
 * The records of the batch are complete: send them. If they may_wait, more may gather first: while
 * the sender is ahead (out.c), and, for answers, until everything that is being received was read.
 */
void nxr_net_push(struct net_peer *np, bool may_wait);

/* A header with bulk behind it, sent in order with everything else. */
struct net_bulk {
    const void *bytes;
    size_t nbytes;
    net_left_fn *left; /* called with `arg` when the bulk has left */
    void *arg;
    uint64_t flush; /* the flush to ask for in the same message; 0: none */
    bool may_wait;  /* for records that follow at once; see nxr_net_push() */
};
int nxr_net_send_bulk(struct net_peer *np, enum nxr_net_type type, const void *body,
                      size_t body_nbytes, const struct net_bulk *bulk);

/* Is there room for more puts? Control, answers and notifications always find room. */
bool nxr_net_has_room(const struct net_peer *np);

/* Let the complete records of the batch wait for more, or for the next round of any thread. */
void nxr_net_cork(struct net_peer *np);
void nxr_net_uncork_all(void);

/* Something for the peer waits for room: have each round retry it. */
static inline void net_is_busy(struct net_peer *np)
{
    if (nxr_list_is_empty(&np->busy_link)) {
        nxr_list_append(&nxr_net.busy, &np->busy_link);
    }
}

/* Hand over messages that waited for room. Has anything moved? */
bool nxr_net_pump(struct net_peer *np);

void nxr_net_out_drop_all(struct net_peer *np);

/* A network other than the best one has reached the peer: rewrite the waiting messages for it. */
void nxr_net_out_rewrite(struct net_peer *np);

/* The endpoint to a peer in one network, opened if need be; NULL: it cannot be opened. */
struct nxr_net_ep *nxr_net_ep_to(struct net_peer *np, struct net *net);

/* ---- connect.c ------------------------------------------------------------------------------- */

/* Does a network reach the peer? If not, tries to reach it. Messages stay queued meanwhile. */
bool nxr_net_connect(struct net_peer *np);

/* Continue trying to reach peers. Returns when to call again; INT64_MAX: nothing is being tried. */
int64_t nxr_net_connect_tick(int64_t now);

/* Set how large puts and gets inside messages may be for this peer. */
void nxr_net_set_limits(struct net_peer *np);

/* ep_failed() of struct nxr_net_core. */
void nxr_net_ep_failed(void *peer, struct nxr_net_ep *ep, const char *why);

/* Is np->bulk reached, or the same network as np->messages? Probes it if need be. */
bool nxr_net_is_bulk_reached(struct net_peer *np);

net_take_fn nxr_net_take_takes;

/* The names of the networks that were tried for a peer, and what they know about it, in words. */
void nxr_net_tell_tried(struct net_peer *np, char *names, size_t names_nbytes, char *known,
                        size_t known_nbytes);

/* Was that network tried for the peer in vain? If so, `why` says what it knows. */
bool nxr_net_was_tried(struct net_peer *np, const struct net *net, char *why, size_t why_nbytes);

/* ---- reach.c --------------------------------------------------------------------------------- */

/*
 * May the network be given memory of that range (NULL: host memory)? Queries its library at first
 * use of a kind; is_locked: the caller holds the lock.
 */
bool nxr_net_takes(struct net *net, const struct nxr_range *range, bool is_locked);

/* `serves` of a transport's table. */
bool nxr_net_serves(const struct nxr_segment *segment, const struct nxr_range *range);

/*
 * The kind of local memory as the network sees it: memory that the processor maps counts as host.
 */
enum nixl_mem_kind nxr_net_local_kind(const void *local);

/* The same for a write or read, with all that the module needs to know about the memory. */
struct nxr_net_op nxr_net_local_op(const void *local);

/* ---- in.c ------------------------------------------------------------------------------------ */

/*
 * Register the function that takes records of a type; is_gated: only after the bulk that was sent
 * before them has landed. For types of higher layers; call it before the networks are started.
 */
void nxr_net_register(enum nxr_net_type type, net_take_fn *take, bool is_gated);

/* Take the records of a message whose head was checked, starting at offset `at`. */
void nxr_net_take_records(struct net_peer *np, const unsigned char *bytes, size_t nbytes,
                          size_t at);

/* Take the gated records whose bulk has landed. */
void nxr_net_run_gated(struct net_peer *np);

uint64_t nxr_net_own_token(void);

/*
 * The sender of a message, by the number that calls name it by. -1: the message is dropped, as its
 * head is not valid, its sender is not of the job, or the sender is another process than the one
 * that is connected as that rank.
 */
int nxr_net_sender(const void *bytes, size_t nbytes);
void nxr_net_received(const void *bytes, size_t nbytes);

/* ---- own.c: own regions, as accessed by peers ------------------------------------------------ */

/* Bytes of an own region, as a peer names them. */
struct net_range {
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes;
    uint32_t id;
};

/* Is it in an own region of device memory that the processor does not read and write? */
bool nxr_net_is_device(const struct net_range *range);

/*
 * Enter an own region for bulk of a peer; returns its address, and nxr_net_hold_end() must follow.
 * NULL and the reason: NIXL_ERR_STALE, NIXL_ERR_RANGE, NIXL_ERR_LIMIT.
 */
char *nxr_net_hold_begin(const struct net_range *range, struct net_hold **hold_p, int *status_p);
void nxr_net_hold_end(struct net_hold *hold);

/*
 * The same for callers that read or write the bytes with the processor: device memory is
 * NIXL_ERR_UNSUPPORTED.
 */
char *nxr_net_hold_begin_host(const struct net_range *range, struct net_hold **hold_p,
                              int *status_p);

void nxr_net_refuse(struct net_peer *np, uint32_t id, uint64_t generation, int status);
net_take_fn nxr_net_take_put;
void nxr_net_take_get(struct net_peer *np, const struct nxr_net_get *get);

/*
 * The part of a get that one message can answer: this end may send over a different network than
 * the peer, one with shorter messages. The peer asks for the rest.
 */
struct nxr_net_get nxr_net_answerable(const struct net_peer *np, const struct nxr_net_get *get);
net_take_fn nxr_net_take_atomic;

/* Answer a get inside a message: with the bytes, or with a failure. */
void nxr_net_answer_get(struct net_peer *np, const struct nxr_net_get *get, const char *addr,
                        int status);

/* Answer a word. A signal (ask 0) gets no answer; if it failed, it is refused. */
void nxr_net_answer_atomic(struct net_peer *np, const struct nxr_net_atomic *word, int status,
                           uint64_t fetched);

/* ---- clients.c: the layers above ------------------------------------------------------------- */

/*
 * Access to own device memory, which a layer above copies. Each function gets only records that
 * were found to address such a region.
 */
struct net_device {
    net_take_fn *take_put;
    net_take_fn *take_get;

    /* NIXL_INPROGRESS: it is answered later. */
    int (*take_word)(struct net_peer *np, const struct nxr_net_atomic *word);
};
extern const struct net_device *nxr_net_device;

/* Hooks of a layer above; each may be NULL. */
struct net_client {
    void (*run)(void);  /* after a round, without the lock */
    void (*stop)(void); /* nothing more arrives; without the lock */
};

/* Register permanently, before the networks are started; a second call changes nothing. */
void nxr_net_add_client(const struct net_client *client);

/* The lock that guards the records of peers; for short work only. */
void nxr_net_lock(void);
void nxr_net_unlock(void);

/* What records of a peer come from, NULL if no network was chosen for it; and the reverse. */
struct net_peer *nxr_net_remote(const struct nxr_peer *peer);
struct nxr_peer *nxr_net_peer(const struct net_peer *np);

/* The largest put, or get, of host memory that goes inside a message to a connected peer. */
size_t nxr_net_inside_nbytes(const struct nxr_peer *peer, enum nxr_op_kind kind);

/* A word in device memory is being changed: gated records wait. Caller holds the lock. */
void nxr_net_word_begin(struct net_peer *np);
void nxr_net_word_end(struct net_peer *np);

void nxr_net_clients_run(void);
void nxr_net_clients_stop(void);

/* ---- bulk.c ---------------------------------------------------------------------------------- */

void *nxr_net_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p);
void nxr_net_landing(void *cookie, size_t nbytes);
void nxr_net_landed(void *cookie, int status);

/*
 * Begin a landing for data that arrives piece by piece: gated records that arrive from now on wait
 * until it has landed, and until then it keeps `hold`. NULL: no memory.
 */
struct net_landing *nxr_net_landing_new(struct net_peer *np, struct net_hold *hold);

/* ---- move.c ---------------------------------------------------------------------------------- */

/* Can the segment be used? NIXL_OK, NIXL_ERR_STALE, NIXL_ERR_PEER_LOST. */
int nxr_net_check_segment(const struct net_peer *np, const struct nxr_segment *segment);

/* Append a record with a small put. The caller pushes. */
int nxr_net_append_put(struct net_peer *np, const struct nxr_segment *segment, uint64_t offset,
                       const void *src, size_t nbytes);

/* Complete the requests of ended moves; without the lock. */
void nxr_net_tell_ended(void);

/* Does a move use the segment? */
bool nxr_net_moves_use(const struct net_peer *np, const struct net_segment *segment);

/* End a move; its request is completed by nxr_net_tell_ended(). */
void nxr_net_move_end(struct net_move *move, int status);

struct net_move *nxr_net_move_find(struct net_peer *np, uint64_t id);
void nxr_net_moves_drop(struct net_peer *np);

/* The bulk of a move has left or has arrived: end the move. */
void nxr_net_bulk_left(void *move, int status);

/*
 * Turn the outcome of a module's operation into the user's: on NIXL_ERR_TRANSPORT the peer counts
 * as lost, and the result is NIXL_ERR_PEER_LOST.
 */
int nxr_net_outcome(const struct net_peer *np, int status);

/* ---- start.c --------------------------------------------------------------------------------- */

int nxr_net_segment_put(struct nxr_segment *segment, uint64_t offset, const void *src,
                        size_t nbytes);
int nxr_net_segment_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes);
int nxr_net_op_start(struct nxr_op *op);
int nxr_net_cancel(struct nxr_op *op);
bool nxr_net_moves_pump(struct net_peer *np);

/* Try to hand over a move. False: no room yet. */
bool nxr_net_move_go(struct net_move *move);

net_take_fn nxr_net_take_got;

/* ---- rma.c ----------------------------------------------------------------------------------- */

/* Like nxr_net_move_go(). */
bool nxr_net_rma_go(struct net_move *move);

/*
 * End a move before all of it was handed over; if pieces are at the module, the last one ends it.
 */
void nxr_net_rma_stop(struct net_move *move, int status);

/* ---- list.c ---------------------------------------------------------------------------------- */

int nxr_net_start_list(struct nxr_op *op);

/* Like nxr_net_move_go(). */
bool nxr_net_list_go(struct net_move *move);

/* Take the answer to a piece of a list; answers must arrive in the order of the pieces. */
void nxr_net_list_take_got(struct net_move *move, const struct nxr_net_got *got,
                           const void *payload, size_t nbytes);

int nxr_net_move_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                      const struct nxr_piece *pieces, size_t n_pieces, size_t *n_done_p);

/* ---- atomic.c -------------------------------------------------------------------------------- */

/* Like nxr_net_move_go(). */
bool nxr_net_atomic_go(struct net_move *move);

net_take_fn nxr_net_take_atomic_done;
void nxr_net_atomics_end(struct net_peer *np, int status);
int nxr_net_atomic(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                   uint64_t *fetched_p);
int nxr_net_signal(struct nxr_segment *segment, const struct nxr_atomic *atomic);
int nxr_net_put_signal(struct nxr_segment *segment, const struct nxr_put_signal *what);

/* ---- key.c ----------------------------------------------------------------------------------- */

int nxr_net_segment_open(struct nxr_segment *segment, int fd, const struct nxr_remote_key *remote);
void nxr_net_segment_close(struct nxr_segment *segment);
bool nxr_net_segment_is_busy(const struct nxr_segment *segment);

/* The owner has closed a region: let no operation of this process use it any more. */
void nxr_net_segment_shut(struct net_peer *np, uint32_t id, uint64_t generation);
net_take_fn nxr_net_take_closed_ack;
void nxr_net_segment_left(struct net_peer *np, struct net_segment *net);
void nxr_net_closings_end(int rank);

/* ---- order.c --------------------------------------------------------------------------------- */

int nxr_net_fence(struct nxr_peer *peer);
int nxr_net_flush(struct nxr_peer *peer);

/* A put was sent: ask for a flush along with it if this process flushes after every put. */
void nxr_net_ask_flush_early(struct net_peer *np);

/* The flush to ask for along with bulk that is about to be sent, or 0. */
uint64_t nxr_net_flush_of_bulk(struct net_peer *np);

/* That bulk could not be sent. */
void nxr_net_flush_lost(struct net_peer *np);

/* ---- note.c ---------------------------------------------------------------------------------- */

int nxr_net_notify(struct nxr_peer *peer, uint64_t tag, const void *msg, size_t nbytes);
int nxr_net_put_notify(struct nxr_segment *segment, const struct nxr_put_notify *what);

/* ---- expect.c -------------------------------------------------------------------------------- */

/*
 * A transfer of nbytes begins for a peer: raise the service thread's precedence while it lasts, so
 * that the peer does not wait for this process's computation.
 */
void nxr_net_serve_large(const struct net_peer *np, size_t nbytes);

/* A transfer of nbytes begins: threads that wait poll rather than sleep while it lasts. */
void nxr_net_peer_expect(const struct net_peer *np, size_t nbytes);

/* ---- transport.c, peer.c --------------------------------------------------------------------- */

struct nxr_transport nxr_net_transport(const char *name, unsigned cost);

/* Close the endpoints to all peers. */
void nxr_net_peers_close(void);

/* ---- later.c --------------------------------------------------------------------------------- */

/* Defer something until job.lock can be taken. */
void nxr_net_later(enum net_later_what what, int rank, const void *bytes, size_t nbytes);

/* The next deferred entry, which the caller frees; NULL: there are no more. Takes the lock. */
struct net_later *nxr_net_later_next(void);

/*
 * The next rank to lose because memory ran out; it is returned once. -1: there is none. Takes the
 * lock.
 */
int nxr_net_later_lost(void);

/* Are earlier messages from that rank deferred? Caller holds the lock. */
bool nxr_net_is_behind(int rank);
void nxr_net_later_drop_all(void);

void nxr_net_drop(int rank, const char *why);

/* There is no memory to serve this peer: it will be lost. */
void nxr_net_give_up(const struct net_peer *np);

/* ---- deferred.c ------------------------------------------------------------------------------ */

/* Do the deferred work. Without locks held. */
void nxr_net_run_later(void);

/* ---- alive.c --------------------------------------------------------------------------------- */

/* The peer has shown that it is alive: nbytes arrived from it, or an operation at it ended (0). */
void nxr_net_lives(struct net_peer *np, size_t nbytes);

net_take_fn nxr_net_take_ping;

#endif
