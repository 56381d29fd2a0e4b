/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of small gets to a rank on another host: one move, many in a message, answers in order. */
#include "net_case.h"

#include "region/region.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 4000, MAX_PIECES = 600 };

static struct nxr_piece pieces[MAX_PIECES];
static struct nxr_op op;
static int n_ended, outcome;
static char *memory;

static void start_list(void)
{
    fake_start();
    fake.attr.list_get_nbytes = PIECE;
    np = fake_link(1);
    memory = calloc(MAX_PIECES, PIECE);
    cr_assert(memory != NULL);
    n_ended = 0;
}

static void stop_list(void)
{
    stop();
    free(memory);
}

static void op_ended(struct nxr_op *ended, int status)
{
    (void)ended;
    n_ended++;
    outcome = status;
}

/* Begin a list of n pieces of that size. */
static int begin(enum nxr_op_kind kind, size_t n, size_t nbytes)
{
    struct nxr_segment *segment = nxr_region_segment(fake_region(1, false), 1);

    for (size_t i = 0; i < n; i++) {
        pieces[i] = (struct nxr_piece){2 * i * nbytes, memory + i * nbytes, nbytes};
    }
    op = (struct nxr_op){
        .transport = segment->transport,
        .segment = segment,
        .kind = kind,
        .local = memory,
        .nbytes = n * nbytes,
        .pieces = pieces,
        .n_pieces = n,
        .ended = op_ended,
    };
    fake_forget_sent();
    return segment->transport->start_list(&op);
}

/* The number of the first piece's question. */
static uint64_t first_move(size_t n_asked)
{
    return ((const struct nxr_net_get *)fake_last(NXR_NET_GET))->move + 1 - n_asked;
}

static void answer(uint64_t move, char c, size_t nbytes)
{
    const struct nxr_net_got got = {.move = move};
    char bytes[PIECE];

    memset(bytes, c, sizeof(bytes));
    fake_receive(1, NXR_NET_GOT, &got, sizeof(got), bytes, nbytes);
}

Test(list, gets_are_asked_for_in_one_message, .init = start_list, .fini = stop_list)
{
    uint64_t first;

    cr_assert(eq(int, begin(NXR_OP_GET, 100, 8), NIXL_INPROGRESS));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_GET), 100));
    cr_expect(eq(u32, fake_n_messages(), 1));
    first = first_move(100);
    for (uint64_t i = 0; i < 100; i++) {
        cr_expect(zero(int, n_ended));
        answer(first + i, (char)('a' + i % 26), 8);
        cr_expect(eq(chr, memory[i * 8 + 7], (char)('a' + i % 26)));
    }
    cr_expect(eq(int, n_ended, 1));
    cr_expect(eq(int, outcome, NIXL_OK));
    cr_expect(zero(u64, nxr_net.n_dropped));
}

/* The owner never has to hold more than a window for it. */
Test(list, asks_for_more_as_answers_come, .init = start_list, .fini = stop_list)
{
    size_t n_asked, n_first;
    uint64_t first;

    cr_assert(eq(int, begin(NXR_OP_GET, MAX_PIECES, PIECE), NIXL_INPROGRESS));
    n_first = fake_n_sent(NXR_NET_GET);
    cr_expect(lt(sz, n_first, MAX_PIECES / 2));
    first = first_move(n_first);
    for (uint64_t i = 0; i < MAX_PIECES; i++) {
        n_asked = fake_n_sent(NXR_NET_GET);
        cr_assert(gt(u64, n_asked, i));
        cr_assert(le(u64, n_asked - i, n_first));
        answer(first + i, 'x', PIECE);
    }
    cr_expect(eq(int, n_ended, 1));
    cr_expect(eq(int, outcome, NIXL_OK));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_GET), MAX_PIECES));
}

static void answers_wrongly(uint64_t ahead, size_t nbytes)
{
    cr_assert(eq(int, begin(NXR_OP_GET, 3, 8), NIXL_INPROGRESS));
    answer(first_move(3) + ahead, 'x', nbytes);
    cr_expect(eq(int, n_ended, 1));
    cr_expect(eq(int, outcome, NIXL_E_TRANSPORT));
    cr_expect(eq(u64, nxr_net.n_dropped, 1));
    cr_expect(zero(int, memory[0] + memory[8] + memory[16]));
}

Test(list, answer_out_of_order_ends_it, .init = start_list, .fini = stop_list)
{
    answers_wrongly(1, 8);
}

Test(list, answer_of_another_size_ends_it, .init = start_list, .fini = stop_list)
{
    answers_wrongly(0, 16);
}

Test(list, refusal_of_a_piece_ends_it, .init = start_list, .fini = stop_list)
{
    struct nxr_net_got got = {.status = NIXL_E_STALE};

    cr_assert(eq(int, begin(NXR_OP_GET, 3, 8), NIXL_INPROGRESS));
    got.move = first_move(3);
    fake_receive(1, NXR_NET_GOT, &got, sizeof(got), NULL, 0);
    cr_expect(eq(int, n_ended, 1));
    cr_expect(eq(int, outcome, NIXL_E_STALE));
}

Test(list, nothing_is_written_after_a_cancel, .init = start_list, .fini = stop_list)
{
    uint64_t first;

    cr_assert(eq(int, begin(NXR_OP_GET, 3, 8), NIXL_INPROGRESS));
    first = first_move(3);
    answer(first, 'x', 8);
    cr_expect(eq(int, op.transport->cancel(&op), NIXL_OK));
    cr_expect(eq(int, outcome, NIXL_E_CANCELED));
    answer(first + 1, 'y', 8);
    cr_expect(eq(int, n_ended, 1));
    cr_expect(zero(chr, memory[8]));
}

Test(list, ends_with_its_peer, .init = start_list, .fini = stop_list)
{
    cr_assert(eq(int, begin(NXR_OP_GET, 3, 8), NIXL_INPROGRESS));
    fake_lose(1);
    nxr_net_tell_ended();
    cr_expect(eq(int, n_ended, 1));
    cr_expect(eq(int, outcome, NIXL_E_PEER_LOST));
}

Test(list, puts_and_large_pieces_are_no_list, .init = start_list, .fini = stop_list)
{
    cr_expect(eq(int, begin(NXR_OP_PUT, 3, 8), NIXL_E_UNSUPPORTED));
    cr_expect(eq(int, begin(NXR_OP_GET, 3, PIECE + 1), NIXL_E_UNSUPPORTED));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_GET)));
}
