/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: the opened networks, and for each remote peer its endpoint,
 * what goes out, what has come, and what is under way. Everything under nxr_net.lock unless it says
 * otherwise.
 */
#ifndef NXR_NET_STATE_H
#define NXR_NET_STATE_H

#include "net/net.h"
#include "net/offer.h"
#include "net/wire.h"
#include "core/request.h"
#include "transports/network.h"
#include "util/lock.h"

struct net_peer;

/*
 * Takes a record whose length and values nxr_net_next_record() has found to be possible. Caller
 * holds the lock.
 */
typedef void net_take_fn(struct net_peer *np, const struct nxr_net_record *record);

/* An operation at a module; `ended` is what to do when the module has ended it. */
struct net_op {
    struct nxr_net_op op;
    void (*ended)(struct net_op *op, int status);
};

/* A network of this build. Constant after start. */
struct net {
    const char *name;
    const struct nxr_network *module; /* NULL: not loaded */
    const struct nxr_net_attr *attr;
    void *library;
    bool is_open;
    unsigned index;
    unsigned n_peers;   /* that are or may be reached by it */
    bool is_doubted;    /* a peer was not reached by it in time, and nobody since */
    bool is_doubt_told; /* to the user */
    char why[200];      /* why it is not open */
    struct nxr_transport transport;
    _Atomic unsigned known_kinds;   /* of device memory that the library has taken, and */
    _Atomic unsigned unknown_kinds; /* ... that it has refused: bits by enum nixl_mem_kind */
    struct nxr_list free_outs; /* messages to be filled; each has room for the network's longest */
    unsigned n_free_outs;
};

/* Bulk has left, or never will. */
typedef void net_left_fn(void *arg, int status);

/* A message on its way out: being filled, queued, or at the module. */
struct net_out {
    struct net_op op;
    struct nxr_list link;
    struct net *net;
    struct net_peer *np;
    const void *bulk;
    size_t bulk_nbytes;
    net_left_fn *bulk_left; /* when the bulk has left; NULL: there is none */
    void *bulk_arg;
    size_t nbytes;
    _Alignas(8) unsigned char bytes[];
};

/* How an operation moves its bytes. */
enum net_how {
    NET_PIECES, /* in messages, one or several */
    NET_BULK,   /* behind a message */
    NET_RMA,    /* the network reads and writes */
    NET_LIST,   /* a list of small gets, whose answers are gathered in messages */
    NET_WORD,   /* the change of a word, which is answered */
};

/* A put or get under way. */
struct net_move {
    struct nxr_list link;
    struct nxr_list wait_link; /* np->waiting, while it waits for room */
    struct nxr_op *user;       /* the request's */
    struct net_peer *np;
    struct net_part *part;
    enum net_how how;
    uint64_t id;       /* comes back in answers; of a list, the first of n_ids, a piece each */
    uint64_t n_ids;    /* 1, or the pieces of a list */
    uint64_t n_asked;  /* NET_LIST: the owner was asked for so many pieces, and */
    uint64_t n_got;    /* ... so many have come, in order */
    uint64_t issued;   /* NET_RMA: bytes handed over; NET_LIST: bytes asked for */
    unsigned n_pieces; /* NET_RMA: ... in so many pieces that have not ended */
    int status;
    bool is_at_module; /* the module may touch the local buffer */
};

/* What this process knows of a peer's part beyond struct nxr_part. */
struct net_part {
    struct nxr_list link;  /* np->parts */
    struct nxr_part *part; /* NULL: not open yet */
    uint32_t id;
    uint64_t generation;
    struct nxr_net_key *key; /* NET_RMA */
    enum net_how how;
    enum net_how how_else; /* NET_RMA: as long as the network that bulk goes by is not reached */
    unsigned n_at_module;  /* reads and writes */
    bool is_stale;         /* the owner has closed */
    bool owes_ack;         /* ... and waits until n_at_module is 0 */
};

/*
 * An own region that bulk moves into or out of. All of that shares one in-flight slot: a page has
 * fewer of them than peers may have puts and gets under way.
 */
struct net_hold {
    struct nxr_list link; /* nxr_net.holds */
    struct nxr_guard_slot *slot;
    uint32_t id;
    unsigned n_users;
};

/* Bulk on its way in: until it has landed, what was sent after it waits. */
struct net_landing {
    struct nxr_list link; /* np->landings, by seq */
    struct net_peer *np;
    uint64_t seq;
    struct net_hold *hold; /* a put into an own region */
    struct net_move *move; /* the answer to an own get */
};

/* A record that waits for the bulk that was sent before it. */
struct net_gated {
    struct nxr_list link;
    uint64_t after; /* seq of the last such bulk */
    net_take_fn *take;
    struct nxr_net_record record[]; /* with its body */
};

struct net_peer {
    struct nxr_peer *peer;

    /* Which way (net/connect.c): the networks in common, best first, and what came of trying. */
    struct net *choices[NXR_NET_MAX];
    unsigned n_choices;
    unsigned n_tried;    /* so many of them, at the same time; 0: nothing was to be sent yet */
    unsigned failed;     /* these will not reach it, as bits */
    int64_t next_try_at; /* when one more is tried */
    bool is_reached;     /* from then on the two below are for good */
    bool is_bulk_reached;
    struct net *messages;
    struct net *bulk;
    struct nxr_net_ep *eps[NXR_NET_MAX]; /* by net->index; made when first used */
    struct nxr_full_card card;
    bool is_greeted; /* HELLO is in the stream */
    bool is_dead;
    bool has_left;                 /* it said good-bye */
    char why_lost[NXR_WHY_NBYTES]; /* what the network said when it lost the peer; "": nothing */

    /* The largest put, get answer, get of a list and piece that go inside of a message. */
    size_t put_max;
    size_t get_max;
    size_t list_get_max;
    size_t piece_max;

    /* Out. */
    struct net_out *batch; /* being filled; NULL: none */
    struct nxr_list queue; /* struct net_out that the module had no room for, in order */
    size_t queued_nbytes;
    struct nxr_list corked_link; /* nxr_net.corked, while the batch waits for more */
    struct nxr_list busy_link;   /* nxr_net.busy, while queue or waiting has members */
    int64_t pushed_at;
    unsigned pushed_round; /* nxr_net.n_user_rounds then */
    unsigned n_burst;

    /* Order. */
    uint64_t flush_asked;  /* the last FLUSH that was sent */
    uint64_t flush_heard;  /* ... and answered */
    bool is_dirty;         /* a put or word was sent since */
    bool expects_flush;    /* the last puts were flushed: ask with the put */
    bool is_flush_used;    /* ... and it was */
    unsigned n_writes;     /* puts by the network itself that have not ended */
    uint64_t rma_nbytes;   /* that the network itself moves, for operations of this process */
    uint64_t rma_window;   /* ... and may move at a time; 0: not known yet */
    bool has_bulk_unheard; /* bulk was sent since the last flush that was heard */

    /* Notifications: slots of the peer's ring for us, and our own ring for it. */
    uint64_t tx_tail;
    uint64_t tx_limit;
    bool wants_credit;  /* a notification found no room */
    uint64_t rx_pushed; /* slots taken from our ring, as the peer was told without delay */
    struct nxr_ring_tx ring;

    /* In. */
    struct nxr_list landings;
    uint64_t landing_seq;
    struct nxr_list gated;
    unsigned n_busy_words;       /* in device memory: what was sent behind them waits */
    struct nxr_list put_batches; /* struct net_put_batch: small puts to device memory */
    struct net_window *window;   /* for that peer (transfer/window.c); NULL: none yet */

    /* Operations of this process. */
    struct nxr_list moves;
    struct nxr_list waiting;
    struct nxr_list words; /* struct net_word: on the stack of who waits */
    struct nxr_list parts;
    uint64_t last_id;

    /* Silence (net/alive.c). */
    int64_t heard_at;
    int64_t pinged_at;     /* 0: no answer is waited for */
    uint64_t heard_nbytes; /* since the last tick */
    bool is_suspect;       /* it is watched and does not answer: its whole host may be gone */
};

/* Something that needs job.lock, done after the round. */
enum net_later_what {
    NET_LATER_MESSAGE, /* a whole message of a rank that is not up yet */
    NET_LATER_RECORD,
    NET_LATER_LOST, /* the network cannot reach it */
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
    struct net_peer *_Atomic *peers; /* [size] */
    struct nxr_list corked;          /* struct net_peer with a batch that waits */
    atomic_bool is_kicked;           /* the service thread was asked to uncork; read without lock */
    struct nxr_list busy;            /* struct net_peer that waits for room */
    struct nxr_list ended;           /* struct net_move: their requests are told after the round */
    struct nxr_list later;           /* struct net_later */
    atomic_bool has_ended;           /* the two lists have members; read without the lock */
    atomic_bool has_later;
    unsigned n_rounds;
    unsigned n_user_rounds;       /* of threads of the user */
    bool *must_lose;              /* [size]: there was no memory for what came of that rank; with */
    unsigned n_to_lose;           /* ... so many of them, to be lost after the round */
    unsigned n_later_messages;    /* of NET_LATER_MESSAGE, with the one that is being taken */
    int taking_rank;              /* whose; -1: none */
    bool is_in_round;             /* who looks after the networks does what is put off */
    bool is_trying;               /* peers have something to be sent, and are not reached yet */
    bool is_for_passive;          /* no thread of the user waits: peers need the service thread */
    bool is_receiving;            /* in a module's progress(): answers may wait for its end */
    bool must_wake;               /* something was delivered in this round */
    struct nxr_guard_slot *guard; /* for accesses that are over before the lock is given back */
    unsigned char *aligned;       /* room for a message that came anyhow; or NULL */
    size_t aligned_nbytes;
    struct nxr_list holds;    /* struct net_hold */
    struct nxr_list closings; /* struct net_closing (net/key.c) */
    unsigned n_landings;      /* of all peers */
    int64_t now;              /* of this round */
    int64_t tick_at;          /* when to look for silence again */
    uint64_t n_dropped;       /* messages and records that were */
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

/* The remote half of a rank, once it exists. Any thread. */
static inline struct net_peer *net_peer_of(int rank)
{
    return atomic_load_explicit(&nxr_net.peers[rank], memory_order_acquire);
}

/* Does bulk move by the network's own reads and writes? */
static inline bool net_uses_rma(const struct net *net)
{
    return net->attr->has_rma && (net->attr->is_rma_better || !net->attr->has_bulk);
}

/* What the head, a greeting's record and the record around it take of a message, at most. */
#define NET_MESSAGE_OVERHEAD 128

/* ---- out.c ----------------------------------------------------------------------------------- */

/*
 * Room for a record behind what is being gathered for a peer: its body, of body_nbytes. Sends what
 * is gathered where it does not fit. NULL: no memory, or the peer is dead.
 */
void *nxr_net_begin(struct net_peer *np, enum nxr_net_type type, size_t body_nbytes);

/* The same for what the peer waits for: where there is no memory it is given up. */
void *nxr_net_begin_answer(struct net_peer *np, enum nxr_net_type type, size_t body_nbytes);

/*
 * Records are complete: send them, or, if they may_wait, let more gather: where the sender is
 * ahead, and for answers until the end of what is being received.
 */
void nxr_net_push(struct net_peer *np, bool may_wait);

/* Send a header, and bulk behind it, in order with everything else. */
struct net_bulk {
    const void *bytes;
    size_t nbytes;
    net_left_fn *left; /* called when it has left, with `arg` */
    void *arg;
    uint64_t flush; /* asked for behind it, along with it; 0: none */
    bool may_wait;  /* for what follows at once, as nxr_net_push() */
};
int nxr_net_send_bulk(struct net_peer *np, enum nxr_net_type type, const void *body,
                      size_t body_nbytes, const struct net_bulk *bulk);

/* Is there room for more puts? Control, answers and notifications always find room. */
bool nxr_net_has_room(const struct net_peer *np);

/* Records are complete that may wait for others, or for the next round of anybody. */
void nxr_net_cork(struct net_peer *np);
void nxr_net_uncork_all(void);

/* Something of it waits for room: rounds look after it. */
static inline void net_is_busy(struct net_peer *np)
{
    if (nxr_list_is_empty(&np->busy_link)) {
        nxr_list_append(&nxr_net.busy, &np->busy_link);
    }
}

/* Hand over what was waiting for room. Has anything moved? */
bool nxr_net_pump(struct net_peer *np);

void nxr_net_out_drop_all(struct net_peer *np);

/* The peer was reached by another network than the one that what waits was written for. */
void nxr_net_out_rewrite(struct net_peer *np);

/* The way to a peer in one network, opened if need be; NULL: it cannot be. */
struct nxr_net_ep *nxr_net_ep_to(struct net_peer *np, struct net *net);

/* ---- connect.c ------------------------------------------------------------------------------- */

/* Is the peer reached by a network? Tries, where it is not. What there is to send is queued. */
bool nxr_net_connect(struct net_peer *np);

/* When to look after what is being tried again; INT64_MAX: nothing is. */
int64_t nxr_net_connect_tick(int64_t now);

/* How large puts and gets inside of messages may be on this pair. */
void nxr_net_set_limits(struct net_peer *np);

/* As ep_failed() of struct nxr_net_core. */
void nxr_net_ep_failed(void *peer, struct nxr_net_ep *ep, const char *why);

/* May bulk go by its network, where that is another one than for messages? */
bool nxr_net_is_bulk_reached(struct net_peer *np);

net_take_fn nxr_net_take_takes;

/* What is known of the networks that a peer was not reached by, in words. */
void nxr_net_tell_tried(struct net_peer *np, char *names, size_t names_nbytes, char *known,
                        size_t known_nbytes);

/* Was that network tried for the peer in vain? Then what is known of it. */
bool nxr_net_was_tried(struct net_peer *np, const struct net *net, char *why, size_t why_nbytes);

/* ---- reach.c --------------------------------------------------------------------------------- */

/*
 * May the network be given memory of that range, or of the host: NULL? Its library is asked when
 * that is needed; is_locked: the caller holds the lock.
 */
bool nxr_net_takes(struct net *net, const struct nxr_range *range, bool is_locked);

/* As `serves` of a transport's table. */
bool nxr_net_serves(const struct nxr_part *part, const struct nxr_range *range);

/* What the local side of an operation is to the network: host memory where it may look. */
enum nixl_mem_kind nxr_net_local_kind(const void *local);

/* The same for a write or read: all that the module is told of the memory. */
struct nxr_net_op nxr_net_local_op(const void *local);

/* ---- in.c ------------------------------------------------------------------------------------ */

/*
 * What takes records of a type; is_gated: behind the bulk that was sent before them. For types that
 * belong to a floor above, before the networks are started.
 */
void nxr_net_register(enum nxr_net_type type, net_take_fn *take, bool is_gated);

/* Take the records of a message whose head was checked, from the one at `at` on. */
void nxr_net_take_records(struct net_peer *np, const unsigned char *bytes, size_t nbytes,
                          size_t at);

/* Records that waited for bulk which has landed. */
void nxr_net_run_gated(struct net_peer *np);

uint64_t nxr_net_own_token(void);
void nxr_net_received(const void *bytes, size_t nbytes);

/* ---- own.c: own regions, as peers reach them ------------------------------------------------- */

/* Bytes of an own region, as a peer names them. */
struct net_range {
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes;
    uint32_t id;
};

/*
 * Enter an own region for bulk of a peer: where it lies; nxr_net_hold_end() follows. NULL and the
 * reason: NIXL_ERR_STALE, NIXL_ERR_RANGE, NIXL_ERR_LIMIT.
 */
/* Is it a region of device memory, that no processor reads and writes? */
bool nxr_net_is_device(const struct net_range *range);

char *nxr_net_hold_begin(const struct net_range *range, struct net_hold **hold_p, int *status_p);
void nxr_net_hold_end(struct net_hold *hold);

/* The same for who reads or writes it by itself: device memory is NIXL_ERR_UNSUPPORTED. */
char *nxr_net_hold_begin_host(const struct net_range *range, struct net_hold **hold_p,
                              int *status_p);

void nxr_net_refuse(struct net_peer *np, uint32_t id, uint64_t generation, int status);
net_take_fn nxr_net_take_put;
void nxr_net_take_get(struct net_peer *np, const struct nxr_net_get *get);

/*
 * As much of it as one message answers: this end may send by another network than the one that the
 * peer asks by, and has less room. The peer asks for the rest.
 */
struct nxr_net_get nxr_net_answerable(const struct net_peer *np, const struct nxr_net_get *get);
net_take_fn nxr_net_take_word;

/* Answer a get inside of a message: with the bytes, or a failure. */
void nxr_net_answer_get(struct net_peer *np, const struct nxr_net_get *get, const char *addr,
                        int status);

/* ... and a word; without an answer where none is wanted, but a refusal. */
void nxr_net_answer_word(struct net_peer *np, const struct nxr_net_word *word, int status,
                         uint64_t fetched);

/* ---- clients.c: the floors above ------------------------------------------------------------- */

/* Own device memory, which a floor above copies. What it takes was found in a region of that. */
struct net_device {
    net_take_fn *take_put;
    net_take_fn *take_get;

    /* NIXL_INPROGRESS: it is answered later. */
    int (*take_word)(struct net_peer *np, const struct nxr_net_word *word);
};
extern const struct net_device *nxr_net_device;

/* What a floor above does with the networks; each may be NULL. */
struct net_client {
    void (*run)(void);  /* behind a round, without the lock */
    void (*stop)(void); /* nothing more comes; without the lock */
};

/* For good, before the networks are started; a second time changes nothing. */
void nxr_net_add_client(const struct net_client *client);

void nxr_net_clients_run(void);
void nxr_net_clients_stop(void);

/* ---- bulk.c ---------------------------------------------------------------------------------- */

void *nxr_net_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p);
void nxr_net_landing(void *cookie, size_t nbytes);
void nxr_net_landed(void *cookie, int status);

/* Something that comes piece by piece: what is sent from now on waits until it has landed. */
struct net_landing *nxr_net_landing_new(struct net_peer *np);

/* ---- move.c ---------------------------------------------------------------------------------- */

/* Can the part be used? NIXL_OK, NIXL_ERR_STALE, NIXL_ERR_PEER_LOST. */
int nxr_net_check_part(const struct net_peer *np, const struct nxr_part *part);

/* A record with a small put. Caller pushes. */
int nxr_net_append_put(struct net_peer *np, const struct nxr_part *part, uint64_t offset,
                       const void *src, size_t nbytes);

/* Tell the requests of ended moves; without the lock. */
void nxr_net_tell_ended(void);

/* Does a move use the part? */
bool nxr_net_moves_use(const struct net_peer *np, const struct net_part *part);

/* An own operation has ended; its request is told after the round. */
void nxr_net_move_end(struct net_move *move, int status);

struct net_move *nxr_net_move_find(struct net_peer *np, uint64_t id);
void nxr_net_moves_drop(struct net_peer *np);

/* The bulk of a move has left, or has come. */
void nxr_net_bulk_left(void *move, int status);

/*
 * How an operation of the module has ended, for the user: a peer that its network cannot reach is
 * lost, whoever hears of it first.
 */
int nxr_net_outcome(const struct net_peer *np, int status);

/* ---- start.c --------------------------------------------------------------------------------- */

int nxr_net_part_put(struct nxr_part *part, uint64_t offset, const void *src, size_t nbytes);
int nxr_net_part_get(struct nxr_part *part, uint64_t offset, void *dst, size_t nbytes);
int nxr_net_op_start(struct nxr_op *op);
int nxr_net_cancel(struct nxr_op *op);
bool nxr_net_moves_pump(struct net_peer *np);

/* Try to hand over a put or get that waits. False: no room yet. */
bool nxr_net_move_go(struct net_move *move);

net_take_fn nxr_net_take_got;

/* ---- rma.c ----------------------------------------------------------------------------------- */

/* As nxr_net_move_go(). */
bool nxr_net_rma_go(struct net_move *move);

/* End it before all of it was handed over; pieces at the module end it, if there are. */
void nxr_net_rma_stop(struct net_move *move, int status);

/* ---- list.c ---------------------------------------------------------------------------------- */

int nxr_net_start_list(struct nxr_op *op);

/* As nxr_net_move_go(). */
bool nxr_net_list_go(struct net_move *move);

/* The answer to one of its pieces, which have to come in order. */
void nxr_net_list_take_got(struct net_move *move, const struct nxr_net_got *got,
                           const void *payload, size_t nbytes);

int nxr_net_move_list(struct nxr_part *part, enum nxr_op_kind kind, const struct nxr_piece *pieces,
                      size_t n_pieces, size_t *n_done_p);

/* ---- word.c ---------------------------------------------------------------------------------- */

/* As nxr_net_move_go(). */
bool nxr_net_word_go(struct net_move *move);

net_take_fn nxr_net_take_word_done;
void nxr_net_words_end(struct net_peer *np, int status);
int nxr_net_atomic(struct nxr_part *part, const struct nxr_atomic *atomic, uint64_t *fetched_p);
int nxr_net_signal(struct nxr_part *part, const struct nxr_atomic *atomic);
int nxr_net_put_signal(struct nxr_part *part, const struct nxr_put_signal *what);

/* ---- key.c ----------------------------------------------------------------------------------- */

int nxr_net_part_open(struct nxr_part *part, int fd);
void nxr_net_part_close(struct nxr_part *part);
bool nxr_net_part_is_busy(const struct nxr_part *part);
void nxr_net_take_key(struct nxr_peer *peer, const struct nxr_net_key_record *key,
                      const unsigned char *blob, size_t nbytes);
/* A region was closed: nothing more is begun with it, and then all that closing it means. */
void nxr_net_part_shut(struct net_peer *np, const struct nxr_net_region *closed);
void nxr_net_take_closed(struct net_peer *np, const struct nxr_net_region *closed);
net_take_fn nxr_net_take_closed_ack;
void nxr_net_part_left(struct net_peer *np, struct net_part *part);
void nxr_net_part_free(struct net_peer *np, struct net_part *part);

/* The owner has closed. Are reads or writes still under way? */
bool nxr_net_part_went_stale(struct net_peer *np, uint32_t id, uint64_t generation);
void nxr_net_closings_end(int rank);

/* ---- order.c --------------------------------------------------------------------------------- */

int nxr_net_fence(struct nxr_peer *peer);
int nxr_net_flush(struct nxr_peer *peer);

/* A put was sent: ask along with it, if this process flushes after every put. */
void nxr_net_ask_flush_early(struct net_peer *np);

/* Bulk is sent: the flush that its header asks for, or 0. */
uint64_t nxr_net_flush_of_bulk(struct net_peer *np);

/* ... and it could not be sent. */
void nxr_net_flush_lost(struct net_peer *np);

/* ---- note.c ---------------------------------------------------------------------------------- */

int nxr_net_notify(struct nxr_peer *peer, uint64_t tag, const void *msg, size_t nbytes);
int nxr_net_put_notify(struct nxr_part *part, const struct nxr_put_notify *what);

/* ---- expect.c -------------------------------------------------------------------------------- */

/* So many bytes begin to move for a peer: it should not wait for what this process computes. */
void nxr_net_serve_large(const struct net_peer *np, size_t nbytes);

/*
 * So many bytes begin to move: whoever waits for them rather polls than sleeps as long as that
 * takes.
 */
void nxr_net_peer_expect(const struct net_peer *np, size_t nbytes);

/* ---- transport.c, link.c --------------------------------------------------------------------- */

struct nxr_transport nxr_net_transport(const char *name, unsigned cost);

/* Close the ways to all peers; then, when no module has anything of theirs, forget them. */
void nxr_net_peers_close(void);
void nxr_net_peers_free(void);

/* ---- later.c --------------------------------------------------------------------------------- */

/* Put something off until job.lock can be taken. */
void nxr_net_later(enum net_later_what what, int rank, const void *bytes, size_t nbytes);

/* The next of it, which is the caller's; NULL: there is no more. Takes the lock. */
struct net_later *nxr_net_later_next(void);

/* A rank that is lost as there was no memory, and no more then; -1: none is. Takes the lock. */
int nxr_net_later_lost(void);

/* Do earlier messages of that rank wait? Caller holds the lock. */
bool nxr_net_is_behind(int rank);
void nxr_net_later_drop_all(void);

void nxr_net_drop(int rank, const char *why);

/* There is no memory for what this peer sent. */
void nxr_net_give_up(const struct net_peer *np);

/* ---- deferred.c ------------------------------------------------------------------------------ */

/* Do what was put off. Without locks. */
void nxr_net_run_later(void);

/* ---- alive.c --------------------------------------------------------------------------------- */

/* Something of the peer has come, of so many bytes, or it has answered. */
void nxr_net_lives(struct net_peer *np, size_t nbytes);

net_take_fn nxr_net_take_ping;

#endif
