/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rail: its endpoint and its completion queue, from open to close, and what comes out of the
 * queue. Its buffers are in receive.c.
 */
#include "config.h"

#include "ofi.h"
#include "outbox.h"
#include "rma.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPLETIONS 32 /* read at once */

/* ---- the endpoint ---------------------------------------------------------------------------- */

static void close_fid(struct fid *fid)
{
    if (fid != NULL) {
        fi_close(fid);
    }
}

static void close_endpoint(struct nxr_ofi_rail *rail)
{
    close_fid(rail->ep != NULL ? &rail->ep->fid : NULL);
    nxr_ofi_unwatch_rail(rail);
    close_fid(rail->cq != NULL ? &rail->cq->fid : NULL);
    close_fid(rail->av != NULL ? &rail->av->fid : NULL);
    rail->ep = NULL;
    rail->cq = NULL;
    rail->av = NULL;
}

/* A queue with a descriptor if the provider has that, else one that must be polled. */
static int open_queue(struct nxr_ofi_rail *rail)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA,
                              .wait_obj = FI_WAIT_FD,
                              .size = rail->info->tx_attr->size + rail->info->rx_attr->size};
    int rc = fi_cq_open(rail->domain, &attr, &rail->cq, NULL);

    if (rc == 0 && nxr_ofi_watch_rail(rail) == NIXL_OK) {
        return 0;
    }
    if (rc == 0) {
        fi_close(&rail->cq->fid);
        rail->cq = NULL;
    }
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(rail->domain, &attr, &rail->cq, NULL);
}

static int open_endpoint(struct nxr_ofi_rail *rail)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = (size_t)nxr_ofi.core->size};
    size_t least = nxr_ofi_frame_nbytes(NXR_OFI_CONTENT_MAX);
    int rc = open_queue(rail);

    rc = rc != 0 ? rc : fi_av_open(rail->domain, &av_attr, &rail->av, NULL);
    rc = rc != 0 ? rc : fi_endpoint(rail->domain, rail->info, &rail->ep, NULL);
    rc = rc != 0 ? rc : fi_ep_bind(rail->ep, &rail->cq->fid, FI_TRANSMIT | FI_RECV);
    rc = rc != 0 ? rc : fi_ep_bind(rail->ep, &rail->av->fid, 0);
    rc = rc != 0 ? rc : fi_enable(rail->ep);
    /* After fi_enable(): before it, the shm provider crashes. */
    return rc != 0 ? rc
                   : fi_setopt(&rail->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
                               sizeof(least));
}

static int learn_name(struct nxr_ofi_rail *rail)
{
    struct nxr_ofi_address_rail *told = &nxr_ofi.address.rails[rail->index];
    int rc;

    rail->name_nbytes = sizeof(rail->name);
    rc = fi_getname(&rail->ep->fid, rail->name, &rail->name_nbytes);
    if (rc == 0 && rail->name_nbytes == 0) {
        rc = -FI_ENODATA;
    }
    told->nbytes = (uint8_t)rail->name_nbytes;
    memcpy(told->name, rail->name, sizeof(told->name));
    return rc;
}

int nxr_ofi_rail_open(struct nxr_ofi_rail *rail, char *why, size_t why_nbytes)
{
    int rc;

    rail->mr_mode = (uint64_t)rail->info->domain_attr->mr_mode;
    rail->inject_nbytes = rail->info->tx_attr->inject_size;
    rail->info->tx_attr->op_flags = 0; /* each write requests its own completion level */
    rc = fi_fabric(rail->info->fabric_attr, &rail->fabric, NULL);
    rc = rc != 0 ? rc : fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
    rc = rc != 0 ? rc : open_endpoint(rail);
    rc = rc != 0 ? rc : learn_name(rail);
    rc = rc != 0 ? rc : nxr_ofi_buffers_make(rail);
    if (rc != 0) {
        snprintf(why, why_nbytes, "provider %s cannot be opened on %s: %s",
                 nxr_ofi.address.provider, rail->device, fi_strerror(-rc));
        nxr_ofi_rail_close(rail);
        return rc == -FI_ENOMEM ? NIXL_E_NO_MEMORY : NIXL_E_TRANSPORT;
    }
    nxr_ofi_receives_post(rail);
    return NIXL_OK;
}

/*
 * Replace the rail's domain with a new one, with all memory registered under the same keys. If none
 * can be opened, the rail keeps its own.
 *
 * libfabric's own TCP needs that whenever an endpoint was closed: 1.17.0 then frees an entry twice
 * if it belongs to a read whose answer has half arrived (its pull request 8660 is the fix). The
 * domain keeps freed entries, also for the next endpoint; so the same entry was used for a read and
 * for a message buffer, and the bytes of one landed in the other.
 */
static int renew_domain(struct nxr_ofi_rail *rail)
{
    struct fid_domain *old = rail->domain;
    int rc = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);

    if (rc != 0) {
        rail->domain = old;
        return rc;
    }
    rc = nxr_ofi_mems_move(rail);
    if (rc != 0) {
        fi_close(&rail->domain->fid);
        rail->domain = old;
        return rc;
    }
    rc = fi_close(&old->fid);
    if (rc != 0) {
        nxr_ofi.core->log(NXR_NET_DEBUG, "ofi: an old domain of %s stays: %s", rail->device,
                          fi_strerror(-rc));
    }
    return 0;
}

/* Peers keep the name of a closed endpoint; reopening takes the same address again. */
int nxr_ofi_rail_reopen(struct nxr_ofi_rail *rail)
{
    void *name;
    int rc;

    close_endpoint(rail);
    name = malloc(rail->name_nbytes);
    if (name == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    memcpy(name, rail->name, rail->name_nbytes);
    free(rail->info->src_addr);
    rail->info->src_addr = name;
    rail->info->src_addrlen = rail->name_nbytes;
    rc = nxr_ofi_is_own_tcp() ? renew_domain(rail) : 0;
    rc = rc != 0 ? rc : open_endpoint(rail);
    if (rc != 0) {
        nxr_ofi.core->log(NXR_NET_DEBUG, "ofi: %s is not open again yet: %s", rail->device,
                          fi_strerror(-rc));
        close_endpoint(rail);
        return NIXL_E_AGAIN;
    }
    nxr_ofi_buffers_let_go(rail);
    nxr_ofi_receives_post(rail);
    nxr_ofi_peers_insert(rail);
    return NIXL_OK;
}

void nxr_ofi_rail_stop(struct nxr_ofi_rail *rail)
{
    close_endpoint(rail);
}

void nxr_ofi_rail_close(struct nxr_ofi_rail *rail)
{
    /* The buffers stay until nothing can fill them any more. */
    close_endpoint(rail);
    nxr_ofi_buffers_free(rail);
    close_fid(rail->domain != NULL ? &rail->domain->fid : NULL);
    close_fid(rail->fabric != NULL ? &rail->fabric->fid : NULL);
    if (rail->info != NULL) {
        fi_freeinfo(rail->info);
    }
    *rail = (struct nxr_ofi_rail){.index = rail->index, .wait_fd = -1};
}

/* ---- completions ----------------------------------------------------------------------------- */

static void receive_done(struct nxr_ofi_rail *rail, struct nxr_ofi_receive *receive,
                         const struct fi_cq_data_entry *entry)
{
    if ((entry->flags & FI_RECV) != 0 && entry->len > 0 && entry->buf != NULL) {
        nxr_ofi_take(rail, entry->buf, entry->len);
    }
    if ((entry->flags & FI_MULTI_RECV) != 0) {
        nxr_ofi_receive_used_up(rail, receive);
    }
}

static void completed(struct nxr_ofi_rail *rail, const struct fi_cq_data_entry *entry)
{
    struct nxr_ofi_posted *posted = entry->op_context;

    switch (posted->kind) {
    case NXR_OFI_RECEIVE:
        receive_done(rail, (struct nxr_ofi_receive *)(void *)posted, entry);
        break;
    case NXR_OFI_SLOT:
        nxr_ofi_slot_done((struct nxr_ofi_slot *)(void *)posted, rail->index, NULL);
        break;
    case NXR_OFI_CONTROL:
        ((struct nxr_ofi_control *)(void *)posted)->is_busy = false;
        break;
    case NXR_OFI_PIECE:
        nxr_ofi_piece_done((struct nxr_ofi_piece *)(void *)posted, NULL);
        break;
    }
}

/* Handle one failure from the queue. */
static void failed(struct nxr_ofi_rail *rail)
{
    struct fi_cq_err_entry error = {0};
    struct nxr_ofi_posted *posted;
    char text[128];

    if (fi_cq_readerr(rail->cq, &error, 0) != 1) {
        return;
    }
    posted = error.op_context;
    if (error.err == FI_ECANCELED && posted != NULL && posted->kind == NXR_OFI_RECEIVE) {
        nxr_ofi_receive_used_up(rail, (struct nxr_ofi_receive *)(void *)posted);
        return;
    }
    snprintf(text, sizeof(text), "%s (%s)", fi_strerror(error.err),
             fi_cq_strerror(rail->cq, error.prov_errno, error.err_data, NULL, 0));
    nxr_ofi.core->log(NXR_NET_DEBUG, "ofi: %s: %s", rail->device, text);
    if (posted == NULL) {
        return;
    }
    switch (posted->kind) {
    case NXR_OFI_RECEIVE: /* without the flag, libfabric still owns the rest of the buffer */
        if ((error.flags & FI_MULTI_RECV) != 0) {
            nxr_ofi_receive_used_up(rail, (struct nxr_ofi_receive *)(void *)posted);
        }
        break;
    case NXR_OFI_SLOT:
        nxr_ofi_slot_done((struct nxr_ofi_slot *)(void *)posted, rail->index, text);
        break;
    case NXR_OFI_CONTROL:
        ((struct nxr_ofi_control *)(void *)posted)->is_busy = false;
        break;
    case NXR_OFI_PIECE:
        nxr_ofi_piece_done((struct nxr_ofi_piece *)(void *)posted, text);
        break;
    }
}

/*
 * If a connection ends before its greeting, libfabric's own TCP reads the reason from errno even if
 * the kernel has set none; on a stale EAGAIN it forgets the connection together with its descriptor
 * (its pull request 10926 is the fix).
 */
ssize_t nxr_ofi_cq_read(struct nxr_ofi_rail *rail, void *entries, size_t n)
{
    errno = 0;
    return fi_cq_read(rail->cq, entries, n);
}

int nxr_ofi_rail_progress(struct nxr_ofi_rail *rail)
{
    struct fi_cq_data_entry entries[COMPLETIONS];
    ssize_t n;

    if (rail->cq == NULL) {
        return 0;
    }
    n = nxr_ofi_cq_read(rail, entries, COMPLETIONS);
    if (n == -FI_EAVAIL) {
        failed(rail);
        return 1;
    }
    for (ssize_t i = 0; i < n; i++) {
        completed(rail, &entries[i]);
    }
    n = n > 0 ? n : 0;
    rail->n_used_up = n > 0 ? rail->n_used_up : 0; /* the queue was empty */
    if (rail->n_unposted > 0) {
        nxr_ofi_receives_post(rail);
    }
    if (rail->n_stirs > 0) {
        n += nxr_ofi_stir(rail);
    }
    return (int)n;
}
