/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-flight slots: claiming them, giving them back when a thread ends, and waiting for them when a
 * region is closed. The protocol of entering and leaving is described in transports/transport.h.
 *
 * Lock: inflight_lock guards the list of threads and, against nxr_inflight_reset(), their tables. A
 * thread grows its own table under the lock and reads it without.
 */
#include "config.h"

#include "core/job.h"
#include "core/stats.h"
#include "util/barrier.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"
#include "util/symbol.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A thread that has slots. */
struct guard_thread {
    struct nxr_list link;
    struct nxr_inflight_slots *slots; /* the thread's own table */
};

__thread struct nxr_inflight_slots nxr_inflight_slots NXR_TLS_MODEL;

static pthread_mutex_t inflight_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list threads = {&threads, &threads}; /* inflight_lock */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;

static void release_slots(struct nxr_inflight_slots *table)
{
    for (uint32_t i = 0; i < table->n_slots; i++) {
        if (table->slots[i] != NULL) {
            atomic_store_explicit(&table->slots[i]->claimed_by, 0, memory_order_release);
            nxr_stats_lane_give(table->lanes[i]);
        }
    }
    free(table->slots);
    free(table->lanes);
    table->slots = NULL;
    table->lanes = NULL;
    table->n_slots = 0;
}

static void thread_ends(void *arg)
{
    struct guard_thread *thread = arg;

    if (nxr_is_forked()) {
        return; /* its slots are the parent's, as is whoever holds the lock */
    }
    pthread_mutex_lock(&inflight_lock);
    nxr_list_remove(&thread->link);
    release_slots(thread->slots);
    pthread_mutex_unlock(&inflight_lock);
    free(thread);
}

static void make_key(void)
{
    pthread_key_create(&thread_key, thread_ends);
}

/*
 * Add the calling thread to the list, so that its slots are released when it ends. Caller holds
 * inflight_lock.
 */
static bool enlist_thread(void)
{
    struct guard_thread *thread;

    if (pthread_getspecific(thread_key) != NULL) {
        return true;
    }
    thread = malloc(sizeof(*thread));
    if (thread == NULL || pthread_setspecific(thread_key, thread) != 0) {
        free(thread);
        return false;
    }
    thread->slots = &nxr_inflight_slots;
    nxr_list_append(&threads, &thread->link);
    return true;
}

static bool grow_table(uint32_t n_slots)
{
    struct nxr_stats_lane **lanes = realloc(nxr_inflight_slots.lanes, n_slots * sizeof(*lanes));
    struct nxr_inflight_slot **slots;

    if (lanes == NULL) {
        return false;
    }
    nxr_inflight_slots.lanes = lanes;
    slots = realloc(nxr_inflight_slots.slots, n_slots * sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    memset(slots + nxr_inflight_slots.n_slots, 0,
           (n_slots - nxr_inflight_slots.n_slots) * sizeof(*slots));
    nxr_inflight_slots.slots = slots;
    nxr_inflight_slots.n_slots = n_slots;
    return true;
}

/* Tell the owner how many slots it has to check. Call before the first use of the slot. */
static void raise_slots_used(struct nxr_control *control, uint32_t n_used)
{
    uint32_t known = atomic_load_explicit(&control->n_slots_used, memory_order_relaxed);

    while (known < n_used &&
           !atomic_compare_exchange_weak_explicit(&control->n_slots_used, &known, n_used,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

/* Where the next search begins: behind the slot that was taken last. Only a guess. */
static _Atomic uint32_t next_slot;

/* `place`: the number by which its owner names this process. */
static bool guard_try_slot(struct nxr_control *control, uint32_t index, int place)
{
    struct nxr_inflight_slot *slot = &control->slots[index];
    uint32_t nobody = 0;

    if (atomic_load_explicit(&slot->claimed_by, memory_order_relaxed) != 0 ||
        !atomic_compare_exchange_strong_explicit(&slot->claimed_by, &nobody, (uint32_t)place + 1,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    raise_slots_used(control, index + 1);
    atomic_store_explicit(&next_slot, index + 1, memory_order_relaxed);
    return true;
}

/*
 * Take a free slot, one that was used before if there is one, so that the owner checks few slots
 * and few pages are touched. Operations end about in the order in which they begin, so that the
 * slot behind the last one is most often free.
 */
static struct nxr_inflight_slot *guard_take_slot(struct nxr_control *control, int place)
{
    uint32_t n_used = atomic_load_explicit(&control->n_slots_used, memory_order_relaxed);
    uint32_t index = atomic_load_explicit(&next_slot, memory_order_relaxed);

    n_used = n_used < NXR_N_INFLIGHT_SLOTS ? n_used : NXR_N_INFLIGHT_SLOTS;
    for (uint32_t i = 0; i < n_used; i++, index++) {
        index = index < n_used ? index : 0;
        if (guard_try_slot(control, index, place)) {
            return &control->slots[index];
        }
    }
    for (index = n_used; index < NXR_N_INFLIGHT_SLOTS; index++) {
        if (guard_try_slot(control, index, place)) {
            return &control->slots[index];
        }
    }
    return NULL;
}

int nxr_inflight_claim(const struct nxr_segment *segment, nxr_inflight_word **word_p)
{
    struct nxr_inflight_slot *slot = NULL;
    uint32_t index = segment->inflight_index;
    int status = NIXL_E_NO_MEMORY;

    pthread_once(&key_once, make_key);
    pthread_mutex_lock(&inflight_lock);
    if (enlist_thread() && (index < nxr_inflight_slots.n_slots || grow_table(index + 8))) {
        slot = guard_take_slot(segment->peer->control, segment->peer->place);
        if (slot != NULL) {
            nxr_inflight_slots.lanes[index] =
                nxr_stats_lane_take(segment->peer->rank, nxr_peer_transport_name(segment->peer));
        }
        nxr_inflight_slots.slots[index] = slot;
        status = slot != NULL ? NIXL_OK : NIXL_E_LIMIT;
    }
    pthread_mutex_unlock(&inflight_lock);
    *word_p = slot != NULL ? &slot->busy : NULL;
    return status;
}

int nxr_inflight_hold(const struct nxr_segment *segment, nxr_inflight_word **word_p)
{
    struct nxr_inflight_slot *slot = guard_take_slot(segment->peer->control, segment->peer->place);

    if (slot == NULL) {
        return NIXL_E_LIMIT;
    }
    atomic_store_explicit(&slot->busy, segment->id + 1, memory_order_relaxed);
    nxr_barrier_light(segment->full_fence);
    if (atomic_load_explicit(segment->generation_now, memory_order_acquire) !=
        segment->key.generation) {
        nxr_inflight_release(&slot->busy);
        return NIXL_E_STALE;
    }
    *word_p = &slot->busy;
    return NIXL_OK;
}

void nxr_inflight_release(nxr_inflight_word *word)
{
    struct nxr_inflight_slot *slot = (struct nxr_inflight_slot *)word;

    nxr_inflight_leave(word);
    atomic_store_explicit(&slot->claimed_by, 0, memory_order_release);
}

struct nxr_inflight_slot *nxr_inflight_claim_own(void)
{
    return guard_take_slot(nxr_job.control, nxr_job.rank);
}

void nxr_inflight_give_own(struct nxr_inflight_slot *slot)
{
    nxr_inflight_leave(&slot->busy);
    atomic_store_explicit(&slot->claimed_by, 0, memory_order_release);
}

bool nxr_inflight_enter_own(struct nxr_inflight_slot *slot, uint32_t id, uint64_t generation)
{
    atomic_store_explicit(&slot->busy, id + 1, memory_order_relaxed);
    nxr_barrier_light(nxr_barrier_is_full());
    if (atomic_load_explicit(&nxr_job.control->generations[id], memory_order_acquire) !=
        generation) {
        nxr_inflight_leave(&slot->busy);
        return false;
    }
    return true;
}

/*
 * Does a living peer have a copy in flight in region `id`? Acquire, so that the bytes of copies
 * that have ended are visible.
 */
static bool is_own_busy(uint32_t id)
{
    uint32_t n_used = atomic_load_explicit(&nxr_job.control->n_slots_used, memory_order_acquire);

    for (uint32_t i = 0; i < n_used && i < NXR_N_INFLIGHT_SLOTS; i++) {
        struct nxr_inflight_slot *slot = &nxr_job.control->slots[i];
        uint32_t claimer;

        if (atomic_load_explicit(&slot->busy, memory_order_acquire) != id + 1) {
            continue;
        }
        claimer = atomic_load_explicit(&slot->claimed_by, memory_order_relaxed);
        if (claimer == 0 || claimer > INT_MAX || !nxr_peer_is_gone((int)claimer - 1)) {
            return true;
        }
        /* Its thread died in mid-copy: the slot is free for others. */
        atomic_store_explicit(&slot->busy, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->claimed_by, 0, memory_order_release);
    }
    return false;
}

int nxr_inflight_quiesce_own(uint32_t id, int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns);
    struct timespec nap = nxr_timespec(20 * NXR_US);

    nxr_barrier_heavy();
    for (int round = 0; is_own_busy(id); round++) {
        if (timeout_ns == 0) {
            return NIXL_INPROGRESS;
        }
        if (nxr_now_ns() >= deadline) {
            return NIXL_E_TIMEOUT;
        }
        /*
         * A copy in flight ends by itself and wakes no waiter: check again, with naps after a
         * while.
         */
        if (round < 100) {
            nxr_yield();
        } else {
            nanosleep(&nap, NULL);
        }
    }
    return NIXL_OK;
}

bool nxr_inflight_is_busy_here(const struct nxr_segment *segment)
{
    struct nxr_list *link, *after;
    bool is_busy = false;

    nxr_barrier_heavy();
    pthread_mutex_lock(&inflight_lock);
    nxr_list_for_each (link, after, &threads) {
        const struct nxr_inflight_slots *table =
            nxr_list_entry(link, struct guard_thread, link)->slots;

        if (segment->inflight_index < table->n_slots &&
            table->slots[segment->inflight_index] != NULL &&
            atomic_load_explicit(&table->slots[segment->inflight_index]->busy,
                                 memory_order_acquire) == segment->id + 1) {
            is_busy = true;
        }
    }
    pthread_mutex_unlock(&inflight_lock);
    return is_busy;
}

/* Is any thread's slot in the page at that index busy? Caller holds inflight_lock. */
static bool index_is_busy(uint32_t index)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &threads) {
        const struct nxr_inflight_slots *table =
            nxr_list_entry(link, struct guard_thread, link)->slots;

        if (index < table->n_slots && table->slots[index] != NULL &&
            atomic_load_explicit(&table->slots[index]->busy, memory_order_acquire) != 0) {
            return true;
        }
    }
    return false;
}

bool nxr_inflight_leave_peer(const struct nxr_peer *peer)
{
    struct nxr_list *link, *after;
    bool is_busy;

    nxr_barrier_heavy();
    pthread_mutex_lock(&inflight_lock);
    is_busy = index_is_busy(peer->inflight_index);
    nxr_list_for_each (link, after, &threads) {
        struct nxr_inflight_slots *table = nxr_list_entry(link, struct guard_thread, link)->slots;

        if (!is_busy && peer->inflight_index < table->n_slots &&
            table->slots[peer->inflight_index] != NULL) {
            atomic_store_explicit(&table->slots[peer->inflight_index]->claimed_by, 0,
                                  memory_order_release);
            nxr_stats_lane_give(table->lanes[peer->inflight_index]);
            table->slots[peer->inflight_index] = NULL;
        }
    }
    pthread_mutex_unlock(&inflight_lock);
    return !is_busy;
}

void nxr_inflight_free_of(const struct nxr_peer *peer)
{
    uint32_t n_used = atomic_load_explicit(&nxr_job.control->n_slots_used, memory_order_acquire);

    for (uint32_t i = 0; i < n_used && i < NXR_N_INFLIGHT_SLOTS; i++) {
        struct nxr_inflight_slot *slot = &nxr_job.control->slots[i];

        if (atomic_load_explicit(&slot->claimed_by, memory_order_relaxed) ==
            (uint32_t)peer->rank + 1) {
            atomic_store_explicit(&slot->busy, 0, memory_order_relaxed);
            atomic_store_explicit(&slot->claimed_by, 0, memory_order_release);
        }
    }
}

void nxr_inflight_reset(void)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&inflight_lock);
    nxr_list_for_each (link, after, &threads) {
        release_slots(nxr_list_entry(link, struct guard_thread, link)->slots);
    }
    pthread_mutex_unlock(&inflight_lock);
}
