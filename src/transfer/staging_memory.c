/* SPDX-License-Identifier: Apache-2.0 */
/* Staging memory: mapping, pinning, and copies of device memory from and to its slots. No lock. */
#include "config.h"

#include "transfer/staging_memory.h"
#include "memory/memory.h"
#include "util/log.h"

#include <sys/mman.h>

void nxr_staging_adopt(struct staging_memory *memory, void *addr, size_t nbytes, size_t head_nbytes,
                       size_t slot_nbytes)
{
    memory->addr = addr;
    memory->nbytes = nbytes;
    memory->slots = memory->addr + head_nbytes;
    memory->slot_nbytes = slot_nbytes;
    atomic_store(&memory->pinned_kinds, 0);
}

int nxr_staging_map(struct staging_memory *memory)
{
    size_t nbytes = NXR_STAGING_SLOTS * NXR_STAGING_NBYTES;
    void *addr = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (addr == MAP_FAILED) {
        nxr_error(CORE, "cannot map %zu bytes for staging: %m", nbytes);
        return NIXL_E_NO_MEMORY;
    }
    nxr_memory_host_populate(addr, nbytes);
    nxr_staging_adopt(memory, addr, nbytes, 0, NXR_STAGING_NBYTES);
    return NIXL_OK;
}

void nxr_staging_unmap(struct staging_memory *memory)
{
    if (memory->addr != NULL) {
        nxr_memory_host_free(memory->addr, memory->nbytes);
        memory->addr = NULL;
    }
}

void nxr_staging_pin(struct staging_memory *memory, const struct nxr_range *device)
{
    unsigned bit = 1u << nxr_range_kind(device);

    if ((atomic_load_explicit(&memory->pinned_kinds, memory_order_relaxed) & bit) == 0 &&
        (atomic_fetch_or(&memory->pinned_kinds, bit) & bit) == 0) {
        device->kind->pin(memory->addr, memory->nbytes);
    }
}

void nxr_staging_copy(struct nxr_device_copy *copy, struct nxr_device_piece *piece, bool is_out,
                      char *slot, char *addr, size_t nbytes, const struct nxr_range *device)
{
    *piece = is_out ? (struct nxr_device_piece){addr, slot, nbytes}
                    : (struct nxr_device_piece){slot, addr, nbytes};
    *copy = (struct nxr_device_copy){.pieces = piece,
                                     .n_pieces = 1,
                                     .dst = is_out ? device : NULL,
                                     .src = is_out ? NULL : device};
}
