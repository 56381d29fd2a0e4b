/* SPDX-License-Identifier: Apache-2.0 */
/* How operations between hosts end: by death, cancel and nixl_finalize(), each exactly once. */
#include "net_case.h"

#include "core/progress.h"
#include "core/request.h"
#include "region/region.h"

#include "test/unit/unit.h"

#include <string.h>

#include <stdlib.h>

/* ---- the end --------------------------------------------------------------------------------- */

Test(end, of_a_job_with_bulk_and_answers_under_way, .init = start)
{
    struct nixl_region *region = fake_region(1, false);
    const struct nxr_net_put put = own_put(8);
    struct nixl_req *reqs[3] = {NULL};

    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, put_nb(region, LARGE, &reqs[0]), NIXL_INPROGRESS));
    cr_assert(eq(int, get_nb(region, LARGE, &reqs[1]), NIXL_INPROGRESS));
    fake.answer = NIXL_E_AGAIN;
    cr_assert(eq(int, put_nb(region, LARGE, &reqs[2]), NIXL_INPROGRESS));
    cr_assert(not(zero(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8))));
    for (int i = 0; i < 3; i++) {
        nixl_req_detach(&reqs[i]); /* nothing waits for them */
    }
    stop();
    cr_expect(zero(u32, atomic_load(&nxr_n_started)), "every request has ended");
    cr_expect(nxr_list_is_empty(&nxr_net.ended));
}

Test(end, of_a_job_with_reads_and_writes_under_way, .init = start_rma)
{
    struct nixl_region *region = fake_region(1, true);
    struct nixl_req *reqs[2] = {NULL};

    fake.answer = NIXL_INPROGRESS;
    cr_assert(eq(int, put_nb(region, LARGE, &reqs[0]), NIXL_INPROGRESS));
    cr_assert(eq(int, get_nb(region, LARGE, &reqs[1]), NIXL_INPROGRESS));
    cr_assert(eq(int, fake.n_moved, 2));
    nixl_req_detach(&reqs[0]);
    nixl_req_detach(&reqs[1]);
    cr_expect(eq(int, nixl_region_close(region, 0), NIXL_OK));
    stop();
    cr_expect(zero(u32, atomic_load(&nxr_n_started)));
    cr_expect(eq(int, fake.n_open_keys, 0), "the key of the closed part is given back");
}

/* ---- cancel and death, in each phase of an operation ----------------------------------------- */

/* What an operation is doing when it is canceled, or its peer dies. */
enum phase { WAITS_FOR_ROOM, AT_THE_NETWORK };

/* Begin one that is in that phase. */
static struct nixl_req *begin(struct nixl_region *region, bool is_put, enum phase phase)
{
    struct nixl_req *req = NULL;

    fake.answer = phase == AT_THE_NETWORK ? NIXL_INPROGRESS : NIXL_E_AGAIN;
    cr_assert(eq(int, is_put ? put_nb(region, LARGE, &req) : get_nb(region, LARGE, &req),
                 NIXL_INPROGRESS));
    cr_assert(eq(int, nixl_req_test(&req), NIXL_INPROGRESS));
    return req;
}

static void lose_in_phase(bool is_rma, bool is_put, enum phase phase)
{
    struct nixl_region *region = fake_region(1, is_rma);
    struct nixl_req *req = begin(region, is_put, phase);

    fake_lose(1);
    fake_round();
    cr_expect(zero(u32, fake_n_ops()), "the network has nothing");
    cr_expect(eq(int, nixl_req_test(&req), NIXL_E_PEER_LOST));
    cr_expect(zero(u32, atomic_load(&nxr_n_started)));
    cr_expect(nxr_list_is_empty(&np->moves));
    cr_expect(eq(int, put_nb(region, LARGE, &req), NIXL_E_PEER_LOST));
}

/* One test for each. */
#define DEATH(_name, _is_rma, _is_put, _phase)                                                     \
    Test(death, _name, .init = start, .fini = stop)                                                \
    {                                                                                              \
        fake.attr.is_rma_better = (_is_rma);                                                       \
        lose_in_phase(_is_rma, _is_put, _phase);                                                   \
    }

DEATH(get_that_waits, false, false, WAITS_FOR_ROOM)
DEATH(get_under_way, false, false, AT_THE_NETWORK)
DEATH(put_that_waits, false, true, WAITS_FOR_ROOM)
DEATH(put_under_way, false, true, AT_THE_NETWORK)
DEATH(read_that_waits, true, false, WAITS_FOR_ROOM)
DEATH(read_under_way, true, false, AT_THE_NETWORK)
DEATH(write_that_waits, true, true, WAITS_FOR_ROOM)
DEATH(write_under_way, true, true, AT_THE_NETWORK)

Test(death, while_bulk_comes_keeps_the_region_until_it_has_landed, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(8);

    cr_assert(eq(ptr, fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8), fake_job.own));
    receive_note(1, 1);
    fake_round();
    fake_lose(1);
    cr_expect(not(nxr_list_is_empty(&nxr_net.holds)));
    fake_land(0, NIXL_E_TRANSPORT);
    cr_expect(nxr_list_is_empty(&nxr_net.holds));
    cr_expect(zero(u64, next_tag()), "what waited for the bulk is not delivered");
}

Test(death, of_the_owner_while_its_answer_lands, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nxr_net_got got = {.nbytes = LARGE};
    struct nixl_req *req = NULL;

    cr_assert(eq(int, get_nb(region, LARGE, &req), NIXL_INPROGRESS));
    got.move = ((const struct nxr_net_get *)fake_last(NXR_NET_GET))->move;
    cr_assert(eq(ptr, fake_bulk(1, NXR_NET_BULK_GOT, &got, sizeof(got), LARGE), buffer));
    fake_lose(1);
    fake_round();
    cr_expect(eq(int, nixl_req_test(&req), NIXL_INPROGRESS), "the buffer is still written to");
    fake_land(0, NIXL_E_TRANSPORT);
    cr_expect(eq(int, nixl_req_test(&req), NIXL_E_PEER_LOST));
}

Test(cancel, get_whose_answer_has_not_come, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    int32_t outcome = NIXL_OUTCOME_DONE;
    struct nxr_net_got got = {.nbytes = LARGE};
    struct nixl_req *req = NULL;

    cr_assert(eq(int, get_nb(region, LARGE, &req), NIXL_INPROGRESS));
    got.move = ((const struct nxr_net_get *)fake_last(NXR_NET_GET))->move;
    cr_expect(eq(int, nixl_req_cancel(&req, 0, &outcome), NIXL_OK));
    cr_expect(eq(int, outcome, NIXL_OUTCOME_UNTOUCHED));
    cr_expect(zero(ptr, fake_bulk(1, NXR_NET_BULK_GOT, &got, sizeof(got), LARGE)));
}

Test(cancel, put_that_the_network_has_ends_when_it_lets_go, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req = begin(region, true, AT_THE_NETWORK);
    int32_t outcome = NIXL_OUTCOME_UNTOUCHED;

    cr_expect(eq(int, nixl_req_cancel(&req, 0, &outcome), NIXL_INPROGRESS));
    fake_end_ops(NIXL_OK);
    cr_expect(eq(int, nixl_req_cancel(&req, 0, &outcome), NIXL_OK));
    cr_expect(eq(int, outcome, NIXL_OUTCOME_DONE));
}

/* What the network was told of where bulk lies. */
static struct {
    unsigned n;
    const void *bulk;
} rebased;

static bool refuse_rebase(struct nxr_net_ep *ep, const struct nxr_net_op *op, const void *bulk)
{
    (void)ep;
    (void)op;
    (void)bulk;
    return false;
}

static bool note_rebase(struct nxr_net_ep *ep, const struct nxr_net_op *op, const void *bulk)
{
    (void)op;
    cr_expect(not(zero(ptr, ep)));
    rebased.n++;
    rebased.bulk = bulk;
    return true;
}

static void use_rebase(bool (*rebase)(struct nxr_net_ep *ep, const struct nxr_net_op *op,
                                      const void *bulk))
{
    static struct nxr_network module;

    module = *np->messages->module;
    module.rebase = rebase;
    np->messages->module = &module;
    rebased.n = 0;
}

static unsigned sum_of_buffer(void)
{
    unsigned sum = 0;

    for (size_t i = 0; i < LARGE; i++) {
        sum += (unsigned char)buffer[i];
    }
    return sum;
}

Test(cancel, put_that_may_trail_goes_on_from_a_copy, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req;

    use_rebase(note_rebase);
    memset(buffer, 1, LARGE);
    req = begin(region, true, AT_THE_NETWORK);
    req->op.may_trail = true;
    cr_expect(eq(int, nixl_req_cancel(&req, 0, NULL), NIXL_OK));
    memset(buffer, 2, LARGE);
    cr_assert(eq(u32, rebased.n, 1));
    for (size_t i = 0; i < LARGE; i++) {
        cr_assert(eq(i8, ((const char *)rebased.bulk)[i], 1));
    }
    fake_end_ops(NIXL_OK);
    cr_expect(zero(u32, atomic_load(&nxr_n_started)));
}

Test(cancel, put_that_may_trail_and_has_no_room_yet, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req;
    unsigned sum;

    use_rebase(NULL);
    memset(buffer, 1, LARGE);
    sum = fake.sum + sum_of_buffer();
    req = begin(region, true, WAITS_FOR_ROOM);
    req->op.may_trail = true;
    cr_expect(eq(int, nixl_req_cancel(&req, 0, NULL), NIXL_OK));
    memset(buffer, 2, LARGE);
    fake.answer = NIXL_OK;
    fake_round();
    cr_expect(eq(u32, fake.sum, sum));
}

static void expect_to_stay(bool (*rebase)(struct nxr_net_ep *ep, const struct nxr_net_op *op,
                                          const void *bulk))
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req;

    use_rebase(rebase);
    req = begin(region, true, AT_THE_NETWORK);
    req->op.may_trail = true;
    cr_expect(eq(int, nixl_req_cancel(&req, 0, NULL), NIXL_INPROGRESS));
    fake_end_ops(NIXL_OK);
    cr_expect(eq(int, nixl_req_cancel(&req, 0, NULL), NIXL_OK));
}

Test(cancel, put_that_may_trail_where_the_network_cannot, .init = start, .fini = stop)
{
    expect_to_stay(NULL);
}

Test(cancel, put_that_may_trail_which_the_network_does_not_move, .init = start, .fini = stop)
{
    expect_to_stay(refuse_rebase);
}

/* The peer is lost, and the network has not yet ended what it was given. */
Test(cancel, put_that_may_trail_to_a_lost_peer, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req;

    use_rebase(note_rebase);
    req = begin(region, true, AT_THE_NETWORK);
    req->op.may_trail = true;
    fake_lose(1);
    cr_expect(eq(int, nxr_net_cancel(&req->op), NIXL_INPROGRESS));
    cr_expect(zero(u32, rebased.n));
    fake_end_ops(NIXL_E_CANCELED);
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_E_PEER_LOST));
}

Test(cancel, write_that_found_no_room, .init = start_rma, .fini = stop)
{
    struct nixl_region *region = fake_region(1, true);
    struct nixl_req *req = begin(region, true, WAITS_FOR_ROOM);
    int32_t outcome = NIXL_OUTCOME_DONE;

    cr_expect(eq(int, nixl_req_cancel(&req, 0, &outcome), NIXL_OK));
    cr_expect(eq(int, outcome, NIXL_OUTCOME_UNTOUCHED));
    fake.answer = NIXL_OK;
    fake_round();
    cr_expect(zero(int, fake.n_moved));
    cr_expect(nxr_list_is_empty(&nxr_net.busy));
}

/* ---- large reads and writes ------------------------------------------------------------------ */

/* A put of the whole segment, whose source the network of the test does not read. */
static struct nixl_req *begin_large(char **memory_p)
{
    struct nixl_region *region = fake_region(1, true);
    struct nixl_req *req = NULL;

    *memory_p = calloc(1, FAKE_SEGMENT_NBYTES);
    cr_assert(ne(ptr, *memory_p, NULL));
    fake.answer = NIXL_INPROGRESS;
    cr_assert(
        eq(int, put_nb_from(region, 0, *memory_p, FAKE_SEGMENT_NBYTES, &req), NIXL_INPROGRESS));
    return req;
}

Test(large, write_has_few_bytes_under_way_at_a_time, .init = start_rma, .fini = stop)
{
    char *memory;
    struct nixl_req *req = begin_large(&memory);
    unsigned n_rounds = 0;

    while (nixl_req_test(&req) == NIXL_INPROGRESS) {
        cr_assert(le(u64, np->rma_nbytes, FAKE_SEGMENT_NBYTES / 4));
        cr_assert(lt(uint, n_rounds++, 100));
        fake_end_op(0, NIXL_OK);
        fake_round();
    }
    cr_expect(eq(ptr, req, NULL));
    cr_expect(gt(int, fake.n_moved, 3));
    cr_expect(zero(u64, np->rma_nbytes));
    free(memory);
}

Test(large, write_that_is_canceled_has_moved_a_part, .init = start_rma, .fini = stop)
{
    char *memory;
    struct nixl_req *req = begin_large(&memory);
    int32_t outcome = NIXL_OUTCOME_DONE;
    int n_moved = fake.n_moved;

    cr_expect(eq(int, nixl_req_cancel(&req, 0, &outcome), NIXL_INPROGRESS));
    fake_end_ops(NIXL_OK);
    fake_round();
    cr_expect(eq(int, nixl_req_cancel(&req, 0, &outcome), NIXL_OK));
    cr_expect(eq(int, outcome, NIXL_OUTCOME_PARTIAL));
    cr_expect(eq(int, fake.n_moved, n_moved), "no piece is sent after the cancel");
    free(memory);
}

Test(large, write_ends_once_when_the_peer_dies, .init = start_rma, .fini = stop)
{
    char *memory;
    struct nixl_req *req = begin_large(&memory);

    fake_lose(1);
    fake_end_ops(NIXL_E_CANCELED);
    fake_round();
    cr_expect(eq(int, nixl_req_test(&req), NIXL_E_PEER_LOST));
    cr_expect(eq(ptr, req, NULL));
    free(memory);
}

/* ---- other versions -------------------------------------------------------------------------- */

/* Another has told of its death before what it had sent was read. */
Test(end, of_a_rank_whose_last_words_lie_here, .init = start, .fini = stop)
{
    const struct nxr_net_note note = {.tag = 5};

    fake_coming(1, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
    fake_lose(1);
    cr_expect(eq(u64, fake_next_tag(1), 5));
}

Test(end, before_it_began_with_a_rank_of_another_version, .init = start, .fini = stop)
{
    struct nxr_full_card card = np->card;
    char why[NXR_WHY_NBYTES] = "";
    int status;

    card.head.flags |= 99u << NXR_CARD_NET_SHIFT;
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_net_add_peer(nxr_peer_get_locked(2), &card, why, sizeof(why));
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect(eq(int, status, NIXL_E_UNSUPPORTED));
    cr_expect(not(zero(ptr, strstr(why, "another version of nixlrun"))));
    cr_expect(zero(ptr, (void *)net_peer_at(nxr_job.peers[2])));
}
