/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks on other hosts: what the rest of the core calls.
 *
 * The protocol is written once, here: puts, gets, notifications, words, keys and control travel as
 * records inside of messages, which a network (transports/network.h) carries in order; bulk goes
 * beside them. The target's core places every byte after checking generation and range, so that a
 * message cannot write outside of a region, and a close needs no answer from peers; only where the
 * network itself reads and writes (RMA), a close waits until every peer has let go.
 *
 * Lock: nxr_net.lock (net/state.h) guards everything of this folder. It is taken inside of job.lock
 * and of a peer's send_lock; under it neither is taken, so that what needs job.lock is put off and
 * done after the round.
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
 * Their addresses are appended to the card. A network that cannot be used is no failure: the reason
 * is kept for whom it concerns.
 */
void nxr_net_start(struct nxr_full_card *card);

/* Say good-bye to all peers; then, with the service thread ended, close everything. */
void nxr_net_leave(void);
void nxr_net_stop(void);

/* ---- peers: caller holds job.lock ------------------------------------------------------------ */

/*
 * Find the networks that this process and a peer whose card is `card` have in common. NIXL_OK:
 * peer->transport is set to the best, and again when another one turns out to get through.
 * NIXL_ERR_UNSUPPORTED: one line in `why`.
 */
int nxr_net_link(struct nxr_peer *peer, const struct nxr_full_card *card, char *why,
                 size_t why_nbytes);

/* A control message that needs no descriptor. */
void nxr_net_control(struct nxr_peer *peer, const union nxr_wire_message *message);

/* The key of an own region, with what the network adds to it. */
void nxr_net_send_key(struct nxr_peer *peer, struct nxr_conn *conn, uint64_t ask,
                      struct nxr_published *published);

/* An own region is revoked: tell a peer that has its key. */
void nxr_net_send_closed(struct nxr_peer *peer, const struct nxr_published *published);

/* ---- without job.lock ------------------------------------------------------------------------ */

/* Slots of the peer's ring were given back: tell it. */
void nxr_net_send_credit(struct nxr_peer *peer);

/* Wait until no peer reads or writes the revoked region by itself; as nxr_guard_quiesce_own(). */
int nxr_net_quiesce(const struct nxr_published *published, int64_t timeout_ns);

/* Nobody reaches the region any more: its registrations end. Caller holds job.lock. */
void nxr_net_forget(struct nxr_published *published);

/* Is the part device memory that its network cannot reach by itself? */
static inline bool nxr_net_needs_window(const struct nxr_part *part)
{
    return part->key.kind != NIXL_MEM_HOST && part->is_in_pieces;
}

/* ---- progress (net/poll.c) ------------------------------------------------------------------- */

/*
 * Look after the networks once, from a thread of the user that waits: from now on this thread, not
 * the service thread, is woken by nothing and looks itself. `now` is what nxr_now_ns() has just
 * told. Has anything moved?
 */
bool nxr_net_poll(int64_t now);

/* A thread of the user returns from a wait that was longer than spinning lasts. */
void nxr_net_long_wait_ended(void);

/* The user's thread goes to sleep, or arms its event fd: the service thread watches again. */
void nxr_net_hand_over(void);

/* The service thread's turn, without job.lock: what its descriptors woke it for. */
void nxr_net_serve(void);

/* Begin and end to be watched by the service thread. */
int nxr_net_watch_start(void);
void nxr_net_watch_stop(void);

/* Timers: silent peers. When to look again. Caller holds job.lock. */
int64_t nxr_net_tick(int64_t now);

/*
 * Whoever waited for a rank, for a time that has that name, has had no answer: is that since no
 * connection came about? Then why, in words.
 */
bool nxr_net_is_unconnected(const struct nxr_peer *peer, const char *within, char *why,
                            size_t why_nbytes);

/* ---- asking about it ------------------------------------------------------------------------- */

/* The networks that this build knows, in the order of their names in NIXLRUN_TRANSPORTS. */
size_t nxr_net_count(void);
const char *nxr_net_name(size_t index);

/*
 * What the user should know of the i-th one, and whether and why not it serves a peer that is
 * linked. Caller holds job.lock.
 */
void nxr_net_ask(size_t index, const struct nxr_peer *peer, struct nixl_route_info *info);

/*
 * How memory of that kind comes into the network that carries bulk to a linked peer, in words:
 * "direct...", or "through host memory...". The peer may say otherwise of its own.
 */
const char *nxr_net_memory(const struct nxr_peer *peer, enum nixl_mem_kind kind);

/* What is expected of the way to a peer that a network reaches. */
void nxr_net_expect(const struct nxr_peer *peer, uint64_t *latency_ns_p,
                    uint64_t *bandwidth_mbps_p);

extern const struct nxr_carrier nxr_net_carrier;
extern const struct nxr_subsystem nxr_net_subsystem;

extern const struct nxr_subsystem nxr_net_modules_subsystem;

#endif
