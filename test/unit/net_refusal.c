/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts that come after the close of their region: what their sender sends after them is not taken
 * as if the data were there, until its program was told.
 */
#include "net_case.h"

#include "region/region.h"
#include "sync/notify.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <string.h>

static struct nxr_net_put late_put;

static void start_closed(void)
{
    start();
    late_put = own_put(0);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_publish_revoke(fake_job.published);
    pthread_mutex_unlock(&nxr_job.lock);
}

static void receive_late_put(void)
{
    fake_receive(1, NXR_NET_PUT, &late_put, sizeof(late_put), "x", 1);
}

static void receive_heard(uint64_t value)
{
    const struct nxr_net_stamp heard = {value};

    fake_receive(1, NXR_NET_HEARD, &heard, sizeof(heard), NULL, 0);
}

/* Does a notification of rank 1 say that data is missing? */
static bool is_next_late(uint64_t tag)
{
    receive_note(1, tag);
    fake_round();
    cr_assert(eq(u64, next_tag(), tag));
    return fake.was_late;
}

static uint64_t n_told(void)
{
    return ((const struct nxr_net_refused *)fake_last(NXR_NET_REFUSED))->n_dropped;
}

Test(refusal, marks_notifications_until_it_was_heard, .init = start_closed, .fini = stop)
{
    const struct nxr_net_stamp flush = {7};

    cr_expect(not(is_next_late(1)));
    receive_late_put();
    cr_assert(eq(u32, fake_n_sent(NXR_NET_REFUSED), 1));
    cr_expect(is_next_late(2));
    receive_late_put();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), 1), "there may be thousands");
    fake_receive(1, NXR_NET_FLUSH, &flush, sizeof(flush), NULL, 0);
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), 2), "a flush tells of all");
    cr_expect(eq(u64, n_told(), 2));
    receive_heard(2);
    cr_expect(not(is_next_late(3)));
    receive_late_put();
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), 3), "news again");
    cr_expect(is_next_late(4));
}

Test(refusal, that_was_heard_before_another_put_came_is_told_again, .init = start_closed,
     .fini = stop)
{
    receive_late_put();
    receive_late_put();
    receive_heard(1);
    cr_expect(is_next_late(1), "nobody was told of the second");
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), 2));
    receive_heard(n_told());
    cr_expect(not(is_next_late(2)));
}

Test(refusal, that_was_not_sent_cannot_be_heard, .init = start_closed, .fini = stop)
{
    receive_late_put();
    receive_heard(2);
    cr_expect(eq(u64, nxr_net.n_dropped, 1));
    cr_expect(is_next_late(1));
}

Test(refusal, keeps_its_place_behind_bulk, .init = start, .fini = stop)
{
    const struct nxr_net_put put = own_put(8);

    late_put = own_put(0);
    late_put.generation++;
    fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), 8);
    receive_note(1, 1);
    fake_round();
    receive_late_put();
    receive_note(1, 2);
    fake_round();
    fake_land(0, NIXL_OK);
    cr_expect(eq(u64, next_tag(), 1));
    cr_expect(not(fake.was_late), "it was sent before the put");
    cr_expect(eq(u64, next_tag(), 2));
    cr_expect(fake.was_late);
}

Test(refusal, leaves_words_alone, .init = start, .fini = stop)
{
    struct nxr_net_atomic word = {
        .what = {.generation = fake_job.own_key.generation,
                 .id = fake_job.own_key.id,
                 .atomic = {.type = NIXL_TYPE_UINT64, .op = NIXL_ATOMIC_ADD, .operand = 1}}};
    const uint64_t *value = (const uint64_t *)(const void *)fake_job.own;
    uint64_t before = *value;

    late_put = own_put(0);
    late_put.generation++;
    receive_late_put();
    fake_receive(1, NXR_NET_ATOMIC, &word, sizeof(word), NULL, 0);
    cr_expect(eq(u64, *value, before));
    word.ask = 5;
    fake_receive(1, NXR_NET_ATOMIC, &word, sizeof(word), NULL, 0);
    cr_expect(eq(u64, *value, before));
    cr_assert(eq(u32, fake_n_sent(NXR_NET_ATOMIC_DONE), 1));
    cr_expect(eq(int,
                 ((const struct nxr_net_atomic_done *)fake_last(NXR_NET_ATOMIC_DONE))->what.status,
                 NIXL_E_CANCELED));
    word.what.is_own = 1;
    fake_receive(1, NXR_NET_ATOMIC, &word, sizeof(word), NULL, 0);
    cr_expect(eq(u64, *value, before + 1), "the library's own");
}

Test(refusal, of_the_librarys_own_memory_is_silent, .init = start_closed, .fini = stop)
{
    late_put.is_own = 1;
    receive_late_put();
    cr_expect(zero(u32, fake_n_sent(NXR_NET_REFUSED)));
    cr_expect(not(is_next_late(1)));
}

/* ---- the sender ------------------------------------------------------------------------------ */

static void receive_refused(uint64_t n_dropped)
{
    const struct nxr_net_refused refused = {1, 0, NIXL_E_STALE, n_dropped};

    fake_receive(1, NXR_NET_REFUSED, &refused, sizeof(refused), NULL, 0);
}

static uint64_t n_heard(void)
{
    return ((const struct nxr_net_stamp *)fake_last(NXR_NET_HEARD))->value;
}

Test(refused, is_told_once_by_a_notification_that_is_not_sent, .init = start, .fini = stop)
{
    receive_refused(3);
    cr_expect(zero(u32, fake_n_sent(NXR_NET_HEARD)), "no call has told");
    cr_expect(eq(int, nixl_notify(1, 1, NULL, 0, 0), NIXL_E_STALE));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)));
    cr_assert(eq(u32, fake_n_sent(NXR_NET_HEARD), 1));
    cr_expect(eq(u64, n_heard(), 3));
    cr_expect(eq(int, nixl_notify(1, 1, NULL, 0, 0), NIXL_OK));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_NOTE), 1));
}

Test(refused, is_told_by_a_signal_that_is_not_raised, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    receive_refused(1);
    cr_expect(eq(int, nixl_signal_add(1, region, 0, 1), NIXL_E_STALE));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_ATOMIC)));
    cr_expect(eq(int, nixl_signal_add(1, region, 0, 1), NIXL_OK), "the signal's region is open");
    cr_expect(eq(u32, fake_n_sent(NXR_NET_ATOMIC), 1));
}

Test(refused, is_told_by_a_put_notify_that_moves_nothing, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);

    receive_refused(1);
    cr_expect(
        eq(int, nixl_put_notify(1, region, 0, buffer, 8, 1, NULL, 0, NIXL_FOREVER), NIXL_E_STALE));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_PUT)));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)));
}

Test(refused, is_told_by_a_fence, .init = start, .fini = stop)
{
    fake_region(1, false);
    receive_refused(1);
    cr_expect(eq(int, nixl_fence(1), NIXL_E_STALE));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_HEARD), 1));
    cr_expect(eq(int, nixl_fence(1), NIXL_OK));
}

Test(refused, is_told_by_a_flush_that_is_started, .init = start, .fini = stop)
{
    struct nixl_req *req = NULL;
    struct nxr_net_stamp flushed;
    int status;

    fake_region(1, false);
    receive_refused(1);
    status = nixl_flush_x(1, NULL, NULL, &req);
    if (status == NIXL_INPROGRESS) {
        flushed = *(const struct nxr_net_stamp *)fake_last(NXR_NET_FLUSH);
        fake_receive(1, NXR_NET_FLUSHED, &flushed, sizeof(flushed), NULL, 0);
        status = nixl_req_wait(&req, 1000 * NXR_MS);
    }
    cr_expect(eq(int, status, NIXL_E_STALE));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_HEARD), 1));
    cr_expect(eq(int, nixl_notify(1, 1, NULL, 0, 0), NIXL_OK), "it was told once");
}

Test(refused, is_told_by_what_is_started, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;

    receive_refused(1);
    cr_expect(eq(int, nixl_notify_x(1, 1, NULL, 0, NULL, &req), NIXL_E_STALE));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_NOTE)));
    receive_refused(2);
    cr_expect(eq(int, nixl_signal_x(1, region, 0, NIXL_SIGNAL_ADD, 1, NULL, &req), NIXL_E_STALE));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_ATOMIC)));
    receive_refused(3);
    op.flags = NIXL_OP_NOTE;
    cr_expect(eq(int, nixl_put_x(1, region, 0, buffer, 8, &op, &req), NIXL_E_STALE));
    cr_expect(zero(u32, fake_n_sent(NXR_NET_PUT)));
    cr_expect(eq(u32, fake_n_sent(NXR_NET_HEARD), 3));
}
