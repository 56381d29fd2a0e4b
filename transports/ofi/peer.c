/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers, found by the id in their address. A peer is created when the core opens an endpoint or
 * when a process asks for us. It stays when the core closes it, since its numbers must continue
 * (aside.c).
 */
#include "config.h"

#include "outbox.h"
#include "repair.h"
#include "rma.h"
#include "transports/reason.h"
#include "transports/tcp_health.h"
#include "util/clock.h"

#include <rdma/fi_errno.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_NS (100 * NXR_MS) /* an orderly end sends for at most this long */

static struct nxr_list *list_of(uint64_t id)
{
    return &nxr_ofi.peers[id % NXR_OFI_N_PEER_LISTS];
}

struct nxr_net_ep *nxr_ofi_peer_find(uint64_t id)
{
    struct nxr_list *list = list_of(id), *link, *after;

    if (nxr_ofi.last != NULL && nxr_ofi.last->address.id == id) {
        return nxr_ofi.last;
    }
    nxr_list_for_each (link, after, list) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, hash_link);

        if (ep->address.id == id) {
            nxr_ofi.last = ep;
            return ep;
        }
    }
    return NULL;
}

/*
 * Does a rail take the peer's name now? One that could not be opened again has no address vector,
 * and gets the names of all peers when it is open.
 */
static bool ofi_peer_takes_name(const struct nxr_ofi_rail *rail, const struct nxr_net_ep *ep)
{
    return ep->paths[rail->index].theirs >= 0 && rail->av != NULL;
}

/* Insert the peer's name into a rail. */
static int ofi_peer_insert(struct nxr_ofi_rail *rail, struct nxr_net_ep *ep)
{
    struct nxr_ofi_path *path = &ep->paths[rail->index];
    unsigned char name[NXR_OFI_NAME_NBYTES + 1] = {0}; /* some names are text, ended by 0 */

    memcpy(name, ep->address.rails[path->theirs].name, NXR_OFI_NAME_NBYTES);
    if (fi_av_insert(rail->av, name, 1, &path->addr, 0, NULL) != 1) {
        path->addr = FI_ADDR_NOTAVAIL;
        return NIXL_E_TRANSPORT;
    }
    return NIXL_OK;
}

/* Remove it from the first n rails. */
static void ofi_peer_remove_all(struct nxr_net_ep *ep, unsigned n)
{
    while (n-- > 0) {
        if (ofi_peer_takes_name(&nxr_ofi.rails[n], ep) && ep->paths[n].addr != FI_ADDR_NOTAVAIL) {
            (void)fi_av_remove(nxr_ofi.rails[n].av, &ep->paths[n].addr, 1, 0);
        }
    }
}

/* Insert it into all rails that lead to the peer, or into none. */
static int ofi_peer_insert_all(struct nxr_net_ep *ep)
{
    int status = NIXL_OK;
    unsigned n = 0;

    while (n < nxr_ofi.n_rails && status == NIXL_OK) {
        if (ofi_peer_takes_name(&nxr_ofi.rails[n], ep)) {
            status = ofi_peer_insert(&nxr_ofi.rails[n], ep);
        }
        n += status == NIXL_OK;
    }
    if (status != NIXL_OK) {
        ofi_peer_remove_all(ep, n);
    }
    return status;
}

void nxr_ofi_peers_each(void (*visit)(struct nxr_net_ep *ep, unsigned rail), unsigned rail)
{
    for (unsigned i = 0; i < NXR_OFI_N_PEER_LISTS; i++) {
        struct nxr_list *link, *after;

        nxr_list_for_each (link, after, &nxr_ofi.peers[i]) {
            visit(nxr_list_entry(link, struct nxr_net_ep, hash_link), rail);
        }
    }
}

static void insert_again(struct nxr_net_ep *ep, unsigned rail)
{
    if (ofi_peer_takes_name(&nxr_ofi.rails[rail], ep) &&
        ofi_peer_insert(&nxr_ofi.rails[rail], ep) != NIXL_OK) {
        nxr_ofi_peer_fail(ep, "its name is no longer accepted");
    }
}

void nxr_ofi_peers_insert(struct nxr_ofi_rail *rail)
{
    nxr_ofi_peers_each(insert_again, rail->index);
}

static int make_paths(struct nxr_net_ep *ep)
{
    int pairs[NXR_OFI_MAX_RAILS];
    unsigned n_paths = nxr_ofi_pair(&nxr_ofi.address, &ep->address, pairs);

    for (unsigned i = NXR_OFI_MAX_RAILS; i-- > 0;) {
        nxr_list_init(&ep->paths[i].pieces);
        nxr_list_init(&ep->paths[i].fenced);
        ep->paths[i].theirs = pairs[i];
        if (pairs[i] >= 0 && ep->address.rails[pairs[i]].nbytes != nxr_ofi.rails[i].name_nbytes &&
            nxr_ofi.rails[i].is_ip) {
            ep->paths[i].theirs = -1; /* an address of another kind */
            n_paths--;
        } else if (pairs[i] >= 0) {
            ep->message_path = i;
        }
    }
    return n_paths > 0 ? ofi_peer_insert_all(ep) : NIXL_E_UNSUPPORTED;
}

struct nxr_net_ep *nxr_ofi_peer_make(const struct nxr_ofi_address *address)
{
    struct nxr_net_ep *ep = calloc(1, sizeof(*ep));

    if (ep == NULL) {
        return NULL;
    }
    ep->address = *address;
    ep->next_seq = 1;
    nxr_list_init(&ep->aside_link);
    nxr_list_init(&ep->post_link);
    nxr_list_init(&ep->ack_link);
    nxr_list_init(&ep->waiting);
    nxr_list_init(&ep->starting);
    nxr_list_init(&ep->rmas);
    if (make_paths(ep) != NIXL_OK) {
        free(ep);
        return NULL;
    }
    nxr_list_append(list_of(address->id), &ep->hash_link);
    nxr_ofi_aside_add(ep);
    return ep;
}

int nxr_ofi_ep_open(const void *bytes, size_t nbytes, void *peer, struct nxr_net_ep **ep_p)
{
    struct nxr_ofi_address address;
    struct nxr_net_ep *ep;
    const char *why;

    if (nxr_ofi_address_parse(bytes, nbytes, &address, &why) != NIXL_OK) {
        return NIXL_E_TRANSPORT;
    }
    ep = nxr_ofi_peer_find(address.id);
    ep = ep != NULL ? ep : nxr_ofi_peer_make(&address);
    if (ep == NULL) {
        return NIXL_E_TRANSPORT;
    }
    if (ep->is_open || ep->is_failed) {
        return NIXL_E_IN_USE;
    }
    nxr_ofi.n_closing -= ep->close_at != 0;
    ep->close_at = 0;
    ep->is_open = true;
    nxr_ofi_aside_remove(ep);
    ep->cookie = peer;
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        if (ep->paths[i].theirs >= 0) {
            nxr_rail_open(nxr_ofi.core, "ofi", peer, nxr_ofi.rails[i].device, &ep->paths[i].count);
        }
    }
    nxr_ofi_repair_within(0);
    *ep_p = ep;
    return NIXL_OK;
}

/* Describe the other end of a path, if its address has a readable form. */
static void name_path(const struct nxr_net_ep *ep, unsigned index, char *text, size_t text_nbytes)
{
    const struct nxr_ofi_address_rail *rail = &ep->address.rails[ep->paths[index].theirs];
    struct sockaddr_storage name = {0};

    if ((rail->flags & NXR_OFI_IP) == 0) {
        snprintf(text, text_nbytes, "its rail %d", ep->paths[index].theirs);
        return;
    }
    memcpy(&name, rail->name, NXR_OFI_NAME_NBYTES);
    nxr_sockaddr_text((const struct sockaddr *)&name, (socklen_t)nxr_ofi.rails[index].name_nbytes,
                      text, text_nbytes);
}

void nxr_ofi_peer_text(const struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    size_t used = 0;

    line[0] = '\0';
    for (unsigned i = 0; i < nxr_ofi.n_rails && used < line_nbytes; i++) {
        int error = ep->paths[i].probe_error;
        char text[64];

        if (ep->paths[i].theirs >= 0) {
            name_path(ep, i, text, sizeof(text));
            used += (size_t)snprintf(line + used, line_nbytes - used, "%s%s by %s: %s",
                                     used > 0 ? "; " : "", text, nxr_ofi.rails[i].device,
                                     error == NXR_OFI_TAKEN ? NXR_TAKEN : nxr_reason_of(error));
        }
    }
}

/* Ask the kernel about the connections to the other ends of its ways. */
static void ofi_peer_ask_kernel(const struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    unsigned char names[NXR_OFI_MAX_RAILS][NXR_OFI_NAME_NBYTES] = {0};

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        if (ep->paths[i].theirs >= 0) {
            memcpy(names[i], ep->address.rails[ep->paths[i].theirs].name, NXR_OFI_NAME_NBYTES);
        }
    }
    nxr_tcp_health_to(names, sizeof(names), line, line_nbytes);
}

int nxr_ofi_ep_reach(struct nxr_net_ep *ep)
{
    if (ep->is_failed) {
        return NIXL_E_TRANSPORT;
    }
    if (!ep->is_reached) {
        ep->wanted_at = nxr_coarse_now_ns();
        nxr_ofi_repair_begin(ep->wanted_at);
        nxr_ofi_post_messages(ep); /* asks */
    }
    return ep->is_reached ? NIXL_OK : NIXL_E_AGAIN;
}

bool nxr_ofi_ep_state(struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    bool has_moved = false;

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        has_moved |= ep->paths[i].moved_at != 0;
    }
    line[0] = '\0';
    if (!has_moved) {
        nxr_ofi_peer_text(ep, line, line_nbytes);
    } else if (nxr_ofi.rails[0].is_software) {
        ofi_peer_ask_kernel(ep, line, line_nbytes);
    }
    return has_moved;
}

bool nxr_ofi_ep_runs(struct nxr_net_ep *ep, int64_t within_ns)
{
    return ep->ran_at != 0 && nxr_coarse_now_ns() - ep->ran_at < within_ns;
}

/* Nothing is sent to the peer any more. */
static void ofi_peer_forget(struct nxr_net_ep *ep)
{
    nxr_ofi_rmas_end(ep, NIXL_E_CANCELED);
    nxr_ofi_liveness_end(ep);
    nxr_list_remove(&ep->post_link);
    nxr_list_remove(&ep->ack_link);
    ep->is_failed = true;
}

static void ofi_peer_uncount(struct nxr_net_ep *ep)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        nxr_rail_close(nxr_ofi.core, &ep->paths[i].count);
    }
}

void nxr_ofi_ep_close(struct nxr_net_ep *ep, bool is_orderly)
{
    ofi_peer_uncount(ep);
    ep->is_open = false;
    ep->cookie = NULL;
    nxr_ofi.n_to_tell -= ep->must_tell;
    ep->must_tell = false;
    if (!is_orderly || ep->is_failed) {
        ofi_peer_forget(ep);
    } else {
        ep->close_at = nxr_now_ns() + FLUSH_NS;
        nxr_ofi.n_closing++;
        nxr_ofi_repair_within(FLUSH_NS);
    }
    nxr_ofi_aside_add(ep);
}

void nxr_ofi_ep_finish_close(struct nxr_net_ep *ep)
{
    bool is_idle = ep->acked_seq + 1 == ep->next_seq && ep->n_rmas == 0;

    if (ep->close_at == 0 || (!is_idle && nxr_ofi.now < ep->close_at)) {
        return;
    }
    ep->close_at = 0;
    nxr_ofi.n_closing--;
    if (!is_idle) {
        ofi_peer_forget(ep);
    }
    nxr_ofi_aside_rest(ep);
}

void nxr_ofi_peer_fail(struct nxr_net_ep *ep, const char *why)
{
    if (ep->is_failed) {
        return;
    }
    nxr_ofi_rmas_end(ep, NIXL_E_TRANSPORT);
    ofi_peer_forget(ep);
    if (why != ep->why) { /* ep->why already holds what broke its ways */
        snprintf(ep->why, sizeof(ep->why), "%s", why);
    }
    if (ep->is_open) {
        ep->must_tell = true;
        nxr_ofi.n_to_tell++;
    }
}

static void ofi_peer_tell_failure(struct nxr_net_ep *ep, unsigned unused)
{
    (void)unused;
    if (ep->must_tell) {
        ep->must_tell = false;
        nxr_ofi.n_to_tell--;
        nxr_ofi.core->ep_failed(ep->cookie, ep, ep->why);
    }
}

int nxr_ofi_tell_failures(void)
{
    unsigned n = nxr_ofi.n_to_tell;

    if (n > 0) {
        nxr_ofi_peers_each(ofi_peer_tell_failure, 0);
    }
    return (int)n;
}

static void ofi_peer_free(struct nxr_net_ep *ep)
{
    nxr_list_remove(&ep->hash_link);
    nxr_ofi.last = nxr_ofi.last != ep ? nxr_ofi.last : NULL;
    ofi_peer_forget(ep);
    nxr_ofi_outbox_free(ep);
    free(ep);
}

void nxr_ofi_peers_shed(void)
{
    struct nxr_net_ep *ep;

    while ((ep = nxr_ofi_aside_surplus()) != NULL) {
        ofi_peer_remove_all(ep, nxr_ofi.n_rails);
        nxr_ofi_aside_remove(ep);
        ofi_peer_free(ep);
    }
}

void nxr_ofi_peers_free(void)
{
    for (unsigned i = 0; i < NXR_OFI_N_PEER_LISTS; i++) {
        struct nxr_list *link, *after;

        nxr_list_for_each (link, after, &nxr_ofi.peers[i]) {
            struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, hash_link);

            ofi_peer_uncount(ep);
            ofi_peer_free(ep);
        }
    }
}
