/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining a job whose ranks nixlrun-rank starts again, under any engine: by nixlrun's rendezvous
 * (util/rendezvous.h) instead of PMIx, for which a process that has died never comes back.
 */
#ifndef NXR_BOOT_RENDEZVOUS_H
#define NXR_BOOT_RENDEZVOUS_H

#include "boot/boot.h"

/* Is this process a rank of such a job, as its environment says? */
bool nxr_rendezvous_is_given(void);

/*
 * Connect, and learn the place in the job when all ranks have come. `info` holds the identity.
 * NIXL_OK, or NIXL_E_TRANSPORT or NIXL_E_TIMEOUT, and one line in `why`.
 */
int nxr_rendezvous_come(struct nxr_boot_info *info, int64_t timeout_ns, char *why,
                        size_t why_nbytes);

/*
 * Send this rank's card, and get those of all (boot/all_cards.h), when all living ranks have sent
 * one. From then on what happens to others is reported by nxr_boot_events_tell(). As above.
 */
int nxr_rendezvous_meet(const struct nxr_full_card *card, int64_t timeout_ns, char *why,
                        size_t why_nbytes);

/* Leave in order. */
void nxr_rendezvous_leave(void);

#endif
