/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks of one job connect without a socket. A card gives the pid of its rank and the number of
 * the descriptor of the control page, which processes of the same user open through /proc. A rank
 * maps a peer's page, announces itself there (credits[].announced_by) and wakes a thread of the
 * peer. The mapping proves that both share the host, so the rank counts the peer as connected and
 * may write to it. The peer does the same when it finds the announcement, and then receives what
 * was written. Where /proc does not give the page, as between containers, ranks connect by socket
 * (conn.h). All functions: caller holds job.lock, unless they say otherwise.
 */
#ifndef NXR_HOST_ANNOUNCE_H
#define NXR_HOST_ANNOUNCE_H

#include "core/job.h"

/* May this rank look for the page in /proc: are both in one PID and one network namespace? */
bool nxr_announce_may(const struct nxr_peer *peer, const struct nxr_card *card);

/*
 * Map the page of a peer whose card is known, and announce this rank there. False: the page cannot
 * be opened or mapped, the peer cannot be woken, or this rank has announced itself before.
 */
bool nxr_announce(struct nxr_peer *peer);

/* Has the peer announced itself here? Then it is on this host, and may have written here. */
bool nxr_announce_came_from(const struct nxr_peer *peer);

/*
 * Read the card of a peer that has announced itself, from its page: without addresses, checked.
 * False: it has not, or its page cannot be read here.
 */
bool nxr_announce_read_card(const struct nxr_peer *peer, struct nxr_full_card *card_p);

/*
 * Are there announcements to take? Before a rank has joined it does not know the others. Any
 * thread, without job.lock.
 */
bool nxr_announce_has_come(void);

/* Call `fn` for each peer that has announced itself since the last time. */
void nxr_announce_take(void (*fn)(struct nxr_peer *peer));

/* A peer is about to be lost: receive what it has written here even if it was never connected. */
void nxr_announce_hear_out(struct nxr_peer *peer);

/* Open the bell, which wakes the service thread to take them. NIXL_OK or the failure. */
int nxr_announce_listen(void);
void nxr_announce_stop(void);

#endif
