/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages. Each is copied once, into the peer's outbox, and sent from there; so the core may reuse
 * its bytes at once, and a message that a broken connection has lost can be sent again. The
 * receiver accepts frames in the order of their numbers, drops duplicates, and reports what is
 * missing. Acknowledgements travel with its own messages, or alone after ACK_NBYTES, or when the
 * sender asks.
 */
#include "config.h"

#include "outbox.h"
#include "repair.h"
#include "util/debug.h"

#include <rdma/fi_errno.h>

#include <string.h>

#define ACK_NBYTES (NXR_OFI_OUTBOX_NBYTES / 4)

/* ---- out ------------------------------------------------------------------------------------- */

/* Pass a slot to libfabric: 0, -FI_EAGAIN, or another failure of libfabric. */
static ssize_t ofi_message_post(struct nxr_net_ep *ep, struct nxr_ofi_slot *slot)
{
    struct nxr_ofi_rail *rail = &nxr_ofi.rails[ep->message_path];
    fi_addr_t addr = ep->paths[ep->message_path].addr;
    size_t nbytes = nxr_ofi_frame_nbytes(slot->frame.nbytes);
    ssize_t rc;

    if (rail->ep == NULL) {
        return -FI_EAGAIN;
    }
    slot->frame.ack = ep->taken_seq;
    if (nbytes <= rail->inject_nbytes) {
        rc = fi_inject(rail->ep, &slot->frame, nbytes, addr);
    } else if (slot->under_way[rail->index] == UINT8_MAX) {
        rc = -FI_EAGAIN;
    } else {
        rc = fi_send(rail->ep, &slot->frame, nbytes, nxr_ofi_mr_desc(ep->outbox->mrs[rail->index]),
                     addr, slot);
        slot->under_way[rail->index] += rc == 0;
    }
    if (rc == 0) {
        nxr_rail_sent(&ep->paths[rail->index].count, 1, nbytes);
        ep->told_seq = slot->frame.ack;
        ep->untold_nbytes = 0;
    } else {
        nxr_rail_was_full(&ep->paths[rail->index].count);
    }
    return rc;
}

static bool has_fenced(const struct nxr_net_ep *ep)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        if (!nxr_list_is_empty(&ep->paths[i].fenced)) {
            return true;
        }
    }
    return false;
}

/*
 * Writes that wait go first, where a message must not overtake them; so do those that wait until
 * the peer has closed its end of a rail, to be sent again.
 */
static bool must_wait(const struct nxr_net_ep *ep)
{
    return nxr_ofi.attr.orders_writes && (!nxr_list_is_empty(&ep->starting) ||
                                          !nxr_list_is_empty(&ep->waiting) || has_fenced(ep));
}

/*
 * Waiting messages are sent once a path is proven; but each path must be asked, once there is room.
 */
static void post_when_proven(struct nxr_net_ep *ep)
{
    if ((ep->outbox != NULL || nxr_ofi_is_wanted(ep)) && !ep->is_failed && !nxr_ofi_ask_paths(ep) &&
        nxr_list_is_empty(&ep->post_link)) {
        nxr_list_append(&nxr_ofi.posting, &ep->post_link);
    }
}

bool nxr_ofi_post_messages(struct nxr_net_ep *ep)
{
    struct nxr_ofi_slot *slot;
    bool has_moved = false;

    if (!ep->paths[ep->message_path].is_proven) {
        post_when_proven(ep);
        return false;
    }
    while (ep->outbox != NULL && !ep->is_failed &&
           (slot = nxr_ofi_outbox_next(ep->outbox)) != NULL) {
        if (slot->seq > ep->acked_seq) {
            ssize_t rc = must_wait(ep) ? -FI_EAGAIN : ofi_message_post(ep, slot);

            if (rc != 0) {
                if (rc != -FI_EAGAIN) {
                    nxr_ofi_path_failed(ep, ep->message_path, fi_strerror((int)-rc));
                }
                if (nxr_list_is_empty(&ep->post_link)) {
                    nxr_list_append(&nxr_ofi.posting, &ep->post_link);
                }
                return has_moved;
            }
            ep->posted_seq = slot->seq;
        }
        nxr_ofi_outbox_step(ep->outbox, slot);
        has_moved = true;
    }
    return has_moved;
}

void nxr_ofi_send_again(struct nxr_net_ep *ep)
{
    nxr_ofi_outbox_rewind(ep);
    nxr_ofi_post_messages(ep);
}

int nxr_ofi_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                 size_t bulk_nbytes, struct nxr_net_op *op)
{
    struct nxr_ofi_slot *slot;

    (void)bulk;
    (void)op;
    NXR_ASSERT(ep->is_open && nbytes > 0);
    if (ep->is_failed) {
        return NIXL_E_TRANSPORT;
    }
    if (bulk_nbytes > 0 || nbytes > nxr_ofi.attr.message_nbytes) {
        return NIXL_E_UNSUPPORTED;
    }
    slot = nxr_ofi_outbox_add(ep, nbytes);
    if (slot == NULL) {
        return NIXL_E_AGAIN;
    }
    memcpy(&slot->frame + 1, bytes, nbytes);
    nxr_ofi_post_messages(ep);
    return NIXL_OK;
}

void nxr_ofi_slot_done(struct nxr_ofi_slot *slot, unsigned rail, const char *why)
{
    struct nxr_net_ep *ep = slot->ep;

    slot->under_way[rail] -= slot->under_way[rail] > 0;
    if (why == NULL) {
        nxr_ofi_path_moved(ep, rail);
    } else if (slot->seq > ep->acked_seq) {
        nxr_ofi_path_failed(ep, rail, why);
    }
    nxr_ofi_outbox_reclaim(ep);
    if (!ep->is_open) {
        nxr_ofi_aside_rest(ep);
    }
}

bool nxr_ofi_send_control(struct nxr_net_ep *ep, unsigned path, enum nxr_ofi_frame_type type,
                          uint64_t argument)
{
    struct nxr_ofi_rail *rail = &nxr_ofi.rails[path];
    struct nxr_ofi_control *control = NULL;

    for (unsigned i = 0; i < NXR_OFI_N_CONTROLS && control == NULL; i++) {
        control = rail->controls[i].is_busy ? NULL : &rail->controls[i];
    }
    if (control == NULL || rail->ep == NULL || ep->paths[path].theirs < 0) {
        return false;
    }
    control->frame = (struct nxr_ofi_frame){.magic = NXR_OFI_FRAME_MAGIC,
                                            .type = (uint8_t)type,
                                            .to = ep->address.id,
                                            .from = nxr_ofi.address.id,
                                            .seq = argument,
                                            .ack = ep->taken_seq};
    if (type == NXR_OFI_PING && !ep->paths[path].is_proven) { /* the peer may not know us yet */
        control->frame.nbytes = (uint32_t)nxr_ofi_address_nbytes(nxr_ofi.n_rails);
        control->address = nxr_ofi.address;
    }
    control->is_busy =
        fi_send(rail->ep, &control->frame, nxr_ofi_frame_nbytes(control->frame.nbytes),
                nxr_ofi_mr_desc(rail->controls_mr), ep->paths[path].addr, control) == 0;
    if (control->is_busy) {
        nxr_rail_sent(&ep->paths[path].count, 1, nxr_ofi_frame_nbytes(control->frame.nbytes));
        ep->told_seq = ep->taken_seq;
        ep->untold_nbytes = 0;
    }
    return control->is_busy;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void acknowledged(struct nxr_net_ep *ep, uint64_t ack)
{
    if (ack <= ep->acked_seq || ack >= ep->next_seq) {
        return;
    }
    ep->acked_seq = ack;
    ep->acked_at = nxr_ofi.now;
    nxr_ofi_outbox_reclaim(ep);
}

static void ack_soon(struct nxr_net_ep *ep)
{
    if (nxr_list_is_empty(&ep->ack_link)) {
        nxr_list_append(&nxr_ofi.acking, &ep->ack_link);
    }
}

bool nxr_ofi_send_acks(void)
{
    struct nxr_list *link, *after;
    bool has_moved = false;

    nxr_list_for_each (link, after, &nxr_ofi.acking) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, ack_link);

        if (ep->is_failed || (ep->told_seq == ep->taken_seq && !ep->is_gap_told) ||
            nxr_ofi_send_control(ep, ep->message_path, NXR_OFI_ACK, ep->is_gap_told)) {
            nxr_list_remove(&ep->ack_link);
            has_moved = true;
        }
    }
    return has_moved;
}

static struct nxr_net_ep *sender(const struct nxr_ofi_frame *frame, const void *content)
{
    struct nxr_net_ep *ep = nxr_ofi_peer_find(frame->from);
    struct nxr_ofi_address address;
    const char *why;

    if (ep != NULL || frame->nbytes == 0 || frame->type != NXR_OFI_PING) {
        return ep;
    }
    if (nxr_ofi_address_parse(content, frame->nbytes, &address, &why) != NIXL_OK ||
        address.id != frame->from) {
        nxr_ofi.core->log(NXR_NET_WARN, "ofi: dropped a question: %s",
                          why != NULL ? why : "it is signed by another process");
        return NULL;
    }
    return nxr_ofi_peer_make(&address);
}

static void take_counted(struct nxr_net_ep *ep, const struct nxr_ofi_frame *frame,
                         const void *content)
{
    if (frame->seq != ep->taken_seq + 1) {
        if (frame->seq > ep->taken_seq && !ep->is_gap_told) {
            ep->is_gap_told = true;
            ack_soon(ep);
        }
        return;
    }
    ep->taken_seq = frame->seq;
    ep->is_gap_told = false;
    ep->untold_nbytes += nxr_ofi_frame_nbytes(frame->nbytes) + sizeof(struct nxr_ofi_slot);
    if (ep->untold_nbytes >= ACK_NBYTES) {
        ack_soon(ep);
    }
    nxr_ofi.core->received(content, frame->nbytes);
}

static void ofi_message_take_control(struct nxr_net_ep *ep, struct nxr_ofi_rail *rail,
                                     const struct nxr_ofi_frame *frame)
{
    switch (frame->type) {
    case NXR_OFI_ACK:
        if (frame->seq != 0) {
            nxr_ofi_send_again(ep);
        }
        break;
    case NXR_OFI_PING:
        nxr_ofi_pinged(ep, rail->index, frame->seq);
        break;
    case NXR_OFI_PONG:
        nxr_ofi_ponged(ep, rail->index, frame->seq);
        break;
    case NXR_OFI_FENCE:
        nxr_ofi_fence_asked(ep, rail->index, frame->seq);
        break;
    case NXR_OFI_FENCED:
        nxr_ofi_fenced(ep, frame->seq);
        break;
    default:
        break;
    }
}

void nxr_ofi_take(struct nxr_ofi_rail *rail, const void *bytes, size_t nbytes)
{
    const char *wrong = (uintptr_t)bytes % 8 != 0
                            ? "a frame that is not aligned"
                            : nxr_ofi_frame_check(bytes, nbytes, nxr_ofi.address.id);
    const struct nxr_ofi_frame *frame = bytes;
    struct nxr_net_ep *ep;

    if (wrong != NULL) {
        nxr_ofi.core->log(NXR_NET_WARN, "ofi: dropped %zu bytes that came by %s: %s", nbytes,
                          rail->device, wrong);
        return;
    }
    ep = sender(frame, frame + 1);
    if (ep == NULL || ep->is_failed) {
        return;
    }
    ep->ran_at = nxr_ofi.now;
    if (!ep->is_open) {
        nxr_ofi_aside_heard(ep);
    }
    nxr_rail_received(&ep->paths[rail->index].count, 1, nbytes);
    nxr_ofi_path_moved(ep, rail->index);
    acknowledged(ep, frame->ack);
    if (frame->type == NXR_OFI_DATA) {
        take_counted(ep, frame, frame + 1);
    } else {
        ofi_message_take_control(ep, rail, frame);
    }
}
