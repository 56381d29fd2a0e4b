/* SPDX-License-Identifier: Apache-2.0 */
/* Making and retiring handles of regions. Lock: the caller holds job.lock. */
#ifndef NXR_REGION_REGION_HANDLE_H
#define NXR_REGION_REGION_HANDLE_H

struct nixl_region;

/* A handle in the default context, listed but not marked open yet. NULL: no memory. */
struct nixl_region *nxr_region_new(const char *name);

/* The handle is closed: its segments go, and it is reused much later. */
void nxr_region_retire(struct nixl_region *region);

#endif
