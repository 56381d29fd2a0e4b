/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives by open connections of the TCP network, in any order and cut anywhere: messages,
 * bulk, plans, pieces by two connections, and acks of what was sent by two rails. Bytes land within
 * what the core has given for them, and everything that begins ends once. An input is a row of
 * commands; the sockets are real, the core is this file.
 */
/* sources: transports/tcp/frame.c transports/tcp/stream.c transports/tcp/pieces.c */
/* sources: transports/tcp/stripes.c transports/tcp/outbox.c transports/tcp/ops.c */
/* sources: transports/tcp/choice.c */
#include "transports/stripe.h"
#include "transports/tcp/rails.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* The ordered stream, a rail of the other side, and one of this side. */
enum { STREAM, IN, OUT, N_CONNS };

#define MAX_BULK  ((size_t)1 << 20)
#define SENT_BULK ((size_t)300 * 1024)
#define MAX_OPS   8

struct nxr_tcp nxr_tcp;

static struct nxr_net_ep ep;
static struct nxr_tcp_process process;
static struct nxr_tcp_conn conns[N_CONNS];
static int far_ends[N_CONNS];
static struct nxr_net_op ops[MAX_OPS];
static unsigned n_ops, n_ended, n_begun, n_landed;
static char zeros[MAX_BULK];

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* ---- the core -------------------------------------------------------------------------------- */

static void core_received(const void *bytes, size_t nbytes)
{
    static unsigned char copy[NXR_TCP_MESSAGE_NBYTES];

    check(nbytes > 0 && nbytes <= sizeof(copy));
    memcpy(copy, bytes, nbytes);
}

static void *core_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p)
{
    check(header_nbytes > 0 && header_nbytes <= NXR_NET_HEADER_NBYTES && nbytes > 0);
    if (nbytes > MAX_BULK || *(const unsigned char *)header == 1) {
        return NULL;
    }
    n_begun++;
    return *cookie_p = malloc(nbytes); /* no byte more: the sanitizer watches its end */
}

static void core_landing(void *cookie, size_t nbytes)
{
    check(cookie != NULL && nbytes > 0 && nbytes <= MAX_BULK);
}

static void core_landed(void *cookie, int status)
{
    check(status == NIXL_OK || status == NIXL_E_TRANSPORT);
    free(cookie);
    n_landed++;
}

static void core_ended(struct nxr_net_op *op, int status)
{
    (void)status;
    check(op >= ops && op < ops + n_ops);
    n_ended++;
}

static void core_log(enum nxr_net_log level, const char *format, ...)
{
    (void)level;
    (void)format;
}

static const struct nxr_net_core core = {.size = 2,
                                         .received = core_received,
                                         .incoming = core_incoming,
                                         .landing = core_landing,
                                         .landed = core_landed,
                                         .ended = core_ended,
                                         .log = core_log};

/* ---- connections ----------------------------------------------------------------------------- */

void nxr_tcp_conn_wants_room(struct nxr_tcp_conn *conn, bool wants_room)
{
    conn->wants_room = wants_room;
}

void nxr_tcp_conn_mute(struct nxr_tcp_conn *conn, bool is_muted)
{
    conn->is_muted = is_muted;
}

void nxr_tcp_connect(struct nxr_net_ep *of)
{
    (void)of;
    abort();
}

void nxr_tcp_conn_lost(struct nxr_tcp_conn *conn, const char *why)
{
    check(why != NULL);
    conn->stage = NXR_TCP_DEAD;
    nxr_list_remove(&conn->process_link);
    if (conn == &conns[OUT] && ep.rails->at[1].is_open) {
        ep.rails->at[1].is_open = false;
        nxr_tcp_pieces_return(&ep.rails->at[1]);
    }
}

static void rail_proven(struct nxr_tcp_rail *rail)
{
    rail->is_on_trial = false;
    rail->is_open = true;
}

static void open_conn(unsigned index)
{
    struct nxr_tcp_conn *conn = &conns[index];
    int ends[2];

    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    far_ends[index] = ends[1];
    *conn = (struct nxr_tcp_conn){.stage = NXR_TCP_OPEN,
                                  .process = &process,
                                  .is_rail = index != STREAM,
                                  .read_nbytes = NXR_TCP_FIRST_NBYTES,
                                  .held = malloc(sizeof(struct nxr_tcp_hello)),
                                  .held_nbytes = sizeof(struct nxr_tcp_hello),
                                  .watch.fd = ends[0]};
    nxr_list_init(&conn->arrivals);
    nxr_list_append(index == STREAM ? &process.conns : &process.rails, &conn->process_link);
    nxr_list_append(&nxr_tcp.conns, &conn->link);
}

static void open_all(void)
{
    nxr_tcp = (struct nxr_tcp){.core = &core, .is_progressing = true};
    nxr_tcp.buffer =
        malloc(NXR_TCP_BUFFER_NBYTES + sizeof(struct nxr_tcp_frame) + NXR_TCP_MESSAGE_NBYTES);
    nxr_list_init(&nxr_tcp.conns);
    nxr_list_init(&nxr_tcp.ended);
    process = (struct nxr_tcp_process){.ep = &ep};
    nxr_list_init(&process.conns);
    nxr_list_init(&process.rails);
    for (unsigned i = 0; i < N_CONNS; i++) {
        open_conn(i);
    }
    ep = (struct nxr_net_ep){.conn = &conns[STREAM], .process = &process};
    ep.rails = calloc(1, sizeof(*ep.rails));
    check(nxr_tcp.buffer != NULL && ep.rails != NULL);
    nxr_list_init(&ep.rails->stripes);
    ep.rails->n = 2;
    for (unsigned i = 0; i < 2; i++) {
        ep.rails->at[i].ep = &ep;
        ep.rails->at[i].index = i;
        ep.rails->at[i].proven = rail_proven;
    }
    ep.rails->at[1].conn = &conns[OUT];
    ep.rails->at[1].is_open = ep.rails->at[1].was_open = true;
    conns[STREAM].ep = conns[OUT].ep = &ep;
    conns[OUT].carries = &ep.rails->at[1];
    n_ops = n_ended = n_begun = n_landed = 0;
}

static void close_all(void)
{
    for (unsigned i = 0; i < N_CONNS; i++) {
        nxr_tcp_bulk_end(&conns[i]);
        free(conns[i].acks);
        free(conns[i].held);
        close(conns[i].watch.fd);
        close(far_ends[i]);
    }
    nxr_tcp_outs_end(&ep, NIXL_E_CANCELED);
    nxr_tcp_stripes_end(ep.rails, NIXL_E_CANCELED);
    free(ep.rails);
    free(nxr_tcp.buffer);
    check(n_begun == n_landed && n_ops == n_ended);
}

/* ---- commands -------------------------------------------------------------------------------- */

struct input {
    const uint8_t *at;
    size_t left;
};

static unsigned take_byte(struct input *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->at++;
}

static size_t take_size(struct input *input)
{
    size_t high = take_byte(input);

    return high << 8 | take_byte(input);
}

/* The other side reads what it gets, and this one sends on. */
static void go_round(void)
{
    static char dropped[1 << 16];

    for (unsigned i = 0; i < N_CONNS; i++) {
        if (conns[i].stage == NXR_TCP_OPEN) {
            (void)nxr_tcp_read(&conns[i]);
        }
        while (read(far_ends[i], dropped, sizeof(dropped)) > 0) {
        }
    }
    if (conns[STREAM].stage == NXR_TCP_OPEN) {
        (void)nxr_tcp_flush(&ep);
        (void)nxr_tcp_acks_flush(&conns[IN]);
        nxr_tcp_rails_feed(&ep);
    }
}

static void arrive(unsigned by, const void *bytes, size_t nbytes)
{
    const char *at = bytes;

    while (nbytes > 0 && conns[by].stage == NXR_TCP_OPEN && conns[STREAM].stage == NXR_TCP_OPEN) {
        ssize_t n = write(far_ends[by], at, nbytes);

        if (n > 0) {
            at += n;
            nbytes -= (size_t)n;
        }
        go_round();
    }
}

/* A frame with a message, its bulk behind it, or a plan; as much of the rest as the input says. */
static void send_frame(struct input *input, unsigned by, bool is_plan)
{
    struct nxr_tcp_frame frame = {NXR_TCP_FRAME_MAGIC, 1 + (uint32_t)take_size(input), 0};
    struct nxr_tcp_plan plan = {.number = process.last_number + take_byte(input) % 4,
                                .piece_nbytes = NXR_STRIPE_PIECE_MIN + 8 * take_byte(input)};
    size_t rest;

    frame.bulk_nbytes = take_size(input) * (1 + take_byte(input) % 32);
    if (is_plan) {
        frame.magic = NXR_TCP_PLAN_MAGIC;
        frame.nbytes = sizeof(plan) + frame.nbytes % 260;
    } else if (frame.bulk_nbytes > 0) {
        frame.nbytes = 1 + frame.nbytes % 260;
    }
    rest = frame.nbytes + (is_plan ? 0 : (size_t)frame.bulk_nbytes);
    arrive(by, &frame, sizeof(frame));
    if (is_plan) {
        arrive(by, &plan, sizeof(plan));
        rest -= sizeof(plan);
    }
    rest = rest < MAX_BULK ? rest : MAX_BULK;
    arrive(by, zeros, take_byte(input) % 8 == 0 ? rest / 2 : rest);
}

/* Of the arrival that the input says, or of none. */
static void send_piece(struct input *input, unsigned by)
{
    struct nxr_tcp_piece piece = {.magic = NXR_TCP_PIECE_MAGIC,
                                  .index = take_byte(input) % 20,
                                  .number = process.last_number - take_byte(input) % 3};
    struct nxr_list *link, *after;
    unsigned whim = take_byte(input);

    piece.nbytes = NXR_STRIPE_PIECE_MIN;
    nxr_list_for_each (link, after, &conns[STREAM].arrivals) {
        const struct nxr_tcp_arrival *arrival = nxr_list_entry(link, struct nxr_tcp_arrival, link);

        if (arrival->number == piece.number) {
            piece.index %= (uint32_t)nxr_tcp_n_pieces(arrival->nbytes, arrival->piece_nbytes);
            piece.nbytes =
                nxr_tcp_piece_nbytes(arrival->nbytes, arrival->piece_nbytes, piece.index);
        }
    }
    piece.nbytes += whim == 255;
    arrive(by, &piece, sizeof(piece));
    arrive(by, zeros, whim % 8 == 0 ? piece.nbytes / 2 : piece.nbytes);
}

/* Of the oldest or the newest operation, or of none. */
static void send_ack(struct input *input, unsigned by)
{
    struct nxr_tcp_ack ack = {NXR_TCP_ACK_MAGIC, take_byte(input) % 8, 0};
    const struct nxr_list *stripes = &ep.rails->stripes;
    unsigned whim = take_byte(input);

    if (!nxr_list_is_empty(stripes)) {
        const struct nxr_list *link = whim % 2 == 0 ? stripes->next : stripes->prev;

        ack.number = nxr_list_entry(link, struct nxr_tcp_stripe, link)->plan.number;
    }
    ack.number += whim == 255;
    ack.index = whim % 4 == 3 ? NXR_TCP_ACK_OF_PLAN : ack.index;
    arrive(by, &ack, sizeof(ack));
}

static void send_bulk(void)
{
    const unsigned char message[8] = {1};

    if (n_ops < MAX_OPS && conns[STREAM].stage == NXR_TCP_OPEN) {
        n_ops++;
        if (nxr_tcp_send(&ep, message, sizeof(message), zeros, SENT_BULK, &ops[n_ops - 1]) !=
            NIXL_INPROGRESS) {
            n_ops--;
        }
    }
}

static void obey(struct input *input)
{
    unsigned command = take_byte(input), by = command / 8 % N_CONNS;
    size_t n;

    switch (command % 8) {
    case 0:
        n = take_byte(input) % 64;
        n = n < input->left ? n : input->left;
        arrive(by, input->at, n);
        input->at += n;
        input->left -= n;
        break;
    case 1:
    case 2:
        send_frame(input, by, command % 8 == 2);
        break;
    case 3:
    case 4:
        send_piece(input, by);
        break;
    case 5:
        send_ack(input, by);
        break;
    case 6:
        send_bulk();
        break;
    default:
        if (ep.rails->at[1].is_open && ep.rails->at[1].n_unheard == 0) {
            ep.rails->at[1].is_open = !nxr_tcp_rail_begin_trial(&ep.rails->at[1]);
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct input input = {data, nbytes};

    open_all();
    while (input.left > 0 && conns[STREAM].stage == NXR_TCP_OPEN) {
        obey(&input);
        go_round();
    }
    close_all();
    return 0;
}
