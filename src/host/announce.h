/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks of one job connect without a socket. A card tells where its rank's control page is: the
 * descriptor of a process, which others of the same user open through /proc. A rank maps a peer's
 * page, announces itself there (credits[].announced_by) and calls the peer. The mapping is proof
 * that both share the host, so the peer is connected then; it does the same when it finds the
 * announcement, before it looks at what the rank has written to it. Where that does not work, as
 * between containers, ranks connect by socket (conn.h). All functions: caller holds job.lock,
 * unless they say otherwise.
 */
#ifndef NXR_HOST_ANNOUNCE_H
#define NXR_HOST_ANNOUNCE_H

#include "core/job.h"

/* Does the card tell where the peer's page is, in this process's PID and network namespaces? */
bool nxr_announce_may(const struct nxr_peer *peer, const struct nxr_card *card);

/*
 * Map the page of a peer whose card is known, and announce this rank there. False: that does not
 * work, or was tried before.
 */
bool nxr_announce(struct nxr_peer *peer);

/* Has the peer announced itself here? Then it is on this host, and may have written here. */
bool nxr_announce_is_met(const struct nxr_peer *peer);

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

/*
 * A peer ends: if it was never connected, what it has written here is received all the same.
 */
void nxr_announce_hear_out(struct nxr_peer *peer);

/* Open the bell, which wakes the service thread to take them. NIXL_OK or the failure. */
int nxr_announce_listen(void);
void nxr_announce_stop(void);

#endif
