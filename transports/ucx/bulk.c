/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk over TCP. Its header goes ahead in a message, with its size; the bytes follow in pieces that
 * UCX passes to the kernel from where they lie. A piece is sent at once or not at all: UCX keeps a
 * copy of what the kernel had no room for. So UCX holds none of the sender's memory afterwards, and
 * a peer that dies meanwhile leaves no request that could be ended twice, as happens with UCX's own
 * zero-copy sends (settings.c). The receiver is not asked beforehand where the bytes shall go, so
 * it copies them once.
 *
 * Messages may be sent between the pieces. Bulks to one peer are sent one after the other, so the
 * receiver knows which bulk a piece belongs to: the oldest incomplete one of that sender. If there
 * is no memory for an arriving bulk, only its length is kept, and that many bytes are skipped when
 * its pieces arrive. With RDMA, UCX moves bulk itself (message.c). The core's lock.
 */
#include "config.h"

#include "ucx.h"

#include <stdlib.h>
#include <string.h>

/* The head of bulk: UCX sends it together with the core's header. */
struct bulk_head {
    uint64_t sender; /* its id */
    uint64_t nbytes;
};

/* An outgoing bulk. */
struct bulk {
    struct nxr_list link;  /* ep->bulks, in order; then nxr_ucx.heads while UCX has the head */
    struct nxr_net_op *op; /* NULL: it has ended */
    const char *at;
    size_t left;
    bool is_head_at_ucx;
    struct bulk_head head;
};

/* An incoming bulk. */
struct incoming {
    struct nxr_list link; /* of the sender's, in order */
    char *at;             /* NULL: it is dropped */
    size_t left;
    size_t skip; /* bytes of the bulk that came next, for which there was no memory */
    void *cookie;
};

/* ---- out ------------------------------------------------------------------------------------- */

/* The bulk has ended; what UCX still needs of it stays until the head was sent. */
static void ucx_bulk_let_go(struct bulk *bulk)
{
    nxr_list_remove(&bulk->link);
    bulk->op = NULL;
    if (bulk->is_head_at_ucx) {
        nxr_list_append(&nxr_ucx.heads, &bulk->link);
    } else {
        free(bulk);
    }
}

static void head_sent(void *request, ucs_status_t status, void *user_data)
{
    struct bulk *bulk = user_data;

    (void)status; /* a failure is also reported for the endpoint */
    ucp_request_free(request);
    bulk->is_head_at_ucx = false;
    if (bulk->op == NULL) {
        nxr_list_remove(&bulk->link);
        free(bulk);
    }
}

/* False: there is no room now; progress() makes UCX report when there is. */
static bool ucx_bulk_send_piece(struct nxr_net_ep *ep, struct bulk *bulk)
{
    static const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL,
        .flags = UCP_AM_SEND_FLAG_EAGER,
    };
    size_t nbytes = bulk->left < NXR_UCX_PIECE_NBYTES ? bulk->left : NXR_UCX_PIECE_NBYTES;

    if (bulk->is_head_at_ucx ||
        ucp_am_send_nbx(ep->ucp, NXR_UCX_PIECE, &nxr_ucx.id, sizeof(nxr_ucx.id), bulk->at, nbytes,
                        &param) != NULL) {
        return false; /* or the peer is gone, which its endpoint will report */
    }
    nxr_ucx.is_idle = false;
    bulk->at += nbytes;
    bulk->left -= nbytes;
    return true;
}

/* Send some of the bulk that an endpoint has. Returns in how many pieces. */
static int push(struct nxr_net_ep *ep)
{
    int n = 0;

    while (n < NXR_UCX_PIECES_A_ROUND && !nxr_list_is_empty(&ep->bulks)) {
        struct bulk *bulk = nxr_list_entry(ep->bulks.next, struct bulk, link);

        if (!ucx_bulk_send_piece(ep, bulk)) {
            return n;
        }
        n++;
        if (bulk->left == 0) {
            struct nxr_net_op *op = bulk->op;

            ucx_bulk_let_go(bulk);
            nxr_ucx_end(op, NIXL_OK);
        }
    }
    nxr_ucx.is_idle = false;
    return n;
}

int nxr_ucx_bulk_send(struct nxr_net_ep *ep, const void *header, size_t header_nbytes,
                      const void *bytes, size_t nbytes, struct nxr_net_op *op)
{
    struct bulk *bulk = malloc(sizeof(*bulk));
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .cb = {.send = head_sent},
        .user_data = bulk,
        .flags = UCP_AM_SEND_FLAG_EAGER,
    };
    ucs_status_ptr_t request;

    if (bulk == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    *bulk = (struct bulk){
        .at = bytes,
        .left = nbytes,
        .head = {.sender = nxr_ucx.id, .nbytes = nbytes},
    };
    request = ucp_am_send_nbx(ep->ucp, NXR_UCX_BULK_HEAD, &bulk->head, sizeof(bulk->head), header,
                              header_nbytes, &param);
    if (UCS_PTR_IS_ERR(request)) {
        free(bulk);
        return NIXL_E_TRANSPORT;
    }
    bulk->is_head_at_ucx = request != NULL;
    while (request == NULL && nxr_list_is_empty(&ep->bulks) && bulk->left > 0 &&
           nbytes - bulk->left < NXR_UCX_PIECES_A_ROUND * NXR_UCX_PIECE_NBYTES &&
           ucx_bulk_send_piece(ep, bulk)) {
    }
    if (bulk->left == 0) {
        free(bulk);
        return NIXL_OK;
    }
    bulk->op = op;
    nxr_list_append(&ep->bulks, &bulk->link);
    if (nxr_list_is_empty(&ep->bulk_link)) {
        nxr_list_append(&nxr_ucx.bulk_eps, &ep->bulk_link);
    }
    nxr_ucx_keep(ep, op);
    return NIXL_INPROGRESS;
}

bool nxr_ucx_bulk_rebase(struct nxr_net_ep *ep, const struct nxr_net_op *op, const void *bytes)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &ep->bulks) {
        struct bulk *bulk = nxr_list_entry(link, struct bulk, link);

        if (bulk->op == op) {
            bulk->at = (const char *)bytes + (bulk->head.nbytes - bulk->left);
            return true;
        }
    }
    return false;
}

void nxr_ucx_bulks_stop(struct nxr_net_ep *ep, int status)
{
    nxr_list_remove(&ep->bulk_link);
    while (!nxr_list_is_empty(&ep->bulks)) {
        struct bulk *bulk = nxr_list_entry(ep->bulks.next, struct bulk, link);
        struct nxr_net_op *op = bulk->op;

        ucx_bulk_let_go(bulk);
        nxr_ucx_end(op, status);
    }
}

/* ---- in -------------------------------------------------------------------------------------- */

/* The sender of a message. NULL: unknown to this process, or not sent as this module sends them. */
static struct nxr_ucx_sender *bulk_sender(const void *id, size_t nbytes,
                                          const ucp_am_recv_param_t *param)
{
    return (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0 ? nxr_ucx_sender_of(id, nbytes)
                                                                : NULL;
}

/* Give the core its memory back; what still comes is dropped. */
static void ucx_bulk_give_back(struct incoming *incoming, int status)
{
    if (incoming->at != NULL) {
        incoming->at = NULL;
        nxr_ucx.core->landed(incoming->cookie, status);
    }
}

/* There is no memory to record the bulk that has just started: drop its pieces in turn. */
static void skip_next(struct nxr_ucx_sender *sender, size_t nbytes)
{
    if (nxr_list_is_empty(&sender->bulks)) {
        sender->skip += nbytes;
    } else {
        nxr_list_entry(sender->bulks.prev, struct incoming, link)->skip += nbytes;
    }
}

static ucs_status_t head_came(void *arg, const void *header, size_t header_nbytes, void *bytes,
                              size_t nbytes, const ucp_am_recv_param_t *param)
{
    struct bulk_head head;
    struct nxr_ucx_sender *sender;
    struct incoming *incoming, lost;

    (void)arg;
    if (header_nbytes != sizeof(head)) {
        return UCS_OK;
    }
    memcpy(&head, header, sizeof(head));
    sender = bulk_sender(&head.sender, sizeof(head.sender), param);
    if (sender == NULL || head.nbytes == 0 || head.nbytes > SIZE_MAX / 2) {
        return UCS_OK;
    }
    incoming = malloc(sizeof(*incoming));
    lost.at = nxr_ucx.core->incoming(bytes, nbytes, head.nbytes, &lost.cookie);
    if (incoming == NULL) {
        ucx_bulk_give_back(
            &lost, NIXL_E_NO_MEMORY); /* ends everything that the core has with the sender */
        skip_next(sender, head.nbytes);
        return UCS_OK;
    }
    *incoming = (struct incoming){.at = lost.at, .left = head.nbytes, .cookie = lost.cookie};
    nxr_list_append(&sender->bulks, &incoming->link);
    return UCS_OK;
}

/* A piece of the oldest bulk of a sender; the sender has one. */
static void ucx_bulk_take_piece(struct nxr_ucx_sender *sender, const void *bytes, size_t nbytes)
{
    struct incoming *incoming = nxr_list_entry(sender->bulks.next, struct incoming, link);

    if (nbytes > incoming->left) {
        ucx_bulk_give_back(incoming, NIXL_E_TRANSPORT);
        return;
    }
    if (incoming->at != NULL) {
        memcpy(incoming->at, bytes, nbytes);
        incoming->at += nbytes;
        nxr_ucx.core->landing(incoming->cookie, nbytes);
    }
    incoming->left -= nbytes;
    if (incoming->left == 0) {
        nxr_list_remove(&incoming->link);
        sender->skip = incoming->skip;
        ucx_bulk_give_back(incoming, NIXL_OK);
        free(incoming);
    }
}

static ucs_status_t piece_came(void *arg, const void *header, size_t header_nbytes, void *bytes,
                               size_t nbytes, const ucp_am_recv_param_t *param)
{
    struct nxr_ucx_sender *sender = bulk_sender(header, header_nbytes, param);

    (void)arg;
    nxr_rail_received(&nxr_ucx.rail, 1, nbytes);
    if (sender != NULL && sender->skip > 0) {
        sender->skip -= nbytes < sender->skip ? nbytes : sender->skip;
    } else if (sender != NULL && !nxr_list_is_empty(&sender->bulks)) {
        ucx_bulk_take_piece(sender, bytes, nbytes);
    }
    return UCS_OK;
}

/*
 * Keep the bulks of a process that was cut off, so that pieces still arriving count for no other
 * bulk.
 */
void nxr_ucx_bulks_cut(struct nxr_ucx_sender *sender)
{
    if (!nxr_list_is_empty(&sender->bulks) && nxr_list_is_empty(&sender->cut_link)) {
        nxr_list_append(&nxr_ucx.cut, &sender->cut_link);
        nxr_ucx.is_idle = false;
    }
}

static int give_back_cut(void)
{
    struct nxr_list *cut, *link, *after;
    int n = 0;

    while ((cut = nxr_list_pop(&nxr_ucx.cut)) != NULL) {
        struct nxr_ucx_sender *sender = nxr_list_entry(cut, struct nxr_ucx_sender, cut_link);

        nxr_list_for_each (link, after, &sender->bulks) {
            ucx_bulk_give_back(nxr_list_entry(link, struct incoming, link), NIXL_E_TRANSPORT);
            n++;
        }
    }
    return n;
}

/* ---- both ------------------------------------------------------------------------------------ */

ucs_status_t nxr_ucx_bulks_start(void)
{
    ucs_status_t status = nxr_ucx_set_handler(NXR_UCX_BULK_HEAD, head_came);

    return status == UCS_OK ? nxr_ucx_set_handler(NXR_UCX_PIECE, piece_came) : status;
}

int nxr_ucx_bulks_progress(void)
{
    struct nxr_list *link, *after;
    int n = give_back_cut();

    nxr_list_for_each (link, after, &nxr_ucx.bulk_eps) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, bulk_link);

        n += push(ep);
        if (nxr_list_is_empty(&ep->bulks)) {
            nxr_list_remove(&ep->bulk_link);
        }
    }
    return n;
}

void nxr_ucx_bulks_forget(struct nxr_ucx_sender *sender)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&sender->bulks)) != NULL) {
        struct incoming *incoming = nxr_list_entry(link, struct incoming, link);

        ucx_bulk_give_back(incoming, NIXL_E_TRANSPORT);
        free(incoming);
    }
    sender->skip = 0;
}

void nxr_ucx_bulks_free(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&nxr_ucx.heads)) != NULL) {
        free(nxr_list_entry(link, struct bulk, link));
    }
}
