/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between service threads: an abstract Unix socket per rank, named by its nonce, that
 * keeps message borders and passes descriptors. Abstract names vanish with their process, so there
 * is nothing to sweep; they are seen only inside one network namespace, and ranks in different ones
 * count as different hosts. There is no path socket.
 *
 * A connection is opened when there is something to say. The side that opened it closes it when it
 * is idle, so that few descriptors do. It reads first what the other side has sent until then. What
 * one connection could not send goes over the next one, in order. Questions and answers about keys
 * are the exception: the asker repeats its question.
 * All functions: caller holds job.lock.
 */
#ifndef NXR_HOST_CONN_H
#define NXR_HOST_CONN_H

#include "core/service.h"
#include "control/wire.h"

struct nxr_conn {
    struct nxr_watch watch;
    struct nxr_list link; /* all connections */
    int fd;
    bool is_mine;    /* opened by this side, which also closes it */
    bool is_greeted; /* HELLO and WELCOME have passed */
    bool is_closed;  /* to be freed at the end of the round */
    bool is_writing; /* waits for room in the socket */
    pid_t pid;       /* of the other end, from the kernel */
    int64_t used_at;
    struct nxr_peer *peer;  /* NULL before the greeting on the accepting side */
    struct nxr_list out;    /* struct out_message: wait for the greeting or for room */
    struct nxr_list parked; /* struct nxr_parked: names asked for that are not published yet */
};

/* Begin to listen. NIXL_OK or the failure. */
int nxr_conn_listen(void);

/* Close everything. */
void nxr_conn_stop(void);

/*
 * Open a connection to a peer whose card is there, as peer->conn, and greet. NIXL_OK;
 * NIXL_ERR_AGAIN: its queue is full, try again soon; NIXL_ERR_PEER_LOST: nobody listens there;
 * NIXL_ERR_LIMIT: no descriptor; NIXL_ERR_UNSUPPORTED: another user listens there, *user_p.
 */
int nxr_conn_open(struct nxr_peer *peer, uid_t *user_p);

/*
 * Send a message to a connected peer; opens the connection again if it was dropped. `fds` stay the
 * caller's. Delivered once and in order, unless the peer dies.
 */
void nxr_conn_send(struct nxr_peer *peer, const union nxr_wire_message *message, const int *fds,
                   int n_fds);

/* The same over a given connection. */
void nxr_conn_send_on(struct nxr_conn *conn, const union nxr_wire_message *message, const int *fds,
                      int n_fds);

/* Open a connection for what a broken one has left unsent; or forget that: the peer is no more. */
void nxr_conn_send_unsent(struct nxr_peer *peer);
void nxr_conn_drop_unsent(struct nxr_peer *peer);

/* HELLO or WELCOME was good: messages may flow. */
void nxr_conn_greeted(struct nxr_conn *conn, struct nxr_peer *peer);

/* Drop a connection whose other end has sent what it may not. */
void nxr_conn_refuse(struct nxr_conn *conn, const char *why);

/* Drop a connection; what waits on it is told. Freed at the next tick. */
void nxr_conn_close(struct nxr_conn *conn);

/* Drop what is idle or never greeted; when to look again. */
int64_t nxr_conn_tick(int64_t now);

extern const struct nxr_subsystem nxr_conn_subsystem;

#endif
