/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk that is sent over the rails of the TCP network: which pieces go by which rail, and what
 * becomes of those of a rail that is lost. The test is what connections, timers, the kernels, the
 * owner and the core are otherwise.
 */
#include "transports/tcp/rails.h"

#include "nixlrun.h"
#include "transports/stripe.h"
#include "transports/tcp_health.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(tcp_rails, .timeout = 120);

#define N_PIECES     ((uint32_t)5)
#define PIECE_NBYTES NXR_STRIPE_PIECE_MAX
#define NBYTES       (4 * PIECE_NBYTES + 4099) /* the last piece is a short one */

struct nxr_tcp nxr_tcp;

static struct nxr_net_ep ep;
static struct nxr_tcp_conn stream, second, third; /* rails 0, 1 and 2 */
static struct nxr_tcp_acked acked; /* what the kernel of the other host has, on rail 1 */
static unsigned n_made, n_aborted, n_failures_told;

/* ---- connections and timers ------------------------------------------------------------------ */

socklen_t nxr_tcp_sockaddr(const struct nxr_tcp_path *path, struct sockaddr_storage *name)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)name;

    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(path->port)};
    memcpy(&in->sin_addr, path->ip, sizeof(in->sin_addr));
    return sizeof(*in);
}

int nxr_tcp_own_path(int fd)
{
    return fd - stream.watch.fd;
}

int nxr_tcp_other_path(int fd, const struct nxr_tcp_address *theirs)
{
    cr_expect(eq(ptr, (void *)(uintptr_t)theirs, &ep.address));
    return nxr_tcp_own_path(fd);
}

bool nxr_tcp_acked(int fd, struct nxr_tcp_acked *acked_p)
{
    cr_expect(eq(int, fd, second.watch.fd));
    *acked_p = acked;
    return true;
}

int __wrap_bind(int fd, const struct sockaddr *name, socklen_t nbytes);
int __wrap_connect(int fd, const struct sockaddr *name, socklen_t nbytes);

static unsigned char last_byte(const struct sockaddr *name)
{
    return (unsigned char)ntohl(((const struct sockaddr_in *)(const void *)name)->sin_addr.s_addr);
}

int __wrap_bind(int fd, const struct sockaddr *name, socklen_t nbytes)
{
    (void)fd;
    (void)nbytes;
    cr_expect(eq(int, last_byte(name), 1), "from the own address");
    return 0;
}

int __wrap_connect(int fd, const struct sockaddr *name, socklen_t nbytes)
{
    (void)fd;
    (void)nbytes;
    cr_expect(eq(int, last_byte(name), 2), "to the other one");
    errno = EINPROGRESS;
    return -1;
}

struct nxr_tcp_conn *nxr_tcp_conn_new(int fd, enum nxr_tcp_stage stage)
{
    bool is_third = n_made++ % (nxr_tcp.address.n_paths - 1u) != 0;
    struct nxr_tcp_conn *made = is_third ? &third : &second;

    close(fd);
    *made = (struct nxr_tcp_conn){.stage = stage, .watch.fd = is_third ? 1002 : 1001};
    nxr_list_init(&made->timer.link);
    return made;
}

void nxr_tcp_conn_abort(struct nxr_tcp_conn *aborted)
{
    cr_expect(eq(ptr, aborted, &second));
    n_aborted++;
}

void nxr_tcp_conn_lost(struct nxr_tcp_conn *lost, const char *why)
{
    lost->carries->lost(lost->carries, why);
}

void nxr_tcp_conn_wants_room(struct nxr_tcp_conn *of, bool wants_room)
{
    of->wants_room = wants_room;
}

void nxr_tcp_connect(struct nxr_net_ep *of)
{
    cr_fail("the endpoint %p is connected", (void *)of);
}

void nxr_tcp_timer_set(struct nxr_tcp_timer *timer, int64_t after_ns)
{
    timer->at = nxr_now_ns() + after_ns;
    nxr_list_remove(&timer->link);
    nxr_list_append(&nxr_tcp.timers, &timer->link);
}

/* ---- the core -------------------------------------------------------------------------------- */

static struct nxr_net_op op;
static unsigned n_ended;
static unsigned char sent_bytes[NBYTES], moved_bytes[NBYTES];
static const unsigned char sent_head[40] = {1};

static void core_ended(struct nxr_net_op *ended, int status)
{
    cr_expect(eq(ptr, ended, &op));
    cr_expect(eq(int, status, NIXL_OK));
    n_ended++;
}

static void core_log(enum nxr_net_log level, const char *format, ...)
{
    cr_expect(eq(int, (int)level, NXR_NET_INFO));
    n_failures_told += strstr(format, "has failed") != NULL;
}

static const struct nxr_net_core core = {.size = 2, .ended = core_ended, .log = core_log};

/* ---- the kernel ------------------------------------------------------------------------------ */

/* One for each rail: what it has taken, and how much it still takes. */
static struct {
    unsigned char bytes[2 * NBYTES];
    size_t n, room;
} wires[3];

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t nbytes, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    size_t index = (size_t)fd - 1000, taken = 0;

    cr_expect(eq(int, flags, MSG_NOSIGNAL | MSG_DONTWAIT));
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        size_t nbytes = message->msg_iov[i].iov_len, room = wires[index].room;

        nbytes = nbytes < room ? nbytes : room;
        cr_assert(le(sz, wires[index].n + nbytes, sizeof(wires[index].bytes)));
        if (nbytes > 0) {
            memcpy(wires[index].bytes + wires[index].n, message->msg_iov[i].iov_base, nbytes);
        }
        wires[index].n += nbytes;
        wires[index].room -= nbytes;
        taken += nbytes;
    }
    errno = EAGAIN;
    return taken > 0 ? (ssize_t)taken : -1;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t nbytes, int flags)
{
    struct iovec part = {(void *)(uintptr_t)bytes, nbytes};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return __wrap_sendmsg(fd, &message, flags);
}

static void give_room(unsigned index, size_t room)
{
    wires[index].room = room;
    wires[index].n = 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Two hosts with so many cards each, the first of which are connected. */
static void open_hosts(unsigned n_cards)
{
    struct nxr_tcp_address *addresses[] = {&nxr_tcp.address, &ep.address};

    nxr_tcp =
        (struct nxr_tcp){.core = &core, .is_progressing = true, .names = {"eth0", "eth1", "eth2"}};
    nxr_list_init(&nxr_tcp.timers);
    nxr_list_init(&nxr_tcp.conns);
    ep = (struct nxr_net_ep){.conn = &stream};
    stream = (struct nxr_tcp_conn){.stage = NXR_TCP_OPEN, .ep = &ep, .watch.fd = 1000};
    for (unsigned i = 0; i < 2; i++) {
        addresses[i]->host = i + 1;
        addresses[i]->n_paths = (uint8_t)n_cards;
        for (unsigned j = 0; j < n_cards; j++) {
            addresses[i]->paths[j] =
                (struct nxr_tcp_path){.ip = {10, 0, (uint8_t)j, (uint8_t)i + 1},
                                      .family = 4,
                                      .prefix_nbits = 24,
                                      .port = 4711};
        }
    }
    for (size_t i = 0; i < NBYTES; i++) {
        sent_bytes[i] = (unsigned char)(i * 7 + i / 997);
    }
}

static struct nxr_tcp_rail *rail(unsigned index)
{
    return &ep.rails->at[index];
}

/* So many rails: those beside the stream are made and proven. */
static void open_some_rails(unsigned n)
{
    open_hosts(n);
    nxr_tcp_rails_use(&ep);
    cr_assert(eq(uint, n_made, n - 1));
    cr_assert(eq(uint, ep.rails->n, n));
    cr_assert(nxr_tcp_rails_are_useful(&ep), "they are being made");
    for (unsigned i = 1; i < n; i++) {
        rail(i)->proven(rail(i));
    }
}

static void open_rails(void)
{
    open_some_rails(2);
}

/* Send an operation; the first kernel has room for so much. Returns its number. */
static uint64_t send_spread(size_t room)
{
    give_room(0, room);
    cr_assert(eq(int, nxr_tcp_send(&ep, sent_head, sizeof(sent_head), sent_bytes, NBYTES, &op),
                 NIXL_INPROGRESS));
    return nxr_list_entry(ep.rails->stripes.prev, struct nxr_tcp_stripe, link)->plan.number;
}

static const char *ack_arrives(struct nxr_tcp_conn *by, uint64_t number, uint32_t index)
{
    const struct nxr_tcp_ack ack = {NXR_TCP_ACK_MAGIC, index, number};

    return nxr_tcp_take_ack(by, &ack);
}

static bool has_bit(unsigned bits, uint32_t index)
{
    return (bits & 1u << index) != 0;
}

/*
 * The pieces on a wire, whole ones, are those of sent_bytes, and have an ack now. Returns them as
 * bits.
 */
static unsigned pieces_arrive(unsigned index, struct nxr_tcp_conn *by)
{
    unsigned pieces = 0;
    size_t at = 0;

    while (at < wires[index].n) {
        struct nxr_tcp_piece piece;

        cr_assert(le(sz, at + sizeof(piece), wires[index].n));
        memcpy(&piece, wires[index].bytes + at, sizeof(piece));
        at += sizeof(piece);
        cr_assert(eq(u32, piece.magic, NXR_TCP_PIECE_MAGIC));
        cr_assert(nxr_tcp_piece_fits(&piece, NBYTES, PIECE_NBYTES));
        cr_assert(le(sz, at + piece.nbytes, wires[index].n));
        cr_expect(eq(int,
                     memcmp(wires[index].bytes + at,
                            sent_bytes + (size_t)piece.index * PIECE_NBYTES, piece.nbytes),
                     0));
        at += piece.nbytes;
        cr_expect(not(has_bit(pieces, piece.index)), "twice");
        pieces |= 1u << piece.index;
        cr_expect(ack_arrives(by, piece.number, piece.index) == NULL);
    }
    return pieces;
}

/* The plan has gone out and has its ack; rail 0 has sent one piece, and rail 1 takes so much. */
static uint64_t begin_spread(size_t room_of_second)
{
    uint64_t number = send_spread(SIZE_MAX);

    give_room(0, SIZE_MAX);
    (void)nxr_tcp_flush(&ep);
    give_room(1, room_of_second);
    cr_assert(ack_arrives(&stream, number, NXR_TCP_ACK_OF_PLAN) == NULL);
    return number;
}

Test(tcp_rails, before_its_plan_has_an_ack_only_the_stream_carries_a_piece)
{
    uint64_t number;

    open_rails();
    number = send_spread(SIZE_MAX);
    give_room(0, SIZE_MAX);
    give_room(1, SIZE_MAX);
    (void)nxr_tcp_flush(&ep);
    cr_expect(not(stream.wants_room));
    cr_expect(eq(sz, wires[1].n, 0));
    cr_expect(ack_arrives(&stream, number, NXR_TCP_ACK_OF_PLAN) == NULL);
    cr_expect(eq(uint, pieces_arrive(0, &stream), 1));
    cr_expect(eq(uint, pieces_arrive(1, &second), 0x1e));
    cr_expect(eq(uint, n_ended, 1));
}

Test(tcp_rails, rails_take_pieces_by_turns)
{
    uint64_t number;

    open_some_rails(3);
    number = send_spread(SIZE_MAX);
    give_room(0, SIZE_MAX);
    give_room(1, SIZE_MAX);
    give_room(2, SIZE_MAX);
    (void)nxr_tcp_flush(&ep);
    cr_expect(ack_arrives(&stream, number, NXR_TCP_ACK_OF_PLAN) == NULL);
    cr_expect(eq(uint, pieces_arrive(0, &stream), 0x01));
    cr_expect(eq(uint, pieces_arrive(1, &second), 0x0a));
    cr_expect(eq(uint, pieces_arrive(2, &third), 0x14));
}

Test(tcp_rails, a_rail_lost_within_a_piece_loses_no_byte)
{
    uint64_t number;

    open_rails();
    number = begin_spread(sizeof(struct nxr_tcp_piece) + PIECE_NBYTES +
                          sizeof(struct nxr_tcp_piece) + 1000);
    cr_assert(ne(ptr, rail(1)->stripe, NULL), "within piece 2");
    cr_expect(ack_arrives(&second, number, 2) != NULL, "it has not gone out");
    cr_expect(ack_arrives(&second, number, 1) == NULL);
    rail(1)->lost(rail(1), "reset");
    cr_expect(eq(uint, n_aborted, 1));
    cr_expect(eq(uint, n_failures_told, 1));
    cr_expect(eq(uint, pieces_arrive(0, &stream), 1));
    cr_expect(eq(uint, n_ended, 0));
    give_room(0, SIZE_MAX);
    (void)nxr_tcp_flush(&ep);
    cr_expect(eq(uint, pieces_arrive(0, &stream), 0x1c), "what had no ack, whole");
    cr_expect(eq(uint, n_ended, 1));
}

Test(tcp_rails, a_piece_without_an_ack_goes_again_though_all_of_it_was_sent)
{
    open_rails();
    (void)begin_spread(SIZE_MAX);
    cr_expect(eq(uint, pieces_arrive(0, &stream), 1));
    memset(moved_bytes, 1, NBYTES);
    nxr_tcp_rebase(&ep, &op, moved_bytes);
    rail(1)->lost(rail(1), "reset");
    give_room(0, SIZE_MAX);
    (void)nxr_tcp_flush(&ep);
    memset(sent_bytes, 1, NBYTES); /* as it is expected */
    cr_expect(eq(uint, pieces_arrive(0, &stream), 0x1e));
    cr_expect(eq(uint, n_ended, 1));
}

static void ring(void)
{
    nxr_list_remove(&ep.rails->timer.link);
    ep.rails->timer.rings(&ep.rails->timer);
}

Test(tcp_rails, a_lost_rail_is_made_again_after_a_pause_and_used_once_proven)
{
    open_rails();
    (void)begin_spread(0);
    rail(1)->lost(rail(1), "reset");
    cr_expect(not(nxr_list_is_empty(&ep.rails->timer.link)));
    cr_expect(nxr_tcp_rails_are_useful(&ep), "it may be used again any time");
    ring();
    cr_expect(eq(uint, n_made, 1), "its pause is not over");
    rail(1)->try_at = 0;
    ring();
    cr_assert(eq(uint, n_made, 2));
    give_room(1, SIZE_MAX);
    nxr_tcp_rails_feed(&ep);
    cr_expect(eq(sz, wires[1].n, 0), "not before it is proven");
    rail(1)->proven(rail(1));
    cr_expect(eq(uint, pieces_arrive(1, &second), 0x1e));
}

Test(tcp_rails, a_rail_that_was_never_proven_does_not_spread_bulk)
{
    open_hosts(2);
    nxr_tcp_rails_use(&ep);
    rail(1)->lost(rail(1), "no answer");
    cr_expect(eq(uint, n_failures_told, 0));
    cr_expect(not(nxr_tcp_rails_are_useful(&ep)));
}

Test(tcp_rails, a_cut_is_told_from_a_process_that_is_stopped)
{
    open_rails();
    (void)begin_spread(1000);
    acked = (struct nxr_tcp_acked){.nbytes = 500, .is_awaited = true};
    ring();
    rail(1)->heard_at -= 10 * NXR_S;
    acked.is_awaited = false; /* its host has all, and has no room for more */
    ring();
    cr_expect(eq(uint, n_aborted, 0));
    acked.is_awaited = true;
    rail(1)->heard_at -= 10 * NXR_S;
    acked.nbytes++;
    ring();
    cr_expect(eq(uint, n_aborted, 0), "slow");
    rail(1)->heard_at -= 10 * NXR_S;
    ring();
    cr_expect(eq(uint, n_aborted, 1), "cut");
}

/* Once an operation has ended, rail 1 is lost, and made and proven again. */
static uint64_t lose_and_prove(void)
{
    uint64_t ended;

    open_rails();
    ended = begin_spread(SIZE_MAX);
    cr_assert(eq(uint, pieces_arrive(0, &stream) | pieces_arrive(1, &second), 0x1f));
    rail(1)->lost(rail(1), "reset");
    rail(1)->try_at = 0;
    give_room(1, SIZE_MAX);
    ring();
    rail(1)->proven(rail(1));
    return ended;
}

Test(tcp_rails, a_lost_rail_shows_that_it_carries_long_pieces_before_it_is_used_again)
{
    uint64_t ended = lose_and_prove();
    struct nxr_tcp_piece trial;

    memcpy(&trial, wires[1].bytes, sizeof(trial));
    cr_expect(eq(u64, trial.number, ended), "the owner drops it");
    cr_expect(eq(sz, wires[1].n, sizeof(trial) + trial.nbytes));
    cr_expect(ge(sz, trial.nbytes, 65520), "the longest packet");
    (void)begin_spread(SIZE_MAX);
    cr_expect(eq(sz, wires[1].n, 0), "not before its ack");
    cr_expect(ack_arrives(&second, ended, 1) != NULL, "of another piece");
    cr_expect(ack_arrives(&second, ended, 0) == NULL);
    nxr_tcp_rails_feed(&ep);
    cr_expect(gt(sz, wires[1].n, 0));
}

Test(tcp_rails, a_rail_that_carries_no_long_pieces_is_tried_less_and_less)
{
    int64_t pause_ns;

    (void)lose_and_prove();
    pause_ns = rail(1)->pause_ns;
    acked.is_awaited = true;
    ring();
    rail(1)->heard_at -= 10 * NXR_S;
    ring();
    cr_expect(eq(uint, n_aborted, 2), "the trial is not acknowledged");
    cr_expect(gt(i64, rail(1)->pause_ns, pause_ns));
    cr_expect(eq(uint, n_failures_told, 0), "nothing was lost by it, and by its end");
}

Test(tcp_rails, acks_of_what_was_not_sent_are_refused)
{
    uint64_t number;

    open_rails();
    number = send_spread(0);
    cr_expect(ack_arrives(&stream, number, NXR_TCP_ACK_OF_PLAN) != NULL, "the plan waits here");
    cr_expect(ack_arrives(&stream, number, 0) != NULL);
    give_room(0, SIZE_MAX);
    (void)nxr_tcp_flush(&ep);
    cr_expect(ack_arrives(&stream, number, 0) != NULL, "before that of its plan");
    cr_expect(ack_arrives(&second, number, NXR_TCP_ACK_OF_PLAN) != NULL);
    cr_expect(ack_arrives(&stream, number, NXR_TCP_ACK_OF_PLAN) == NULL);
    cr_expect(ack_arrives(&stream, number, NXR_TCP_ACK_OF_PLAN) != NULL, "twice");
    cr_expect(ack_arrives(&stream, number, N_PIECES) != NULL);
    cr_expect(ack_arrives(&second, number, 0) != NULL, "by another rail");
    cr_expect(ack_arrives(&stream, number, 0) == NULL);
    cr_expect(ack_arrives(&stream, number, 0) != NULL, "twice");
    cr_expect(ack_arrives(&stream, 0, 0) != NULL);
    cr_expect(ack_arrives(&stream, number + 1, 0) != NULL);
    cr_expect(eq(uint, n_ended, 0));
}

Test(tcp_rails, no_more_goes_out_without_an_ack_than_the_owner_keeps_acks_of)
{
    uint64_t number;

    open_rails();
    number = begin_spread(sizeof(struct nxr_tcp_piece) + PIECE_NBYTES);
    rail(1)->stripe = NULL;
    rail(1)->n_unheard = NXR_TCP_MAX_UNHEARD;
    give_room(1, SIZE_MAX);
    nxr_tcp_rails_feed(&ep);
    cr_expect(eq(sz, wires[1].n, 0));
    cr_expect(not(second.wants_room), "room is not what it waits for");
    cr_expect(ack_arrives(&second, number, 1) == NULL);
    cr_expect(second.wants_room);
    ep.rails->n_untaken = NXR_TCP_MAX_UNHEARD;
    cr_expect(eq(ptr, nxr_tcp_stripe_new(&ep, "", 1, sent_bytes, NBYTES, &op), NULL));
}

Test(tcp_rails, an_endpoint_that_is_being_closed_sends_what_was_accepted)
{
    open_rails();
    (void)send_spread(SIZE_MAX);
    ep.is_closing = true;
    stream.drops = true; /* no ack is read */
    cr_expect(nxr_tcp_rails_are_busy(&ep));
    give_room(0, SIZE_MAX);
    (void)nxr_tcp_flush(&ep);
    cr_expect(not(nxr_tcp_rails_are_busy(&ep)));
    cr_expect(gt(sz, wires[0].n, NBYTES));
}

/* ---- whether it pays ------------------------------------------------------------------------- */

/* All pieces of the operation arrive; returns those that rail 1 has carried. */
static unsigned spread_all(void)
{
    uint64_t number = begin_spread(SIZE_MAX);
    unsigned of_first = pieces_arrive(0, &stream), of_second = pieces_arrive(1, &second);

    cr_expect(eq(uint, of_first ^ of_second, 0x1f), "all of plan %lu", (unsigned long)number);
    cr_expect(nxr_list_is_empty(&ep.rails->stripes));
    return of_second;
}

Test(tcp_rails, it_is_measured_with_all_rails_and_with_the_first_in_turns)
{
    const struct nxr_tcp_trials *trials;

    open_rails();
    trials = ep.rails->choice.classes[nxr_tcp_class_of(NBYTES)].trials;
    cr_expect(eq(uint, spread_all(), 0x1e));
    cr_expect(eq(uint, spread_all(), 0), "the first alone");
    cr_expect(eq(uint, spread_all(), 0x1e));
    cr_expect(eq(uint, trials[NXR_TCP_SPREAD].n, 2));
    cr_expect(eq(uint, trials[NXR_TCP_ALONE].n, 1));
    cr_expect(eq(uint, n_ended, 3));
    rail(1)->lost(rail(1), "reset");
    cr_expect(eq(uint, trials[NXR_TCP_SPREAD].n, 0), "other rails, other times");
}

Test(tcp_rails, what_was_found_to_be_slower_is_not_spread)
{
    open_rails();
    (void)spread_all();
    cr_expect(ep.rails->is_limited);
    for (unsigned i = 0; i < NXR_TCP_N_CLASSES; i++) {
        ep.rails->choice.classes[i].is_whole = true;
        ep.rails->choice.classes[i].n_to_rest = 1;
    }
    give_room(0, SIZE_MAX);
    cr_expect(
        eq(int, nxr_tcp_send(&ep, sent_head, sizeof(sent_head), sent_bytes, NBYTES, &op), NIXL_OK));
    cr_expect(nxr_list_is_empty(&ep.rails->stripes));
    cr_expect(eq(sz, wires[0].n, sizeof(struct nxr_tcp_frame) + sizeof(sent_head) + NBYTES));
    cr_expect(not(ep.rails->is_limited), "the kernel queues as much as it wants");
}

Test(tcp_rails, operations_behind_each_other_are_measured_together)
{
    const struct nxr_tcp_trials *trials;
    uint64_t first, second_number;

    open_rails();
    trials = ep.rails->choice.classes[nxr_tcp_class_of(NBYTES)].trials;
    first = begin_spread(SIZE_MAX);
    second_number = begin_spread(SIZE_MAX);
    cr_expect(eq(u64, second_number, first + 1));
    cr_expect(eq(u64, ep.rails->run.nbytes, 2 * NBYTES));
    cr_expect(not(ep.rails->run.is_mixed));
    for (unsigned i = 0; i < 5; i++) { /* as much as is tried, and more */
        (void)begin_spread(0);
    }
    cr_expect(eq(u64, ep.rails->run.nbytes, 7 * NBYTES));
    (void)begin_spread(0);
    cr_expect(ep.rails->run.is_mixed, "too much");
    cr_expect(eq(uint, trials[NXR_TCP_SPREAD].n, 0));
}
