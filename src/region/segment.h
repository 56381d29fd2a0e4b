/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the life of segments (segment.c), asking owners for them (segment_ask.c), and segments of
 * extents (extents.c) provide to each other. Lock: job.lock.
 */
#ifndef NXR_REGION_SEGMENT_H
#define NXR_REGION_SEGMENT_H

#include "core/peer_slot.h"
#include "util/symbol.h"

#include <stdbool.h>

struct nxr_region_segment;

/* What this folder keeps of a peer: the questions that wait for its answer (segment_ask.c). */
extern NXR_HIDDEN struct nxr_peer_slot nxr_region_slot;
bool nxr_region_peer_init(struct nxr_peer *peer);

/*
 * A new segment in state ASKING, not in a region yet, or an extent of `whole`; NULL: no memory.
 */
struct nxr_region_segment *nxr_segment_new(struct nxr_region_segment *whole);

/* Ask the owner for it, or for the extent that it is. */
void nxr_segment_ask(struct nxr_region_segment *segment, struct nxr_peer *peer);

/* It cannot be opened, for the reason `status`: what waits for it fails. */
void nxr_segment_fail(struct nxr_region_segment *segment, int status);

/* The segment becomes READY: from now on it is found when its owner closes it or dies. */
void nxr_segment_ready(struct nxr_region_segment *segment);

/*
 * The segment has been taken out of its region: it is closed once it is no longer in use, and
 * reused much later.
 */
void nxr_segment_retire(struct nxr_region_segment *segment);

/* The owner has closed the region: report it to the program, and make the segment stale. */
void nxr_segment_owner_closed(struct nxr_region_segment *segment);

#endif
