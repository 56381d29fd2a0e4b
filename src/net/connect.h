/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which networks reach a peer, and which memory a network is given. Data goes to a network only
 * after the peer has answered there. Caller holds nxr_net.lock for the functions of connect.c;
 * those of reach.c take it where they need it.
 */
#ifndef NXR_NET_CONNECT_H
#define NXR_NET_CONNECT_H

#include "net/state.h"

/* ---- connect.c ------------------------------------------------------------------------------- */

/* Does a network reach the peer? If not, tries to reach it. Messages stay queued meanwhile. */
bool nxr_net_connect(struct net_peer *np);

/*
 * Continue trying to reach peers; takes the lock. Returns when to call again; INT64_MAX: nothing is
 * being tried.
 */
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

#endif
