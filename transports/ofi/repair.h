/* SPDX-License-Identifier: Apache-2.0 */
/* Ways that fail or fall silent, and how they come back. */
#ifndef NXR_OFI_REPAIR_H
#define NXR_OFI_REPAIR_H

#include "ofi.h"
#include "util/clock.h"

/* May pieces and messages go here? */
static inline bool nxr_ofi_way_is_usable(const struct nxr_net_ep *ep, unsigned way)
{
    return ep->ways[way].is_proven && nxr_ofi.rails[way].ep != NULL &&
           nxr_ofi.rails[way].rest_until <= nxr_ofi.now;
}

/* Does the core try to reach a peer that was never reached? */
bool nxr_ofi_is_wanted(const struct nxr_net_ep *ep);

unsigned nxr_ofi_n_usable(const struct nxr_net_ep *ep);

/* Something has ended well here, or has come. */
void nxr_ofi_way_moved(struct nxr_net_ep *ep, unsigned way);

/* libfabric says that something failed here: what was under way is sent again elsewhere. */
void nxr_ofi_way_failed(struct nxr_net_ep *ep, unsigned way, const char *why);

/* Ask the peer's host whether its process is still there; true: it is not. To be called again and
 * again while a peer is silent. */
bool nxr_ofi_knock(struct nxr_net_ep *ep);
void nxr_ofi_knock_end(struct nxr_net_ep *ep);

/* Ask at once where no way is proven yet. False: libfabric had no room for a question; again. */
bool nxr_ofi_ask_ways(struct nxr_net_ep *ep);

/* Frames about repair. */
void nxr_ofi_pinged(struct nxr_net_ep *ep, unsigned way, uint64_t argument);
void nxr_ofi_ponged(struct nxr_net_ep *ep, unsigned way, uint64_t posted_seq);
void nxr_ofi_fence_asked(struct nxr_net_ep *ep, unsigned way, uint64_t argument);
void nxr_ofi_fenced(struct nxr_net_ep *ep, uint64_t argument);

/* Close and open the rails that must; true: one was. */
bool nxr_ofi_reset_rails(void);

/* Look after what is silent, at most every some 100 ms; and: do so within this time. */
void nxr_ofi_repair(void);
void nxr_ofi_repair_within(int64_t ns);

#define NXR_OFI_TICK_NS (100 * NXR_MS) /* so often, while something is under way */

/* Something was sent: begin to look. */
static inline void nxr_ofi_repair_begin(int64_t now)
{
    if (nxr_ofi.repair_at == 0 || nxr_ofi.repair_at > now + NXR_OFI_TICK_NS) {
        nxr_ofi.repair_at = now + NXR_OFI_TICK_NS;
    }
}

#endif
