/* SPDX-License-Identifier: Apache-2.0 */
/* What this folder keeps of each peer. Lock: job.lock, except for words. */
#ifndef NXR_HOST_PEER_H
#define NXR_HOST_PEER_H

#include "core/job.h"
#include "core/peer_slot.h"
#include "core/service.h"
#include "util/symbol.h"

struct nxr_asked;
struct nxr_conn;

struct host_peer {
    struct nxr_peer *peer;
    struct nxr_asked *_Atomic asked; /* words it is asked to change (atomic_ask.c); NULL: none */
    uint64_t n_atomics_served;       /* words it has asked for; serve_lock of atomic_serve.c */
    _Atomic uint32_t n_words_served; /* of them, those in device memory that are being changed */

    /* Messages (conn.c). */
    struct nxr_conn *conn;
    struct nxr_list unsent; /* struct nxr_unsent: for the next connection */
    bool is_given_up;       /* a message that it needs is lost (unsent.c) */

    /* Mapped, as peer->out is (mapping.c), once it has greeted or this rank announced itself. */
    struct nxr_control *page;

    /* Connecting it (connect.c). */
    int64_t retry_at; /* when to try to connect again; INT64_MAX: not waiting */
    int64_t give_up_at;
    int64_t refused_until; /* it is lost if nobody listens on its socket by then; 0: not checked */
    bool is_heard_out;     /* what it wrote here is received, though it was never connected */

    /* Its process (liveness.c). */
    struct nxr_watch pid_watch; /* of pidfd */
    int pidfd;                  /* -1: not watched by descriptor */
    bool is_unwatched;          /* not watched by descriptor: counted in n_unwatched */
    bool is_gone;               /* the process has ended, all of its threads */
};

extern NXR_HIDDEN struct nxr_peer_slot nxr_host_slot; /* of nxr_connect_subsystem */

static inline struct host_peer *host_peer_of(const struct nxr_peer *peer)
{
    return nxr_peer_slot_of(peer, &nxr_host_slot);
}

/* peer_init of the subsystem. */
bool nxr_host_peer_init(struct nxr_peer *peer);

#endif
