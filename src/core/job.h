/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The single context of the process: the job, its ranks, and this rank's own state.
 *
 * Locks, outermost first:
 *   job.lock       everything here unless marked otherwise, and the host layer's connections. Never
 *                  held while waiting, and never taken on the data path.
 *   nxr_inbox_spin the receiving ends of the rings and the queue of notifications (notify.c)
 *   send_lock      of a peer: the sending end of the ring to it (sync/peer.h)
 * The service thread takes them like any other thread.
 */
#ifndef NXR_CORE_JOB_H
#define NXR_CORE_JOB_H

#include "core/attached.h"
#include "core/card.h"
#include "util/ring.h"
#include "nixlrun.h"
#include "transports/transport.h"
#include "util/list.h"
#include "util/lock.h"
#include "util/symbol.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nxr_carrier;

/* The state of the library. Read by every call. */
enum nxr_state {
    NXR_STATE_NONE,
    NXR_STATE_READY,
    NXR_STATE_LEAVING, /* in the last nixl_finalize(): calls from its thread and own ones only */
    NXR_STATE_FORKED,
};

/* How far the connection to a peer has come. */
enum nxr_connection {
    NXR_CONNECTION_NONE,       /* not needed yet */
    NXR_CONNECTION_CARD,       /* its card has been asked for */
    NXR_CONNECTION_CONNECTING, /* its service thread has been contacted */
    NXR_CONNECTION_UP,         /* it can be reached: its page is mapped, or a network reaches it */
    NXR_CONNECTION_REMOTE,     /* it is on another host, and nothing reaches it */
};

#define NXR_WHY_NBYTES 400

/*
 * Another process, or this one: a rank of the own job, made when first needed, which stays until
 * the last finalize, or until another process has taken its place (core/returned.h); or an attached
 * process of another job (core/attached.h). It holds what core
 * uses itself: who the peer is, whether it lives, how it is reached, what is under way to it, as
 * requests count it, and its card, which several folders read. Everything else lies behind it, in
 * slots that each belong to one folder (core/peer_slot.h).
 */

struct nxr_peer {
    int rank;          /* by which calls name it: in the own job the rank of its identity */
    _Atomic int state; /* enum nixl_peer_liveness */
    const struct nxr_carrier
        *_Atomic carrier;   /* for its messages; changes once, when it is connected */
    _Atomic int connection; /* enum nxr_connection; stored with release when UP, after all below */

    /* Set once, before `connection` becomes UP. */
    struct nxr_control *control; /* NULL: on another host */
    uint32_t inflight_index;
    bool full_fence;
    pid_t pid;
    const struct nxr_transport
        *_Atomic transport; /* for everything sent to it; NULL: none reaches it */

    /* What is under way to it (core/request.c, but for n_held: sync/notify.c). Any thread. */
    _Atomic uint32_t n_pending;  /* puts that were started and are not yet visible */
    _Atomic uint32_t n_held;     /* notifications that wait for that, for puts_ended(), or a get */
    _Atomic uint32_t n_gets;     /* gets that were started and have not ended */
    _Atomic uint32_t n_words;    /* requests that change a word: a flush waits for them, too */
    _Atomic uint32_t n_detached; /* puts and gets that have not ended and that nobody waits for */
    _Atomic int freed_failure;   /* of one of these, when it has ended: nixl_flush() reports it */
    _Atomic uint32_t doubts;     /* of NXR_DOUBT_*: failures that no call has reported yet */
    _Atomic uint32_t n_failed_puts;        /* ever, of those with a doubt, which is set before */
    atomic_bool must_ring_fd;              /* ask the peer to signal its event fd */
    struct nxr_stats_entry *_Atomic stats; /* its counters, the newest first (core/stats.h) */

    /* Where both write; constant once `connection` is UP. */
    struct nxr_rings in;             /* in own memory, written by the peer */
    struct nxr_ring_slot *wide_ring; /* of notifications, in place of in.ring; NULL: none */
    struct nxr_rings out; /* in its memory, written by this process; none: another host */
    int place;            /* the number by which it names this process; own job: the rank */
    struct nxr_peer *_Atomic next; /* of the attached; stays when it is taken out of the list */
    _Atomic uint32_t n_requests;   /* if it is counted: handles of requests that concern it */
    bool is_counted;               /* it may be freed before the last finalize */
    atomic_bool is_out; /* it has ended, and was found to use no memory of this process any more */

    /* Everything below: job.lock. */
    int rings_fd;                 /* the page of `in`, if it has one of its own; else -1 */
    bool has_rings_page;          /* `in` is a page of its own, not part of the control page */
    bool is_joined;               /* of an attached peer: the program knows its number */
    bool is_detached;             /* this process has ended the attachment */
    bool is_released;             /* nothing here uses the memory of an attached peer any more */
    int64_t missed_at;            /* when the message of its end counts as lost; 0: it lives */
    int64_t ended_at;             /* when an attached peer was found to have ended; 0: it lives */
    struct nxr_list late_link;    /* among the attached peers that are to be freed */
    struct nxr_identity identity; /* its incarnation is certain once it has a card; before: 0 */
    int job_size;                 /* ranks of its job; of an attached peer, what that has told */
    bool has_card;
    struct nxr_card card;
    struct nxr_full_card *full_card; /* while it may be needed for a network; NULL */
    char why_not[NXR_WHY_NBYTES]; /* why no transport reaches it, or why it is lost; "": unknown */
    _Atomic int event_fd;         /* of the peer, to wake it; -1: not kept. Any thread reads it */
};

struct nxr_job {
    _Atomic int state;    /* enum nxr_state */
    uint32_t trace_kinds; /* bits of enum nxr_trace_kind: what is recorded (core/trace.h) */
    int n_inits;          /* init_lock in init.c */
    int rank;
    int size;              /* ranks of the job */
    _Atomic int n_numbers; /* peers' numbers given out so far: [0, n_numbers), none twice */
    int local_rank, local_size;
    int program;
    bool is_multithreaded;
    bool is_alone;          /* no launcher */
    bool is_leaving;        /* in the last finalize, which waits for no rank any more */
    bool is_oversubscribed; /* more ranks than cores on this host: spin little */
    bool may_return;        /* ranks are started again when their processes have failed */
    bool has_spare_core;    /* ... fewer: a library thread may work beside one that spins */
    uint32_t copy_at_once;  /* more bytes are copied by several threads; UINT32_MAX: never */
    int64_t spin_ns;
    struct nxr_full_card card;
    struct nxr_identity self;

    struct nxr_control *control; /* my own page, mapped whole */
    int control_fd;
    int event_fd;

    pthread_mutex_t lock;

    /*
     * Peers by number: ranks from 0, then the attached, from size on. NULL: not needed yet, or the
     * attachment has ended. Written under lock, with release. The table is replaced when it grows.
     */
    struct nxr_peer **_Atomic peers;
    struct nxr_peer *_Atomic attached; /* the first in the list of the attached */
    int n_published; /* names by which processes may attach to this one (attach/publish.c) */
    uint32_t n_inflight_indices; /* guard indices given out */
    unsigned n_starts;           /* how often nixl_init() has made a job */
};

extern NXR_HIDDEN struct nxr_job nxr_job;

/* Failures that no call has reported yet, in one word, so that what is sent looks only once. */
#define NXR_DOUBT_REFUSAL  1u /* the peer has dropped a put or signal */
#define NXR_DOUBT_DETACHED 2u /* a put failed whose request was detached; nixl_flush() reports it */
#define NXR_DOUBT_PUT      4u /* for each put whose request has ended, and has not been asked yet */

/* Is there any of these? */
static inline bool nxr_peer_is_doubtful(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->doubts, memory_order_acquire) != 0;
}

/* Has a put to the peer failed, as no call has reported yet? What is sent must not stand for it. */
static inline bool nxr_peer_has_failed_put(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->doubts, memory_order_acquire) >= NXR_DOUBT_DETACHED;
}

/* Has the peer dropped a put or signal, as no call has reported yet? */
static inline bool nxr_peer_has_refusal(const struct nxr_peer *peer)
{
    return (atomic_load_explicit(&peer->doubts, memory_order_acquire) & NXR_DOUBT_REFUSAL) != 0;
}

/* The process, by a number that is never reused, unlike the address of its peer. */
static inline uint64_t nxr_peer_origin(const struct nxr_peer *peer)
{
    return (uint64_t)(peer->rank + 1) << 32 | peer->identity.incarnation;
}

/* ---- the job (job.c) ------------------------------------------------------------------------- */

/* NIXL_OK, or the reason why no call can be made; records the failure of `operation`. */
int nxr_check_ready(const char *operation);

/*
 * Mark this thread as the one in the last nixl_finalize(), which may still make calls; or unmark
 * it.
 */
void nxr_job_set_leaver(bool is_leaver);

/* May any thread make calls? */
static inline bool nxr_is_ready(void)
{
    return atomic_load_explicit(&nxr_job.state, memory_order_relaxed) == NXR_STATE_READY;
}

/*
 * Is this rank part of the job, whichever threads may make calls? Then what joining has made is
 * there.
 */
static inline bool nxr_is_joined(void)
{
    int state = atomic_load_explicit(&nxr_job.state, memory_order_acquire);

    return state == NXR_STATE_READY || state == NXR_STATE_LEAVING;
}

/* Is this process the child of a fork? The pages that it shares with others are its parent's. */
static inline bool nxr_is_forked(void)
{
    return atomic_load_explicit(&nxr_job.state, memory_order_relaxed) == NXR_STATE_FORKED;
}

/* Is it a rank of the own job? */
static inline bool nxr_is_own_rank(int rank)
{
    return rank >= 0 && rank < nxr_job.size;
}

/* How many numbers have been given out; none is valid in the child of a fork. */
static inline unsigned nxr_n_numbers(void)
{
    return (unsigned)atomic_load_explicit(&nxr_job.n_numbers, memory_order_relaxed);
}

/* May a call name a process by that number? */
static inline bool nxr_is_rank(int rank)
{
    return nxr_is_own_rank(rank) || nxr_attached_find(rank) != NULL;
}

/*
 * The number by which calls name a process that has that identity; -1: it is neither of this job
 * nor attached. Any thread.
 */
static inline int nxr_rank_of(const struct nxr_identity *identity)
{
    if (identity->job == nxr_job.self.job) {
        return nxr_is_own_rank(identity->rank) ? identity->rank : -1;
    }
    return nxr_attached_number(identity);
}

/* Fail a call because no process has that number: records the failure and returns its status. */
int nxr_fail_rank(const char *operation, int rank);

/* The same for calls that take ranks of the own job only. */
int nxr_fail_own_rank(const char *operation, int rank);

/* Fail a call because its timeout is negative. */
int nxr_fail_timeout(const char *operation, int rank, int64_t timeout_ns);

/* Fail a call because nxr_peer_get() found no memory for that rank. */
int nxr_fail_no_peer(const char *operation, int rank);

/* ---- peers (peer.c) -------------------------------------------------------------------------- */

/*
 * The peer of that number, made if need be; NULL: no memory, or the attachment has just ended. Any
 * thread, without job.lock.
 */
struct nxr_peer *nxr_peer_get(int rank);

/* The same for holders of job.lock. */
struct nxr_peer *nxr_peer_get_locked(int rank);

/* The peer, or NULL if it has not been made. Any thread. */
static inline struct nxr_peer *nxr_peer_find(int rank)
{
    struct nxr_peer **peers = atomic_load_explicit(&nxr_job.peers, memory_order_acquire);

    return atomic_load_explicit((struct nxr_peer * _Atomic *)&peers[rank], memory_order_acquire);
}

/*
 * The number of that rank of that job: of an attached process that lives and that the program
 * knows, or of the own job; -1: none. Takes job.lock.
 */
int nxr_peer_number(uint64_t job, int job_rank);

/*
 * The peers that have been made, one after the other: ranks of the own job, then the attached.
 * `peer` NULL: the first; returns NULL after the last. Any thread; those that are made or detached
 * meanwhile may be left out.
 */
struct nxr_peer *nxr_peers_next(const struct nxr_peer *peer);

/*
 * Has another process taken the place of that one, so that calls by its number do not mean it? Any
 * thread.
 */
static inline bool nxr_peer_is_replaced(const struct nxr_peer *peer)
{
    return nxr_is_own_rank(peer->rank) && nxr_peer_find(peer->rank) != peer;
}

/* Is it a process of another job? */
static inline bool nxr_peer_is_attached(const struct nxr_peer *peer)
{
    return peer->rank >= nxr_job.size;
}

/* The size of the job whose control page it maps; 0: of another job, which does not matter. */
static inline int nxr_peer_job_size(const struct nxr_peer *peer)
{
    return nxr_peer_is_attached(peer) ? 0 : nxr_job.size;
}

static inline bool nxr_peer_is_up(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->connection, memory_order_acquire) == NXR_CONNECTION_UP;
}

/* Is it up and on this host? Then its control page is mapped. */
static inline bool nxr_peer_is_local(const struct nxr_peer *peer)
{
    return nxr_peer_is_up(peer) && peer->control != NULL;
}

/* Is it on another host? Of a peer that is up. */
static inline bool nxr_peer_is_remote(const struct nxr_peer *peer)
{
    return peer->control == NULL;
}

static inline bool nxr_peer_is_lost(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->state, memory_order_acquire) != NIXL_PEER_ALIVE;
}

/* A peer of an attached process, with a page of rings. NIXL_OK, NIXL_E_NO_MEMORY, NIXL_E_LIMIT. */
int nxr_peer_new_attached(int number, struct nxr_peer **peer_p);

/* The peer of a process that takes the place of another one. As nxr_peer_new_attached(). */
int nxr_peer_new_returned(const struct nxr_full_card *card, struct nxr_peer **peer_p);

/*
 * Give a peer of another host a wide ring in place of that of notifications, before it becomes UP;
 * it keeps the other one if there are many peers, or no memory. Caller holds job.lock.
 */
void nxr_peer_widen(struct nxr_peer *peer);

/* End the subsystems' state of a peer, and free it. */
void nxr_peer_free(struct nxr_peer *peer);

/* Free all peers (last finalize). */
void nxr_peers_free(void);

/* The card of the peer is known, and with it its whole identity. Caller holds job.lock. */
void nxr_peer_set_card(struct nxr_peer *peer, const struct nxr_card *card);

/*
 * Why a greeting of that process is refused: it is of another job, or another process than the one
 * that is known as its rank. NULL: it is not. Caller holds job.lock.
 */
const char *nxr_peer_why_refused(const struct nxr_identity *from,
                                 char why[NXR_IDENTITY_WHY_NBYTES]);

/*
 * A process, or a peer, in log lines and errors: as nxr_identity_text() names it. The text lives as
 * long as the block.
 */
#define nxr_identity_name(_identity)                                                               \
    nxr_identity_text((_identity), nxr_job.self.job, (char[NXR_IDENTITY_TEXT_NBYTES]){0})
#define nxr_peer_name(_peer) nxr_identity_name(&(_peer)->identity)

/*
 * The process that a call names by that number, as far as it is known: also before there is a table
 * of peers, since texts name ranks at any time. Any thread.
 */
static inline struct nxr_identity nxr_identity_at(int rank)
{
    const struct nxr_peer *peer = nxr_job.peers != NULL ? nxr_peer_find(rank) : NULL;

    if (rank == nxr_job.rank) {
        return nxr_job.self;
    }
    return peer != NULL ? peer->identity : (struct nxr_identity){nxr_job.self.job, rank, 0};
}

/* The same as nxr_peer_name() of a rank whose peer is not at hand. */
#define nxr_rank_name(_rank) nxr_identity_name(((struct nxr_identity[1]){nxr_identity_at(_rank)}))

/* The same for why a message is refused that does not come from the expected process. */
#define nxr_message_why(_expected, _told)                                                          \
    nxr_identity_explain("a message of", (_expected), (_told), nxr_job.self.job,                   \
                         (char[NXR_IDENTITY_WHY_NBYTES]){0})

/* Fail a call because that rank is lost or has left: NIXL_E_PEER_LOST, with the known cause. */
int nxr_peer_fail_lost(const char *operation, int rank, const char *transport);

/* Fail a call because no transport reaches that peer: NIXL_E_UNSUPPORTED, with the reason. */
int nxr_peer_fail_unreached(const char *operation, const struct nxr_peer *peer);

/*
 * Why the rank was lost, for example "it was silent..."; "": unknown, or not lost. Accepts any
 * rank, also -1.
 */
const char *nxr_peer_why_lost(int rank);

/* Send a message without descriptors over the peer's carrier. Caller holds job.lock. */
union nxr_wire_message;
void nxr_peer_tell(struct nxr_peer *peer, const union nxr_wire_message *message);

/* Start looking for a route to the peer, unless that has been started. Caller holds job.lock. */
void nxr_peer_want(struct nxr_peer *peer);

/* Has the process of that number ended for this one, by whatever cause? Any thread. */
static inline bool nxr_rank_is_lost(int rank)
{
    const struct nxr_peer *peer = nxr_is_rank(rank) ? nxr_peer_find(rank) : NULL;

    return peer != NULL ? nxr_peer_is_lost(peer) : nxr_attached_was(rank);
}

/*
 * Has that rank, or attached peer, ended in order? Then all that it has done for this process is
 * visible.
 */
static inline bool nxr_peer_has_left(int rank)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);

    return peer != NULL &&
           atomic_load_explicit(&peer->state, memory_order_acquire) == NIXL_PEER_FINISHED;
}

/*
 * Has the process of that rank ended with all its threads, so that it writes nothing any more?
 * False if that cannot be known. Takes job.lock.
 */
bool nxr_peer_is_gone(int rank);

/* The same for holders of job.lock. */
bool nxr_peer_is_gone_locked(struct nxr_peer *peer);

/*
 * Has the process of that number ended for this one, and is it known that no thread of it uses
 * memory of this one any more? One that is lost may go on for a while: its service thread dies
 * before the others do, and one that is detached lives. On another host it never uses that memory
 * itself. Any thread; true from when nxr_rank_look_out_locked() has found it.
 */
bool nxr_rank_is_out(int rank);

/* Find it out; then as nxr_rank_is_out(). Caller holds job.lock. */
bool nxr_rank_look_out_locked(int rank);

/*
 * Is it known that no connection can be made to a peer that did not answer `within` that time? If
 * so, one line in `why`.
 */
bool nxr_peer_is_unconnected(const struct nxr_peer *peer, const char *within, char *why,
                             size_t why_nbytes);

/*
 * Connect to the peer, or find that it is remote or lost. NIXL_OK once one of these is known; else
 * what nxr_wait() returns.
 */
int nxr_peer_connect(struct nxr_peer *peer, int64_t timeout_ns);

/*
 * The peer for a public call about a rank: connected, or known to be remote or lost. NULL:
 * *status_p says why, and the failure is recorded.
 */
struct nxr_peer *nxr_peer_connected(const char *operation, int rank, int *status_p);

/* ---- in-flight slots (inflight.c) ------------------------------------------------------------ */

/*
 * Wait until no living peer has a copy in flight in this rank's region `id`, whose generation has
 * been cleared. NIXL_OK, NIXL_E_TIMEOUT; NIXL_INPROGRESS if timeout_ns is 0 and one is in flight.
 */
int nxr_inflight_quiesce_own(uint32_t id, int64_t timeout_ns);

/* A slot in this rank's own page, for copies that it makes for others; NULL: all are taken. */
struct nxr_inflight_slot *nxr_inflight_claim_own(void);
void nxr_inflight_give_own(struct nxr_inflight_slot *slot);

/*
 * Enter a region of this rank on behalf of a peer, with such a slot; end with nxr_inflight_leave().
 * False: the region is closed.
 */
bool nxr_inflight_enter_own(struct nxr_inflight_slot *slot, uint32_t id, uint64_t generation);

/*
 * Does a thread of this process have a copy in flight in that segment, whose generation is
 * cleared?
 */
bool nxr_inflight_is_busy_here(const struct nxr_segment *segment);

/*
 * Give back the slots that threads of this process have claimed in an attached peer's page. False:
 * one is copying; try again.
 */
bool nxr_inflight_leave_peer(const struct nxr_peer *peer);

/*
 * Free the slots that an attached peer has claimed in this rank's page and has not given back: its
 * process has ended.
 */
void nxr_inflight_free_of(const struct nxr_peer *peer);

/* Forget all slots of all threads, before the pages that hold them are unmapped. */
void nxr_inflight_reset(void);

#endif
