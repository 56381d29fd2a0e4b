/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses: one arena of addresses that nothing can be read from, and the list of what was given
 * out. Freed addresses are given out again at once, newest first, as the driver likes to do: who
 * remembers a mapping by its address alone is found out. All under the lock.
 */
#define _GNU_SOURCE
#include "test/cuda/fake.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ARENA_NBYTES ((size_t)1 << 38)

struct hole {
    uintptr_t addr;
    size_t nbytes;
    struct hole *next;
};

static uintptr_t arena, arena_next;
static struct hole *holes, *reserved;
static struct fake_range *ranges;
static uint64_t n_made;

static size_t padded(size_t nbytes)
{
    return (nbytes + FAKE_GRANULARITY - 1) / FAKE_GRANULARITY * FAKE_GRANULARITY;
}

uintptr_t fake_reserve(size_t nbytes)
{
    struct hole *hole = NULL;
    void *memory;

    nbytes = padded(nbytes);
    if (arena == 0) {
        memory =
            mmap(NULL, ARENA_NBYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            return 0;
        }
        arena = (uintptr_t)memory;
        arena_next = padded(arena);
    }
    for (struct hole **hole_p = &holes; *hole_p != NULL; hole_p = &(*hole_p)->next) {
        if ((*hole_p)->nbytes == nbytes) {
            hole = *hole_p;
            *hole_p = hole->next;
            break;
        }
    }
    if (hole == NULL) {
        hole = calloc(1, sizeof(*hole));
        if (hole == NULL || arena_next + nbytes > arena + ARENA_NBYTES) {
            free(hole);
            return 0;
        }
        hole->addr = arena_next;
        hole->nbytes = nbytes;
        arena_next += nbytes;
    }
    hole->next = reserved;
    reserved = hole;
    return hole->addr;
}

void fake_unreserve(uintptr_t addr, size_t nbytes)
{
    for (struct hole **hole_p = &reserved; *hole_p != NULL; hole_p = &(*hole_p)->next) {
        struct hole *hole = *hole_p;

        if (hole->addr == addr && hole->nbytes == padded(nbytes)) {
            *hole_p = hole->next;
            hole->next = holes;
            holes = hole;
            return;
        }
    }
    fake_misuse("address %#lx is not reserved with that size", (unsigned long)addr);
}

bool fake_is_reserved(uintptr_t addr, size_t nbytes)
{
    for (const struct hole *hole = reserved; hole != NULL; hole = hole->next) {
        if (addr >= hole->addr && addr + nbytes <= hole->addr + hole->nbytes) {
            return true;
        }
    }
    return false;
}

struct fake_range *fake_range_add(uintptr_t addr, size_t nbytes, char *bytes, enum fake_kind kind,
                                  struct fake_backing *backing)
{
    struct fake_range *range = calloc(1, sizeof(*range));

    if (range == NULL) {
        return NULL;
    }
    range->addr = addr;
    range->nbytes = nbytes;
    range->bytes = bytes;
    range->kind = kind;
    range->id = ++n_made;
    range->reachers = ~0U;
    range->backing = backing;
    range->context = fake_current();
    range->device = backing != NULL          ? backing->head->device
                    : range->context != NULL ? fake_physical(range->context->device)
                                             : 0;
    range->next = ranges;
    ranges = range;
    return range;
}

struct fake_range *fake_range_at(uintptr_t addr)
{
    for (struct fake_range *range = ranges; range != NULL; range = range->next) {
        if (addr - range->addr < range->nbytes) {
            return range;
        }
    }
    return NULL;
}

bool fake_is_device_address(uintptr_t addr)
{
    return arena != 0 && addr - arena < ARENA_NBYTES;
}

void fake_range_wait(struct fake_range *range)
{
    while (range->n_uses > 0) {
        pthread_cond_wait(&fake_changed, &fake_lock);
    }
}

void fake_range_remove(struct fake_range *range)
{
    for (struct fake_range **range_p = &ranges; *range_p != NULL; range_p = &(*range_p)->next) {
        if (*range_p == range) {
            *range_p = range->next;
            free(range);
            return;
        }
    }
}
