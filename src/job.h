/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one context of the process: the job, its ranks, and what this rank has.
 *
 * Locks, outermost first:
 *   job.lock       everything here that is not marked otherwise, and the host layer's connections.
 *                  Never held while waiting, and never taken on the data path.
 *   inbox.lock     the receiving ends of the rings and the queue of notifications (notify.c)
 *   peer.send_lock the sending end of the ring to that peer
 * The service thread takes them like any other thread.
 */
#ifndef NXR_JOB_H
#define NXR_JOB_H

#include "boot/boot.h"
#include "host/ring.h"
#include "nixlrun.h"
#include "transports/transport.h"
#include "util/list.h"
#include "util/lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nxr_conn;
struct pid_watch;

/* The state of the library. Read by every call. */
enum nxr_state { NXR_STATE_NONE, NXR_STATE_READY, NXR_STATE_FORKED };

/* How far the way to a peer is. */
enum nxr_link {
    NXR_LINK_NONE,       /* nobody asked yet */
    NXR_LINK_CARD,       /* its card has been asked for */
    NXR_LINK_CONNECTING, /* its service thread has been spoken to */
    NXR_LINK_UP,         /* its control page is mapped: same host, proven */
    NXR_LINK_REMOTE,     /* no proof: another host, as far as we can tell */
};

/* Another rank, or this one. Made when first needed; stays until the last finalize. */
struct nxr_peer {
    int rank;
    _Atomic int state; /* enum nixl_peer_state */
    _Atomic int link;  /* enum nxr_link; release when UP: all below is set before */

    /* Same host: set once, before `link` becomes UP. */
    struct nxr_control *control;
    uint32_t guard_index;
    bool full_fence;
    pid_t pid;
    const struct nxr_transport *transport; /* of all that goes to it; NULL: none reaches it */

    /* Notifications to the peer: send_lock. */
    struct nxr_spin send_lock;
    struct nxr_ring_tx tx;
    struct nxr_list held;       /* struct held_note: wait for earlier puts */
    _Atomic uint32_t n_held;    /* members of held */
    _Atomic uint32_t n_pending; /* puts that were started and are not yet visible */

    /* Notifications from the peer: inbox.lock. */
    struct nxr_ring_rx rx;
    struct nxr_peer *_Atomic rx_next; /* the list of inbox.peers; never changes once set */

    /* Everything below: job.lock. */
    bool has_card;
    struct nxr_card card;
    bool card_failed;
    char why_remote[160];  /* why no transport reaches it */
    int64_t link_retry_at; /* when to try to connect again; INT64_MAX: not waiting */
    int64_t link_give_up_at;
    struct nxr_conn *conn;
    struct nxr_list asks;      /* struct nxr_region_part that wait for the peer's answer */
    int event_fd;              /* of the peer, to wake it when it polls; -1: not kept */
    int pidfd;                 /* -1: not watched by descriptor */
    bool is_gone;              /* the process has ended, all of its threads */
    _Atomic int freed_failure; /* of a request that nobody waits for: nixl_flush() reports it */
    struct pid_watch *pid_watch;
    atomic_bool must_ring_fd; /* ask it to signal its event fd; any thread */
    bool must_hear_of_deaths; /* to be told of them once linked */
};

struct nxr_job {
    _Atomic int state; /* enum nxr_state */
    int n_inits;       /* init_lock in init.c */
    int rank;
    int size;
    bool is_multithreaded;
    bool is_alone;   /* no launcher */
    bool is_leaving; /* in the last finalize: all others are, too */
    bool is_crowded; /* more ranks than cores on this host: spin little */
    int64_t spin_ns;
    struct nxr_card card;

    struct nxr_control *control; /* my own page, mapped whole */
    int control_fd;
    int event_fd;

    pthread_mutex_t lock;
    struct nxr_peer **peers; /* [size]; NULL until needed; release-stored under lock */
    uint32_t n_guards;       /* guard indices given out */
    unsigned n_starts;       /* how often nixl_init() has made a job */
};

extern struct nxr_job nxr_job;

/* NIXL_OK, or the reason why no call can be made; records the failure of `operation`. */
int nxr_check_ready(const char *operation);

static inline bool nxr_is_ready(void)
{
    return atomic_load_explicit(&nxr_job.state, memory_order_relaxed) == NXR_STATE_READY;
}

static inline bool nxr_is_rank(int rank)
{
    return rank >= 0 && rank < nxr_job.size;
}

/* A bad rank: records the failure. */
int nxr_fail_rank(const char *operation, int rank);

/* ---- peers (peer.c) -------------------------------------------------------------------------- */

/* The peer of a rank, made if need be; NULL where memory is short. Any thread, without job.lock. */
struct nxr_peer *nxr_peer_get(int rank);

/* The same for holders of job.lock. */
struct nxr_peer *nxr_peer_get_locked(int rank);

/* The peer, if it was made already. Any thread. */
static inline struct nxr_peer *nxr_peer_find(int rank)
{
    return atomic_load_explicit((struct nxr_peer * _Atomic *)&nxr_job.peers[rank],
                                memory_order_acquire);
}

static inline bool nxr_peer_is_up(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->link, memory_order_acquire) == NXR_LINK_UP;
}

static inline bool nxr_peer_is_lost(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->state, memory_order_acquire) != NIXL_PEER_ALIVE;
}

void nxr_peers_free(void);

/* Connect to the peer, or find that it is remote. NIXL_OK when that is known, in time. */
int nxr_peer_connect(struct nxr_peer *peer, int64_t timeout_ns);

/* ---- in-flight slots (guard.c) --------------------------------------------------------------- */

/*
 * Wait until no living peer has a copy in flight in the own region `id`, whose generation is
 * cleared.
 */
int nxr_guard_quiesce_own(uint32_t id, int64_t timeout_ns);

/* A slot in the own page, for the service thread when it copies for others; NULL: all are taken. */
struct nxr_guard_slot *nxr_guard_claim_own(void);

/* Has a thread of this process a copy in flight in that part, whose generation is cleared? */
bool nxr_guard_is_busy_here(const struct nxr_part *part);

/* Forget all slots of all threads; the pages that they lie in are about to be unmapped. */
void nxr_guard_reset(void);

#endif
