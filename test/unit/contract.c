/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contracts of transports/transport.h and transports/network.h: builds with --enable-debug end
 * where one is broken. Each case breaks one and is to end by the abort of an assertion. In other
 * builds there is nothing to test, and the program is not built.
 */
#include "net_case.h"

#include "core/progress.h"
#include "core/wait.h"
#include "region/region.h"
#include "transfer/transfer.h"

#include "test/unit/unit.h"

#include <signal.h>

#define ENDS(_suite, _case) Test(_suite, _case, .init = start, .signal = SIGABRT)

/* ---- locks ----------------------------------------------------------------------------------- */

static struct nxr_spin lock;

Test(lock, knows_its_holder)
{
    cr_expect(not(nxr_spin_is_mine(&lock)));
    nxr_spin_lock(&lock);
    cr_expect(nxr_spin_is_mine(&lock));
    cr_expect(not(nxr_spin_try(&lock)));
    nxr_spin_unlock(&lock);
    cr_expect(not(nxr_spin_is_mine(&lock)));
}

ENDS(lock, taken_twice)
{
    nxr_spin_lock(&lock);
    nxr_spin_lock(&lock);
}

ENDS(lock, released_by_none)
{
    nxr_spin_unlock(&lock);
}

/* ---- what the core promises to transports ---------------------------------------------------- */

static struct nixl_region *own_region(void)
{
    struct nixl_region *region = NULL;

    fake_must(nixl_region_open("own", &region) == NIXL_OK);
    fake_must(nixl_put(0, region, 0, buffer, 8) == NIXL_OK);
    return region;
}

static struct nxr_segment *own_segment(void)
{
    return nxr_region_segment(own_region(), 0);
}

ENDS(segment, opened_without_the_lock)
{
    struct nxr_segment *segment = own_segment();
    struct nxr_segment again = *segment;

    atomic_store(&again.generation, 0);
    (void)segment->transport->segment_open(&again, -1, NULL);
}

Test(segment, opened_with_the_lock, .init = start, .fini = stop)
{
    struct nxr_segment *segment = own_segment();
    struct nxr_segment again = *segment;

    atomic_store(&again.generation, 0);
    pthread_mutex_lock(&nxr_job.lock);
    cr_expect(eq(int, segment->transport->segment_open(&again, -1, NULL), NIXL_OK));
    segment->transport->segment_close(&again);
    pthread_mutex_unlock(&nxr_job.lock);
}

ENDS(segment, closed_while_it_can_be_used)
{
    struct nxr_segment *segment = own_segment();

    pthread_mutex_lock(&nxr_job.lock);
    segment->transport->segment_close(segment);
}

ENDS(put, beyond_the_end)
{
    struct nxr_segment *segment = own_segment();

    (void)segment->transport->put(segment, FAKE_OWN_NBYTES - 7, buffer, 8);
}

ENDS(put, of_nothing)
{
    struct nxr_segment *segment = own_segment();

    (void)segment->transport->put(segment, 0, buffer, 0);
}

ENDS(put, with_the_lock_of_the_core)
{
    struct nxr_segment *segment = own_segment();

    pthread_mutex_lock(&nxr_job.lock);
    (void)segment->transport->put(segment, 0, buffer, 8);
}

ENDS(put, within_a_copy_of_the_same_thread)
{
    struct nxr_segment *segment = own_segment();
    nxr_inflight_word *word;

    fake_must(nxr_inflight_enter(segment, &word) == NIXL_OK);
    (void)segment->transport->put(segment, 0, buffer, 8);
}

/* ---- what transports promise to the core ----------------------------------------------------- */

static void ignore_end(struct nxr_op *op, int status)
{
    (void)op;
    (void)status;
}

Test(op, ends_once, .init = start, .fini = stop)
{
    struct nxr_op op = {.ended = ignore_end};

    nxr_op_done(&op, NIXL_OK);
}

ENDS(op, ended_twice)
{
    struct nxr_op op = {.ended = ignore_end};

    nxr_op_done(&op, NIXL_OK);
    nxr_op_done(&op, NIXL_OK);
}

ENDS(op, ended_by_what_is_no_end)
{
    struct nxr_op op = {.ended = ignore_end};

    nxr_op_done(&op, NIXL_INPROGRESS);
}

ENDS(op, ended_with_the_lock_of_the_core)
{
    struct nxr_op op = {.ended = ignore_end};

    pthread_mutex_lock(&nxr_job.lock);
    nxr_op_done(&op, NIXL_OK);
}

static bool is_never(void *arg)
{
    (void)arg;
    return false;
}

static void wait_in_vain(struct nxr_op *op, int status)
{
    (void)op;
    (void)status;
    (void)nxr_wait(is_never, NULL, 0);
}

static struct nxr_op waiting = {.ended = wait_in_vain};

static int end_one(void)
{
    nxr_op_done(&waiting, NIXL_OK);
    return 1;
}

/* What ends an operation within a round of the transports neither waits nor drives another. */
ENDS(progress, entered_again)
{
    static struct nxr_transport made_up;

    made_up = *nxr_transports[0];
    made_up.progress = end_one;
    nxr_transports[0] = &made_up;
    (void)nxr_progress_all();
}

ENDS(wait, with_the_lock_of_the_core)
{
    pthread_mutex_lock(&nxr_job.lock);
    (void)nxr_wait(is_never, NULL, 0);
}

/* ---- networks -------------------------------------------------------------------------------- */

ENDS(network, called_without_the_lock)
{
    (void)nxr_net_ep_to(np, &nxr_net.nets[0]);
}

ENDS(network, reports_a_message_without_the_lock)
{
    static const char none[8];

    nxr_net_received(none, sizeof(none));
}

ENDS(network, closed_and_called)
{
    nxr_net.nets[0].is_open = false;
    net_lock();
    (void)nxr_net_ep_to(np, &nxr_net.nets[0]);
}
