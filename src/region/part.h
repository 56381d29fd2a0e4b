/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What part.c, which holds the life of parts, provides to part_ask.c, which asks owners for them.
 * Lock: job.lock.
 */
#ifndef NXR_REGION_PART_H
#define NXR_REGION_PART_H

struct nxr_region_part;

/* A new part in state ASKING, not in a region yet; NULL: no memory. */
struct nxr_region_part *nxr_part_new(void);

/* The part becomes READY: from now on it is found when its owner closes it or dies. */
void nxr_part_ready(struct nxr_region_part *part);

/*
 * The part has been taken out of its region: it is closed once it is no longer in use, and reused
 * much later.
 */
void nxr_part_retire(struct nxr_region_part *part);

/* The owner has closed the region: report it to the program, and make the part stale. */
void nxr_part_owner_closed(struct nxr_region_part *part);

#endif
