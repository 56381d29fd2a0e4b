/* SPDX-License-Identifier: Apache-2.0 */
/* What is met is the attached peer that is known, or a later life of its process. */
#include "fake_job.h"

#include "attach/attach.h"
#include "core/attached.h"
#include "core/job.h"
#include "test/unit/unit.h"

#include <string.h>

static void begin(void)
{
    fake_job_start(0);
}

static void stop(void)
{
    nxr_attached_reset();
    nxr_job.n_numbers = FAKE_SIZE;
    fake_job_stop();
}

TestSuite(rejoined, .init = begin, .fini = stop);

/* Meet rank 0 of another job in that life, and the number that it has for this process. */
static struct nxr_peer *meet(unsigned char life, int32_t number, bool *is_new_p)
{
    struct nxr_full_card card = {
        .head = {.identity = {7, 0, 0}, .nbytes = sizeof(struct nxr_card)}};
    const struct nxr_met met = {&card, number, 1, "name"};
    struct nxr_peer *peer = NULL;

    memset(card.head.nonce, life, sizeof(card.head.nonce));
    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(eq(int, nxr_attach_peer(&met, &peer, is_new_p), NIXL_OK));
    pthread_mutex_unlock(&nxr_job.lock);
    return peer;
}

Test(rejoined, the_same_life_is_the_same_peer)
{
    bool is_new = false, is_again = true;
    struct nxr_peer *peer = meet(1, 1, &is_new), *again = meet(1, 1, &is_again);

    cr_expect(is_new);
    cr_expect(not(is_again));
    cr_expect(eq(ptr, peer, again));
    cr_expect(not(nxr_peer_is_lost(peer)));
}

Test(rejoined, another_life_with_the_same_number_is_another_peer)
{
    bool is_new = false;
    struct nxr_peer *former = meet(1, 1, &is_new), *later = meet(2, 1, &is_new);

    cr_expect(is_new);
    cr_expect(ne(int, later->rank, former->rank));
    cr_expect(eq(int, atomic_load(&former->state), NIXL_PEER_FINISHED));
    cr_expect(not(nxr_peer_is_lost(later)));
    cr_expect(eq(int, nxr_attached_number(&later->identity), later->rank));
}
