/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between service threads: a local socket per rank (local_socket.h), named by its
 * nonce, that preserves message boundaries and passes descriptors. Ranks that do not see each
 * other's sockets count as ranks on different hosts.
 *
 * A connection is opened when there is something to send. The side that opened it closes it when
 * it is idle, which keeps the number of descriptors low; before that it reads everything the other
 * side has sent. Messages that one connection could not send go over the next one, in order,
 * except questions and answers about keys: the asker repeats its question. All functions: caller
 * holds job.lock.
 */
#ifndef NXR_HOST_CONN_H
#define NXR_HOST_CONN_H

#include "core/service.h"
#include "control/wire.h"

#define NXR_CONN_SOCKET "rank" /* what the socket is for, as part of its name */

struct nxr_conn {
    struct nxr_watch watch;
    struct nxr_list link; /* all connections */
    int fd;
    bool is_mine;    /* opened by this side, which also closes it */
    bool is_greeted; /* HELLO and WELCOME were exchanged */
    bool is_closed;  /* to be freed at the next tick, by next_closed */
    bool is_writing; /* waits for room in the socket */
    bool is_starved; /* a message waits for free descriptors here: not watched until a tick */
    pid_t pid;       /* of the other end, as reported by the kernel */
    int64_t used_at;
    struct nxr_conn *next_closed;
    struct nxr_peer *peer;  /* NULL on the accepting side before the greeting */
    struct nxr_list out;    /* struct nxr_unsent: wait for the greeting or for room */
    struct nxr_list parked; /* struct nxr_parked: queries for names that are not published yet */
};

/* Start listening. NIXL_OK or the failure. */
int nxr_conn_listen(void);

/* Close everything. */
void nxr_conn_stop(void);

/*
 * Open a connection to a peer whose card is known, as the peer's conn, and send HELLO. NIXL_OK;
 * NIXL_E_AGAIN: its queue is full or the connection broke at once, try again soon;
 * NIXL_E_PEER_LOST: nobody listens there; NIXL_E_LIMIT: no descriptor; NIXL_E_UNSUPPORTED: a
 * process of another user, *user_p, listens there.
 */
int nxr_conn_open(struct nxr_peer *peer, uid_t *user_p);

/*
 * Send a message to a connected peer; reopens the connection if it was dropped. The message is
 * delivered once and in order, unless the peer dies.
 */
void nxr_conn_send(struct nxr_peer *peer, const union nxr_wire_message *message);

/*
 * The same with a descriptor, which belongs to the message from now on: it may have to wait while
 * there is no descriptor for a duplicate. NIXL_OK or NIXL_E_NO_MEMORY.
 */
int nxr_conn_send_fd(struct nxr_peer *peer, const union nxr_wire_message *message, int fd);

/*
 * Send a message over a given connection. The caller keeps ownership of `fds`. A greeting or a key
 * that must wait, and for whose descriptors there are no duplicates, closes the connection: the
 * peer sees that, and what it had asked for is asked again.
 */
void nxr_conn_send_on(struct nxr_conn *conn, const union nxr_wire_message *message, const int *fds,
                      int n_fds);

/* Open a connection for messages that a broken one left unsent. */
void nxr_conn_send_unsent(struct nxr_peer *peer);

/* HELLO or WELCOME was valid: messages may flow. HELLO is answered. */
void nxr_conn_greeted(struct nxr_conn *conn, struct nxr_peer *peer);

/*
 * Out of descriptors: close the greeted connection that has been idle longest. False: there is
 * none, or what waits in each needs descriptors.
 */
bool nxr_conn_make_room(void);

/* Drop a connection whose other end violated the protocol; `why` goes to the log. */
void nxr_conn_refuse(struct nxr_conn *conn, const char *why);

/* Close a connection and deal with everything that waits on it. It is freed at the next tick. */
void nxr_conn_close(struct nxr_conn *conn);

/* Drop connections that are idle or were never greeted. Returns when to call again. */
int64_t nxr_conn_tick(int64_t now);

extern const struct nxr_subsystem nxr_conn_subsystem;

#endif
