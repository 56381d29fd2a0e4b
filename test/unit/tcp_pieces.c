/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk that arrives in pieces by the rails of the TCP network: each is written and counted once,
 * whichever rails bring it, and what is wrong is refused. The test is what connections, the kernel
 * and the core are otherwise, and places bytes as stream.c does.
 */
#include "transports/tcp/rails.h"

#include "nixlrun.h"
#include "transports/stripe.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <string.h>

TestSuite(tcp_pieces, .timeout = 120);

#define N_PIECES     ((uint32_t)5)
#define PIECE_NBYTES NXR_STRIPE_PIECE_MIN
#define NBYTES       (4 * PIECE_NBYTES + 4099) /* the last piece is a short one */

struct nxr_tcp nxr_tcp;

static struct nxr_tcp_conn in[2]; /* what the owner reads from: the ordered stream, and rail 1 */
static struct nxr_tcp_process process;
static unsigned char landed_bytes[NBYTES];
static unsigned n_landed;
static size_t n_landing;

static struct {
    size_t n, room; /* what the kernel has taken, and still takes */
} wires[2];

void nxr_tcp_conn_wants_room(struct nxr_tcp_conn *of, bool wants_room)
{
    of->wants_room = wants_room;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t nbytes, int flags);

ssize_t __wrap_send(int fd, const void *bytes, size_t nbytes, int flags)
{
    size_t taken = nbytes < wires[fd - 1000].room ? nbytes : wires[fd - 1000].room;

    (void)bytes;
    cr_expect(eq(int, flags, MSG_NOSIGNAL | MSG_DONTWAIT));
    wires[fd - 1000].n += taken;
    wires[fd - 1000].room -= taken;
    errno = EAGAIN;
    return taken > 0 ? (ssize_t)taken : -1;
}

static void give_room(unsigned index, size_t room)
{
    wires[index].room = room;
    wires[index].n = 0;
}

static void *core_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p)
{
    (void)header;
    (void)header_nbytes;
    *cookie_p = landed_bytes;
    return nbytes == NBYTES ? landed_bytes : NULL;
}

static void core_landing(void *cookie, size_t nbytes)
{
    cr_expect(eq(ptr, cookie, landed_bytes));
    n_landing += nbytes;
}

static void core_landed(void *cookie, int status)
{
    cr_expect(eq(ptr, cookie, landed_bytes));
    cr_expect(eq(int, status, NIXL_OK));
    n_landed++;
}

static const struct nxr_net_core core = {
    .size = 2, .incoming = core_incoming, .landing = core_landing, .landed = core_landed};

static void open_in(void)
{
    nxr_tcp = (struct nxr_tcp){.core = &core, .is_progressing = true};
    nxr_list_init(&nxr_tcp.conns);
    process = (struct nxr_tcp_process){.ep = NULL};
    nxr_list_init(&process.conns);
    nxr_list_init(&process.rails);
    for (unsigned i = 0; i < 2; i++) {
        in[i] = (struct nxr_tcp_conn){.stage = NXR_TCP_OPEN,
                                      .process = &process,
                                      .is_rail = i > 0,
                                      .watch.fd = 1000 + (int)i};
        nxr_list_init(&in[i].arrivals);
        nxr_list_append(i > 0 ? &process.rails : &process.conns, &in[i].process_link);
        nxr_list_append(&nxr_tcp.conns, &in[i].link);
    }
}

/* One part arrives. Returns what is wrong with it; NULL: nothing. */
static const char *arrives(unsigned by, const void *head, size_t head_nbytes, const void *rest,
                           size_t nbytes)
{
    static unsigned char part[sizeof(struct nxr_tcp_piece) + NBYTES];
    const char *why;
    size_t n_taken;

    give_room(by, SIZE_MAX); /* for acks */
    memcpy(part, head, head_nbytes);
    memcpy(part + head_nbytes, rest, nbytes);
    n_taken = nxr_tcp_take_part(&in[by], part, head_nbytes + nbytes, &why);
    cr_expect(why != NULL || n_taken == head_nbytes + nbytes);
    return why;
}

static const char *plan_arrives(unsigned by, uint64_t number)
{
    const struct nxr_tcp_plan plan = {number, PIECE_NBYTES, 0};
    const struct nxr_tcp_frame frame = {NXR_TCP_PLAN_MAGIC, sizeof(plan) + 8, NBYTES};
    unsigned char rest[sizeof(plan) + 8] = {0};

    memcpy(rest, &plan, sizeof(plan));
    return arrives(by, &frame, sizeof(frame), rest, sizeof(rest));
}

/* The beginning of a piece: n_here of its bytes, all of that value. */
static const char *part_arrives(unsigned by, uint64_t number, uint32_t index, uint64_t nbytes,
                                uint64_t n_here, int byte)
{
    const struct nxr_tcp_piece piece = {NXR_TCP_PIECE_MAGIC, index, number, nbytes};
    static unsigned char bytes[PIECE_NBYTES];

    memset(bytes, byte, sizeof(bytes));
    return arrives(by, &piece, sizeof(piece), bytes, n_here);
}

static const char *piece_arrives(unsigned by, uint64_t number, uint32_t index, uint64_t nbytes,
                                 int byte)
{
    return part_arrives(by, number, index, nbytes, nbytes, byte);
}

static uint64_t nbytes_of(uint32_t index)
{
    return nxr_tcp_piece_nbytes(NBYTES, PIECE_NBYTES, index);
}

static void expect_landed(int byte)
{
    cr_expect(eq(uint, n_landed, 1));
    for (size_t i = 0; i < NBYTES; i++) {
        cr_assert(eq(int, landed_bytes[i], byte));
    }
}

Test(tcp_pieces, a_piece_is_counted_once_and_never_written_late)
{
    open_in();
    cr_assert(plan_arrives(0, 7) == NULL);
    cr_expect(eq(sz, wires[0].n, sizeof(struct nxr_tcp_ack)), "the plan has its ack");
    for (uint32_t i = 0; i < N_PIECES; i++) {
        cr_expect(eq(uint, n_landed, 0));
        cr_expect(piece_arrives(i % 2, 7, i, nbytes_of(i), 1) == NULL);
        cr_expect(eq(sz, wires[i % 2].n, sizeof(struct nxr_tcp_ack)));
        cr_expect(piece_arrives(1 - i % 2, 7, i, nbytes_of(i), 2) == NULL, "again");
        cr_expect(eq(sz, wires[1 - i % 2].n, sizeof(struct nxr_tcp_ack)), "it has an ack, too");
    }
    cr_expect(piece_arrives(1, 7, 3, nbytes_of(3), 3) == NULL, "long after the end");
    expect_landed(1);
    cr_expect(eq(sz, n_landing, NBYTES));
}

Test(tcp_pieces, the_rest_of_a_piece_that_came_by_another_rail_is_dropped)
{
    open_in();
    cr_assert(plan_arrives(0, 7) == NULL);
    cr_expect(part_arrives(1, 7, 0, nbytes_of(0), 1000, 1) == NULL, "rail 1 is cut within it");
    cr_assert(eq(ptr, in[1].bulk, (char *)landed_bytes + 1000));
    for (uint32_t i = 0; i < N_PIECES; i++) {
        cr_expect(piece_arrives(0, 7, i, nbytes_of(i), 1) == NULL);
        cr_expect(eq(ptr, in[1].bulk, NULL), "what still comes there is read into the void");
    }
    cr_expect(in[1].is_piece && in[1].has_bulk);
    give_room(1, SIZE_MAX);
    cr_expect(nxr_tcp_piece_came(&in[1], nbytes_of(0) - 1000) == NULL);
    cr_expect(eq(sz, wires[1].n, sizeof(struct nxr_tcp_ack)));
    cr_expect(not(in[1].has_bulk));
    expect_landed(1);
}

Test(tcp_pieces, pieces_that_do_not_fit_are_refused)
{
    static struct nxr_tcp_rail own;

    open_in();
    cr_expect(piece_arrives(0, 7, 0, 10, 1) != NULL, "before its plan");
    cr_expect(plan_arrives(1, 7) != NULL, "a plan on a rail");
    cr_assert(plan_arrives(0, 7) == NULL);
    cr_expect(plan_arrives(0, 7) != NULL, "a plan that was there already");
    cr_expect(piece_arrives(1, 7, 5, 10, 1) != NULL, "behind the end");
    cr_expect(piece_arrives(1, 7, 4, 4100, 1) != NULL, "beyond the end");
    cr_expect(piece_arrives(1, 7, 0, 10, 1) != NULL, "a short one");
    cr_expect(piece_arrives(1, 8, 0, 10, 1) != NULL, "of a later plan");
    in[1].carries = &own;
    cr_expect(piece_arrives(1, 7, 4, nbytes_of(4), 1) != NULL, "against the rail's direction");
    cr_expect(eq(uint, n_landed, 0));
}

Test(tcp_pieces, a_sender_that_never_reads_its_acks_is_refused)
{
    const char *why = NULL;
    unsigned n = 0;

    open_in();
    cr_assert(plan_arrives(0, 7) == NULL);
    for (; why == NULL && n < 10 * NXR_TCP_MAX_UNHEARD; n++) {
        const struct nxr_tcp_piece piece = {NXR_TCP_PIECE_MAGIC, 0, 6, 1};
        unsigned char part[sizeof(piece) + 1];

        give_room(0, 0);
        memcpy(part, &piece, sizeof(piece));
        part[sizeof(piece)] = 9;
        (void)nxr_tcp_take_part(&in[0], part, sizeof(part), &why);
    }
    cr_expect(why != NULL);
    cr_expect(gt(uint, n, 2 * NXR_TCP_MAX_UNHEARD));
    cr_expect(in[0].wants_room);
    cr_expect(not(nxr_tcp_acks_flush(&in[0])));
    give_room(0, 2 * sizeof(struct nxr_tcp_ack) + 5);
    cr_expect(not(nxr_tcp_acks_flush(&in[0])));
    give_room(0, SIZE_MAX);
    cr_expect(nxr_tcp_acks_flush(&in[0]));
}
