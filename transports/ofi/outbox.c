/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of messages on their way to a peer. Offsets only grow; a slot never wraps around the end
 * of the ring, so that libfabric can send it from where it lies.
 */
#include "config.h"

#include "outbox.h"
#include "repair.h"
#include "rma.h"

#include <string.h>
#include <sys/mman.h>

#define NBYTES NXR_OFI_OUTBOX_NBYTES
#define HEAD   offsetof(struct nxr_ofi_slot, frame)

_Static_assert(HEAD % 8 == 0, "frames are aligned");
_Static_assert(NBYTES >= 4 * (HEAD + sizeof(struct nxr_ofi_frame) + NXR_OFI_CONTENT_MAX),
               "some of the longest messages fit");

static struct nxr_ofi_slot *slot_at(struct nxr_ofi_outbox *outbox, uint64_t offset)
{
    return (struct nxr_ofi_slot *)(void *)(outbox->bytes + offset % NBYTES);
}

/* Where the slot at this offset begins: a rest that is too short at the ring's end is skipped. */
static uint64_t slot_begin(uint64_t offset)
{
    size_t rest = NBYTES - offset % NBYTES;

    return rest < sizeof(struct nxr_ofi_slot) ? offset + rest : offset;
}

/*
 * A mapping of its own, which goes back to the system as a whole: peers come and go, and in the
 * heap what outlives an outbox would lie in its place.
 */
static struct nxr_ofi_outbox *ofi_outbox_make(struct nxr_net_ep *ep)
{
    struct nxr_ofi_outbox *outbox =
        mmap(NULL, sizeof(*outbox), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (outbox == MAP_FAILED) {
        return NULL;
    }
    ep->outbox = outbox;
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_rail *rail = &nxr_ofi.rails[i];

        if ((rail->mr_mode & FI_MR_LOCAL) != 0 &&
            nxr_ofi_rail_register(rail, outbox->bytes, NBYTES, FI_SEND, NXR_OFI_NEW_KEY,
                                  &outbox->mrs[i]) != 0) {
            nxr_ofi_outbox_free(ep);
            return NULL;
        }
    }
    return outbox;
}

/* Reserve that many contiguous bytes, skipping the end of the ring if they do not fit there. */
static struct nxr_ofi_slot *reserve(struct nxr_ofi_outbox *outbox, size_t nbytes)
{
    uint64_t begin = slot_begin(outbox->head);
    size_t rest = NBYTES - begin % NBYTES;
    uint64_t at = nbytes > rest ? begin + rest : begin;

    if (at + nbytes - outbox->tail > NBYTES) {
        return NULL;
    }
    if (at != begin) {
        *slot_at(outbox, begin) = (struct nxr_ofi_slot){.nbytes = (uint32_t)rest};
    }
    outbox->head = at + nbytes;
    return slot_at(outbox, at);
}

struct nxr_ofi_slot *nxr_ofi_outbox_add(struct nxr_net_ep *ep, size_t nbytes)
{
    struct nxr_ofi_outbox *outbox = ep->outbox != NULL ? ep->outbox : ofi_outbox_make(ep);
    size_t slot_nbytes = HEAD + nxr_ofi_frame_nbytes(nbytes);
    struct nxr_ofi_slot *slot = outbox != NULL ? reserve(outbox, slot_nbytes) : NULL;

    if (slot == NULL) {
        return NULL;
    }
    if (ep->acked_seq + 1 == ep->next_seq) {
        ep->acked_at = nxr_coarse_now_ns();
        nxr_ofi_repair_begin(ep->acked_at);
    }
    *slot = (struct nxr_ofi_slot){.posted.kind = NXR_OFI_SLOT,
                                  .nbytes = (uint32_t)slot_nbytes,
                                  .ep = ep,
                                  .seq = ep->next_seq++};
    slot->frame = (struct nxr_ofi_frame){.magic = NXR_OFI_FRAME_MAGIC,
                                         .type = NXR_OFI_DATA,
                                         .nbytes = (uint32_t)nbytes,
                                         .to = ep->address.id,
                                         .from = nxr_ofi.address.id,
                                         .seq = slot->seq};
    return slot;
}

struct nxr_ofi_slot *nxr_ofi_outbox_next(struct nxr_ofi_outbox *outbox)
{
    while (outbox->post != outbox->head) {
        struct nxr_ofi_slot *slot;

        outbox->post = slot_begin(outbox->post);
        slot = slot_at(outbox, outbox->post);
        if (slot->seq != 0) {
            return slot;
        }
        outbox->post += slot->nbytes;
    }
    return NULL;
}

void nxr_ofi_outbox_step(struct nxr_ofi_outbox *outbox, const struct nxr_ofi_slot *slot)
{
    outbox->post += slot->nbytes;
}

void nxr_ofi_outbox_rewind(struct nxr_net_ep *ep)
{
    struct nxr_ofi_outbox *outbox = ep->outbox;
    const struct nxr_ofi_slot *slot;

    if (outbox == NULL) {
        return;
    }
    outbox->post = outbox->tail;
    while ((slot = nxr_ofi_outbox_next(outbox)) != NULL && slot->seq <= ep->acked_seq) {
        nxr_ofi_outbox_step(outbox, slot);
    }
    ep->posted_seq = ep->acked_seq;
}

static bool slot_is_under_way(const struct nxr_ofi_slot *slot)
{
    static const uint8_t nowhere[NXR_OFI_MAX_RAILS];

    return memcmp(slot->under_way, nowhere, sizeof(nowhere)) != 0;
}

/* Restart an empty ring at its beginning: that is in the cache, the rest of it is not. */
static void begin_again(struct nxr_ofi_outbox *outbox)
{
    uint64_t beginning = (outbox->head + NBYTES - 1) / NBYTES * NBYTES;

    outbox->head = outbox->tail = outbox->post = beginning;
}

void nxr_ofi_outbox_reclaim(struct nxr_net_ep *ep)
{
    struct nxr_ofi_outbox *outbox = ep->outbox;

    while (outbox != NULL && outbox->tail != outbox->post) {
        const struct nxr_ofi_slot *slot;

        outbox->tail = slot_begin(outbox->tail);
        slot = slot_at(outbox, outbox->tail);
        if (slot->seq > ep->acked_seq || (slot->seq != 0 && slot_is_under_way(slot))) {
            return;
        }
        outbox->tail += slot->nbytes;
    }
    if (outbox != NULL && outbox->tail == outbox->head) {
        begin_again(outbox);
    }
}

bool nxr_ofi_outbox_is_under_way(const struct nxr_net_ep *ep)
{
    struct nxr_ofi_outbox *outbox = ep->outbox;

    for (uint64_t at = outbox != NULL ? outbox->tail : 0; outbox != NULL && at != outbox->head;) {
        const struct nxr_ofi_slot *slot;

        at = slot_begin(at);
        slot = slot_at(outbox, at);
        if (slot->seq != 0 && slot_is_under_way(slot)) {
            return true;
        }
        at += slot->nbytes;
    }
    return false;
}

void nxr_ofi_outbox_free(struct nxr_net_ep *ep)
{
    if (ep->outbox == NULL) {
        return;
    }
    for (unsigned i = 0; i < NXR_OFI_MAX_RAILS; i++) {
        nxr_ofi_mr_close(ep->outbox->mrs[i]);
    }
    (void)munmap(ep->outbox, sizeof(*ep->outbox));
    ep->outbox = NULL;
}

void nxr_ofi_outbox_rail_closed(struct nxr_net_ep *ep, unsigned rail)
{
    struct nxr_ofi_outbox *outbox = ep->outbox;

    for (uint64_t at = outbox != NULL ? outbox->tail : 0; outbox != NULL && at != outbox->head;) {
        struct nxr_ofi_slot *slot;

        at = slot_begin(at);
        slot = slot_at(outbox, at);
        if (slot->seq != 0) {
            slot->under_way[rail] = 0;
        }
        at += slot->nbytes;
    }
    nxr_ofi_outbox_reclaim(ep);
}
