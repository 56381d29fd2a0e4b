/* SPDX-License-Identifier: Apache-2.0 */
/* Memory kinds: getting memory that can be shared; giving it back and mapping that of peers are
 * services to the transports, too, and stand in transports/transport.h. */
#ifndef NXR_MEMORY_MEMORY_H
#define NXR_MEMORY_MEMORY_H

#include "nixlrun.h"

/* Memory that was allocated for a region. */
struct nxr_memory {
    void *addr;
    size_t nbytes;                   /* as asked for */
    size_t mapped_nbytes;            /* rounded up to whole pages of whatever size */
    int fd;                          /* to hand to peers */
    enum nixl_mem_strategy strategy; /* what was really done */
    char note[160];                  /* why not what was asked for; "" otherwise */
};

/*
 * Allocate zeroed, shareable host memory. A strategy that cannot be had falls back to the default
 * one with a note. NIXL_OK; NIXL_ERR_NO_MEMORY, NIXL_ERR_NO_DEVICE, NIXL_ERR_LIMIT with `why`.
 */
int nxr_memory_host_alloc(size_t nbytes, const struct nixl_mem_params *params,
                          struct nxr_memory *memory_p, char *why, size_t why_nbytes);

/* Give memory back that was never published, with its descriptor. */
void nxr_memory_host_discard(struct nxr_memory *memory);

#endif
