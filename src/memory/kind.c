/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of memory kinds, and which of them a call is for. No state but what was started; no
 * lock: a kind's start() has its own.
 */
#include "config.h"

#include "memory/memory.h"
#include "core/subsystem.h"

static const struct nxr_memory_kind *const kind_kinds[] = {
    &nxr_memory_host,
    &nxr_memory_vulkan, /* before CUDA, which may know its memory, too */
    &nxr_memory_cuda,
};
#define N_KINDS (sizeof(kind_kinds) / sizeof(kind_kinds[0]))

const struct nxr_memory_kind *nxr_memory_kind(enum nixl_mem_kind kind)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        if (kind_kinds[i]->kind == kind) {
            return kind_kinds[i];
        }
    }
    return NULL;
}

const struct nxr_memory_kind *nxr_memory_owner(const void *addr)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        if (kind_kinds[i] != &nxr_memory_host && kind_kinds[i]->owns(addr)) {
            return kind_kinds[i];
        }
    }
    return &nxr_memory_host;
}

void nxr_memory_stop_all(void)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        kind_kinds[i]->stop();
    }
    nxr_loader_forget();
}

void nxr_memory_unpin(void *addr)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        kind_kinds[i]->unpin(addr);
    }
}

int nxr_device_import(struct nxr_part *part, int fd)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind(part->key.kind);
    int status = kind != NULL ? kind->start(part->note, sizeof(part->note)) : NIXL_ERR_UNSUPPORTED;

    return status == NIXL_OK ? kind->import(part, fd) : status;
}

void nxr_device_unimport(struct nxr_part *part)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind(part->key.kind);

    if (kind != NULL) { /* it is: the part was imported */
        kind->unimport(part);
    }
}

const struct nxr_subsystem nxr_memory_subsystem = {
    .name = "memory",
    .stop = nxr_memory_stop_all,
};
