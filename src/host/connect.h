/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to a peer: its card, the socket to its service thread, the proof that it is on
 * this host (its control page holds the nonce of its card), and the mapping. Each end finds the
 * other's page by itself (announce.h), or they exchange pages by socket: the connecting end shows
 * the other's secret and passes its own page, and the accepting end answers with its page. Without
 * that proof a peer counts as on another host, reachable only through a network. All functions:
 * caller holds job.lock, unless they say otherwise.
 */
#ifndef NXR_HOST_CONNECT_H
#define NXR_HOST_CONNECT_H

#include "control/wire.h"
#include "core/job.h"

/* The carrier for peers on this host; its want() starts to connect a peer. */
extern const struct nxr_carrier nxr_host_carrier;

/* What a greeting has brought. */
struct nxr_greeted {
    const struct nxr_card *card;
    int control_fd;
    int rings_fd;  /* of an attached process; else -1 */
    int *event_fd; /* -1: none; set to -1 if it is kept */
    int place;     /* the number by which the sender names this process */
    pid_t pid;     /* of the sender; 0: it is not seen from here */
    int socket;    /* it came over this one */
};

/*
 * Use the control page that a peer has sent, and that is mapped, unless the peer is connected
 * already. The other descriptors stay the caller's.
 */
void nxr_connect_adopt(struct nxr_peer *peer, const struct nxr_greeted *greeted);

/* The connection to a peer was closed: schedule a new one if something needs it. */
void nxr_connect_conn_closed(struct nxr_peer *peer);

/* Send all unanswered questions of that peer again. */
void nxr_connect_ask_again(struct nxr_peer *peer);

/*
 * Do what peers ask for in this rank's control page. Has anything been done? Any thread, without
 * job.lock; installed in nxr_pollers (core/poll.h).
 */
bool nxr_connect_serve_asked(void);

/* Handle arrived cards and retry connections. Returns when to call again. */
int64_t nxr_connect_tick(int64_t now);

/* Undo a mapping; nothing uses it any more. */
void nxr_connect_unmap(struct nxr_peer *peer);

/* Discard cards that arrive from now on. The service thread has ended. */
void nxr_connect_stop(void);

/* Connect this rank to itself, through its own page. */
void nxr_connect_self(struct nxr_peer *self);

extern const struct nxr_subsystem nxr_connect_subsystem;

#endif
