/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk over several rails. A rail is a connection between two addresses in one network; rail 0 is
 * the ordered stream, which exists anyway and carries messages, too. The others are made when there
 * is bulk for them, by the side that sends it, and carry pieces one way and acks the other way. A
 * rail is proven by its hellos before it carries anything. One that fails or is cut is left: its
 * pieces without an ack go by the others, and it is tried again: with a piece that the owner drops,
 * since a way that loses long packets lets hellos pass. If rail 0 fails, so does the endpoint.
 *
 * The bytes of an operation are the core's until all its pieces have an ack. The owner drops pieces
 * that it has, and all of operations that have ended: so no late piece overwrites newer data.
 */
#ifndef NXR_TCP_RAILS_H
#define NXR_TCP_RAILS_H

#include "choice.h"
#include "connection.h"

#define NXR_TCP_STRIPE_MIN ((size_t)256 * 1024)

/* Pieces on one rail, and plans to one process, without an ack. */
#define NXR_TCP_MAX_UNHEARD 2048

enum nxr_tcp_piece_state {
    NXR_TCP_PIECE_WAITS,   /* ... for a rail */
    NXR_TCP_PIECE_ON_RAIL, /* this plus the index of the rail */
    NXR_TCP_PIECE_ARRIVED = UINT8_MAX,
};

/* Outgoing bulk that is spread over the rails. */
struct nxr_tcp_stripe {
    struct nxr_list link; /* nxr_tcp_rails.stripes */
    struct nxr_net_op *op;
    const char *bytes;
    uint64_t nbytes;
    uint32_t n_pieces;
    uint32_t next;   /* no piece before it waits */
    uint32_t n_left; /* pieces without an ack */
    bool is_taken;   /* the plan has its ack: rails other than 0 may carry pieces */
    bool is_alone;   /* ... and they carry none of this: NXR_TCP_ALONE */
    size_t message_nbytes;
    struct nxr_tcp_plan plan;                     /* followed by the message: */
    unsigned char message[NXR_NET_HEADER_NBYTES]; /* ... as they go out */
    uint8_t pieces[];                             /* enum nxr_tcp_piece_state */
};

_Static_assert(offsetof(struct nxr_tcp_stripe, message) ==
                   offsetof(struct nxr_tcp_stripe, plan) + sizeof(struct nxr_tcp_plan),
               "the message follows the plan");

struct nxr_tcp_rail {
    struct nxr_net_ep *ep;

    /*
     * Its connection is proven, and again when its trial has ended; or it cannot be made, or was
     * lost, and is closed by this.
     */
    void (*proven)(struct nxr_tcp_rail *rail);
    void (*lost)(struct nxr_tcp_rail *rail, const char *why);

    struct nxr_tcp_conn *conn; /* being made or open; NULL: none; not of rail 0: that is ep->conn */
    unsigned index;
    struct nxr_tcp_pair pair;
    bool is_open;
    bool was_open;
    bool is_on_trial; /* it has failed before, and carries what nobody needs */
    bool is_asking;   /* the kernel asks the other host whether it is there */
    int64_t try_at;   /* while there is no connection */
    int64_t pause_ns;

    /* What is being sent. */
    struct nxr_tcp_stripe *stripe; /* NULL: nothing */
    struct nxr_tcp_piece head;
    size_t n_sent; /* with the head */

    unsigned n_unheard;    /* pieces without an ack, with the one that is being sent */
    uint64_t heard_nbytes; /* by the kernel of the other side, when it was last looked at, */
    int64_t heard_at;      /* ... and when that last grew, or the rail was idle */
};

struct nxr_tcp_rails {
    struct nxr_list stripes; /* by number */
    unsigned n_untaken;      /* plans without an ack */
    uint64_t ended_number;   /* of the last plan that has ended; 0: none has */
    struct nxr_tcp_timer timer;

    /* What is spread, and what was since nothing was: that is measured. */
    struct nxr_tcp_choice choice;
    struct {
        int64_t began_at;
        uint64_t nbytes;
        unsigned class;
        enum nxr_tcp_way way;
        bool is_mixed; /* it tells nothing */
    } run;
    bool is_limited; /* the ordered stream, to short queues in the kernel */

    unsigned n;
    struct nxr_tcp_rail at[NXR_TCP_MAX_RAILS];
};

/* Bulk that arrives in pieces. */
struct nxr_tcp_arrival {
    struct nxr_list link; /* nxr_tcp_conn.arrivals of the ordered stream that brought its plan */
    uint64_t number;
    uint64_t nbytes;
    uint32_t piece_nbytes;
    uint32_t n_left;
    char *where;
    void *cookie;
    uint8_t has[]; /* bits, by piece */
};

/* ---- rails.c: making and leaving them, called by tcp.c --------------------------------------- */

/* There is bulk that could be spread: make rails, or make them again, if it is time. */
void nxr_tcp_rails_use(struct nxr_net_ep *ep);

/* ---- stripes.c: sending ---------------------------------------------------------------------- */

/* Would bulk for that endpoint be spread? If a rail has failed, it may be used again any time. */
bool nxr_tcp_rails_are_useful(const struct nxr_net_ep *ep);

/*
 * Is bulk of that length spread? It must be useful. Then it is to be spread at once, or not at all:
 * NULL if there is no memory, or if too many plans have no ack.
 */
bool nxr_tcp_rails_are_faster(struct nxr_net_ep *ep, size_t bulk_nbytes);
struct nxr_tcp_stripe *nxr_tcp_stripe_new(struct nxr_net_ep *ep, const void *message,
                                          size_t message_nbytes, const void *bulk,
                                          size_t bulk_nbytes, struct nxr_net_op *op);

/* The bulk of that operation lies there from now on. False: it is not spread. */
bool nxr_tcp_stripe_rebase(const struct nxr_tcp_rails *rails, const struct nxr_net_op *op,
                           const void *bulk);

/* Keep queues of a connection in the kernel short, or not. */
void nxr_tcp_limit_unsent(const struct nxr_tcp_conn *conn, bool is_limited);

/* Send pieces on a rail, as many as the kernel takes, and watch for room for the rest. */
void nxr_tcp_rail_feed(struct nxr_tcp_rail *rail);
void nxr_tcp_rails_feed(struct nxr_net_ep *ep);

/*
 * A rail that has failed before is proven again: see first whether a long piece arrives; its ack
 * proves the rail. False: that cannot be seen before an operation has ended.
 */
bool nxr_tcp_rail_begin_trial(struct nxr_tcp_rail *rail);

/* May the ordered stream take a message, or is it within a piece? Are there pieces for it? */
bool nxr_tcp_rail_is_between(const struct nxr_net_ep *ep);
bool nxr_tcp_rail_has_more(const struct nxr_net_ep *ep);

/* Has an endpoint that is being closed pieces under way that would be lost by the end of rail 0? */
bool nxr_tcp_rails_are_busy(const struct nxr_net_ep *ep);

/* The pieces on that rail that have no ack wait again. */
void nxr_tcp_pieces_return(struct nxr_tcp_rail *rail);

/* An ack that came by that connection. NULL, or what is wrong with it. */
const char *nxr_tcp_take_ack(struct nxr_tcp_conn *conn, const struct nxr_tcp_ack *ack);

/* End all that is under way. */
void nxr_tcp_stripes_end(struct nxr_tcp_rails *rails, int status);

/* ---- pieces.c: receiving --------------------------------------------------------------------- */

/*
 * Process what is not a frame with a message, at the beginning of these bytes. Returns how many it
 * took; 0: not enough, or *why_p is set.
 */
size_t nxr_tcp_take_part(struct nxr_tcp_conn *conn, const unsigned char *bytes, size_t nbytes,
                         const char **why_p);

/* That many more bytes of the current piece are at their place, or dropped. NULL, or a failure. */
const char *nxr_tcp_piece_came(struct nxr_tcp_conn *conn, size_t nbytes);

/* Send the acks that wait, if the connection is not within a message. False: some still wait. */
bool nxr_tcp_acks_flush(struct nxr_tcp_conn *conn);

/* The ordered stream has ended, and with it what arrives by its plans. */
void nxr_tcp_arrivals_end(struct nxr_tcp_conn *conn);

/* The arrival with that cookie of the core whose plan came on a connection; NULL: there is none. */
struct nxr_tcp_arrival *nxr_tcp_arrival_with(const struct nxr_tcp_conn *conn, const void *cookie);

/* The pieces that have not come yet go to another place, also the rest of those that are coming. */
void nxr_tcp_arrival_redirect(struct nxr_tcp_arrival *arrival, char *to);

#endif
