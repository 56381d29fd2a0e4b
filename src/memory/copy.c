/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device copies in progress: started by any thread, polled by whoever drives progress, ended once.
 * While a thread polls, a copy costs its kind only the query whether it has ended. A thread that
 * waits for a copy, or has to send something after it, and stops polling, arms the copies: their
 * kinds then wake this process. Copies that nobody polls are armed by the service thread after a
 * while.
 *
 * Lock: device_copy_lock guards the list, and lets one thread at a time query a kind. It is taken
 * inside job.lock, and never held while `ended` is called.
 */
#include "config.h"

#include "core/service.h"
#include "core/subsystem.h"
#include "memory/device.h"
#include "memory/memory.h"
#include "memory/reduce.h"
#include "core/progress.h"
#include "util/clock.h"
#include "util/lock.h"
#include "util/status.h"
#include "util/symbol.h"
#include "core/wait.h"

#include <pthread.h>

/*
 * Copies of a GPU end roughly in the order in which they started, and a query costs some 100 ns in
 * the driver: of thousands, only the oldest are queried. Those of storage end in any order; they
 * are queried only if one has reported its end (nxr_device_tell_end()) since the last query.
 */
#define MAX_QUESTIONS 32

#define OLD_NS  (1 * NXR_MS) /* after this time the service thread arms a copy */
#define REST_NS (8 * NXR_MS) /* the longest time between its checks while it rests */

struct copy_list {
    struct nxr_device_copy *first, **end; /* oldest first */
};

static pthread_mutex_t device_copy_lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy_list of_devices = {.end = &of_devices.first};
static struct copy_list of_storage = {.end = &of_storage.first};
static struct copy_list *const copy_lists[] = {&of_devices, &of_storage};
#define N_LISTS (sizeof(copy_lists) / sizeof(copy_lists[0]))

/* Changed under the lock only. */
static _Atomic uint32_t n_copies, n_armed, n_begun;
static _Atomic uint32_t n_storage_ends; /* copies of storage that have ended, ever */
static uint32_t n_ends_queried;         /* n_storage_ends when they were queried last */

/*
 * Turns of the service thread, no less than OLD_NS apart. A copy is old when it has seen two begin:
 * to count them takes less than to read the clock for each copy.
 */
static _Atomic uint32_t service_turn;
#define OLD_TURNS 2

/*
 * The service thread will check again by itself, within OLD_NS, so it need not be kicked; a kick
 * costs a twentieth of a small copy. A long copy kicks it anyway, if no other is unarmed: its wait
 * then starts anew, and it does not wake up in the middle, next to the thread that waits.
 */
static atomic_bool is_told;

/*
 * It found that all copies are storage's, and that a thread sleeps where their ends wake it: then
 * there is nothing to arm, and it checks more and more rarely.
 */
static atomic_bool is_resting;
#define LONG_NBYTES ((size_t)4 << 20) /* in one piece, or many pieces */

/*
 * CUDA may know Vulkan's memory, but not the reverse, so the Vulkan kind does mixed copies. No GPU
 * knows storage, which refuses them.
 */
static const struct nxr_memory_kind *copy_engine(const struct nxr_device_copy *copy)
{
    if (copy->dst != NULL && copy->dst->kind->is_storage) {
        return copy->dst->kind;
    }
    if (copy->dst == NULL || nxr_range_kind(copy->src) == NIXL_MEM_VULKAN ||
        (copy->src != NULL && copy->src->kind->is_storage)) {
        return copy->src->kind;
    }
    return copy->dst->kind;
}

/*
 * Change a number that others read at any time. Caller holds the lock, as all who change it, so
 * that no locked instruction is needed, of which an operation would have several.
 */
static inline void add_locked(_Atomic uint32_t *number, int n)
{
    uint32_t old = atomic_load_explicit(number, memory_order_relaxed);

    atomic_store_explicit(number, old + (uint32_t)n, memory_order_release);
}

static void copy_append(struct copy_list *list, struct nxr_device_copy *copy)
{
    copy->next = NULL;
    *list->end = copy;
    list->end = &copy->next;
}

/* Caller holds the lock. */
static void arm_one(struct nxr_device_copy *copy)
{
    copy->is_armed = true;
    add_locked(&n_armed, 1);
    copy->engine->copy_arm(copy);
}

static bool is_long(const struct nxr_device_copy *copy)
{
    return copy->n_pieces > 1 || (copy->n_pieces == 1 && copy->pieces[0].nbytes >= LONG_NBYTES) ||
           (copy->reduction != NULL && copy->reduction->nbytes >= LONG_NBYTES);
}

static __thread struct nxr_device_gather *gather NXR_TLS_MODEL; /* NULL: there is none */

void nxr_device_gather_begin(struct nxr_device_gather *begun)
{
    *begun = (struct nxr_device_gather){.outer = gather};
    gather = begun;
}

bool nxr_device_gathers(const struct nxr_memory_kind *kind)
{
    if (gather != NULL) {
        gather->kind = kind;
    }
    return gather != NULL;
}

void nxr_device_gather_end(struct nxr_device_gather *begun)
{
    gather = begun->outer;
    if (begun->kind != NULL) {
        begun->kind->copy_go();
    }
}

int nxr_device_copy_begin(struct nxr_device_copy *copy)
{
    uint32_t n_ends = atomic_load(&n_storage_ends);
    bool is_first, must_tell;
    int status;

    copy->is_armed = false;
    copy->began_turn = atomic_load_explicit(&service_turn, memory_order_relaxed);
    copy->engine = copy_engine(copy);
    copy->began_ns = copy->engine->is_storage ? 0 : nxr_now_ns();
    status = copy->engine->copy_start(copy);
    if (status != NIXL_INPROGRESS) {
        return status;
    }
    pthread_mutex_lock(&device_copy_lock);
    copy_append(copy->engine->is_storage ? &of_storage : &of_devices, copy);
    if (atomic_load(&n_storage_ends) != n_ends) {
        n_ends_queried = n_ends; /* it may have ended before it was in the list */
    }
    if (copy->engine->copy_sleep != NULL) {
        atomic_store_explicit(&nxr_sleep_at_storage, copy->engine->copy_sleep,
                              memory_order_release);
        add_locked(&nxr_n_at_storage, 1);
    }
    if (!copy->is_of_op) {
        atomic_fetch_add(&nxr_n_started, 1);
        atomic_fetch_add(&nxr_n_at_devices, 1);
    }
    is_first = atomic_load(&n_copies) == atomic_load(&n_armed);
    add_locked(&n_copies, 1);
    atomic_fetch_add(&n_begun, 1); /* before is_told is read: nxr_device_tick() */
    must_tell = !copy->is_unattended &&
                (!atomic_load(&is_told) || (is_first && is_long(copy)) ||
                 (copy->engine->copy_sleep == NULL && atomic_exchange(&is_resting, false)));
    if (copy->is_unattended) {
        arm_one(copy);
    }
    pthread_mutex_unlock(&device_copy_lock); /* another thread may end the copy from here on */
    if (must_tell) {
        atomic_store(&is_told, true);
        nxr_service_kick(); /* to check again in time */
    }
    return NIXL_INPROGRESS;
}

void nxr_device_copy_cancel(const void *owner)
{
    pthread_mutex_lock(&device_copy_lock);
    for (size_t i = 0; i < N_LISTS; i++) {
        for (struct nxr_device_copy *copy = copy_lists[i]->first; copy != NULL; copy = copy->next) {
            if (copy->owner == owner && copy->engine->copy_cancel != NULL) {
                copy->engine->copy_cancel(copy);
            }
        }
    }
    pthread_mutex_unlock(&device_copy_lock);
}

/* Remove a copy that has ended from its list. Caller holds the lock. */
static void take_out(struct copy_list *list, struct nxr_device_copy **link)
{
    struct nxr_device_copy *copy = *link;

    *link = copy->next;
    if (list->end == &copy->next) {
        list->end = link;
    }
    if (copy->is_armed) {
        add_locked(&n_armed, -1);
    }
    if (copy->engine->copy_sleep != NULL) {
        add_locked(&nxr_n_at_storage, -1);
    }
    add_locked(&n_copies, -1);
    if (!copy->is_of_op) {
        atomic_fetch_sub(&nxr_n_at_devices, 1);
        atomic_fetch_sub(&nxr_n_started, 1);
    }
}

/* Query the oldest copies of a list, and move those that have ended. Caller holds the lock. */
static void take_ended(struct copy_list *list, size_t most, struct copy_list *over)
{
    struct nxr_device_copy **link = &list->first;

    for (size_t asked = 0; *link != NULL && asked < most; asked++) {
        struct nxr_device_copy *copy = *link;
        int status = copy->engine->copy_test(copy);

        if (status == NIXL_INPROGRESS) {
            link = &copy->next;
            continue;
        }
        take_out(list, link);
        copy->status = status;
        copy_append(over, copy);
    }
}

/* Caller holds the lock. */
static void take_ended_of_storage(struct copy_list *over)
{
    uint32_t n_ends;

    nxr_memory_poll_storage();
    n_ends = atomic_load(&n_storage_ends);
    if (n_ends != n_ends_queried) {
        n_ends_queried = n_ends;
        take_ended(&of_storage, SIZE_MAX, over);
    }
}

/* Complete the copies that have ended. Releases the lock, which the caller holds. How many. */
static int end_and_unlock(void)
{
    struct copy_list over = {.end = &over.first};
    int n_over = 0;

    take_ended(&of_devices, MAX_QUESTIONS, &over);
    if (of_storage.first != NULL) {
        take_ended_of_storage(&over);
    }
    pthread_mutex_unlock(&device_copy_lock);
    while (over.first != NULL) {
        struct nxr_device_copy *copy = over.first;

        over.first = copy->next; /* `ended` may free the copy */
        copy->ended(copy, copy->status);
        n_over++;
    }
    return n_over;
}

int nxr_device_progress(void)
{
    if (atomic_load_explicit(&n_copies, memory_order_acquire) == 0 ||
        pthread_mutex_trylock(&device_copy_lock) != 0) {
        return 0;
    }
    return end_and_unlock();
}

/* Caller holds the lock. */
static void arm_list(struct copy_list *list, uint32_t age)
{
    const uint32_t now = atomic_load_explicit(&service_turn, memory_order_relaxed);

    for (struct nxr_device_copy *copy = list->first; copy != NULL; copy = copy->next) {
        if (!copy->is_armed && now - copy->began_turn >= age &&
            (copy->engine->copy_sleep == NULL || atomic_load(&nxr_n_look_at_storage) == 0)) {
            arm_one(copy);
        }
    }
}

/*
 * Arm the copies that have seen so many turns begin, unless a thread sleeps where their end wakes
 * it.
 */
static void device_copy_arm(uint32_t age)
{
    if (atomic_load_explicit(&n_copies, memory_order_acquire) ==
        atomic_load_explicit(&n_armed, memory_order_relaxed)) {
        return;
    }
    pthread_mutex_lock(&device_copy_lock);
    for (size_t i = 0; i < N_LISTS; i++) {
        arm_list(copy_lists[i], age);
    }
    pthread_mutex_unlock(&device_copy_lock);
}

void nxr_device_arm(void)
{
    device_copy_arm(0);
}

void nxr_device_arm_old(void)
{
    device_copy_arm(OLD_TURNS);
}

int64_t nxr_device_tick(int64_t now)
{
    static uint32_t n_seen; /* the service thread's, all three */
    static int64_t pause_ns = OLD_NS, turn_ns;
    bool must_rest;
    uint32_t n;

    if (now - turn_ns >= OLD_NS) {
        turn_ns = now;
        atomic_fetch_add_explicit(&service_turn, 1, memory_order_relaxed);
    }
    /* Before the check: a copy that starts after it kicks again. */
    atomic_store(&is_told, false);
    n = atomic_load(&n_begun);
    if (atomic_load(&n_copies) == atomic_load(&n_armed) && n == n_seen) {
        return INT64_MAX;
    }
    n_seen = n; /* more will begin soon, so that they need not kick */
    atomic_store(&is_told, true);
    must_rest = atomic_load(&nxr_n_look_at_storage) > 0 &&
                atomic_load(&nxr_n_at_storage) == atomic_load(&n_copies);
    atomic_store(&is_resting, must_rest);
    pause_ns = !must_rest ? OLD_NS : 2 * pause_ns < REST_NS ? 2 * pause_ns : REST_NS;
    return now + pause_ns;
}

void nxr_device_tell_end(void)
{
    atomic_fetch_add(&n_storage_ends, 1);
}

void nxr_device_ended(void)
{
    nxr_device_tell_end(); /* a copy that was armed after its end has not reported it yet */
    nxr_service_kick();
    nxr_wake_self();
}

/*
 * An armed copy that ends kicks this thread once. Another thread that holds the lock may have
 * polled before that end, and nobody may poll after it: so this waits for the lock.
 */
static void device_serve(void)
{
    if (atomic_load(&n_armed) > 0) {
        pthread_mutex_lock(&device_copy_lock);
        end_and_unlock();
    } else {
        nxr_device_progress();
    }
}

static bool device_carry_on(void)
{
    return nxr_device_progress() > 0;
}

static void device_drive(void)
{
    nxr_device_progress();
    nxr_device_arm_old();
}

const struct nxr_subsystem nxr_device_subsystem = {
    .name = "device",
    .tick = nxr_device_tick,
    .serve = device_serve,
    .progress = device_carry_on,
    .drive = device_drive,
    .hand_over = nxr_device_arm,
};
