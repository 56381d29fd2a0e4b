/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incoming pieces: each goes straight to its place, is counted once, and gets an ack, even if it
 * was dropped because it is here already. While two connections bring the same piece, both write
 * the same bytes; once it is counted, the rest of the other one is dropped. The core's lock.
 */
#include "config.h"

#include "rails.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* All that may wait for a sender that is within a long message, or that does not read them. */
enum { MAX_ACKS_NBYTES = 2 * NXR_TCP_MAX_UNHEARD * sizeof(struct nxr_tcp_ack) };

/* ---- acks ------------------------------------------------------------------------------------ */

/* Is the connection between two messages, so that an ack may go out? */
static bool may_write(const struct nxr_tcp_conn *conn)
{
    const struct nxr_net_ep *ep = conn->ep;

    return ep == NULL || conn->n_acks % sizeof(struct nxr_tcp_ack) != 0 ||
           (ep->n_sent == 0 && nxr_tcp_rail_is_between(ep));
}

bool nxr_tcp_acks_flush(struct nxr_tcp_conn *conn)
{
    ssize_t nbytes;

    if (conn->n_acks == 0 || !may_write(conn)) {
        return conn->n_acks == 0;
    }
    do {
        nbytes = send(conn->watch.fd, conn->acks, conn->n_acks, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (nbytes < 0 && errno == EINTR);
    if (nbytes > 0) {
        nxr_rail_sent(&conn->rail, 0, (uint64_t)nbytes);
        conn->n_acks -= (size_t)nbytes;
        memmove(conn->acks, conn->acks + nbytes, conn->n_acks);
    }
    return conn->n_acks == 0;
}

/* NULL, or why none can be sent. */
static const char *send_ack(struct nxr_tcp_conn *conn, uint64_t number, uint32_t index)
{
    const struct nxr_tcp_ack ack = {NXR_TCP_ACK_MAGIC, index, number};

    if (conn->acks == NULL) {
        conn->acks = malloc(MAX_ACKS_NBYTES);
    }
    if (conn->acks == NULL) {
        return "no memory for acks";
    }
    if (conn->n_acks + sizeof(ack) > MAX_ACKS_NBYTES) {
        return "the other end does not read the acks of its pieces";
    }
    memcpy(conn->acks + conn->n_acks, &ack, sizeof(ack));
    conn->n_acks += sizeof(ack);
    if (!nxr_tcp_acks_flush(conn)) {
        nxr_tcp_conn_wants_room(conn, true);
    }
    return NULL;
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static struct nxr_tcp_arrival *arrival_of(const struct nxr_tcp_process *process, uint64_t number)
{
    struct nxr_list *link, *after, *inner, *inner_after;

    nxr_list_for_each (link, after, &process->conns) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, process_link);

        nxr_list_for_each (inner, inner_after, &conn->arrivals) {
            struct nxr_tcp_arrival *arrival = nxr_list_entry(inner, struct nxr_tcp_arrival, link);

            if (arrival->number == number) {
                return arrival;
            }
        }
    }
    return NULL;
}

static void arrival_end(struct nxr_tcp_arrival *arrival, int status)
{
    void *cookie = arrival->cookie;

    nxr_list_remove(&arrival->link);
    free(arrival);
    nxr_tcp.core->landed(cookie, status);
}

struct nxr_tcp_arrival *nxr_tcp_arrival_with(const struct nxr_tcp_conn *conn, const void *cookie)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &conn->arrivals) {
        struct nxr_tcp_arrival *arrival = nxr_list_entry(link, struct nxr_tcp_arrival, link);

        if (arrival->cookie == cookie) {
            return arrival;
        }
    }
    return NULL;
}

void nxr_tcp_arrival_redirect(struct nxr_tcp_arrival *arrival, char *to)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &nxr_tcp.conns) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, link);

        if (conn->arrival == arrival && conn->bulk != NULL) {
            conn->bulk = to + (conn->bulk - arrival->where);
        }
    }
    arrival->where = to;
}

/* The connection brings a piece that nobody wants any more: drop what still comes of it. */
static void drop_rest(struct nxr_tcp_conn *conn)
{
    conn->arrival = NULL;
    conn->bulk = NULL;
}

void nxr_tcp_arrivals_end(struct nxr_tcp_conn *conn)
{
    struct nxr_list *link, *after;

    while (!nxr_list_is_empty(&conn->arrivals)) {
        struct nxr_tcp_arrival *arrival =
            nxr_list_entry(conn->arrivals.next, struct nxr_tcp_arrival, link);

        nxr_list_for_each (link, after, &nxr_tcp.conns) { /* the process may be unknown by now */
            struct nxr_tcp_conn *other = nxr_list_entry(link, struct nxr_tcp_conn, link);

            if (other->arrival == arrival) {
                drop_rest(other);
            }
        }
        arrival_end(arrival, NIXL_E_TRANSPORT);
    }
}

/* Ask the core where that bulk goes, and keep it if it goes anywhere. False: no memory. */
static bool arrival_begin(struct nxr_tcp_conn *conn, const struct nxr_tcp_plan *plan,
                          const void *message, size_t message_nbytes, uint64_t nbytes)
{
    uint64_t n_pieces = nxr_tcp_n_pieces(nbytes, plan->piece_nbytes);
    void *cookie, *where = nxr_tcp.core->incoming(message, message_nbytes, nbytes, &cookie);
    struct nxr_tcp_arrival *arrival;

    if (where == NULL) {
        return true;
    }
    arrival = calloc(1, sizeof(*arrival) + n_pieces / 8 + 1);
    if (arrival == NULL) {
        nxr_tcp.core->landed(cookie, NIXL_E_TRANSPORT);
        return false;
    }
    arrival->number = plan->number;
    arrival->nbytes = nbytes;
    arrival->piece_nbytes = plan->piece_nbytes;
    arrival->n_left = (uint32_t)n_pieces;
    arrival->where = where;
    arrival->cookie = cookie;
    nxr_list_append(&conn->arrivals, &arrival->link);
    return true;
}

static size_t take_plan(struct nxr_tcp_conn *conn, const unsigned char *bytes, size_t nbytes,
                        const char **why_p)
{
    struct nxr_tcp_frame frame;
    struct nxr_tcp_plan plan;

    memcpy(&frame, bytes, sizeof(frame));
    *why_p =
        conn->is_rail ? "received a plan of pieces on a rail" : nxr_tcp_plan_frame_check(&frame);
    if (*why_p != NULL || nbytes - sizeof(frame) < frame.nbytes) {
        return 0;
    }
    memcpy(&plan, bytes + sizeof(frame), sizeof(plan));
    *why_p = nxr_tcp_plan_check(&plan, frame.bulk_nbytes, conn->process->last_number);
    if (*why_p != NULL) {
        return 0;
    }
    conn->process->last_number = plan.number;
    nxr_rail_received(&conn->rail, 1, 0);
    if (!arrival_begin(conn, &plan, bytes + sizeof(frame) + sizeof(plan),
                       frame.nbytes - sizeof(plan), frame.bulk_nbytes)) {
        *why_p = "no memory for received data";
        return 0;
    }
    *why_p = send_ack(conn, plan.number, NXR_TCP_ACK_OF_PLAN);
    return sizeof(frame) + frame.nbytes;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool has_piece(const struct nxr_tcp_arrival *arrival, uint32_t index)
{
    return (arrival->has[index / 8] & 1u << index % 8) != 0;
}

/* Other connections that bring the same piece drop what still comes of it. */
static void drop_piece(struct nxr_list *conns, const struct nxr_tcp_arrival *arrival,
                       uint32_t index)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, conns) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, process_link);

        if (conn->arrival == arrival && conn->piece.index == index) {
            drop_rest(conn);
        }
    }
}

/* Once all are counted, no connection brings any of them. */
static void count_piece(struct nxr_tcp_process *process, struct nxr_tcp_arrival *arrival,
                        uint32_t index)
{
    drop_piece(&process->conns, arrival, index);
    drop_piece(&process->rails, arrival, index);
    arrival->has[index / 8] |= (uint8_t)(1u << index % 8);
    if (--arrival->n_left == 0) {
        arrival_end(arrival, NIXL_OK);
    }
}

const char *nxr_tcp_piece_came(struct nxr_tcp_conn *conn, size_t nbytes)
{
    struct nxr_tcp_arrival *arrival = conn->arrival;
    const char *why;

    conn->bulk_left -= nbytes;
    conn->has_bulk = conn->bulk_left > 0;
    if (conn->bulk != NULL) {
        conn->bulk += nbytes;
    }
    if (arrival != NULL) {
        nxr_tcp.core->landing(arrival->cookie, nbytes);
    }
    if (conn->has_bulk) {
        return NULL;
    }
    conn->is_piece = false;
    drop_rest(conn);
    nxr_rail_received(&conn->rail, 1, 0);
    why = send_ack(conn, conn->piece.number, conn->piece.index);
    if (arrival != NULL) {
        count_piece(conn->process, arrival, conn->piece.index);
    }
    return why;
}

/* Where a piece goes is decided now; the bytes behind its head are its beginning. */
static size_t take_piece(struct nxr_tcp_conn *conn, const unsigned char *bytes, size_t nbytes,
                         const char **why_p)
{
    struct nxr_tcp_arrival *arrival;
    size_t n_here = nbytes - sizeof(conn->piece);

    memcpy(&conn->piece, bytes, sizeof(conn->piece));
    *why_p = conn->carries != NULL ? "received a piece against the direction of its rail"
                                   : nxr_tcp_piece_check(&conn->piece, conn->process->last_number);
    if (*why_p != NULL) {
        return 0;
    }
    arrival = arrival_of(conn->process, conn->piece.number);
    if (arrival != NULL &&
        !nxr_tcp_piece_fits(&conn->piece, arrival->nbytes, arrival->piece_nbytes)) {
        *why_p = "received a piece beyond its plan";
        return 0;
    }
    if (arrival != NULL && has_piece(arrival, conn->piece.index)) {
        arrival = NULL;
    }
    conn->arrival = arrival;
    conn->bulk =
        arrival != NULL ? arrival->where + (size_t)conn->piece.index * arrival->piece_nbytes : NULL;
    conn->bulk_left = conn->piece.nbytes;
    conn->has_bulk = conn->is_piece = true;
    n_here = n_here < conn->bulk_left ? n_here : (size_t)conn->bulk_left;
    if (n_here > 0) {
        if (conn->bulk != NULL) {
            memcpy(conn->bulk, bytes + sizeof(conn->piece), n_here);
        }
        *why_p = nxr_tcp_piece_came(conn, n_here);
    }
    return sizeof(conn->piece) + n_here;
}

size_t nxr_tcp_take_part(struct nxr_tcp_conn *conn, const unsigned char *bytes, size_t nbytes,
                         const char **why_p)
{
    struct nxr_tcp_ack ack;

    memcpy(&ack, bytes, sizeof(ack));
    *why_p = NULL;
    switch (ack.magic) {
    case NXR_TCP_PLAN_MAGIC:
        return take_plan(conn, bytes, nbytes, why_p);
    case NXR_TCP_PIECE_MAGIC:
        return nbytes < sizeof(struct nxr_tcp_piece) ? 0 : take_piece(conn, bytes, nbytes, why_p);
    case NXR_TCP_ACK_MAGIC:
        *why_p = nxr_tcp_take_ack(conn, &ack);
        return *why_p == NULL ? sizeof(ack) : 0;
    default:
        *why_p = "received data that is not a frame";
        return 0;
    }
}
