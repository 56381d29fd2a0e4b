/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What part.c, the life of parts, does for part_ask.c, which asks for them. Lock: job.lock.
 */
#ifndef NXR_REGION_PART_H
#define NXR_REGION_PART_H

struct nxr_region_part;

/* A part of no region yet, in state ASKING; NULL: no memory. */
struct nxr_region_part *nxr_part_new(void);

/* It becomes READY: found from now on when its owner closes it, or dies. */
void nxr_part_ready(struct nxr_region_part *part);

/* Out of its region: closed as soon as nobody copies, and used again much later. */
void nxr_part_retire(struct nxr_region_part *part);

/* Its owner has closed the region: tells the program, and the part becomes stale. */
void nxr_part_owner_closed(struct nxr_region_part *part);

#endif
