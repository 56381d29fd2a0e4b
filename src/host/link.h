/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to a peer: its card, the connection to its service thread, the proof that it is on this
 * host (its control page holds the nonce of its card), and the mapping. Same host is agreed by both
 * ends: who connects shows the other's secret and hands over its own page, who accepts does the
 * same. Without the proof a peer is on another host, and a network leads there or nothing does. All
 * functions: caller holds job.lock.
 */
#ifndef NXR_HOST_LINK_H
#define NXR_HOST_LINK_H

#include "control/wire.h"
#include "core/job.h"

/* Begin to make the way to a peer. */
extern const struct nxr_carrier nxr_host_carrier;

/*
 * A control page came with HELLO or WELCOME: check and map it. The event fd, if one came, is taken
 * (set to -1) when it is kept. NIXL_OK, also if the peer was linked before; other: not to be
 * trusted.
 */
int nxr_link_adopt(struct nxr_peer *peer, const struct nxr_card *card, int control_fd,
                   int *event_fd, pid_t pid);

/* The connection to a peer ended: open it again if something waits for it. */
void nxr_link_conn_closed(struct nxr_peer *peer);

/* Send all unanswered questions of that peer again. */
void nxr_link_ask_again(struct nxr_peer *peer);

/* Cards that came, connections to try again; when to look again. */
int64_t nxr_link_tick(int64_t now);

/* Undo a mapping; nothing uses it any more. */
void nxr_link_unmap(struct nxr_peer *peer);

/* The service thread has ended. */
void nxr_link_stop(void);

/* Link this rank to itself, through its own page. */
void nxr_link_self(struct nxr_peer *self);

extern const struct nxr_subsystem nxr_link_subsystem;

#endif
