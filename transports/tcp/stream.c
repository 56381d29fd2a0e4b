/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of open connections. If it is not known what comes, a piece is read into one buffer, which
 * all connections share, and its messages are passed to the core where they lie; the beginning of
 * an incomplete message is kept with the connection. Bulk is read directly to its destination.
 *
 * A connection that was active lately is "hot": hot connections are read without asking epoll
 * first, which costs as much as reading. As long as they stay active and no thread wants to sleep,
 * epoll is not even told to watch them: reporting costs the processor that receives a packet some
 * tenths of a microsecond. The core's lock.
 */
#include "config.h"

#include "rails.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TURN_NBYTES   ((size_t)4 * 1024 * 1024) /* read from one connection in one round */
#define FINDS_TO_MUTE 4                         /* without a sleep in between */
#define MAX_N_EMPTY   2000                      /* reads of a hot one that find nothing */

/* ---- bulk ------------------------------------------------------------------------------------ */

void nxr_tcp_bulk_end(struct nxr_tcp_conn *conn)
{
    bool was_wanted = conn->has_bulk && conn->bulk != NULL && !conn->is_piece;

    conn->bulk = NULL;
    conn->arrival = NULL;
    nxr_tcp_arrivals_end(conn);
    if (was_wanted) {
        nxr_tcp.core->landed(conn->cookie, NIXL_E_TRANSPORT);
    }
}

void nxr_tcp_redirect(void *cookie, const char *from, char *to)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &nxr_tcp.conns) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, link);
        struct nxr_tcp_arrival *arrival = nxr_tcp_arrival_with(conn, cookie);

        if (arrival != NULL) {
            nxr_tcp_arrival_redirect(arrival, to);
        } else if (conn->bulk != NULL && !conn->is_piece && conn->cookie == cookie) {
            conn->bulk = to + (conn->bulk - from);
        }
    }
}

/* That many bytes of it are at their destination. */
static void tcp_stream_bulk_came(struct nxr_tcp_conn *conn, size_t nbytes)
{
    void *cookie = conn->cookie;
    bool is_wanted = conn->bulk != NULL;

    conn->bulk_left -= nbytes;
    conn->has_bulk = conn->bulk_left > 0;
    if (!is_wanted) {
        return;
    }
    conn->bulk += nbytes;
    nxr_tcp.core->landing(cookie, nbytes);
    if (!conn->has_bulk) {
        conn->bulk = NULL;
        nxr_tcp.core->landed(cookie, NIXL_OK);
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The bytes behind the header of bulk are its beginning. Returns how many. */
static size_t begin_bulk(struct nxr_tcp_conn *conn, const struct nxr_tcp_frame *frame,
                         const unsigned char *bytes, size_t nbytes)
{
    const unsigned char *behind = bytes + frame->nbytes;
    size_t n_here = nbytes - frame->nbytes;

    n_here = n_here < frame->bulk_nbytes ? n_here : frame->bulk_nbytes;
    conn->bulk = nxr_tcp.core->incoming(bytes, frame->nbytes, frame->bulk_nbytes, &conn->cookie);
    conn->bulk_left = frame->bulk_nbytes;
    conn->has_bulk = true;
    if (n_here > 0) {
        if (conn->bulk != NULL) {
            memcpy(conn->bulk, behind, n_here);
        }
        tcp_stream_bulk_came(conn, n_here);
    }
    return n_here;
}

/* Process the whole frames in these bytes. Returns their bytes; *why_p: what is wrong, or NULL. */
static size_t take_frames(struct nxr_tcp_conn *conn, const unsigned char *bytes, size_t nbytes,
                          const char **why_p)
{
    struct nxr_tcp_frame frame;
    size_t at = 0;

    *why_p = NULL;
    while (nbytes - at >= sizeof(frame) && !conn->drops) {
        size_t left = nbytes - at - sizeof(frame);
        const unsigned char *message = bytes + at + sizeof(frame);

        memcpy(&frame, bytes + at, sizeof(frame));
        if (__builtin_expect(frame.magic != NXR_TCP_FRAME_MAGIC || conn->is_rail, 0)) {
            size_t n_taken = nxr_tcp_take_part(conn, bytes + at, nbytes - at, why_p);

            at += n_taken;
            if (*why_p != NULL || n_taken == 0) {
                return at;
            }
            continue;
        }
        *why_p = nxr_tcp_frame_check(&frame);
        if (*why_p != NULL || left < frame.nbytes) {
            return at;
        }
        at += sizeof(frame) + frame.nbytes;
        nxr_rail_received(&conn->rail, 1, 0);
        if (frame.bulk_nbytes == 0) {
            nxr_tcp.core->received(message, frame.nbytes);
        } else {
            at += begin_bulk(conn, &frame, message, left);
        }
    }
    return at;
}

/* Keep an incomplete message. False: no memory. */
static bool tcp_stream_hold(struct nxr_tcp_conn *conn, const unsigned char *bytes, size_t nbytes)
{
    if (nbytes > conn->held_nbytes) {
        unsigned char *held = realloc(conn->held, nbytes);

        if (held == NULL) {
            return false;
        }
        conn->held = held;
        conn->held_nbytes = nbytes;
    }
    if (nbytes > 0) {
        memcpy(conn->held, bytes, nbytes);
    }
    conn->n_held = nbytes;
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* How many bytes were read; 0: nothing for now; -1: the connection is lost. */
static ssize_t read_some(struct nxr_tcp_conn *conn, void *where, size_t nbytes)
{
    ssize_t n_read = recv(conn->watch.fd, where, nbytes, MSG_DONTWAIT);

    if (__builtin_expect(n_read > 0, 1)) {
        nxr_rail_received(&conn->rail, 0, (uint64_t)n_read);
        return n_read;
    }
    if (n_read < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n_read < 0) { /* a peer that leaves closes it */
        nxr_rail_failed(&conn->rail);
    }
    nxr_tcp_conn_lost(conn, n_read == 0 ? "closed by the other end" : strerror(errno));
    return -1;
}

static ssize_t read_bulk(struct nxr_tcp_conn *conn)
{
    size_t room = conn->bulk != NULL ? TURN_NBYTES : NXR_TCP_BUFFER_NBYTES;
    size_t wanted = conn->bulk_left < room ? conn->bulk_left : room;
    ssize_t nbytes =
        read_some(conn, conn->bulk != NULL ? (void *)conn->bulk : nxr_tcp.buffer, wanted);

    if (nbytes > 0 && conn->is_piece) {
        const char *why = nxr_tcp_piece_came(conn, (size_t)nbytes);

        if (why != NULL) {
            nxr_tcp_conn_lost(conn, why);
        }
    } else if (nbytes > 0) {
        tcp_stream_bulk_came(conn, (size_t)nbytes);
    }
    return nbytes;
}

/*
 * How much to read next time: little if bulk comes, so that not much of it has to be copied to its
 * place; a lot if messages come in a row.
 */
static void tcp_stream_learn(struct nxr_tcp_conn *conn, size_t n_read)
{
    if (conn->has_bulk) {
        conn->read_nbytes = NXR_TCP_FIRST_NBYTES;
    } else if (n_read == conn->read_nbytes && conn->read_nbytes < NXR_TCP_BUFFER_NBYTES) {
        conn->read_nbytes *= 4;
    }
}

static ssize_t read_frames(struct nxr_tcp_conn *conn)
{
    size_t n_held = conn->n_held, n_taken;
    const char *why;
    ssize_t nbytes = read_some(conn, nxr_tcp.buffer + n_held, conn->read_nbytes);

    if (nbytes <= 0) {
        return nbytes;
    }
    memcpy(nxr_tcp.buffer, conn->held, n_held);
    n_taken = take_frames(conn, nxr_tcp.buffer, n_held + (size_t)nbytes, &why);
    tcp_stream_learn(conn, (size_t)nbytes);
    if (why == NULL &&
        !tcp_stream_hold(conn, nxr_tcp.buffer + n_taken, n_held + (size_t)nbytes - n_taken)) {
        why = "no memory for received data";
    }
    if (why != NULL) {
        nxr_tcp_conn_lost(conn, why);
    }
    return nbytes;
}

/* Drop the input of a connection that is not wanted any more, to find its end. */
static ssize_t read_nothing(struct nxr_tcp_conn *conn)
{
    nxr_tcp_bulk_end(conn);
    return read_some(conn, nxr_tcp.buffer, NXR_TCP_BUFFER_NBYTES);
}

int nxr_tcp_read(struct nxr_tcp_conn *conn)
{
    size_t n_read = 0;
    ssize_t nbytes;
    int n = 0;

    do {
        if (conn->drops) {
            nbytes = read_nothing(conn);
        } else if (conn->has_bulk) {
            nbytes = read_bulk(conn);
        } else {
            nbytes = read_frames(conn);
        }
        n += nbytes != 0;
        n_read += nbytes > 0 ? (size_t)nbytes : 0;
    } while (nbytes > 0 && conn->stage == NXR_TCP_OPEN && conn->has_bulk && n_read < TURN_NBYTES);
    return n;
}

/* ---- peers that sent lately ------------------------------------------------------------------ */

void nxr_tcp_cool(struct nxr_tcp_conn *conn)
{
    if (!conn->is_hot) {
        return;
    }
    conn->is_hot = false;
    if (conn->stage == NXR_TCP_OPEN) {
        nxr_tcp_conn_mute(conn, false);
    }
    for (unsigned i = 0; i < nxr_tcp.n_hot; i++) {
        if (nxr_tcp.hot[i] == conn) {
            nxr_tcp.hot[i] = nxr_tcp.hot[--nxr_tcp.n_hot];
            return;
        }
    }
}

int nxr_tcp_read_hot(void)
{
    int n = 0;

    for (unsigned i = nxr_tcp.n_hot; i-- > 0;) {
        struct nxr_tcp_conn *conn = nxr_tcp.hot[i];
        int n_here;

        if (i >= nxr_tcp.n_hot) {
            continue; /* some were closed */
        }
        n_here = nxr_tcp_read(conn);

        n += n_here;
        conn->n_empty = n_here > 0 ? 0 : conn->n_empty + 1;
        if (n_here > 0 && !conn->is_muted && conn->stage == NXR_TCP_OPEN &&
            ++conn->n_finds >= FINDS_TO_MUTE) {
            nxr_tcp_conn_mute(conn, true);
        }
        if (conn->n_empty > MAX_N_EMPTY) {
            nxr_tcp_cool(conn);
        }
    }
    return n;
}

void nxr_tcp_unmute_hot(void)
{
    for (unsigned i = 0; i < nxr_tcp.n_hot; i++) {
        nxr_tcp.hot[i]->n_finds = 0;
        nxr_tcp_conn_mute(nxr_tcp.hot[i], false);
    }
}
