/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of attached peers: who has which, none is given twice, and the ended are freed. */
#include "fake_job.h"

#include "core/attached.h"
#include "core/job.h"
#include "core/life.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "host/atomic_ring.h"
#include "host/atomic_serve.h"
#include "host/peer.h"
#include "memory/device_atomic.h"
#include "memory/memory.h"
#include "region/publish.h"
#include "test/unit/unit.h"
#include "util/clock.h"

#include <string.h>

static struct nxr_peer *attach(uint64_t job)
{
    struct nxr_full_card card = {
        .head = {.identity = {job, 0, 0}, .nbytes = sizeof(struct nxr_card)}};
    struct nxr_peer *peer = NULL;

    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(eq(int, nxr_attached_add(&card, &peer), NIXL_OK));
    pthread_mutex_unlock(&nxr_job.lock);
    return peer;
}

/* As the service thread would, that long from now. */
static void tick_in(int64_t ns)
{
    pthread_mutex_lock(&nxr_job.lock);
    nxr_attached_subsystem.tick(nxr_now_ns() + ns);
    pthread_mutex_unlock(&nxr_job.lock);
}

static void end(struct nxr_peer *peer)
{
    pthread_mutex_lock(&nxr_job.lock);
    nxr_attached_end(peer);
    pthread_mutex_unlock(&nxr_job.lock);
}

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

TestSuite(attached, .init = begin, .fini = stop);

Test(attached, numbers_follow_the_ranks_and_are_never_given_twice)
{
    int last = FAKE_SIZE - 1;

    for (uint64_t job = 100; job < 400; job++) { /* the table grows meanwhile */
        struct nxr_peer *peer = attach(job);

        cr_assert(eq(int, peer->rank, last + 1));
        last = peer->rank;
        cr_expect(nxr_is_rank(last));
        cr_expect(not(nxr_is_own_rank(last)));
        cr_expect(eq(ptr, (void *)nxr_attached_find(last), (void *)peer));
        cr_expect(eq(int, nxr_attached_number(&peer->identity), last));
        end(peer);
        tick_in(2 * NXR_S);
        tick_in(4 * NXR_S);
        cr_expect(not(nxr_is_rank(last)));
        cr_expect(nxr_attached_was(last));
        cr_expect(nxr_rank_is_lost(last));
    }
    cr_expect(not(nxr_is_rank(last + 1)));
    cr_expect(not(nxr_attached_was(last + 1)));
    cr_expect(not(nxr_attached_was(FAKE_SIZE - 1)));
}

Test(attached, the_number_of_an_identity_is_the_latest)
{
    struct nxr_peer *first = attach(7), *other = attach(8), *second;
    const struct nxr_identity identity = {7, 0, 0};

    end(first);
    second = attach(7);
    cr_expect(eq(int, nxr_rank_of(&identity), second->rank));
    cr_expect(ne(int, nxr_rank_of(&identity), first->rank));
    cr_expect(eq(int, nxr_rank_of(&other->identity), other->rank));
    cr_expect(eq(int, nxr_rank_of(&(struct nxr_identity){9, 0, 0}), -1));
    end(second);
    end(other);
}

Test(attached, peers_are_walked_ranks_first)
{
    struct nxr_peer *one = attach(7), *two = attach(8);
    int n_ranks = 0, n_attached = 0;

    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        n_attached += nxr_peer_is_attached(peer);
        n_ranks += !nxr_peer_is_attached(peer);
        cr_expect(n_attached == 0 || nxr_peer_is_attached(peer));
    }
    cr_expect(eq(int, n_ranks, 1)); /* this rank alone has been needed */
    cr_expect(eq(int, n_attached, 2));
    end(one);
    end(two);
}

Test(attached, what_has_ended_is_freed_late)
{
    struct nxr_peer *peer = attach(7);
    int number = peer->rank;

    end(peer);
    cr_expect(nxr_peer_is_lost(peer));
    tick_in(NXR_S / 2);
    cr_expect(nxr_is_rank(number), "calls may still have it");
    tick_in(2 * NXR_S);
    cr_expect(not(nxr_is_rank(number)));
}

Test(attached, a_peer_that_has_died_stays_until_it_is_detached)
{
    struct nxr_peer *peer = attach(7);
    int number = peer->rank;

    pthread_mutex_lock(&nxr_job.lock);
    nxr_life_lost_locked(number);
    pthread_mutex_unlock(&nxr_job.lock);
    tick_in(100 * NXR_S);
    cr_assert(nxr_is_rank(number));
    cr_expect(eq(int, atomic_load(&peer->state), NIXL_PEER_LOST));
    end(peer);
    tick_in(100 * NXR_S);
    cr_expect(not(nxr_is_rank(number)));
}

Test(attached, a_peer_that_something_refers_to_is_not_freed)
{
    struct nxr_peer *peer = attach(7);
    int number = peer->rank;

    atomic_fetch_add(&peer->n_requests, 1);
    end(peer);
    tick_in(100 * NXR_S);
    cr_expect(nxr_is_rank(number));
    atomic_fetch_sub(&peer->n_requests, 1);
    host_peer_of(peer)->retry_at = 1; /* a connection is to be tried again */
    tick_in(100 * NXR_S);
    cr_expect(nxr_is_rank(number));
    host_peer_of(peer)->retry_at = INT64_MAX;
    tick_in(100 * NXR_S);
    cr_expect(not(nxr_is_rank(number)));
}

static int copy_at_once(struct nxr_device_copy *copy)
{
    (void)copy;
    return NIXL_OK;
}

static const struct nxr_memory_kind device_kind = {.kind = NIXL_MEM_CUDA,
                                                   .copy_start = copy_at_once};
static struct nxr_range device_range = {.kind = &device_kind};

/* The question of a peer to add 1 to a word of device memory here. */
static struct nxr_wire_atomic question(void)
{
    static uint64_t word;
    const struct nxr_memory memory = {.kind = &device_kind,
                                      .addr = &word,
                                      .nbytes = sizeof(word),
                                      .fd = -1,
                                      .range = &device_range,
                                      .is_registered = true};
    struct nxr_published *published = NULL;

    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(eq(int, nxr_publish("words", &memory, &published), NIXL_OK));
    pthread_mutex_unlock(&nxr_job.lock);
    return (struct nxr_wire_atomic){
        .generation = published->key.generation,
        .id = published->key.id,
        .atomic = {.op = NIXL_ATOMIC_ADD, .type = NIXL_TYPE_UINT64, .operand = 1}};
}

/* The answer goes into its rings. */
Test(attached, a_peer_whose_word_is_being_changed_is_not_freed)
{
    struct nxr_peer *peer = attach(7);
    const struct nxr_wire_atomic word = question();
    int number = peer->rank;

    peer->control = nxr_job.control;
    atomic_store(&peer->connection, NXR_CONNECTION_UP);
    atomic_store(&peer->in.credit->has_asked, true);
    cr_assert(nxr_atomic_post(nxr_atomic_slot_at(peer->in.words, 0), &word));
    atomic_fetch_or(&nxr_job.control->atomics_asked, nxr_control_bit(number));
    cr_assert(nxr_atomics_serve_asked());
    atomic_store(&peer->connection, NXR_CONNECTION_NONE);
    end(peer);
    tick_in(100 * NXR_S);
    cr_assert(nxr_is_rank(number));
    nxr_device_atomics_run();
    tick_in(100 * NXR_S);
    cr_expect(not(nxr_is_rank(number)));
    peer->control = NULL; /* it is this process's */
}

/* The peer waits for the answer to the message, so that must be taken before its end is known. */
Test(attached, the_message_of_an_end_has_time_to_arrive)
{
    struct nxr_peer *peer = attach(7);
    struct nxr_ring_credit in = {.has_detached = true}, out = {0};

    peer->in.credit = &in;
    peer->out.credit = &out;
    peer->control = nxr_job.control;
    atomic_store(&peer->connection, NXR_CONNECTION_UP);
    tick_in(0);
    cr_expect(not(nxr_peer_is_lost(peer)));
    tick_in(NXR_S);
    cr_expect(nxr_peer_is_lost(peer), "it was lost");
    atomic_store(&peer->connection, NXR_CONNECTION_NONE);
    peer->control = NULL;
    peer->in.credit = NULL; /* the teardown outlives them */
    peer->out.credit = NULL;
    end(peer);
}
