/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of memory kinds, and dispatching calls to them. The list is constant once the library
 * has started; no lock: a kind's start() has its own.
 */
#include "config.h"

#include "memory/memory.h"
#include "core/subsystem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>

#define MAX_KINDS 8u

static const struct nxr_memory_kind *memory_kinds[MAX_KINDS] = {&nxr_memory_host};
static size_t n_memory_kinds = 1;
static atomic_bool memory_is_kept;

/* ---- memory that no kind has made ------------------------------------------------------------ */

static bool kind_is_in_process(void)
{
    for (size_t i = 0; i < n_memory_kinds; i++) {
        if (memory_kinds[i]->is_in_process != NULL && memory_kinds[i]->is_in_process()) {
            return true;
        }
    }
    return false;
}

static const struct nxr_range *kind_classify(const void *addr)
{
    const struct nxr_range *range = NULL;

    for (size_t i = 0; i < n_memory_kinds && range == NULL; i++) {
        range = memory_kinds[i]->classify != NULL ? memory_kinds[i]->classify(addr) : NULL;
    }
    return range;
}

static const struct nxr_range_drivers kind_drivers = {kind_is_in_process, kind_classify};

/* ---- the list -------------------------------------------------------------------------------- */

void nxr_memory_register(const struct nxr_memory_kind *kind)
{
    if (nxr_memory_kind(kind->kind) != NULL) {
        return;
    }
    assert(n_memory_kinds < MAX_KINDS);
    memory_kinds[n_memory_kinds++] = kind;
    nxr_range_set_drivers(&kind_drivers);
}

const struct nxr_memory_kind *nxr_memory_kind(enum nixl_mem_kind kind)
{
    for (size_t i = 0; i < n_memory_kinds; i++) {
        if (memory_kinds[i]->kind == kind) {
            return memory_kinds[i];
        }
    }
    return NULL;
}

void nxr_memory_why(struct nxr_storage_why *why)
{
    *why = (struct nxr_storage_why){.error = 0};
    for (size_t i = 0; i < n_memory_kinds && why->error == 0; i++) {
        if (memory_kinds[i]->is_storage) {
            memory_kinds[i]->why(NULL, why);
        }
    }
}

void nxr_memory_poll_storage(void)
{
    void (*polled)(void) = NULL; /* kinds may share one */

    for (size_t i = 0; i < n_memory_kinds; i++) {
        void (*poll)(void) = memory_kinds[i]->is_storage ? memory_kinds[i]->copy_poll : NULL;

        if (poll != NULL && poll != polled) {
            poll();
            polled = poll;
        }
    }
}

const struct nxr_memory_kind *nxr_memory_stream_kind(void)
{
    for (size_t i = 0; i < n_memory_kinds; i++) {
        if (memory_kinds[i]->streams != NULL) {
            return memory_kinds[i];
        }
    }
    return NULL;
}

const struct nxr_memory_kind *nxr_memory_owner(const void *addr)
{
    for (size_t i = 0; i < n_memory_kinds; i++) {
        if (memory_kinds[i] != &nxr_memory_host && memory_kinds[i]->owns(addr)) {
            return memory_kinds[i];
        }
    }
    return &nxr_memory_host;
}

void nxr_memory_keep(bool is_kept)
{
    atomic_store(&memory_is_kept, is_kept);
}

bool nxr_memory_is_kept(void)
{
    return atomic_load_explicit(&memory_is_kept, memory_order_relaxed);
}

void nxr_memory_release(struct nxr_memory *memory)
{
    if (!nxr_memory_is_kept() || nxr_memory_is_storage(memory)) {
        memory->kind->release(memory);
    }
}

void nxr_memory_stop_all(void)
{
    for (size_t i = 0; i < n_memory_kinds; i++) {
        if (!nxr_memory_is_kept() || memory_kinds[i]->is_storage) {
            memory_kinds[i]->stop();
        }
    }
    nxr_loader_forget();
}

enum nixl_mem_kind nxr_range_kind(const struct nxr_range *range)
{
    return range != NULL ? range->kind->kind : NIXL_MEM_HOST;
}

bool nxr_memory_page_lock(void *addr, size_t nbytes, char *why, size_t why_nbytes)
{
    snprintf(why, why_nbytes, "no kind of memory here can page-lock");
    for (size_t i = 0; i < n_memory_kinds; i++) {
        if (memory_kinds[i]->page_lock != NULL &&
            memory_kinds[i]->page_lock(addr, nbytes, why, why_nbytes)) {
            return true;
        }
    }
    return false;
}

void nxr_memory_unpin(void *addr)
{
    for (size_t i = 0; i < n_memory_kinds; i++) {
        memory_kinds[i]->unpin(addr);
    }
}

int nxr_device_import(struct nxr_segment *segment, int fd)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind(segment->key.kind);
    int status =
        kind != NULL ? kind->start(segment->note, sizeof(segment->note)) : NIXL_E_UNSUPPORTED;

    return status == NIXL_OK ? kind->import(segment, fd) : status;
}

void nxr_device_unimport(struct nxr_segment *segment)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind(segment->key.kind);

    if (kind != NULL && (!nxr_memory_is_kept() || kind->is_storage)) {
        kind->unimport(segment);
    }
}

const struct nxr_subsystem nxr_memory_subsystem = {
    .name = "memory",
    .stop = nxr_memory_stop_all,
};
