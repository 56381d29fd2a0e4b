/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory through which pieces are staged, at either end: slots of equal size in one mapping,
 * and copies between a slot and device memory. An initiator has one for each pipeline that needs
 * it, an owner one for each bounce buffer that it serves and one for each window.
 */
#ifndef NXR_TRANSFER_STAGING_MEMORY_H
#define NXR_TRANSFER_STAGING_MEMORY_H

#include "transfer/staging.h"

struct staging_memory {
    char *addr; /* mapped; NULL: nothing yet */
    size_t nbytes;
    char *slots;
    size_t slot_nbytes;
    _Atomic unsigned pinned_kinds; /* bits by enum nixl_mem_kind */
};

/* Map memory of this process alone. NIXL_OK, NIXL_E_NO_MEMORY: nothing has changed. */
int nxr_staging_map(struct staging_memory *memory);

/* Use that mapping, whose slots lie behind a head. */
void nxr_staging_adopt(struct staging_memory *memory, void *addr, size_t nbytes, size_t head_nbytes,
                       size_t slot_nbytes);

/* Unpin and unmap, if there is anything. Nobody uses it any more. */
void nxr_staging_unmap(struct staging_memory *memory);

/* Pin it for copies of that device memory, which makes them faster. Any thread. */
void nxr_staging_pin(struct staging_memory *memory, const struct nxr_range *device);

static inline char *nxr_staging_slot(const struct staging_memory *memory, unsigned index)
{
    return memory->slots + index * memory->slot_nbytes;
}

/*
 * Describe the copy of `nbytes` between a slot and device memory at `addr`; `is_out`: out of the
 * slot. The caller adds what else it needs, and begins it.
 */
void nxr_staging_copy(struct nxr_device_copy *copy, struct nxr_device_piece *piece, bool is_out,
                      char *slot, char *addr, size_t nbytes, const struct nxr_range *device);

#endif
