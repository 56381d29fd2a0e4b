/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What subsystems keep of each peer: where their slots are, that they share no cache line, in which
 * order they begin and end, and what is left when one of them finds no memory.
 */
#include "config.h"

#include "core/job.h"
#include "core/subsystem.h"

#include "test/unit/unit.h"
#include <stdlib.h>
#include <string.h>

enum { SIZE = 3, SMALL = 1, LARGE = 200 };

static struct nxr_peer_slot small_slot = {.nbytes = SMALL}, large_slot = {.nbytes = LARGE},
                            last_slot = {.nbytes = NXR_LINE_NBYTES};
static char calls[64];   /* what was called, in order */
static char failing;     /* whose peer_init() finds no memory */
static int n_not_zeroed; /* slots that held something when they began */

static void log_call(char name)
{
    size_t n = strlen(calls);

    cr_assert(lt(sz, n + 1, sizeof(calls)));
    calls[n] = name;
    calls[n + 1] = '\0';
}

static bool begin(char name, const struct nxr_peer *peer, const struct nxr_peer_slot *slot)
{
    const unsigned char *bytes = slot != NULL ? nxr_peer_slot_of(peer, slot) : NULL;

    for (size_t i = 0; slot != NULL && i < slot->nbytes; i++) {
        n_not_zeroed += bytes[i] != 0;
    }
    if (name == failing) {
        return false;
    }
    log_call(name);
    return true;
}

static bool small_init(struct nxr_peer *peer)
{
    return begin('s', peer, &small_slot);
}

static void small_fini(struct nxr_peer *peer)
{
    (void)peer;
    log_call('S');
}

static bool large_init(struct nxr_peer *peer)
{
    return begin('l', peer, &large_slot);
}

static void large_fini(struct nxr_peer *peer)
{
    (void)peer;
    log_call('L');
}

static bool none_init(struct nxr_peer *peer)
{
    return begin('n', peer, NULL);
}

static void last_fini(struct nxr_peer *peer)
{
    (void)peer;
    log_call('E');
}

static const struct nxr_subsystem none = {.name = "none", .peer_init = none_init};
static const struct nxr_subsystem small = {
    .name = "small", .peer_slot = &small_slot, .peer_init = small_init, .peer_fini = small_fini};
static const struct nxr_subsystem large = {
    .name = "large", .peer_slot = &large_slot, .peer_init = large_init, .peer_fini = large_fini};
static const struct nxr_subsystem last = {
    .name = "last", .peer_slot = &last_slot, .peer_fini = last_fini};
static const struct nxr_subsystem *const list[] = {&small, &none, &large, &last};

static void start(void)
{
    nxr_subsystems_set(list, sizeof(list) / sizeof(list[0]));
    nxr_job = (struct nxr_job){.size = SIZE, .n_numbers = SIZE};
    pthread_mutex_init(&nxr_job.lock, NULL);
    nxr_job.peers = calloc(SIZE, sizeof(*nxr_job.peers));
    cr_assert(ne(ptr, (void *)nxr_job.peers, NULL));
    calls[0] = failing = '\0';
    n_not_zeroed = 0;
}

static void stop(void)
{
    nxr_peers_free();
    pthread_mutex_destroy(&nxr_job.lock);
}

TestSuite(peer_slot, .init = start, .fini = stop, .timeout = 120);

Test(peer_slot, begins_at_a_cache_line_of_its_own)
{
    const struct nxr_peer_slot *slots[] = {&small_slot, &large_slot, &last_slot};
    const struct nxr_peer *peer = nxr_peer_get(1);
    size_t end = sizeof(*peer);

    cr_assert(ne(ptr, (void *)peer, NULL));
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        cr_expect(zero(sz, (uintptr_t)nxr_peer_slot_of(peer, slots[i]) % NXR_LINE_NBYTES));
        cr_expect(ge(sz, slots[i]->offset, end), "slot %zu begins in what is before it", i);
        end = slots[i]->offset + slots[i]->nbytes;
    }
    cr_expect(le(sz, end, nxr_subsystems_peer_nbytes()));
    cr_expect(zero(sz, nxr_subsystems_peer_nbytes() % NXR_LINE_NBYTES));
}

/* Under the sanitizers, this also shows that all slots are inside of the allocation. */
Test(peer_slot, keeps_what_others_write)
{
    struct nxr_peer *peers[] = {nxr_peer_get(1), nxr_peer_get(2)};
    const unsigned char *small_bytes = nxr_peer_slot_of(peers[0], &small_slot);
    const unsigned char *last_bytes = nxr_peer_slot_of(peers[0], &last_slot);

    for (unsigned i = 0; i < 2; i++) {
        memset(nxr_peer_slot_of(peers[i], &small_slot), 1, SMALL);
        memset(nxr_peer_slot_of(peers[i], &last_slot), 2, NXR_LINE_NBYTES);
        memset(nxr_peer_slot_of(peers[i], &large_slot), 3, LARGE);
        cr_expect(eq(int, peers[i]->rank, (int)i + 1));
    }
    cr_expect(eq(int, small_bytes[0], 1));
    for (size_t i = 0; i < NXR_LINE_NBYTES; i++) {
        cr_expect(eq(int, last_bytes[i], 2));
    }
}

Test(peer_slot, begins_as_zeros_in_order_and_ends_in_reverse)
{
    nxr_peer_get(1);
    nxr_peer_get(1);
    cr_expect(eq(str, calls, (char *)"snl"), "once for each peer, in the order of the list");
    cr_expect(zero(int, n_not_zeroed));
    nxr_peers_free();
    cr_expect(eq(str, calls, (char *)"snlELS"));
    nxr_job.peers = calloc(SIZE, sizeof(*nxr_job.peers));
}

Test(peer_slot, a_failed_begin_ends_those_before_it)
{
    failing = 'l';
    cr_expect(eq(ptr, (void *)nxr_peer_get(1), NULL));
    cr_expect(eq(str, calls, (char *)"snS"));
    cr_expect(eq(ptr, (void *)nxr_peer_find(1), NULL));
    failing = '\0';
    cr_expect(ne(ptr, (void *)nxr_peer_get(1), NULL), "the next try makes the peer");
    cr_expect(eq(str, calls, (char *)"snSsnl"));
}
