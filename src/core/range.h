/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind nxr_range_find() of transports/transport.h: which addresses are device memory.
 * Memory kinds add and remove ranges; drivers are queried for all other addresses.
 */
#ifndef NXR_CORE_RANGE_H
#define NXR_CORE_RANGE_H

#include "transports/transport.h"

/* NIXL_OK, NIXL_E_NO_MEMORY. Threads: any; a kind may hold its lock. */
int nxr_range_add(uintptr_t addr, uint64_t nbytes, const struct nxr_memory_kind *kind, void *memory,
                  struct nxr_range **range_p);
void nxr_range_remove(struct nxr_range *range);

/* Drivers whose memory may be missing from the table. Threads: any; called without locks. */
struct nxr_range_drivers {
    /* Is a driver loaded in the process, so that any address may be its memory? Cheap. */
    bool (*is_in_process)(void);

    /*
     * The range that stands for device memory outside all regions; NULL: no driver knows the
     * address.
     */
    const struct nxr_range *(*classify)(const void *addr);
};

/* Call before any other thread looks for ranges. The struct stays the caller's. */
void nxr_range_set_drivers(const struct nxr_range_drivers *drivers);

#endif
