/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a peer is reached for everything but its memory: control messages, wake-ups, and what is
 * known of its process. There are two carriers: host (sockets and control pages) and net (network
 * modules). A peer has the host's until it is linked; linking decides. All calls hold job.lock
 * unless they say otherwise.
 */
#ifndef NXR_CORE_CARRIER_H
#define NXR_CORE_CARRIER_H

#include <stdbool.h>
#include <stddef.h>

struct nxr_full_card;
struct nxr_peer;
union nxr_wire_message;

struct nxr_carrier {
    const char *name;

    /*
     * Link a peer whose card is known: set what this carrier has of it, and peer->carrier. NIXL_OK,
     * or one line in `why`. NULL: it links by messages of its own.
     */
    int (*link)(struct nxr_peer *peer, const struct nxr_full_card *card, char *why,
                size_t why_nbytes);

    /* Begin to find the way to a peer, if nobody has. NULL: not the one that begins. */
    void (*want)(struct nxr_peer *peer);

    /* Send a message without descriptors; it waits for a connection if it must. */
    void (*send)(struct nxr_peer *peer, const union nxr_wire_message *message);

    /* Make the peer signal its own event fd. NULL: never needed. */
    void (*ring)(struct nxr_peer *peer);

    /*
     * Has its process ended with all its threads, so that it writes nothing any more? Takes
     * job.lock. NULL: it cannot know.
     */
    bool (*is_gone)(struct nxr_peer *peer);

    /*
     * Is it known that nothing connects to the peer, which has not answered within that time? One
     * line in `why`. Any thread. NULL: it cannot know.
     */
    bool (*is_unconnected)(const struct nxr_peer *peer, const char *within, char *why,
                           size_t why_nbytes);
};

/* Set while nothing runs: the carrier of peers that are not linked, and that of other hosts. */
void nxr_carriers_set(const struct nxr_carrier *first, const struct nxr_carrier *far);
const struct nxr_carrier *nxr_carrier_first(void);
const struct nxr_carrier *nxr_carrier_far(void);

#endif
