/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing words of own regions for peers, and changing words in own device memory, which takes
 * time, for peers and for this rank itself. A change enters its region like a peer's copy, so that
 * a close waits for it. Lock: serve_lock, which is only ever tried: no thread waits for it.
 */
#include "config.h"

#include "host/atomic_serve.h"
#include "host/atomic_ask.h"
#include "host/peer.h"
#include "core/subsystem.h"
#include "memory/device_atomic.h"
#include "region/own_atomic.h"
#include "core/service.h"
#include "host/atomic_ring.h"
#include "util/env.h"
#include "core/wait.h"

#include <stdlib.h>

/* A word of an own region in device memory, changed for a peer or for this rank itself. */
struct own_word {
    struct nxr_device_atomic word;
    struct nxr_inflight_slot *slot; /* the region is entered */
    uint32_t id;                    /* of the region */
    struct nxr_peer *peer;          /* the asker; NULL: this rank */
    struct nxr_atomic_slot *answer; /* the peer's */
    struct nxr_op *op;              /* this rank's; NULL: a thread waits */
    _Atomic int status;             /* NIXL_INPROGRESS until the change has ended */
    atomic_bool is_left;            /* set by the end and by the waiter: the second one frees it */
};

static struct nxr_spin serve_lock;
static struct nxr_inflight_slot *atomic_server_guard; /* serve_lock: a slot in the own page */

/* ---- own words in device memory -------------------------------------------------------------- */

static void own_word_ended(struct nxr_device_atomic *word, int status)
{
    struct own_word *own = nxr_list_entry(word, struct own_word, word);
    uint64_t shown = nxr_own_atomic_shown(own->id, word->fetched);

    nxr_inflight_give_own(own->slot);
    if (own->peer != NULL) {
        nxr_atomic_answer(own->answer, status, shown);
        nxr_wake_peer(own->peer);
        /* From here on the peer may be freed, and the ring with it. */
        atomic_fetch_sub_explicit(&host_peer_of(own->peer)->n_words_served, 1,
                                  memory_order_release);
        free(own);
        return;
    }
    if (own->op != NULL) {
        own->op->fetched = word->fetched;
        nxr_op_done(own->op, status);
        free(own);
        return;
    }
    atomic_store_explicit(&own->status, status, memory_order_release);
    if (atomic_exchange(&own->is_left, true)) {
        free(own);
    }
}

/* Enter the region with a slot that is released when the change has ended. */
static int atomic_server_enter_own(struct own_word *own, uint32_t id, uint64_t generation)
{
    own->slot = nxr_inflight_claim_own();
    if (own->slot == NULL) {
        return NIXL_E_LIMIT;
    }
    if (!nxr_inflight_enter_own(own->slot, id, generation)) {
        nxr_inflight_give_own(own->slot);
        return NIXL_E_STALE;
    }
    return NIXL_OK;
}

/* Prepare the change of a word in own device memory, to be queued; NULL and the failure. */
static struct own_word *own_word_new(const struct nxr_wire_atomic *asked, int *status_p)
{
    struct own_word *own = calloc(1, sizeof(*own));
    struct nxr_own_memory memory;

    *status_p =
        own != NULL ? atomic_server_enter_own(own, asked->id, asked->generation) : NIXL_E_NO_MEMORY;
    if (*status_p != NIXL_OK) {
        free(own);
        return NULL;
    }
    *status_p = nxr_own_atomic_find(asked, &memory);
    if (*status_p != NIXL_OK) {
        nxr_inflight_give_own(own->slot);
        free(own);
        return NULL;
    }
    own->id = asked->id;
    own->word.addr = memory.addr;
    own->word.range = memory.range;
    own->word.atomic = asked->atomic;
    own->word.ended = own_word_ended;
    atomic_init(&own->status, NIXL_INPROGRESS);
    return own;
}

static bool is_changed(void *arg)
{
    const struct own_word *own = arg;

    return atomic_load_explicit(&own->status, memory_order_acquire) != NIXL_INPROGRESS;
}

int nxr_atomic_change_device(const struct nxr_segment *segment, const struct nxr_atomic *atomic,
                             uint64_t *fetched_p)
{
    const struct nxr_wire_atomic word = {
        .generation = segment->key.generation, .id = segment->id, .atomic = *atomic};
    int status;
    struct own_word *own = own_word_new(&word, &status);

    if (own == NULL) {
        return status;
    }
    nxr_device_atomic_add(&own->word);
    nxr_device_atomics_run();
    status = nxr_wait(is_changed, own, nxr_env.op_timeout);
    if (status == NIXL_OK) {
        status = own->status;
        *fetched_p = own->word.fetched;
    }
    if (atomic_exchange(&own->is_left, true)) {
        free(own);
    }
    return status;
}

int nxr_atomic_start_device(struct nxr_op *op)
{
    const struct nxr_wire_atomic word = {
        .generation = op->segment->key.generation, .id = op->segment->id, .atomic = op->atomic};
    int status;
    struct own_word *own = own_word_new(&word, &status);

    if (own == NULL) {
        return status;
    }
    own->op = op;
    nxr_device_atomic_add(&own->word);
    nxr_device_atomics_run();
    return NIXL_INPROGRESS;
}

/* ---- for peers: all under serve_lock --------------------------------------------------------- */

/* Change a word. NIXL_INPROGRESS: it is in device memory, and nothing was done. */
static int change_own(const struct nxr_wire_atomic *word, uint64_t *fetched_p)
{
    return nxr_wire_check_atomic(word) == NULL
               ? nxr_own_atomic_change(&atomic_server_guard, word, fetched_p)
               : NIXL_E_INVALID_ARG;
}

/* The same in device memory: own_word_ended() answers later. */
static int change_later(struct nxr_peer *peer, struct nxr_atomic_slot *slot,
                        const struct nxr_wire_atomic *word)
{
    int status;
    struct own_word *own = own_word_new(word, &status);

    if (own == NULL) {
        return status;
    }
    own->peer = peer;
    own->answer = slot;
    atomic_fetch_add_explicit(&host_peer_of(peer)->n_words_served, 1, memory_order_relaxed);
    nxr_device_atomic_add(&own->word);
    nxr_service_kick(); /* it runs the queued changes */
    return NIXL_INPROGRESS;
}

static void serve_slot(struct nxr_peer *peer, struct nxr_atomic_slot *slot,
                       const struct nxr_wire_atomic *word)
{
    uint64_t fetched = 0;
    int status = change_own(word, &fetched);

    if (status == NIXL_INPROGRESS) {
        status = change_later(peer, slot, word);
    }
    if (status != NIXL_INPROGRESS) {
        nxr_atomic_answer(slot, status, fetched);
    }
}

/* Serve at most one whole ring, so that other peers get their turn. */
static bool serve_peer(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);
    struct nxr_atomic_slot *ring = peer->in.words;
    struct nxr_wire_atomic word;
    int n_served = 0, status;

    while (n_served < NXR_ATOMIC_SLOTS) {
        struct nxr_atomic_slot *slot = nxr_atomic_slot_at(ring, hp->n_atomics_served);

        status = nxr_atomic_take(slot, &word);
        if (status == NIXL_INPROGRESS) {
            break;
        }
        if (status == NIXL_OK) {
            serve_slot(peer, slot, &word);
        }
        hp->n_atomics_served++;
        n_served++;
    }
    if (n_served == NXR_ATOMIC_SLOTS) {
        atomic_fetch_or(&nxr_job.control->atomics_asked, nxr_control_bit(peer->rank));
    }
    if (n_served > 0) {
        nxr_wake_peer(peer);
    }
    return n_served > 0;
}

/* Does it write words here? The pages of rings that were never used are not touched. */
static bool has_asked(const struct nxr_peer *peer)
{
    return peer->rank != nxr_job.rank && nxr_peer_is_local(peer) &&
           atomic_load_explicit(&peer->in.credit->has_asked, memory_order_relaxed);
}

/* Serve all peers that share a bit. */
static bool serve_bit(int bit)
{
    struct nxr_peer *peer;
    bool has_served = false;

    for (int rank = bit; rank < nxr_job.size; rank += NXR_CONTROL_BITS) {
        peer = nxr_peer_find(rank);
        if (peer != NULL && has_asked(peer)) {
            has_served |= serve_peer(peer);
        }
    }
    peer = atomic_load_explicit(&nxr_job.attached, memory_order_acquire);
    for (; peer != NULL; peer = nxr_peers_next(peer)) {
        if (peer->rank % NXR_CONTROL_BITS == bit && !nxr_peer_is_lost(peer) && has_asked(peer)) {
            has_served |= serve_peer(peer);
        }
    }
    return has_served;
}

bool nxr_atomics_serve_asked(void)
{
    struct nxr_control *control = nxr_job.control;
    bool has_served = false;

    atomic_store_explicit(&nxr_atomics_are_used, true, memory_order_relaxed);
    while (atomic_load(&control->atomics_asked) != 0 && nxr_spin_try(&serve_lock)) {
        uint64_t bits = atomic_exchange(&control->atomics_asked, 0);

        for (int bit = 0; bit < NXR_CONTROL_BITS; bit++) {
            has_served |= (bits >> bit & 1) != 0 && serve_bit(bit);
        }
        nxr_spin_unlock(&serve_lock);
        nxr_fence_full(); /* bits of threads that found the lock taken are seen in the next check */
    }
    if (has_served) {
        nxr_wake_self(); /* others may wait for these words */
    }
    return has_served;
}

void nxr_atomics_serve_stop(void)
{
    atomic_server_guard = NULL;
    atomic_store(&nxr_atomics_are_used, false);
}

static void host_atomics_serve(void)
{
    nxr_poll_asked();
}

static void host_atomics_register(void)
{
    nxr_host_paths.atomic_serves_put = nxr_atomic_serves_put;
    nxr_host_paths.atomic_put = nxr_host_atomic_put;
    nxr_host_paths.atomic_start = nxr_host_atomic_start;
    nxr_host_paths.atomic_cancel = nxr_host_atomic_cancel;
    nxr_host_paths.atomic_progress = nxr_host_atomic_progress;
}

const struct nxr_subsystem nxr_atomics_subsystem = {
    .name = "words",
    .register_handlers = host_atomics_register,
    .tick = nxr_atomic_tick,
    .serve = host_atomics_serve,
    .halt = nxr_atomics_serve_stop,
};
