/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was sent to a peer and may have to be sent again: a ring of slots with a frame each. A slot
 * is free again when the peer has acknowledged it and libfabric has released it on every rail.
 */
#ifndef NXR_OFI_OUTBOX_H
#define NXR_OFI_OUTBOX_H

#include "ofi.h"

struct nxr_ofi_slot {
    struct nxr_ofi_posted posted;
    uint32_t nbytes; /* of the slot, with the frame and what follows; a multiple of 8 */
    struct nxr_net_ep *ep;
    uint64_t seq;                         /* 0: only a filler at the end of the ring */
    uint8_t under_way[NXR_OFI_MAX_RAILS]; /* how many sends of it libfabric has, by rail */
    struct nxr_ofi_frame frame;           /* the content follows */
};

struct nxr_ofi_outbox {
    struct fid_mr *mrs[NXR_OFI_MAX_RAILS]; /* of bytes, if the provider needs it */
    uint64_t head;                         /* offsets since the beginning: the next slot */
    uint64_t tail;                         /* the oldest slot that is not free */
    uint64_t post;                         /* the next slot to pass to libfabric */
    _Alignas(64) unsigned char bytes[NXR_OFI_OUTBOX_NBYTES];
};

/* A slot for content of this size, with its number; NULL: no room, or no memory. */
struct nxr_ofi_slot *nxr_ofi_outbox_add(struct nxr_net_ep *ep, size_t nbytes);

/* The next slot to post, and the step to the one after it. NULL: all are posted. */
struct nxr_ofi_slot *nxr_ofi_outbox_next(struct nxr_ofi_outbox *outbox);
void nxr_ofi_outbox_step(struct nxr_ofi_outbox *outbox, const struct nxr_ofi_slot *slot);

/* Start sending again after the last acknowledged slot. */
void nxr_ofi_outbox_rewind(struct nxr_net_ep *ep);

/* Does libfabric still use a slot? */
bool nxr_ofi_outbox_is_under_way(const struct nxr_net_ep *ep);

/* Free the slots that are not needed any more. */
void nxr_ofi_outbox_reclaim(struct nxr_net_ep *ep);
void nxr_ofi_outbox_free(struct nxr_net_ep *ep);

/* A rail was closed: libfabric has released everything there. */
void nxr_ofi_outbox_rail_closed(struct nxr_net_ep *ep, unsigned rail);

/* libfabric has released a slot; `why` is NULL if it was sent. */
void nxr_ofi_slot_done(struct nxr_ofi_slot *slot, unsigned rail, const char *why);

#endif
