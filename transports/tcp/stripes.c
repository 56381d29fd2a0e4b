/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing pieces. Each rail takes the next piece when the kernel has room for it, so that rails of
 * different speed end together. Messages go before pieces on the ordered stream.
 *
 * The owner keeps a limited number of acks that it cannot send while it is within a long message;
 * so no more pieces and plans are without an ack. The core's lock.
 */
#include "config.h"

#include "rails.h"
#include "transports/stripe.h"
#include "util/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Unsent bytes in the kernel: what lies there goes by no other rail. */
#define UNSENT_NBYTES (256 * 1024)

#define TURN_PIECES 8 /* passed to the kernel for one rail in one turn: 4 MiB */

/* What a rail carries on trial: more than the longest packet of any network, that of IPoIB. */
#define TRIAL_NBYTES NXR_STRIPE_PIECE_MIN

static uint64_t last_number; /* of all plans of this process: a peer sees them rise */

bool nxr_tcp_rails_are_useful(const struct nxr_net_ep *ep)
{
    bool is_useful = false;

    for (unsigned i = 1; ep->conn != NULL && ep->rails != NULL && i < ep->rails->n; i++) {
        const struct nxr_tcp_rail *rail = &ep->rails->at[i];

        is_useful |= rail->was_open || (rail->conn != NULL && rail->pause_ns == 0);
    }
    return is_useful;
}

/* ---- whether it pays ------------------------------------------------------------------------- */

void nxr_tcp_limit_unsent(const struct nxr_tcp_conn *conn, bool is_limited)
{
    const int limit = is_limited ? UNSENT_NBYTES : 0; /* 0: as the host wants it */

    (void)setsockopt(conn->watch.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit));
}

/* The next operation begins a run, or goes on with it. Returns its way. */
static enum nxr_tcp_way way_in_run(struct nxr_net_ep *ep, uint64_t nbytes)
{
    struct nxr_tcp_rails *rails = ep->rails;
    unsigned class = nxr_tcp_class_of(nbytes);

    if (nxr_list_is_empty(&rails->stripes) && ep->n_outs == 0) {
        rails->run.began_at = nxr_now_ns();
        rails->run.nbytes = nbytes;
        rails->run.class = class;
        rails->run.way = nxr_tcp_choose(&rails->choice, nbytes, rails->n);
        rails->run.is_mixed = false;
        return rails->run.way;
    }
    rails->run.nbytes += nbytes;
    rails->run.is_mixed |= class != rails->run.class || rails->run.way == NXR_TCP_WHOLE ||
                           rails->run.nbytes > NXR_TCP_TRIAL_NBYTES;
    return rails->run.is_mixed ? nxr_tcp_best(&rails->choice, nbytes) : rails->run.way;
}

bool nxr_tcp_rails_are_faster(struct nxr_net_ep *ep, size_t bulk_nbytes)
{
    bool is_cut = way_in_run(ep, bulk_nbytes) != NXR_TCP_WHOLE;

    if (is_cut != ep->rails->is_limited) {
        nxr_tcp_limit_unsent(ep->conn, is_cut);
        ep->rails->is_limited = is_cut;
    }
    return is_cut;
}

/* Nothing is spread any more. */
static void end_run(struct nxr_tcp_rails *rails)
{
    if (!rails->run.is_mixed) {
        nxr_tcp_learn(&rails->choice, rails->run.class, rails->run.way, rails->run.nbytes,
                      nxr_now_ns() - rails->run.began_at);
    }
}

struct nxr_tcp_stripe *nxr_tcp_stripe_new(struct nxr_net_ep *ep, const void *message,
                                          size_t message_nbytes, const void *bulk,
                                          size_t bulk_nbytes, struct nxr_net_op *op)
{
    uint32_t piece_nbytes = (uint32_t)nxr_stripe_piece_nbytes(bulk_nbytes, ep->rails->n);
    uint64_t n_pieces = nxr_tcp_n_pieces(bulk_nbytes, piece_nbytes);
    struct nxr_tcp_stripe *stripe;

    if (n_pieces >= NXR_TCP_ACK_OF_PLAN || ep->rails->n_untaken == NXR_TCP_MAX_UNHEARD) {
        return NULL;
    }
    stripe = calloc(1, sizeof(*stripe) + n_pieces);
    if (stripe == NULL) {
        return NULL;
    }
    stripe->is_alone = !ep->rails->run.is_mixed && ep->rails->run.way == NXR_TCP_ALONE;
    stripe->op = op;
    stripe->bytes = bulk;
    stripe->nbytes = bulk_nbytes;
    stripe->n_pieces = stripe->n_left = (uint32_t)n_pieces;
    stripe->plan = (struct nxr_tcp_plan){.number = ++last_number, .piece_nbytes = piece_nbytes};
    stripe->message_nbytes = message_nbytes;
    memcpy(stripe->message, message, message_nbytes);
    nxr_list_append(&ep->rails->stripes, &stripe->link);
    ep->rails->n_untaken++;
    return stripe;
}

bool nxr_tcp_stripe_rebase(const struct nxr_tcp_rails *rails, const struct nxr_net_op *op,
                           const void *bulk)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &rails->stripes) {
        struct nxr_tcp_stripe *stripe = nxr_list_entry(link, struct nxr_tcp_stripe, link);

        if (stripe->op == op) {
            stripe->bytes = bulk;
            return true;
        }
    }
    return false;
}

static struct nxr_tcp_conn *conn_of(const struct nxr_tcp_rail *rail)
{
    return rail->index == 0 ? rail->ep->conn : rail->conn;
}

/*
 * Until the owner knows the plan, only rail 0 may carry pieces. It takes just one if there are
 * other rails: those have their share of a short operation, too. No ack of a plan is read any more
 * while the endpoint is being closed.
 */
static bool may_carry(const struct nxr_tcp_rail *rail, const struct nxr_tcp_stripe *stripe)
{
    const struct nxr_tcp_rails *rails = rail->ep->rails;
    bool is_only = true;

    if (rail->is_on_trial || (stripe->is_alone && rail->index > 0)) {
        return false;
    }
    if (rail->n_unheard == NXR_TCP_MAX_UNHEARD) {
        return false;
    }
    if (stripe->is_taken || rail->index > 0) {
        return stripe->is_taken;
    }
    for (unsigned i = 1; !stripe->is_alone && i < rails->n; i++) {
        is_only &= !rails->at[i].is_open;
    }
    return is_only || stripe->next == 0 || rail->ep->is_closing;
}

/* The next operation with a piece that the rail may carry; NULL: none. */
static struct nxr_tcp_stripe *stripe_for(const struct nxr_tcp_rail *rail)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &rail->ep->rails->stripes) {
        struct nxr_tcp_stripe *stripe = nxr_list_entry(link, struct nxr_tcp_stripe, link);

        while (stripe->next < stripe->n_pieces &&
               stripe->pieces[stripe->next] != NXR_TCP_PIECE_WAITS) {
            stripe->next++;
        }
        if (stripe->next < stripe->n_pieces && may_carry(rail, stripe)) {
            return stripe;
        }
    }
    return NULL;
}

/*
 * Begin with the next piece. False: there is none. On the ordered stream acks and messages go
 * first: the plan that tells of the piece may be among them.
 */
static bool begin_piece(struct nxr_tcp_rail *rail)
{
    const struct nxr_net_ep *ep = rail->ep;
    bool must_wait = rail->index == 0 && (ep->n_outs > 0 || ep->conn->n_acks > 0);
    struct nxr_tcp_stripe *stripe = must_wait ? NULL : stripe_for(rail);

    if (stripe == NULL) {
        return false;
    }
    rail->head = (struct nxr_tcp_piece){
        .magic = NXR_TCP_PIECE_MAGIC,
        .index = stripe->next,
        .number = stripe->plan.number,
        .nbytes = nxr_tcp_piece_nbytes(stripe->nbytes, stripe->plan.piece_nbytes, stripe->next),
    };
    stripe->pieces[stripe->next++] = (uint8_t)(NXR_TCP_PIECE_ON_RAIL + rail->index);
    rail->stripe = stripe;
    rail->n_sent = 0;
    if (rail->n_unheard++ == 0) {
        rail->heard_at = nxr_now_ns();
    }
    return true;
}

/* Send what the kernel takes of the current piece. False: it is full. */
static bool send_piece(struct nxr_tcp_rail *rail, struct nxr_tcp_conn *conn)
{
    size_t skip = rail->n_sent < sizeof(rail->head) ? rail->n_sent : sizeof(rail->head);
    size_t at = rail->n_sent - skip;
    const char *bytes =
        rail->stripe->bytes + (size_t)rail->head.index * rail->stripe->plan.piece_nbytes;
    struct iovec parts[] = {{(char *)&rail->head + skip, sizeof(rail->head) - skip},
                            {(char *)bytes + at, (size_t)rail->head.nbytes - at}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t nbytes;

    do {
        nbytes = sendmsg(conn->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (nbytes < 0 && errno == EINTR);
    if (nbytes <= 0) {
        nxr_rail_was_full(&conn->rail);
        return false; /* a broken connection is found when it is read */
    }
    nxr_rail_sent(&conn->rail, 0, (uint64_t)nbytes);
    rail->n_sent += (size_t)nbytes;
    if (rail->n_sent == sizeof(rail->head) + rail->head.nbytes) {
        nxr_rail_sent(&conn->rail, 1, 0);
        rail->stripe = NULL;
    }
    return true;
}

/* Send the rest of the current piece, or the next one. False: there is none, or no room. */
static bool feed_piece(struct nxr_tcp_rail *rail)
{
    if (rail->stripe == NULL && !begin_piece(rail)) {
        return false;
    }
    while (rail->stripe != NULL) {
        if (!send_piece(rail, conn_of(rail))) {
            return false;
        }
    }
    return true;
}

/* Watch for room if there is anything to send. The ordered stream has messages, too. */
static void watch_for_room(struct nxr_tcp_rail *rail)
{
    if (rail->index > 0) {
        nxr_tcp_conn_wants_room(conn_of(rail), rail->stripe != NULL || stripe_for(rail) != NULL);
    }
}

void nxr_tcp_rail_feed(struct nxr_tcp_rail *rail)
{
    for (unsigned i = 0; i < TURN_PIECES && feed_piece(rail); i++) {
    }
    watch_for_room(rail);
}

/* The owner drops a piece of what has ended, and sends its ack. */
bool nxr_tcp_rail_begin_trial(struct nxr_tcp_rail *rail)
{
    static const char bytes[TRIAL_NBYTES];
    static struct nxr_tcp_stripe trial = {.bytes = bytes, .plan = {.piece_nbytes = TRIAL_NBYTES}};

    if (rail->ep->rails->ended_number == 0) {
        return false;
    }
    rail->head = (struct nxr_tcp_piece){.magic = NXR_TCP_PIECE_MAGIC,
                                        .number = rail->ep->rails->ended_number,
                                        .nbytes = TRIAL_NBYTES};
    rail->stripe = &trial;
    rail->n_sent = 0;
    rail->n_unheard = 1;
    rail->heard_at = nxr_now_ns();
    rail->is_on_trial = true;
    nxr_tcp_rail_feed(rail);
    return true;
}

/* By turns: kernels have room for more than one piece each, and a short operation has few. */
void nxr_tcp_rails_feed(struct nxr_net_ep *ep)
{
    bool has_moved = true;

    for (unsigned turn = 0; has_moved && turn < TURN_PIECES; turn++) {
        has_moved = false;
        for (unsigned i = 1; i < ep->rails->n; i++) {
            has_moved |= ep->rails->at[i].is_open && feed_piece(&ep->rails->at[i]);
        }
    }
    for (unsigned i = 1; i < ep->rails->n; i++) {
        if (ep->rails->at[i].is_open) {
            watch_for_room(&ep->rails->at[i]);
        }
    }
}

bool nxr_tcp_rail_is_between(const struct nxr_net_ep *ep)
{
    return ep->rails == NULL || ep->rails->at[0].stripe == NULL;
}

bool nxr_tcp_rail_has_more(const struct nxr_net_ep *ep)
{
    return ep->rails != NULL &&
           (ep->rails->at[0].stripe != NULL || stripe_for(&ep->rails->at[0]) != NULL);
}

bool nxr_tcp_rails_are_busy(const struct nxr_net_ep *ep)
{
    bool is_busy = nxr_tcp_rail_has_more(ep);

    for (unsigned i = 1; ep->rails != NULL && i < ep->rails->n; i++) {
        is_busy |= ep->rails->at[i].n_unheard > 0 && !ep->rails->at[i].is_on_trial;
    }
    return is_busy;
}

void nxr_tcp_pieces_return(struct nxr_tcp_rail *rail)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &rail->ep->rails->stripes) {
        struct nxr_tcp_stripe *stripe = nxr_list_entry(link, struct nxr_tcp_stripe, link);

        for (uint32_t i = stripe->n_pieces; i-- > 0;) {
            if (stripe->pieces[i] == NXR_TCP_PIECE_ON_RAIL + rail->index) {
                stripe->pieces[i] = NXR_TCP_PIECE_WAITS;
                stripe->next = i < stripe->next ? i : stripe->next;
            }
        }
    }
    rail->stripe = NULL;
    rail->n_unheard = 0;
}

/* ---- acks ------------------------------------------------------------------------------------ */

/* The rail by which an ack came; NULL: nothing was sent by that connection. */
static struct nxr_tcp_rail *rail_of(const struct nxr_tcp_conn *conn)
{
    struct nxr_net_ep *ep = conn->ep;

    if (conn->carries != NULL) {
        return conn->carries;
    }
    return ep != NULL && ep->conn == conn && ep->rails != NULL ? &ep->rails->at[0] : NULL;
}

static struct nxr_tcp_stripe *tcp_stripes_find(const struct nxr_tcp_rails *rails, uint64_t number)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &rails->stripes) {
        struct nxr_tcp_stripe *stripe = nxr_list_entry(link, struct nxr_tcp_stripe, link);

        if (stripe->plan.number == number) {
            return stripe;
        }
    }
    return NULL;
}

/* The owner has a piece. NULL, or what is wrong. */
static const char *take_piece_ack(struct nxr_tcp_rail *rail, struct nxr_tcp_stripe *stripe,
                                  uint32_t index)
{
    if (!stripe->is_taken || index >= stripe->n_pieces ||
        stripe->pieces[index] != NXR_TCP_PIECE_ON_RAIL + rail->index ||
        (rail->stripe == stripe && rail->head.index == index)) {
        return "received an ack of a piece that was not sent";
    }
    stripe->pieces[index] = NXR_TCP_PIECE_ARRIVED;
    rail->pause_ns = 0;
    if (rail->n_unheard-- == NXR_TCP_MAX_UNHEARD) {
        nxr_tcp_conn_wants_room(conn_of(rail), true);
    }
    if (--stripe->n_left == 0) {
        nxr_list_remove(&stripe->link);
        rail->ep->rails->ended_number = stripe->plan.number;
        if (nxr_list_is_empty(&rail->ep->rails->stripes)) {
            end_run(rail->ep->rails);
        }
        nxr_tcp_op_end(stripe->op, NIXL_OK);
        free(stripe);
    }
    return NULL;
}

/* The owner has dropped the piece of a trial. NULL, or what is wrong. */
static const char *take_trial_ack(struct nxr_tcp_rail *rail, const struct nxr_tcp_ack *ack)
{
    if (ack->number != rail->head.number || ack->index != 0 || rail->stripe != NULL) {
        return "received an ack of a piece that was not sent";
    }
    rail->n_unheard = 0;
    rail->pause_ns = 0;
    rail->proven(rail);
    return NULL;
}

/* The owner knows a plan. NULL, or what is wrong. */
static const char *take_plan_ack(struct nxr_tcp_rail *rail, struct nxr_tcp_stripe *stripe)
{
    struct nxr_net_ep *ep = rail->ep;

    if (rail->index != 0 || stripe->is_taken) {
        return "received an ack of a plan twice, or on another connection";
    }
    for (unsigned i = 0; i < ep->n_outs; i++) {
        if (ep->outs[(ep->first + i) % NXR_TCP_MAX_OUTS].bytes == &stripe->plan) {
            return "received an ack of a plan that was not sent";
        }
    }
    stripe->is_taken = true;
    ep->rails->n_untaken--;
    nxr_tcp_rails_feed(ep);
    nxr_tcp_conn_wants_room(ep->conn, true);
    return NULL;
}

const char *nxr_tcp_take_ack(struct nxr_tcp_conn *conn, const struct nxr_tcp_ack *ack)
{
    struct nxr_tcp_rail *rail = rail_of(conn);
    struct nxr_tcp_stripe *stripe =
        rail != NULL ? tcp_stripes_find(rail->ep->rails, ack->number) : NULL;

    if (ack->number == 0 || ack->number > last_number) {
        return "received an ack of what was not sent";
    }
    if (rail != NULL && rail->is_on_trial) {
        return take_trial_ack(rail, ack);
    }
    if (stripe == NULL) {
        return NULL; /* its endpoint was closed */
    }
    return ack->index == NXR_TCP_ACK_OF_PLAN ? take_plan_ack(rail, stripe)
                                             : take_piece_ack(rail, stripe, ack->index);
}

void nxr_tcp_stripes_end(struct nxr_tcp_rails *rails, int status)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&rails->stripes)) != NULL) {
        struct nxr_tcp_stripe *stripe = nxr_list_entry(link, struct nxr_tcp_stripe, link);

        nxr_tcp_op_end(stripe->op, status);
        free(stripe);
    }
}
