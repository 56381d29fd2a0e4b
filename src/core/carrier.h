/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a peer is reached for everything but its memory: control messages, wake-ups, and what is
 * known of its process. There are two carriers: host (sockets and control pages) and net (network
 * modules). A peer has the host carrier until it is connected; connecting chooses the carrier.
 * All calls hold job.lock unless they say otherwise.
 */
#ifndef NXR_CORE_CARRIER_H
#define NXR_CORE_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nxr_conn;
struct nxr_full_card;
struct nxr_peer;
struct nxr_published;
union nxr_wire_message;

struct nxr_carrier {
    const char *name;

    /*
     * Add a peer whose card is known: set this carrier's state of the peer, and peer->carrier.
     * NIXL_OK, or a failure and one line in `why`. NULL: the carrier connects by messages of its
     * own.
     */
    int (*add_peer)(struct nxr_peer *peer, const struct nxr_full_card *card, char *why,
                    size_t why_nbytes);

    /*
     * Start looking for a route to a peer, unless that has been started. NULL: not the carrier that
     * starts it.
     */
    void (*want)(struct nxr_peer *peer);

    /* Send a message without descriptors; it waits for a connection if it must. */
    void (*send)(struct nxr_peer *peer, const union nxr_wire_message *message);

    /*
     * Send *key, the key of an own region, on that connection (NULL: the carrier has one way only),
     * with what the carrier's peers need beside it: a descriptor, or a network's key.
     */
    void (*send_key)(struct nxr_peer *peer, struct nxr_conn *conn, union nxr_wire_message *key,
                     struct nxr_published *published);

    /*
     * A peer that has the key of an own region is about to hear that the region is revoked: note
     * what quiesce() must wait for. NULL: nothing.
     */
    void (*revoking)(struct nxr_peer *peer, const struct nxr_published *published);

    /*
     * A peer has revoked its region of that id and generation: end what the carrier itself does
     * with it. NULL: nothing.
     */
    void (*revoked)(struct nxr_peer *peer, uint32_t id, uint64_t generation);

    /*
     * Wait until no peer of the carrier reads or writes a revoked region by itself. NIXL_OK,
     * NIXL_INPROGRESS, NIXL_E_TIMEOUT. Without job.lock. NULL: never does one.
     */
    int (*quiesce)(const struct nxr_published *published, int64_t timeout_ns);

    /*
     * A region was made for this rank's own operations alone: do once what each would need of its
     * memory. forget() follows. NULL: nothing.
     */
    void (*own_local)(struct nxr_published *published);

    /* Drop what the carrier keeps of a revoked region. NULL: it keeps nothing. */
    void (*forget)(struct nxr_published *published);

    /* Make the peer signal its own event fd. NULL: never needed. */
    void (*ring)(struct nxr_peer *peer);

    /*
     * Has the peer's process ended with all its threads, so that it can write nothing any more?
     * NULL: it cannot know.
     */
    bool (*is_gone)(struct nxr_peer *peer);

    /*
     * Is it known that no connection can be made to the peer, which has not answered `within` that
     * time? One line in `why`. Any thread. NULL: it cannot know.
     */
    bool (*is_unconnected)(const struct nxr_peer *peer, const char *within, char *why,
                           size_t why_nbytes);
};

/*
 * Set the carrier of peers that are not connected, and that of other hosts. Call while nothing
 * runs.
 */
void nxr_carriers_set(const struct nxr_carrier *first, const struct nxr_carrier *far);
const struct nxr_carrier *nxr_carrier_first(void);
const struct nxr_carrier *nxr_carrier_far(void);

#endif
