/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint of the TCP network: in which order its paths are tried and when the peer is given up,
 * and what it sends to a kernel that takes a few bytes at a time. The test is what connections,
 * timers and the core are otherwise.
 */
#include "transports/tcp/connection.h"

#include "nixlrun.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(tcp_ep, .timeout = 120);

struct nxr_tcp nxr_tcp;

static struct nxr_tcp_conn conn; /* the one that is being made, or is open */
static struct nxr_net_ep ep;
static int64_t conn_timer_ns, retry_ns; /* 0: not set */
static const char *failure;             /* with which the endpoint has failed; NULL */
static bool wants_room;

/* ---- connections and timers ------------------------------------------------------------------ */

socklen_t nxr_tcp_sockaddr(const struct nxr_tcp_path *path, struct sockaddr_storage *name)
{
    struct sockaddr_in *in = (struct sockaddr_in *)name;

    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(path->port)};
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof(*in);
}

void nxr_tcp_name_of_source(int fd, char *name, size_t name_nbytes)
{
    (void)fd;
    snprintf(name, name_nbytes, "lo");
}

struct nxr_tcp_conn *nxr_tcp_conn_new(int fd, enum nxr_tcp_stage stage)
{
    close(fd);
    conn = (struct nxr_tcp_conn){.stage = stage};
    return &conn;
}

void nxr_tcp_conn_close(struct nxr_tcp_conn *closed)
{
    cr_expect(eq(ptr, closed, &conn));
    ep.trying = NULL;
}

void nxr_tcp_conn_lost(struct nxr_tcp_conn *lost, const char *why)
{
    cr_expect(eq(ptr, lost, &conn));
    ep.trying = NULL;
    nxr_tcp_connect_failed(&ep, why, false);
}

void nxr_tcp_conn_wants_room(struct nxr_tcp_conn *of, bool wants)
{
    cr_expect(eq(ptr, of, &conn));
    wants_room = wants;
}

void nxr_tcp_timer_set(struct nxr_tcp_timer *timer, int64_t after_ns)
{
    *(timer == &ep.retry_timer ? &retry_ns : &conn_timer_ns) = after_ns;
}

void nxr_tcp_timer_end(struct nxr_tcp_timer *timer)
{
    *(timer == &ep.retry_timer ? &retry_ns : &conn_timer_ns) = 0;
}

void nxr_tcp_ep_fail(struct nxr_net_ep *failed, const char *why)
{
    cr_expect(eq(ptr, failed, &ep));
    snprintf(ep.why, sizeof(ep.why), "%s", why);
    ep.has_failed = true;
    failure = ep.why;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* An endpoint of a peer with so many paths; connect() only begins, or is refused at once. */
static void open_ep(unsigned n_paths)
{
    nxr_list_init(&nxr_tcp.ended);
    memset(&ep, 0, sizeof(ep));
    ep.n_paths = n_paths;
    for (unsigned i = 0; i < n_paths; i++) {
        ep.paths[i] = (uint8_t)i;
        ep.address.paths[i] = (struct nxr_tcp_path){.family = 4, .port = (uint16_t)(1 + i)};
    }
}

static bool is_refused; /* each connect() */

int __wrap_connect(int fd, const struct sockaddr *name, socklen_t nbytes);

int __wrap_connect(int fd, const struct sockaddr *name, socklen_t nbytes)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)name;

    (void)fd;
    cr_expect(eq(sz, nbytes, sizeof(*in)));
    cr_expect(eq(int, ntohs(in->sin_port), (int)ep.next_path + 1), "the paths in their order");
    errno = is_refused ? ECONNREFUSED : EINPROGRESS;
    return -1;
}

/* What the connection that is being made meets with. */
static void path_fails(bool is_refusal)
{
    ep.trying = NULL;
    nxr_tcp_connect_failed(&ep, is_refusal ? "refused" : "no route", is_refusal);
}

Test(tcp_ep, a_peer_whose_paths_all_refuse_is_gone)
{
    open_ep(3);
    nxr_tcp_connect(&ep);
    path_fails(true);
    path_fails(true);
    cr_expect(not(ep.has_failed));
    cr_expect(ne(ptr, ep.trying, NULL), "the third is tried");
    path_fails(true);
    cr_assert(ep.has_failed);
    cr_expect(ne(ptr, strstr(failure, "refused"), NULL), "%s", failure);
}

Test(tcp_ep, one_refusal_of_a_single_path_at_once_is_enough)
{
    open_ep(1);
    is_refused = true;
    nxr_tcp_connect(&ep);
    cr_expect(ep.has_failed);
}

Test(tcp_ep, a_path_without_an_answer_keeps_the_peer)
{
    open_ep(2);
    nxr_tcp_connect(&ep);
    path_fails(true);
    path_fails(false);
    cr_expect(not(ep.has_failed));
    cr_assert(ep.is_waiting);
    cr_expect(gt(i64, retry_ns, 0));
    cr_expect(eq(ptr, ep.trying, NULL), "not before the timer");
    ep.retry_timer.rings(&ep.retry_timer);
    cr_expect(not(ep.is_waiting));
    cr_expect(eq(uint, ep.next_path, 0));
    path_fails(true);
    cr_expect(not(ep.has_failed), "refusals of the round before do not count");
    path_fails(true);
    cr_expect(ep.has_failed);
}

Test(tcp_ep, only_one_of_several_paths_has_a_time_limit)
{
    open_ep(1);
    nxr_tcp_connect(&ep);
    cr_expect(eq(i64, conn_timer_ns, 0));
    open_ep(2);
    nxr_tcp_connect(&ep);
    cr_assert(gt(i64, conn_timer_ns, 0));
    conn.timer.rings(&conn.timer);
    cr_expect(eq(uint, ep.next_path, 1), "the other one");
    cr_expect(eq(ptr, ep.trying, &conn));
}

/* ---- sending --------------------------------------------------------------------------------- */

#define LONG_NBYTES 2000 /* a message that is gathered from where it lies */
#define BULK_NBYTES 3000

static unsigned char wire[4 * (LONG_NBYTES + BULK_NBYTES)];
static size_t n_on_wire, room_now; /* what the kernel has taken, and takes of the next call */

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t nbytes, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    size_t taken = 0;

    (void)fd;
    cr_expect(eq(int, flags, MSG_NOSIGNAL | MSG_DONTWAIT));
    for (size_t i = 0; i < message->msg_iovlen && taken < room_now; i++) {
        size_t left = room_now - taken, nbytes = message->msg_iov[i].iov_len;

        nbytes = nbytes < left ? nbytes : left;
        cr_assert(le(sz, n_on_wire + nbytes, sizeof(wire)));
        memcpy(wire + n_on_wire, message->msg_iov[i].iov_base, nbytes);
        n_on_wire += nbytes;
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

static unsigned char message_bytes[LONG_NBYTES], bulk_bytes[BULK_NBYTES];
static struct nxr_net_op ops[2];
static unsigned n_ended;

static void core_ended(struct nxr_net_op *op, int status)
{
    cr_expect(eq(ptr, op, &ops[n_ended]), "in their order");
    cr_expect(eq(int, status, NIXL_OK));
    n_ended++;
}

static const struct nxr_net_core core = {.size = 2, .ended = core_ended};

static void open_connected(void)
{
    open_ep(1);
    nxr_tcp.core = &core;
    ep.conn = &conn;
    for (size_t i = 0; i < LONG_NBYTES; i++) {
        message_bytes[i] = (unsigned char)(i * 7);
    }
    for (size_t i = 0; i < BULK_NBYTES; i++) {
        bulk_bytes[i] = (unsigned char)(i * 13 + 1);
    }
}

/* One message after the other is on the wire: frame, bytes, bulk. */
static size_t expect_message(size_t at, size_t nbytes, size_t bulk_nbytes)
{
    struct nxr_tcp_frame frame;

    memcpy(&frame, wire + at, sizeof(frame));
    at += sizeof(frame);
    cr_expect(eq(u32, frame.magic, NXR_TCP_FRAME_MAGIC));
    cr_expect(eq(sz, frame.nbytes, nbytes));
    cr_expect(eq(sz, frame.bulk_nbytes, bulk_nbytes));
    cr_expect(eq(int, memcmp(wire + at, message_bytes, nbytes), 0));
    cr_expect(eq(int, memcmp(wire + at + nbytes, bulk_bytes, bulk_nbytes), 0));
    return at + nbytes + bulk_nbytes;
}

/* A long message with bulk and a short one; the kernel takes `step` bytes at a time. */
static void send_by(size_t step)
{
    unsigned n_turns = 0;

    open_connected();
    n_on_wire = n_ended = 0;
    room_now = step;
    cr_assert(eq(
        int,
        nxr_tcp_send(&ep, message_bytes, NXR_NET_HEADER_NBYTES, bulk_bytes, BULK_NBYTES, &ops[0]),
        NIXL_INPROGRESS));
    cr_expect(eq(sz, n_on_wire, step));
    cr_expect(wants_room);
    cr_assert(eq(int, nxr_tcp_send(&ep, message_bytes, 20, NULL, 0, &ops[1]), NIXL_INPROGRESS));
    cr_expect(eq(sz, n_on_wire, step), "not before its turn");
    while (ep.n_outs > 0 && n_turns++ < sizeof(wire)) {
        nxr_tcp_flush(&ep);
        nxr_tcp_tell_ended();
    }
    cr_expect(eq(uint, n_ended, 2), "steps of %zu", step);
    cr_expect(not(wants_room));
    cr_expect(eq(sz, expect_message(expect_message(0, NXR_NET_HEADER_NBYTES, BULK_NBYTES), 20, 0),
                 n_on_wire));
}

Test(tcp_ep, what_the_kernel_takes_in_pieces_arrives_whole)
{
    static const size_t steps[] = {1, 2, 3, 17, 1000};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        send_by(steps[i]);
    }
}

Test(tcp_ep, bulk_goes_on_from_where_it_was_moved_to)
{
    static unsigned char lent[BULK_NBYTES];

    open_connected();
    n_on_wire = n_ended = 0;
    room_now = sizeof(struct nxr_tcp_frame) + NXR_NET_HEADER_NBYTES + 5;
    memcpy(lent, bulk_bytes, BULK_NBYTES);
    cr_assert(
        eq(int, nxr_tcp_send(&ep, message_bytes, NXR_NET_HEADER_NBYTES, lent, BULK_NBYTES, &ops[0]),
           NIXL_INPROGRESS));
    nxr_tcp_rebase(&ep, &ops[0], bulk_bytes);
    memset(lent, 0, BULK_NBYTES);
    room_now = sizeof(wire);
    cr_expect(eq(int, nxr_tcp_flush(&ep), 1));
    cr_expect(eq(int, nxr_tcp_tell_ended(), 1));
    cr_expect(eq(sz, expect_message(0, NXR_NET_HEADER_NBYTES, BULK_NBYTES), n_on_wire));
}

/* One alone, long or short, sent at once but for its first bytes. */
static void send_alone(size_t nbytes, size_t first_nbytes)
{
    open_connected();
    n_on_wire = n_ended = 0;
    room_now = first_nbytes;
    cr_assert(eq(int, nxr_tcp_send(&ep, message_bytes, nbytes, NULL, 0, &ops[0]), NIXL_INPROGRESS));
    room_now = sizeof(wire);
    cr_expect(eq(int, nxr_tcp_flush(&ep), 1));
    cr_expect(eq(int, nxr_tcp_tell_ended(), 1));
    cr_expect(eq(sz, expect_message(0, nbytes, 0), n_on_wire));
}

Test(tcp_ep, the_first_bytes_are_not_sent_twice)
{
    for (size_t first_nbytes = 0; first_nbytes < 3; first_nbytes++) {
        send_alone(20, first_nbytes);
        send_alone(LONG_NBYTES, first_nbytes);
    }
}

Test(tcp_ep, what_the_kernel_takes_at_once_is_done)
{
    open_connected();
    n_on_wire = 0;
    room_now = sizeof(wire);
    cr_expect(eq(int, nxr_tcp_send(&ep, message_bytes, 20, NULL, 0, &ops[0]), NIXL_OK));
    cr_expect(eq(int, nxr_tcp_send(&ep, message_bytes, LONG_NBYTES, NULL, 0, &ops[0]), NIXL_OK));
    cr_expect(eq(sz, expect_message(expect_message(0, 20, 0), LONG_NBYTES, 0), n_on_wire));
}
