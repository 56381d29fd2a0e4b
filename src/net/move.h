/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of this process on other hosts: puts, gets, lists and atomics under way, the segments
 * that they use, order and notifications. A move ends once, and its request is completed after
 * that, without the lock. Caller holds nxr_net.lock, unless stated otherwise; functions of the
 * tables of transports and carriers take it themselves.
 */
#ifndef NXR_NET_MOVE_H
#define NXR_NET_MOVE_H

#include "net/state.h"

/* ---- move.c ---------------------------------------------------------------------------------- */

/* Can the segment be used? NIXL_OK, NIXL_E_STALE, NIXL_E_PEER_LOST. */
int nxr_net_check_segment(const struct net_peer *np, const struct nxr_segment *segment);

/* Append a record with a small put. The caller pushes. */
int nxr_net_append_put(struct net_peer *np, const struct nxr_segment *segment, uint64_t offset,
                       const void *src, size_t nbytes);

/* Does a move use the segment? */
bool nxr_net_moves_use(const struct net_peer *np, const struct net_segment *segment);

/* End a move; its request is completed by nxr_net_tell_ended(). */
void nxr_net_move_end(struct net_move *move, int status);

struct net_move *nxr_net_move_find(struct net_peer *np, uint64_t id);
void nxr_net_moves_drop(struct net_peer *np);

/* The bulk of a move has left or has arrived: end the move. */
void nxr_net_bulk_left(void *move, int status);

/*
 * Turn the outcome of a module's operation into the user's: on NIXL_E_TRANSPORT the peer counts
 * as lost, and the result is NIXL_E_PEER_LOST.
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
                      const struct nxr_piece *pieces, size_t n_pieces, uint64_t total_nbytes,
                      size_t *n_done_p);

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

int nxr_net_notify(struct nxr_peer *peer, const struct nxr_message *message);
int nxr_net_put_notify(struct nxr_segment *segment, const struct nxr_put_notify *what);

/* ---- expect.c -------------------------------------------------------------------------------- */

/*
 * A transfer of nbytes begins for a peer: raise the service thread's priority while it lasts, so
 * that the peer does not wait for this process's computation.
 */
void nxr_net_serve_large(const struct net_peer *np, size_t nbytes);

/* A transfer of nbytes begins: threads that wait poll rather than sleep while it lasts. */
void nxr_net_peer_expect(const struct net_peer *np, size_t nbytes);

/* ---- transport.c, peer.c --------------------------------------------------------------------- */

struct nxr_transport nxr_net_transport(const char *name, unsigned cost);

/* Close the endpoints to all peers. */
void nxr_net_peers_close(void);

#endif
