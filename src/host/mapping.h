/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process reads and writes in the memory of a peer of this host. */
#ifndef NXR_HOST_MAPPING_H
#define NXR_HOST_MAPPING_H

#include "core/job.h"

/*
 * Map the peer's control page, which must be what `card` has published, and where this process
 * writes in its memory: peer->out. `rings_fd` is the page of rings of a peer that has one; it is
 * not used otherwise. The descriptors stay the caller's. Mapped already: nothing happens. NIXL_OK,
 * or the failure after a line in the log. Caller holds job.lock.
 */
int nxr_mapping_make(struct nxr_peer *peer, const struct nxr_card *card, int control_fd,
                     int rings_fd);

/* Undo it; nothing uses it any more. */
void nxr_mapping_drop(struct nxr_peer *peer);

#endif
