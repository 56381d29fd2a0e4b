/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that fail or fall silent, and how they come back. */
#ifndef NXR_OFI_REPAIR_H
#define NXR_OFI_REPAIR_H

#include "ofi.h"
#include "util/clock.h"

/* May pieces and messages be sent on this way? */
static inline bool nxr_ofi_path_is_usable(const struct nxr_net_ep *ep, unsigned path)
{
    return ep->paths[path].is_proven && nxr_ofi.rails[path].ep != NULL &&
           nxr_ofi.rails[path].rest_until <= nxr_ofi.now;
}

/* Does the core try to reach a peer that was never reached? */
bool nxr_ofi_is_wanted(const struct nxr_net_ep *ep);

unsigned nxr_ofi_n_usable(const struct nxr_net_ep *ep);

/* Something has completed or arrived on this way. */
void nxr_ofi_path_moved(struct nxr_net_ep *ep, unsigned path);

/* libfabric reports a failure on this way: what was under way is sent again elsewhere. */
void nxr_ofi_path_failed(struct nxr_net_ep *ep, unsigned path, const char *why);

/* Check with the peer's host whether its process is still there; true: it is not. To be called
 * repeatedly while a peer is silent. */
bool nxr_ofi_liveness_probe(struct nxr_net_ep *ep);
void nxr_ofi_liveness_end(struct nxr_net_ep *ep);

/*
 * Ask at once on the paths that are not proven yet. False: libfabric had no room for a PING; call
 * again.
 */
bool nxr_ofi_ask_paths(struct nxr_net_ep *ep);

/*
 * Before what now waits in path->fenced is sent again, the peer closes its end, however often it
 * has: a former answer does not count.
 */
void nxr_ofi_fence(struct nxr_ofi_path *path);

/* Frames about repair. */
void nxr_ofi_pinged(struct nxr_net_ep *ep, unsigned path, uint64_t argument);
void nxr_ofi_ponged(struct nxr_net_ep *ep, unsigned path, uint64_t posted_seq);
void nxr_ofi_fence_asked(struct nxr_net_ep *ep, unsigned path, uint64_t argument);
void nxr_ofi_fenced(struct nxr_net_ep *ep, uint64_t argument);

/* Close and reopen the rails that have to be; true: one was. */
bool nxr_ofi_reset_rails(void);

/* Check for silence, at most every 100 ms or so; or have that done within some time. */
void nxr_ofi_repair(void);
void nxr_ofi_repair_within(int64_t ns);

#define NXR_OFI_TICK_NS (100 * NXR_MS) /* how often, while something is under way */

/* Something was sent: start checking. */
static inline void nxr_ofi_repair_begin(int64_t now)
{
    if (nxr_ofi.repair_at == 0 || nxr_ofi.repair_at > now + NXR_OFI_TICK_NS) {
        nxr_ofi.repair_at = now + NXR_OFI_TICK_NS;
    }
}

#endif
