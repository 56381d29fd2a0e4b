/* SPDX-License-Identifier: Apache-2.0 */
/* One connection, from its hellos to its end. */
#ifndef NXR_TCP_CONNECTION_H
#define NXR_TCP_CONNECTION_H

#include "tcp.h"
#include "transports/rail.h"

enum nxr_tcp_stage {
    NXR_TCP_CONNECTING,   /* own: connect() is in progress */
    NXR_TCP_WANTS_ANSWER, /* own: the hello was sent */
    NXR_TCP_WANTS_HELLO,  /* of another process: accepted */
    NXR_TCP_WANTS_CONFIRM,
    NXR_TCP_OPEN,
    NXR_TCP_DEAD,
};

struct nxr_tcp_rail;
struct nxr_tcp_arrival;

struct nxr_tcp_conn {
    struct nxr_tcp_watch watch;
    struct nxr_tcp_timer timer;      /* while it is not open */
    struct nxr_list link;            /* nxr_tcp.conns or nxr_tcp.dead */
    struct nxr_list process_link;    /* nxr_tcp_process.conns */
    struct nxr_tcp_process *process; /* its other end, while it is open; else NULL */
    enum nxr_tcp_stage stage;
    bool is_own;              /* made by this process */
    bool is_rail;             /* it carries pieces only */
    bool is_hot;              /* in nxr_tcp.hot */
    bool wants_room;          /* the kernel's send buffer is full */
    bool is_muted;            /* epoll does not report its input: it is hot */
    bool is_heard_out;        /* after another connection of its peer was closed */
    bool drops;               /* its input is read and dropped */
    unsigned n_finds;         /* reads that found something since the last sleep */
    unsigned n_empty;         /* reads in a row that found nothing, while it is hot */
    unsigned found_at;        /* number of its last event */
    uint32_t rank;            /* of the peer; known after its hello */
    uint64_t answer;          /* ... and the `answer` that it has shown */
    char ends[128];           /* in words, once it is open: a broken socket cannot be queried */
    struct nxr_net_ep *ep;    /* the endpoint that sends on it, or that it is being made for */
    struct nxr_net_rail rail; /* counts it, once it is open */

    /* Input: a hello, an incomplete message, or bulk. */
    size_t read_nbytes; /* how much to read when it is not known what comes */
    size_t n_held;
    size_t held_nbytes; /* room */
    unsigned char *held;
    bool has_bulk;
    char *bulk; /* where the rest goes; NULL: it is dropped */
    uint64_t bulk_left;
    void *cookie;

    /* Pieces: rails.h. */
    struct nxr_tcp_rail *carries;    /* of an endpoint here; NULL: none */
    struct nxr_list arrivals;        /* struct nxr_tcp_arrival, by number */
    bool is_piece;                   /* the bulk that is being read */
    struct nxr_tcp_piece piece;      /* ... and its head */
    struct nxr_tcp_arrival *arrival; /* ... and what it is of; NULL: it is dropped */
    unsigned char *acks;             /* struct nxr_tcp_ack that wait; NULL: none ever */
    size_t n_acks;                   /* bytes of them: the first may be half sent */
};

/* Take ownership of a socket; it is closed if that fails. NULL: no memory, or no room. */
struct nxr_tcp_conn *nxr_tcp_conn_new(int fd, enum nxr_tcp_stage stage);

/* Count what moves on an open one for the peer of its process's endpoint, if there is one. */
void nxr_tcp_conn_count(struct nxr_tcp_conn *conn);

/* Close it without reporting: only the owner of its bulk learns it. progress() frees it. */
void nxr_tcp_conn_close(struct nxr_tcp_conn *conn);
void nxr_tcp_conns_free(void);

/* The same for a rail made here: what the kernel has not sent is not sent any more. */
void nxr_tcp_conn_abort(struct nxr_tcp_conn *conn);

/* Read what has arrived of a hello. */
void nxr_tcp_read_hello(struct nxr_tcp_conn *conn);

/* It cannot be used any more: close it, and inform those that depend on it. */
void nxr_tcp_conn_lost(struct nxr_tcp_conn *conn, const char *why);

/* ---- events.c -------------------------------------------------------------------------------- */

/* Start or stop watching for room in the kernel's send buffer. */
void nxr_tcp_conn_wants_room(struct nxr_tcp_conn *conn, bool wants_room);

/* Have epoll stop or resume reporting input. */
void nxr_tcp_conn_mute(struct nxr_tcp_conn *conn, bool is_muted);

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Read some of what has arrived. Returns how many things moved. */
int nxr_tcp_read(struct nxr_tcp_conn *conn);

/* As redirect() of struct nxr_network. */
void nxr_tcp_redirect(void *cookie, const char *from, char *to);

/* The current incoming bulk has ended early. */
void nxr_tcp_bulk_end(struct nxr_tcp_conn *conn);

/* Poll the hot connections. Returns how many things moved. */
int nxr_tcp_read_hot(void);
void nxr_tcp_unmute_hot(void);
void nxr_tcp_cool(struct nxr_tcp_conn *conn);

#endif
