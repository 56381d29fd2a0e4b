/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks on other hosts: what the rest of the core calls.
 *
 * The protocol is written once, here: puts, gets, notifications, words, keys and control travel
 * as records inside messages, which a network (transports/network.h) carries in order; bulk
 * travels beside them. The target's core places every byte, after it has checked generation and
 * range: a message cannot write outside a region, and a close needs no answer from peers. Only if
 * the network itself reads and writes the region (RMA) does a close wait until every peer has
 * released it.
 *
 * Lock: nxr_net.lock (net/state.h) guards everything in this folder. It is taken inside job.lock
 * and inside a peer's send_lock, never the other way round: work that needs job.lock is deferred
 * until after the round.
 */
#ifndef NXR_NET_NET_H
#define NXR_NET_NET_H

#include "region/publish.h"
#include "control/wire.h"
#include "core/carrier.h"
#include "core/job.h"
#include "core/poll.h"

/*
 * Find the networks' modules and open those that NIXLRUN_TRANSPORTS allows and that work here.
 * Their addresses are appended to the card. A network that cannot be used is not an error: the
 * reason is kept for diagnostics. The list of ranks is there, and empty.
 */
void nxr_net_start(struct nxr_full_card *card);

/*
 * Open them now if nixl_init() has not: a process of another job may be on another host. Their
 * addresses are appended to this process's card, which the ranks of its job have without them. Are
 * any open? Takes up to a second; other threads' calls go on meanwhile. Takes job.lock.
 */
bool nxr_net_open(void);

/* Have they been opened, as far as they can be? Caller holds job.lock. */
bool nxr_net_has_begun(void);

/* Say goodbye to all peers; then, once the service thread has ended, close everything. */
void nxr_net_leave(void);
void nxr_net_stop(void);

/* ---- peers: caller holds job.lock ------------------------------------------------------------ */

/*
 * Find the networks that this process has in common with the peer whose card is `card`. NIXL_OK:
 * peer->transport is set to the best one, and is replaced later if a different network is the one
 * that gets through. NIXL_E_UNSUPPORTED, NIXL_E_NO_MEMORY: one line in `why`.
 */
int nxr_net_add_peer(struct nxr_peer *peer, const struct nxr_full_card *card, char *why,
                     size_t why_nbytes);

/* Send a control message that carries no descriptor. */
void nxr_net_control(struct nxr_peer *peer, const union nxr_wire_message *message);

/* The carrier's functions about keys; core/carrier.h says what they do. */
void nxr_net_send_key(struct nxr_peer *peer, struct nxr_conn *conn, union nxr_wire_message *key,
                      struct nxr_published *published);
void nxr_net_revoking(struct nxr_peer *peer, const struct nxr_published *published);
void nxr_net_revoked(struct nxr_peer *peer, uint32_t id, uint64_t generation);

/* ---- without job.lock ------------------------------------------------------------------------ */

/* Tell the peer that slots of its notification ring are free again. */
void nxr_net_send_credit(struct nxr_peer *peer);

/* A call has reported that the peer dropped puts or signals: let it take what follows again. */
void nxr_net_refusal_heard(struct nxr_peer *peer);

/*
 * Wait until no peer reads or writes the revoked region through RMA; returns like
 * nxr_inflight_quiesce_own().
 */
int nxr_net_quiesce(const struct nxr_published *published, int64_t timeout_ns);

/*
 * Register a region of this rank's own operations with the networks that need that. Caller holds
 * job.lock.
 */
void nxr_net_own_local(struct nxr_published *published);

/* End the registrations of a region that nobody accesses any more. Caller holds job.lock. */
void nxr_net_forget(struct nxr_published *published);

/* Is the segment device memory that its network cannot read and write itself? */
static inline bool nxr_net_needs_window(const struct nxr_segment *segment)
{
    return segment->key.kind != NIXL_MEM_HOST && segment->is_in_pieces;
}

/* ---- progress (net/poll.c) ------------------------------------------------------------------- */

/*
 * Poll the networks once, from a waiting user thread. From now on user threads poll, and the
 * service thread no longer watches the networks' descriptors (see poll.c). `now` is a fresh value
 * of nxr_now_ns(). Has anything moved?
 */
bool nxr_net_poll(int64_t now);

/* A user thread returns from a wait that lasted longer than the spin time. */
void nxr_net_long_wait_ended(void);

/*
 * A user thread goes to sleep, or arms its event fd: the service thread watches the networks again.
 */
void nxr_net_hand_over(void);

/* The service thread handles the networks whose descriptors woke it. Without job.lock. */
void nxr_net_serve(void);

/*
 * This thread has just started an operation of that many bytes: make a round if the service thread
 * waits for the lock. Without the lock; with job.lock or without.
 */
void nxr_net_started(size_t nbytes);

/* Start and stop being watched by the service thread. */
int nxr_net_watch_start(void);
void nxr_net_watch_stop(void);

/*
 * Timers: peers that are silent or not reached yet. Returns when to call again. Caller holds
 * job.lock.
 */
int64_t nxr_net_tick(int64_t now);

/*
 * A caller waited for a rank and got no answer in time; `within` names the timeout. Was the
 * reason that no connection was established? If so, `why` says why in words.
 */
bool nxr_net_is_unconnected(const struct nxr_peer *peer, const char *within, char *why,
                            size_t why_nbytes);

/*
 * Ask a peer that a network was chosen for to answer, and has anything been heard from it? So an
 * attachment is known to work before anybody uses it. Any thread, without the lock.
 */
void nxr_net_hail(const struct nxr_peer *peer);
bool nxr_net_has_heard(const struct nxr_peer *peer);

/* ---- queries --------------------------------------------------------------------------------- */

/* The networks that this build knows, in the order of their names in NIXLRUN_TRANSPORTS. */
size_t nxr_net_count(void);
const char *nxr_net_name(size_t index);

/*
 * Describe the index-th network to the user: its properties, and whether it serves the peer or
 * why not. Caller holds job.lock.
 */
void nxr_net_ask(size_t index, const struct nxr_peer *peer, struct nixl_route_info *info);

/*
 * How memory of that kind gets to the network that carries bulk to a connected peer, in words:
 * "direct...", or "through host memory...". This is about local memory; the peer's memory may
 * differ.
 */
const char *nxr_net_memory(const struct nxr_peer *peer, enum nixl_mem_kind kind);

/* The expected latency and bandwidth to a peer that a network reaches. */
void nxr_net_expect(const struct nxr_peer *peer, uint64_t *latency_ns_p,
                    uint64_t *bandwidth_mbps_p);

extern const struct nxr_carrier nxr_net_carrier;
extern const struct nxr_subsystem nxr_net_subsystem;

extern const struct nxr_subsystem nxr_net_modules_subsystem;

#endif
