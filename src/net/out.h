/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing messages: the batch of a peer, in which records gather, the bulk behind a message, and
 * the queue of messages for which the module had no room. A peer receives records in the order in
 * which they were appended. Caller holds nxr_net.lock.
 */
#ifndef NXR_NET_OUT_H
#define NXR_NET_OUT_H

#include "net/state.h"

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
    struct net_out **out_p; /* set, before anything can leave, to the message; or NULL */
    uint64_t flush;         /* the flush to ask for in the same message; 0: none */
    bool may_wait;          /* for records that follow at once; see nxr_net_push() */
};
int nxr_net_send_bulk(struct net_peer *np, enum nxr_net_type type, const void *body,
                      size_t body_nbytes, const struct net_bulk *bulk);

/*
 * The bulk of a message that has not left is to be reused: send the rest from a copy. Its `left` is
 * not called any more. False: the network cannot, or the copy would be too large.
 */
bool nxr_net_bulk_keep(struct net_out *out);

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

#endif
