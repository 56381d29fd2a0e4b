/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls on words share with put and get: finding a part, and saying what went wrong. */
#ifndef NXR_TRANSFER_H
#define NXR_TRANSFER_H

#include "region.h"

/* Check rank and handle, find the part, asking its owner if need be, and check the range. */
int nxr_transfer_find_part(const char *operation, int rank, struct nixl_region *region,
                           uint64_t offset, size_t nbytes, struct nxr_part **part_p);

/* What a transport's failure means to the caller: records and returns it. */
int nxr_transfer_fail(const char *operation, int status, struct nixl_region *region,
                      struct nxr_part *part);

/* nixl_put() for `operation`. */
int nxr_transfer_put(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     const void *src, size_t nbytes);

/* nixl_fence() for `operation`. */
int nxr_transfer_fence(const char *operation, struct nxr_peer *peer);

#endif
