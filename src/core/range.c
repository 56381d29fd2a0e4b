/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses are device memory: a sorted table of ranges that do not overlap. Readers may be
 * any threads. They take the lock, too: its cost is small beside that of a copy of device memory.
 * Host memory is recognized by two bounds without the lock, as long as no driver is in the process.
 * Once one is, any address may be the user's device memory, and the driver is queried. Lock:
 * range_lock, innermost.
 */
#define _GNU_SOURCE
#include "config.h"

#include "core/range.h"
#include "util/status.h"
#include "util/symbol.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Atomic uint64_t nxr_range_bounds;

static pthread_rwlock_t range_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct nxr_range **ranges; /* by address */
static size_t n_ranges, n_room;
static atomic_bool is_anywhere;                 /* a driver is in the process */
static const struct nxr_range_drivers *drivers; /* NULL: there are none to query */

void nxr_range_set_drivers(const struct nxr_range_drivers *them)
{
    drivers = them;
}

/* The index of the first range that ends after `addr`; n_ranges if none does. */
static size_t find_index(uintptr_t addr)
{
    size_t low = 0, high = n_ranges;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ranges[middle]->addr + ranges[middle]->nbytes <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void set_bounds(void)
{
    uint64_t first = 0, end = 0;

    if (atomic_load_explicit(&is_anywhere, memory_order_relaxed)) {
        end = UINT32_MAX;
    } else if (n_ranges > 0) {
        const struct nxr_range *last = ranges[n_ranges - 1];

        first = ranges[0]->addr >> NXR_RANGE_UNIT_BITS;
        end = ((last->addr + last->nbytes - 1) >> NXR_RANGE_UNIT_BITS) + 1;
    }
    atomic_store_explicit(&nxr_range_bounds, first | (end - first) << 32, memory_order_release);
}

int nxr_range_add(uintptr_t addr, uint64_t nbytes, const struct nxr_memory_kind *kind, void *memory,
                  struct nxr_range **range_p)
{
    struct nxr_range *range = malloc(sizeof(*range));
    size_t index;

    if (range == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    *range = (struct nxr_range){.addr = addr, .nbytes = nbytes, .kind = kind, .memory = memory};
    pthread_rwlock_wrlock(&range_lock);
    if (n_ranges == n_room) {
        size_t room = n_room > 0 ? 2 * n_room : 16;
        struct nxr_range **more = realloc(ranges, room * sizeof(*more));

        if (more == NULL) {
            pthread_rwlock_unlock(&range_lock);
            free(range);
            return NIXL_E_NO_MEMORY;
        }
        ranges = more;
        n_room = room;
    }
    index = find_index(addr);
    memmove(&ranges[index + 1], &ranges[index], (n_ranges - index) * sizeof(ranges[0]));
    ranges[index] = range;
    n_ranges++;
    set_bounds();
    pthread_rwlock_unlock(&range_lock);
    *range_p = range;
    return NIXL_OK;
}

void nxr_range_remove(struct nxr_range *range)
{
    size_t index;

    pthread_rwlock_wrlock(&range_lock);
    for (index = find_index(range->addr); index < n_ranges && ranges[index] != range; index++) {
    }
    if (index < n_ranges) {
        n_ranges--;
        memmove(&ranges[index], &ranges[index + 1], (n_ranges - index) * sizeof(ranges[0]));
        set_bounds();
    }
    if (n_ranges == 0) {
        free(ranges);
        ranges = NULL;
        n_room = 0;
    }
    pthread_rwlock_unlock(&range_lock);
    free(range);
}

static void look_for_driver(void)
{
    if (drivers != NULL && drivers->is_in_process()) {
        pthread_rwlock_wrlock(&range_lock);
        atomic_store(&is_anywhere, true);
        set_bounds();
        pthread_rwlock_unlock(&range_lock);
    }
}

static const struct nxr_range *find_in_table(const void *addr)
{
    uint64_t bounds = atomic_load_explicit(&nxr_range_bounds, memory_order_acquire);
    uint32_t unit = (uint32_t)((uintptr_t)addr >> NXR_RANGE_UNIT_BITS);
    const struct nxr_range *found = NULL;
    size_t index;

    if (unit - (uint32_t)bounds >= (uint32_t)(bounds >> 32)) {
        return NULL; /* it is in no range, or there is none */
    }
    pthread_rwlock_rdlock(&range_lock);
    index = find_index((uintptr_t)addr);
    if (index < n_ranges && ranges[index]->addr <= (uintptr_t)addr) {
        found = ranges[index];
    }
    pthread_rwlock_unlock(&range_lock);
    return found;
}

/* The thread's stack, filled in on first use: drivers are not queried for addresses on it. */
static __thread uintptr_t stack_start NXR_TLS_MODEL, stack_end NXR_TLS_MODEL;

static bool is_on_stack(uintptr_t addr)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    if (stack_end == 0) {
        pthread_attr_t attr;
        size_t nbytes = 0;
        void *start = NULL;

        stack_end = 1;
        if (pthread_getattr_np(pthread_self(), &attr) == 0) {
            pthread_attr_getstack(&attr, &start, &nbytes);
            pthread_attr_destroy(&attr);
            stack_start = (uintptr_t)start;
            stack_end = (uintptr_t)start + nbytes;
        }
    }
    /* False if the program has switched to another stack. */
    return here >= stack_start && addr >= here && addr < stack_end;
}

const struct nxr_range *nxr_range_find(const void *addr)
{
    const struct nxr_range *found;

    if (addr == NULL) {
        return NULL;
    }
    if (!atomic_load_explicit(&is_anywhere, memory_order_relaxed) && nxr_loader_has_news()) {
        look_for_driver();
    }
    found = find_in_table(addr);
    if (found != NULL || !atomic_load_explicit(&is_anywhere, memory_order_relaxed) ||
        is_on_stack((uintptr_t)addr)) {
        return found;
    }
    return drivers->classify(addr);
}

bool nxr_range_is_device_at(uintptr_t addr)
{
    return nxr_range_find((const void *)addr) != NULL;
}
