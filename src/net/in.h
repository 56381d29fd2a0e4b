/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incoming messages and bulk, the work that they defer until job.lock can be taken, and signs of
 * life. Records of a peer are taken in the order in which they were sent, pending ones after the
 * bulk that was sent before them. Caller holds nxr_net.lock, unless stated otherwise.
 */
#ifndef NXR_NET_IN_H
#define NXR_NET_IN_H

#include "net/state.h"

/* ---- in.c ------------------------------------------------------------------------------------ */

/* Take the records of a message whose head was checked, starting at offset `at`. */
void nxr_net_take_records(struct net_peer *np, const unsigned char *bytes, size_t nbytes,
                          size_t at);

/* Take a record once the bulk that was sent before it has landed. */
void nxr_net_take_after_bulk(struct net_peer *np, const struct nxr_net_record *record,
                             net_take_fn *take);

/* Take the pending records whose bulk has landed. */
void nxr_net_run_pending(struct net_peer *np);

uint64_t nxr_net_own_token(void);

/*
 * The sender of a message, by the number that calls name it by. -1: the message is dropped, as its
 * head is not valid, its sender is neither of the job nor attached, or the sender is another
 * process than the one that is connected as that rank.
 */
int nxr_net_sender(const void *bytes, size_t nbytes);
void nxr_net_received(const void *bytes, size_t nbytes);

/* ---- bulk.c ---------------------------------------------------------------------------------- */

void *nxr_net_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p);
void nxr_net_landing(void *cookie, size_t nbytes);

/* ---- posted.c -------------------------------------------------------------------------------- */

/* Where bulk goes whose place in an own region is `place`: there, or into a posted buffer. */
char *nxr_net_posted_place(struct net_landing *landing, const struct net_range *range, char *place);

/* The bulk has landed, or never will. */
void nxr_net_posted_landed(struct net_landing *landing, int status);

/* ---- later.c --------------------------------------------------------------------------------- */

/* Defer something until job.lock can be taken. */
void nxr_net_later(enum net_later_what what, int rank, const void *bytes, size_t nbytes);

/* The next deferred entry, which the caller frees; NULL: there are no more. Takes the lock. */
struct net_later *nxr_net_later_next(void);

/*
 * The next rank to lose because memory ran out, and its process then, or NULL if it was not known;
 * it is returned once. -1: there is none. Takes the lock.
 */
int nxr_net_later_lost(const struct nxr_peer **peer_p);

/* As numbers_grow() of struct nxr_subsystem. */
bool nxr_net_numbers_grow(int n_numbers);

/* Are earlier messages from that rank deferred? Caller holds the lock. */
bool nxr_net_is_behind(int rank);

/* Free what is still deferred. Only one thread is left. */
void nxr_net_later_drop_all(void);

/* There is no memory to serve this peer: it will be lost. */
void nxr_net_give_up(struct net_peer *np);

/* ---- deferred.c ------------------------------------------------------------------------------ */

/* Do the deferred work. Without locks held. */
void nxr_net_run_later(void);

/* ---- alive.c --------------------------------------------------------------------------------- */

/* The peer has shown that it is alive: nbytes arrived from it, or an operation at it ended (0). */
void nxr_net_lives(struct net_peer *np, size_t nbytes);

net_take_fn nxr_net_take_ping;

/* ---- poll.c ---------------------------------------------------------------------------------- */

/*
 * The peer has ended, as something else has told: take in what it had sent, as far as that has come
 * to this host. Without the lock; with job.lock.
 */
void nxr_net_hear_out(struct net_peer *np);

#endif
