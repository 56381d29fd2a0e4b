/* SPDX-License-Identifier: Apache-2.0 */
/* Making and retiring handles of regions. */
#ifndef NXR_REGION_REGION_HANDLE_H
#define NXR_REGION_REGION_HANDLE_H

#include <stdint.h>

struct nixl_region;
struct nxr_memory;
struct nxr_scoped_name;

/* A handle in the default context, listed but not marked open yet. NULL: no memory. job.lock. */
struct nixl_region *nxr_region_new(const char *name);

/* The handle is closed: its segments go, and it is reused much later. job.lock. */
void nxr_region_retire(struct nixl_region *region);

/*
 * Make a handle with memory of this rank. On success the handle owns `memory`; on failure, which is
 * recorded, `memory` is released. Without job.lock.
 */
int nxr_region_publish(const char *operation, const struct nxr_scoped_name *scoped, uint32_t access,
                       struct nxr_memory *memory, struct nixl_region **region_p);

/* Record that `access` has bits that no access has. */
int nxr_region_fail_bad_access(const char *operation, uint32_t access);

#endif
