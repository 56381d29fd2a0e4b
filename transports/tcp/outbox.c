/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing messages. The kernel takes what it has room for, at once, from where it lies. The rest
 * waits in place, since the core keeps it until the operation has ended, and is sent when there is
 * room again. The core's lock.
 */
#include "config.h"

#include "rails.h"
#include "util/debug.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define PARTS_OF_A_MESSAGE 3  /* frame, message, bulk */
#define MAX_PARTS          48 /* in one call */

#define SHORT_NBYTES 512

/*
 * What one turn passes to the kernel, so that no thread waits long for the lock: 2 ms if the peer
 * reads as fast as the kernel copies; if it reads slower, the kernel's buffer fills up first. Each
 * call costs about 20 us more than its bytes (over veth; 64 MiB took 3 % longer in turns of 4 MiB).
 */
#define TURN_NBYTES ((size_t)16 * 1024 * 1024)

/* Bytes behind the message: none of bulk that goes in pieces. */
static size_t behind_nbytes(const struct nxr_tcp_out *out)
{
    return out->frame.magic == NXR_TCP_FRAME_MAGIC ? out->frame.bulk_nbytes : 0;
}

static size_t whole_nbytes(const struct nxr_tcp_out *out)
{
    return sizeof(out->frame) + out->frame.nbytes + behind_nbytes(out);
}

/*
 * Add the rest of a message after its first `skip` bytes, up to *room_p bytes. Returns how many
 * parts that makes.
 */
static int tcp_outbox_gather(const struct nxr_tcp_out *out, size_t skip, size_t *room_p,
                             struct iovec *parts)
{
    const struct iovec all[PARTS_OF_A_MESSAGE] = {
        {(void *)&out->frame, sizeof(out->frame)},
        {(void *)out->bytes, out->frame.nbytes},
        {(void *)out->bulk, behind_nbytes(out)},
    };
    int n = 0;

    for (unsigned i = 0; i<PARTS_OF_A_MESSAGE && * room_p> 0; i++) {
        size_t nbytes = all[i].iov_len;

        if (skip >= nbytes) {
            skip -= nbytes;
            continue;
        }
        nbytes -= skip;
        nbytes = nbytes < *room_p ? nbytes : *room_p;
        parts[n].iov_base = (char *)all[i].iov_base + skip;
        parts[n++].iov_len = nbytes;
        *room_p -= nbytes;
        skip = 0;
    }
    return n;
}

/*
 * How much the kernel has taken. 0 also for a broken connection: what the peer has sent before is
 * read first, and its end is found after that.
 */
static size_t tcp_outbox_hand_over(struct nxr_tcp_conn *conn, struct iovec *parts, int n_parts)
{
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n_parts};
    ssize_t nbytes;

    do {
        nbytes = sendmsg(conn->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (nbytes < 0 && errno == EINTR);
    nxr_rail_sent(&conn->rail, 0, nbytes > 0 ? (uint64_t)nbytes : 0);
    return nbytes > 0 ? (size_t)nbytes : 0;
}

/*
 * A short message is copied behind its frame: it takes the kernel longer to gather it from two
 * places.
 */
static size_t send_short(struct nxr_tcp_conn *conn, const struct nxr_tcp_out *out)
{
    unsigned char whole[SHORT_NBYTES];
    ssize_t nbytes;

    memcpy(whole, &out->frame, sizeof(out->frame));
    memcpy(whole + sizeof(out->frame), out->bytes, out->frame.nbytes);
    nbytes = send(conn->watch.fd, whole, whole_nbytes(out), MSG_NOSIGNAL | MSG_DONTWAIT);
    nxr_rail_sent(&conn->rail, 0, nbytes > 0 ? (uint64_t)nbytes : 0);
    return nbytes > 0 ? (size_t)nbytes : 0;
}

/* Send a message that nothing is queued before. Returns how much of it was sent. */
static size_t tcp_outbox_send_now(struct nxr_tcp_conn *conn, const struct nxr_tcp_out *out)
{
    struct iovec parts[PARTS_OF_A_MESSAGE];
    size_t room = TURN_NBYTES;
    int n_parts;

    if (behind_nbytes(out) == 0 && whole_nbytes(out) <= SHORT_NBYTES) {
        return send_short(conn, out);
    }
    n_parts = tcp_outbox_gather(out, 0, &room, parts);
    return tcp_outbox_hand_over(conn, parts, n_parts);
}

static struct nxr_tcp_out *out_at(struct nxr_net_ep *ep, unsigned index)
{
    return &ep->outs[(ep->first + index) % NXR_TCP_MAX_OUTS];
}

/* Is the ordered stream between two frames, and is nothing to go before a message? */
static bool is_between(const struct nxr_net_ep *ep)
{
    return ep->conn->n_acks == 0 && nxr_tcp_rail_is_between(ep);
}

/*
 * Make it a message with a plan, if there is memory for it. Its operation ends with the last piece,
 * wherever the message is by then.
 */
static void tcp_outbox_spread(struct nxr_net_ep *ep, struct nxr_tcp_out *out)
{
    struct nxr_tcp_stripe *stripe = nxr_tcp_stripe_new(ep, out->bytes, out->frame.nbytes, out->bulk,
                                                       out->frame.bulk_nbytes, out->op);

    if (stripe != NULL) {
        out->frame.magic = NXR_TCP_PLAN_MAGIC;
        out->frame.nbytes += (uint32_t)sizeof(stripe->plan);
        out->bytes = &stripe->plan;
        out->bulk = NULL;
        out->op = NULL;
    }
}

int nxr_tcp_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                 size_t bulk_nbytes, struct nxr_net_op *op)
{
    struct nxr_tcp_out out = {
        .frame = {NXR_TCP_FRAME_MAGIC, (uint32_t)nbytes, bulk_nbytes},
        .bytes = bytes,
        .bulk = bulk,
        .op = op,
    };
    size_t n_sent = 0;

    NXR_ASSERT(!ep->is_closing && nbytes > 0);
    NXR_ASSERT(nbytes <= (bulk_nbytes > 0 ? NXR_NET_HEADER_NBYTES : NXR_TCP_MESSAGE_NBYTES));
    if (ep->n_outs == NXR_TCP_MAX_OUTS) {
        return NIXL_E_AGAIN;
    }
    if (ep->conn == NULL && ep->trying == NULL && !ep->is_waiting && !ep->has_failed) {
        nxr_tcp_connect(ep);
    }
    if (ep->has_failed) {
        return NIXL_E_TRANSPORT;
    }
    if (bulk_nbytes >= NXR_TCP_STRIPE_MIN && nxr_tcp_rails_are_useful(ep) &&
        nxr_tcp_rails_are_faster(ep, bulk_nbytes)) {
        tcp_outbox_spread(ep, &out);
    }
    if (ep->conn != NULL && ep->n_outs == 0 && is_between(ep)) {
        n_sent = tcp_outbox_send_now(ep->conn, &out);
        if (n_sent == whole_nbytes(&out)) {
            nxr_rail_sent(&ep->conn->rail, 1, 0);
            if (out.op == NULL) {
                nxr_tcp_conn_wants_room(ep->conn, true); /* its pieces follow */
            }
            return out.op == NULL ? NIXL_INPROGRESS : NIXL_OK;
        }
        nxr_rail_was_full(&ep->conn->rail);
        ep->n_sent = n_sent;
        nxr_tcp_conn_wants_room(ep->conn, true);
    }
    *out_at(ep, ep->n_outs++) = out;
    return NIXL_INPROGRESS;
}

bool nxr_tcp_rebase(struct nxr_net_ep *ep, const struct nxr_net_op *op, const void *bulk)
{
    for (unsigned i = 0; i < ep->n_outs; i++) {
        if (out_at(ep, i)->op == op) {
            out_at(ep, i)->bulk = bulk;
            return true;
        }
    }
    return ep->rails != NULL && nxr_tcp_stripe_rebase(ep->rails, op, bulk);
}

/* That many more bytes were sent: end the messages that are complete. Returns how many. */
static int tcp_outbox_advance(struct nxr_net_ep *ep, size_t nbytes)
{
    struct nxr_net_op *ops[NXR_TCP_MAX_OUTS];
    int n = 0;

    ep->n_sent += nbytes;
    while (ep->n_outs > 0 && ep->n_sent >= whole_nbytes(out_at(ep, 0))) {
        ep->n_sent -= whole_nbytes(out_at(ep, 0));
        ops[n++] = out_at(ep, 0)->op;
        ep->first = (ep->first + 1) % NXR_TCP_MAX_OUTS;
        ep->n_outs--;
    }
    for (int i = 0; i < n; i++) {
        if (ops[i] != NULL) {
            nxr_tcp_op_end(ops[i], NIXL_OK);
        }
    }
    return n;
}

static int flush_messages(struct nxr_net_ep *ep)
{
    struct iovec parts[MAX_PARTS];
    size_t room = TURN_NBYTES, skip = ep->n_sent;
    int n_parts = 0, n = 0;

    for (unsigned i = 0; i < ep->n_outs && n_parts + PARTS_OF_A_MESSAGE <= MAX_PARTS; i++) {
        n_parts += tcp_outbox_gather(out_at(ep, i), skip, &room, parts + n_parts);
        skip = 0;
    }
    if (n_parts > 0) {
        n = tcp_outbox_advance(ep, tcp_outbox_hand_over(ep->conn, parts, n_parts));
    }
    return n;
}

/* What is half sent first, then acks, messages, and pieces if no message waits. */
int nxr_tcp_flush(struct nxr_net_ep *ep)
{
    int n = 0;

    if (!nxr_tcp_rail_is_between(ep)) {
        nxr_tcp_rail_feed(&ep->rails->at[0]);
    }
    if (nxr_tcp_rail_is_between(ep) && (nxr_tcp_acks_flush(ep->conn) || ep->n_sent > 0)) {
        n = flush_messages(ep);
    }
    if (ep->conn == NULL) {
        return n;
    }
    nxr_rail_sent(&ep->conn->rail, (uint64_t)n, 0);
    if (ep->n_outs == 0 && ep->conn->n_acks == 0 && nxr_tcp_rail_has_more(ep)) {
        nxr_tcp_rail_feed(&ep->rails->at[0]);
    }
    nxr_tcp_conn_wants_room(ep->conn,
                            ep->n_outs > 0 || ep->conn->n_acks > 0 || nxr_tcp_rail_has_more(ep));
    return n;
}

void nxr_tcp_outs_end(struct nxr_net_ep *ep, int status)
{
    while (ep->n_outs > 0) {
        struct nxr_net_op *op = out_at(ep, 0)->op;

        ep->first = (ep->first + 1) % NXR_TCP_MAX_OUTS;
        ep->n_outs--;
        if (op != NULL) {
            nxr_tcp_op_end(op, status);
        }
    }
}
