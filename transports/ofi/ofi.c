/* SPDX-License-Identifier: Apache-2.0 */
/* The libfabric network: its table, its life, and one round of its work. */
#include "config.h"

#include "ofi.h"
#include "outbox.h"
#include "repair.h"
#include "rma.h"
#include "transports/host_token.h"
#include "util/clock.h"
#include "util/random.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define LAST_SEND_NS (100 * NXR_MS)

struct nxr_ofi nxr_ofi;

/* ---- life ------------------------------------------------------------------------------------ */

static int ofi_probe(char *why, size_t why_nbytes)
{
    uint32_t version = fi_version();

    if (version < NXR_OFI_API) {
        snprintf(why, why_nbytes, "libfabric %u.%u is too old; 1.17 or newer is needed",
                 FI_MAJOR(version), FI_MINOR(version));
        return NIXL_E_UNSUPPORTED;
    }
    return NIXL_OK;
}

static void ofi_fill_attr(void)
{
    struct nxr_net_attr *attr = &nxr_ofi.attr;
    uint32_t version = fi_version();
    int used;

    /*
     * Providers other than libfabric's own TCP fetch long messages by themselves (ofi_rxm from 16
     * KiB on). They complete such messages after later ones, and give back the surrounding buffer
     * too early.
     */
    attr->message_nbytes = nxr_ofi_is_own_tcp() ? NXR_OFI_CONTENT_MAX : 8192 + 128;
    attr->has_rma = true;
    attr->is_rma_better = true;
    /*
     * Measured between two namespaces joined by veth, provider net: a message of 8 bytes takes 4.3
     * us one way (libfabric alone 3.9), of 4 KiB 5.2 us, of 32 KiB 11.5 us; a write of 8 bytes 8.0
     * us, of 16 KiB 13.5 us, of 1 MiB 117 us (libfabric alone 109, a TCP stream 108), of 64 MiB 8.5
     * ms. A put inside a message and its answer take as long as a write at 16 KiB. A read takes 8.2
     * us, as long as a question and its answer, and needs no copy. No adapters were available; for
     * them the times are what their makers publish.
     */
    attr->put_message_nbytes = nxr_ofi_is_own_tcp() ? 16384 : 8192;
    attr->get_message_nbytes = 0;
    attr->list_get_nbytes = nxr_ofi_is_own_tcp() ? 16384 : 0;
    attr->latency_ns = nxr_ofi.rails[0].is_software ? 4300 : 2000;
    attr->bandwidth_mbps = nxr_ofi.rails[0].is_software ? 8000 : 12000 * nxr_ofi.n_rails;
    attr->n_rails = nxr_ofi.n_rails;
    attr->takes_mappings = nxr_ofi.rails[0].is_software;
    snprintf(attr->library, sizeof(attr->library), "libfabric %u.%u", FI_MAJOR(version),
             FI_MINOR(version));
    used = snprintf(attr->devices, sizeof(attr->devices), "%s on", nxr_ofi.address.provider);
    for (unsigned i = 0; i < nxr_ofi.n_rails && used < (int)sizeof(attr->devices); i++) {
        used += snprintf(attr->devices + used, sizeof(attr->devices) - (size_t)used, "%s %s",
                         i > 0 ? "," : "", nxr_ofi.rails[i].device);
    }
}

static void ofi_close_all(void)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        nxr_ofi_rail_stop(&nxr_ofi.rails[i]);
    }
    nxr_ofi_peers_free();
    nxr_ofi_mems_free();
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        nxr_ofi_rail_close(&nxr_ofi.rails[i]);
    }
    nxr_ofi_forget_topology();
    nxr_ofi_sleep_close();
    nxr_ofi_rmas_tell();
    nxr_ofi_rmas_free();
    nxr_ofi.core = NULL;
}

static int open_rails(char *why, size_t why_nbytes)
{
    int status = nxr_ofi_choose(why, why_nbytes);

    nxr_ofi.max_piece_nbytes = SIZE_MAX;
    for (unsigned i = 0; i < nxr_ofi.n_rails && status == NIXL_OK; i++) {
        struct nxr_ofi_rail *rail = &nxr_ofi.rails[i];

        if (rail->info->ep_attr->max_msg_size < nxr_ofi.max_piece_nbytes) {
            nxr_ofi.max_piece_nbytes = rail->info->ep_attr->max_msg_size;
        }
        status = nxr_ofi_rail_open(rail, why, why_nbytes);
    }
    return status;
}

static int ofi_open_network(const struct nxr_net_core *core, char *why, size_t why_nbytes)
{
    int status;

    nxr_ofi = (struct nxr_ofi){.core = core, .epoll_fd = -1, .timer_fd = -1};
    nxr_list_init(&nxr_ofi.aside);
    nxr_list_init(&nxr_ofi.posting);
    nxr_list_init(&nxr_ofi.acking);
    nxr_list_init(&nxr_ofi.ended);
    nxr_list_init(&nxr_ofi.mems);
    nxr_list_init(&nxr_ofi.free_rmas);
    nxr_list_init(&nxr_ofi.free_pieces);
    for (unsigned i = 0; i < NXR_OFI_N_PEER_LISTS; i++) {
        nxr_list_init(&nxr_ofi.peers[i]);
    }
    nxr_ofi.address.magic = NXR_OFI_ADDRESS_MAGIC;
    nxr_ofi.address.version = NXR_OFI_LAYOUT_VERSION;
    nxr_ofi.address.host = nxr_host_token();
    status = nxr_ofi_sleep_open();
    if (status != NIXL_OK) {
        snprintf(why, why_nbytes, "no descriptor is left for its events (ulimit -n)");
    } else if (!nxr_random(&nxr_ofi.address.id, sizeof(nxr_ofi.address.id))) {
        snprintf(why, why_nbytes, "no random numbers for its secrets (getrandom)");
        status = NIXL_E_TRANSPORT;
    } else {
        status = open_rails(why, why_nbytes);
    }
    if (status != NIXL_OK) {
        ofi_close_all();
        return status;
    }
    nxr_ofi.address.id |= 1; /* 0 is nobody */
    nxr_ofi.address.n_rails = (uint8_t)nxr_ofi.n_rails;
    nxr_ofi_address_seal(&nxr_ofi.address);
    nxr_ofi.now = nxr_now_ns();
    ofi_fill_attr();
    return NIXL_OK;
}

static const struct nxr_net_attr *attr(void)
{
    return &nxr_ofi.attr;
}

static int address(void *bytes, size_t *nbytes_p)
{
    *nbytes_p = nxr_ofi_address_nbytes(nxr_ofi.n_rails);
    memcpy(bytes, &nxr_ofi.address, *nbytes_p);
    return NIXL_OK;
}

static int ofi_reach(const void *bytes, size_t nbytes, unsigned *n_rails_p, char *why,
                     size_t why_nbytes)
{
    struct nxr_ofi_address theirs;
    const char *wrong;
    unsigned n_rails;

    if (nxr_ofi_address_parse(bytes, nbytes, &theirs, &wrong) != NIXL_OK) {
        snprintf(why, why_nbytes, "%s", wrong);
        return NIXL_E_UNSUPPORTED;
    }
    if (strcmp(theirs.provider, nxr_ofi.address.provider) != 0) {
        snprintf(why, why_nbytes, "it uses libfabric's provider %s, this rank %s", theirs.provider,
                 nxr_ofi.address.provider);
        return NIXL_E_UNSUPPORTED;
    }
    n_rails = nxr_ofi_count_rails(&nxr_ofi.address, &theirs);
    if (n_rails == 0) {
        snprintf(why, why_nbytes, "no network of provider %s is common to both", theirs.provider);
        return NIXL_E_UNSUPPORTED;
    }
    *n_rails_p = n_rails;
    return NIXL_OK;
}

/* ---- driving it ------------------------------------------------------------------------------ */

/* Pass to libfabric what waited for room. */
static int ofi_post_waiting(void)
{
    struct nxr_list waiting, *link;
    int n = 0;

    /* A peer that still finds no room comes back into the list. */
    nxr_list_init(&waiting);
    nxr_list_splice(&waiting, &nxr_ofi.posting);
    while ((link = nxr_list_pop(&waiting)) != NULL) {
        struct nxr_net_ep *ep = nxr_list_entry(link, struct nxr_net_ep, post_link);

        if (!ep->is_failed) {
            n += nxr_ofi_post_pieces(ep);
            n += nxr_ofi_post_messages(ep);
        }
    }
    return n;
}

static int ofi_do_round(int64_t now)
{
    int n = 0;

    nxr_ofi.now = now;
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        n += nxr_ofi_rail_progress(&nxr_ofi.rails[i]);
    }
    nxr_ofi_hush_timer();
    nxr_ofi_strangers_look();
    nxr_ofi_repair();
    n += nxr_ofi_reset_rails();
    if (!nxr_list_is_empty(&nxr_ofi.posting)) {
        n += ofi_post_waiting();
    }
    if (!nxr_list_is_empty(&nxr_ofi.acking)) {
        n += nxr_ofi_send_acks();
    }
    n += nxr_ofi_rmas_tell();
    n += nxr_ofi_tell_failures();
    nxr_ofi_peers_shed();
    nxr_ofi.n_refused = n > 0 ? 0 : nxr_ofi.n_refused;
    return n;
}

static int progress(void)
{
    return ofi_do_round(*nxr_ofi.core->now_ns);
}

/* Send the rest of endpoints that were closed in order, then close. */
static void close_network(void)
{
    int64_t until = nxr_now_ns() + LAST_SEND_NS;
    struct epoll_event event;

    while (nxr_ofi.n_closing > 0 && nxr_now_ns() < until) {
        nxr_ofi_repair_within(0);
        if (ofi_do_round(nxr_now_ns()) == 0 && nxr_ofi.n_closing > 0) {
            epoll_wait(nxr_ofi.epoll_fd, &event, 1, 1);
        }
    }
    ofi_close_all();
}

static int ofi_describe(unsigned index, char *line, size_t line_nbytes)
{
    const struct nxr_ofi_rail *rail = &nxr_ofi.rails[index];
    char name[INET6_ADDRSTRLEN] = "";
    const void *addr;

    if (index >= nxr_ofi.n_rails) {
        return NIXL_E_NOT_FOUND;
    }
    if (rail->is_ip) {
        addr = rail->info->addr_format == FI_SOCKADDR_IN
                   ? (const void *)&((const struct sockaddr_in *)(const void *)rail->name)->sin_addr
                   : &((const struct sockaddr_in6 *)(const void *)rail->name)->sin6_addr;
        inet_ntop(rail->info->addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6, addr, name,
                  sizeof(name));
    }
    snprintf(line, line_nbytes, "%s on %s%s%s%s", nxr_ofi.address.provider, rail->device,
             name[0] != '\0' ? ", " : "", name,
             rail->wait_fd < 0 ? "; without a descriptor to sleep on: polled every millisecond"
                               : "");
    return NIXL_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

extern const struct nxr_network nxr_network_ofi;

__attribute__((visibility("default"))) const struct nxr_network nxr_network_ofi = {
    .abi = NXR_NETWORK_ABI,
    .name = "ofi",
    .probe = ofi_probe,
    .open = ofi_open_network,
    .close = close_network,
    .attr = attr,
    .address = address,
    .reach = ofi_reach,
    .ep_open = nxr_ofi_ep_open,
    .ep_close = nxr_ofi_ep_close,
    .ep_reach = nxr_ofi_ep_reach,
    .ep_state = nxr_ofi_ep_state,
    .ep_runs = nxr_ofi_ep_runs,
    .send = nxr_ofi_send,
    .mem_register = nxr_ofi_mem_register,
    .mem_release = nxr_ofi_mem_release,
    .key_open = nxr_ofi_key_open,
    .key_close = nxr_ofi_key_close,
    .write = nxr_ofi_write,
    .read = nxr_ofi_read,
    .progress = progress,
    .event_fd = nxr_ofi_event_fd,
    .arm = nxr_ofi_arm,
    .describe = ofi_describe,
};
