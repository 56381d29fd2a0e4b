/* SPDX-License-Identifier: Apache-2.0 */
/* One connection, from its hellos to its end. */
#ifndef NXR_TCP_CONNECTION_H
#define NXR_TCP_CONNECTION_H

#include "tcp.h"

enum nxr_tcp_stage {
    NXR_TCP_CONNECTING,   /* own: the kernel is at it */
    NXR_TCP_WANTS_ANSWER, /* own: the hello has left */
    NXR_TCP_WANTS_HELLO,  /* of another: accepted */
    NXR_TCP_WANTS_CONFIRM,
    NXR_TCP_OPEN,
    NXR_TCP_DEAD,
};

struct nxr_tcp_conn {
    struct nxr_tcp_watch watch;
    struct nxr_tcp_timer timer; /* of what is not open */
    struct nxr_list link;       /* nxr_tcp.conns or nxr_tcp.dead */
    struct nxr_list peer_link;  /* nxr_tcp_peer.conns */
    enum nxr_tcp_stage stage;
    bool is_own;           /* made by this process */
    bool is_hot;           /* in nxr_tcp.hot */
    bool wants_room;       /* the kernel has taken no more */
    bool is_muted;         /* epoll does not tell of what comes: it is hot */
    bool is_heard_out;     /* after another one of its peer was closed */
    bool drops;            /* what comes is not wanted any more */
    unsigned n_finds;      /* looks that found something, since somebody wanted to sleep */
    unsigned n_empty;      /* looks in a row that found nothing, while it is hot */
    unsigned found_at;     /* which of the events was its last one */
    uint32_t rank;         /* whose; known behind its hello */
    uint64_t answer;       /* ... and what it has shown */
    char ends[128];        /* in words, once it is open: of one that is broken nobody knows them */
    struct nxr_net_ep *ep; /* that sends on it, or for which it is made */

    /* In: a hello, or a message that is not whole; or bulk. */
    size_t read_nbytes; /* how much to read where it is not known what comes */
    size_t n_held;
    size_t held_nbytes; /* room */
    unsigned char *held;
    bool has_bulk;
    char *bulk; /* where the rest goes; NULL: it is dropped */
    uint64_t bulk_left;
    void *cookie;
};

/* Take charge of a socket, which is closed where that fails. NULL: no memory, or no room. */
struct nxr_tcp_conn *nxr_tcp_conn_new(int fd, enum nxr_tcp_stage stage);

/* Let go of it: nothing is told of it but to whom its bulk belongs. Freed by progress(). */
void nxr_tcp_conn_close(struct nxr_tcp_conn *conn);
void nxr_tcp_conns_free(void);

/* Read what has come of a hello. */
void nxr_tcp_read_hello(struct nxr_tcp_conn *conn);

/* It cannot be used any more: close it, and see to whom that matters. */
void nxr_tcp_conn_lost(struct nxr_tcp_conn *conn, const char *why);

/* Tell when the kernel takes more, or not any longer. */
void nxr_tcp_conn_wants_room(struct nxr_tcp_conn *conn, bool wants_room);

/* Let epoll not tell of what comes, or tell again. */
void nxr_tcp_conn_mute(struct nxr_tcp_conn *conn, bool is_muted);

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Read some of what has come. How many things moved. */
int nxr_tcp_read(struct nxr_tcp_conn *conn);

/* The bulk that is coming has ended early. */
void nxr_tcp_bulk_end(struct nxr_tcp_conn *conn);

/* Look at those that spoke lately. How many things moved. */
int nxr_tcp_read_hot(void);
void nxr_tcp_unmute_hot(void);
void nxr_tcp_cool(struct nxr_tcp_conn *conn);

#endif
