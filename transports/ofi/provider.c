/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which provider, and which of its devices. libfabric is asked once for everything that fits; the
 * best provider by the table below wins, and each of its devices becomes a rail.
 *
 * The first query in a process sets up all of the library's providers, whatever it asks for. In
 * libfabric 1.17 the one for verbs then reads the whole of /proc/kallsyms twice, also without an
 * adapter: 100 to 150 ms of a core. It does so before the library looks at the hints or at
 * FI_PROVIDER, so neither spares it (measured with each). Only not to open libfabric does.
 */
#include "config.h"

#include "ofi.h"
#include "transports/interface.h"

#include <rdma/fi_errno.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * From the best to the worst. Hardware by its makers' own providers; then TCP: "net" and, from
 * libfabric 1.18 on, "tcp" have endpoints of their own (one way 3.7 us for 8 bytes over loopback,
 * where "tcp;ofi_rxm" took 4.3 and woke a sleeper with 12 us more). "net;ofi_rxm" is left out: its
 * descriptor is readable all the time, so no thread could sleep on it.
 */
static const char *const ranking[] = {
    "cxi", "efa", "verbs;ofi_rxm", "net", "tcp", "tcp;ofi_rxm",
};
#define N_RANKED (sizeof(ranking) / sizeof(ranking[0]))

/* The one kind of hardware whose endpoints have IP addresses, those of RoCE and IPoIB. */
#define ADAPTERS_WITH_IP "verbs"

/* Optional features to request beyond what is needed. */
struct wish {
    uint64_t order;
    bool has_hmem; /* device memory, with descriptors for it */
};

static struct fi_info *new_hints(const char *provider, const char *domain, struct wish wish)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL) {
        return NULL;
    }
    hints->caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = wish.order;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (wish.has_hmem) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->fabric_attr->prov_name = provider != NULL ? strdup(provider) : NULL;
    hints->domain_attr->name = domain != NULL ? strdup(domain) : NULL;
    return hints;
}

static int query(const char *provider, const char *domain, struct wish wish,
                 struct fi_info **list_p)
{
    struct fi_info *hints = new_hints(provider, domain, wish);
    int rc = hints != NULL ? fi_getinfo(NXR_OFI_API, NULL, NULL, 0, hints, list_p) : -FI_ENOMEM;

    if (hints != NULL) {
        fi_freeinfo(hints);
    }
    return rc;
}

static const char *best_provider(const struct fi_info *list)
{
    for (size_t i = 0; i < N_RANKED; i++) {
        for (const struct fi_info *info = list; info != NULL; info = info->next) {
            if (strcmp(info->fabric_attr->prov_name, ranking[i]) == 0) {
                return ranking[i];
            }
        }
    }
    return NULL;
}

/* ---- devices --------------------------------------------------------------------------------- */

void nxr_ofi_device_name(const struct fi_info *info, char *name, size_t nbytes)
{
    const char *domain = info->domain_attr->name;

    if (info->nic != NULL && info->nic->device_attr != NULL &&
        info->nic->device_attr->name != NULL) {
        domain = info->nic->device_attr->name;
    }
    snprintf(name, nbytes, "%s", domain != NULL ? domain : "?");
}

static bool ofi_provider_is_loopback(const struct fi_info *info)
{
    const struct sockaddr_in *in = info->src_addr;
    const struct sockaddr_in6 *in6 = info->src_addr;

    if (info->src_addr == NULL) {
        return false;
    }
    return info->addr_format == FI_SOCKADDR_IN    ? ntohl(in->sin_addr.s_addr) >> 24 == 127
           : info->addr_format == FI_SOCKADDR_IN6 ? IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)
                                                  : false;
}

/* Rank of an address among several of a device: IPv4, then IPv6; link-local ones never. */
static int address_worth(const struct fi_info *info)
{
    const struct sockaddr_in6 *in6 = info->src_addr;

    if (info->addr_format == FI_SOCKADDR_IN6 && info->src_addr != NULL) {
        return IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 0 : 1;
    }
    return 2;
}

/* Is the name in the user's list? An empty list contains all. */
static bool ofi_provider_is_wanted(const char *list, const char *name)
{
    size_t nbytes = strlen(name);

    if (list[0] == '\0') {
        return true;
    }
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, nbytes) == 0 && (at[nbytes] == ',' || at[nbytes] == '\0')) {
            return true;
        }
    }
    return false;
}

static enum nxr_extent ofi_provider_extent_of(const struct fi_info *info, const char *name)
{
    return ofi_provider_is_loopback(info) ? NXR_EXTENT_PROCESSES : nxr_interface_extent(name);
}

/* The candidates of one provider, one per device, with its best address. */
static unsigned ofi_provider_candidates(const struct fi_info *list, const char *provider,
                                        enum nxr_extent least,
                                        const struct fi_info *found[NXR_OFI_MAX_RAILS])
{
    unsigned n = 0;

    for (const struct fi_info *info = list; info != NULL; info = info->next) {
        char name[64], other[64];
        unsigned i;

        nxr_ofi_device_name(info, name, sizeof(name));
        if (strcmp(info->fabric_attr->prov_name, provider) != 0 || address_worth(info) == 0 ||
            !ofi_provider_is_wanted(nxr_ofi.core->devices, name) ||
            ofi_provider_extent_of(info, name) < least) {
            continue;
        }
        for (i = 0; i < n; i++) {
            nxr_ofi_device_name(found[i], other, sizeof(other));
            if (strcmp(name, other) == 0) {
                break;
            }
        }
        if (i == n && n < NXR_OFI_MAX_RAILS) {
            found[n++] = info;
        } else if (i < n && address_worth(info) > address_worth(found[i])) {
            found[i] = info;
        }
    }
    return n;
}

/*
 * Devices that lead no farther than this host are used only if nothing else is there, or if the
 * user names them.
 */
static unsigned ofi_provider_find_devices(const struct fi_info *list, const char *provider,
                                          const struct fi_info *found[NXR_OFI_MAX_RAILS])
{
    enum nxr_extent least =
        nxr_ofi.core->devices[0] == '\0' ? NXR_EXTENT_HOSTS : NXR_EXTENT_PROCESSES;
    unsigned n = ofi_provider_candidates(list, provider, least, found);

    while (n == 0 && least > NXR_EXTENT_PROCESSES) {
        n = ofi_provider_candidates(list, provider, --least, found);
    }
    return n;
}

/* ---- rails ----------------------------------------------------------------------------------- */

static uint64_t hash(const char *text)
{
    uint64_t value = 0xcbf29ce484222325u;

    for (; text != NULL && *text != '\0'; text++) {
        value = (value ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return value;
}

static int make_rail(unsigned index, const struct fi_info *info)
{
    struct nxr_ofi_rail *rail = &nxr_ofi.rails[index];
    struct nxr_ofi_address_rail *told = &nxr_ofi.address.rails[index];

    *rail = (struct nxr_ofi_rail){.index = index, .wait_fd = -1, .info = fi_dupinfo(info)};
    if (rail->info == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    nxr_ofi_device_name(info, rail->device, sizeof(rail->device));
    rail->is_ip = info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6;
    rail->is_software = rail->is_ip && strncmp(info->fabric_attr->prov_name, ADAPTERS_WITH_IP,
                                               strlen(ADAPTERS_WITH_IP)) != 0;
    told->fabric = hash(info->fabric_attr->name);
    told->flags = ofi_provider_is_loopback(info) || strcmp(info->fabric_attr->prov_name, "shm") == 0
                      ? NXR_OFI_THIS_HOST
                      : NXR_OFI_ROUTED;
    told->flags |= rail->is_ip ? NXR_OFI_IP : 0;
    nxr_ofi.n_rails = index + 1;
    return NIXL_OK;
}

static bool is_same_device(const struct fi_info *info, const struct fi_info *other)
{
    return info->src_addrlen == other->src_addrlen && info->addr_format == other->addr_format &&
           (info->src_addrlen == 0 ||
            memcmp(info->src_addr, other->src_addr, info->src_addrlen) == 0);
}

/* If the rail can do that too, enable it. */
static bool ofi_provider_ask_for(struct nxr_ofi_rail *rail, struct wish wish)
{
    struct fi_info *list = NULL, *granted = NULL;

    if (query(rail->info->fabric_attr->prov_name, rail->info->domain_attr->name, wish, &list) !=
        0) {
        return false;
    }
    for (const struct fi_info *info = list; info != NULL && granted == NULL; info = info->next) {
        if (is_same_device(info, rail->info) &&
            (info->tx_attr->msg_order & wish.order) == wish.order &&
            (info->rx_attr->msg_order & wish.order) == wish.order &&
            (!wish.has_hmem || (info->caps & FI_HMEM) != 0)) {
            granted = fi_dupinfo(info);
        }
    }
    fi_freeinfo(list);
    if (granted != NULL) {
        fi_freeinfo(rail->info);
        rail->info = granted;
        rail->has_hmem = wish.has_hmem;
    }
    return granted != NULL;
}

/*
 * Device memory, if all rails take it; and ordering of messages behind writes, if a single rail
 * offers that on request. Providers over sockets copy device memory themselves.
 */
static void ask_for_more(void)
{
    struct wish more = {.order = FI_ORDER_SAS,
                        .has_hmem = nxr_ofi.rails[0].is_software ? nxr_ofi.core->wants_copied
                                                                 : nxr_ofi.core->wants_devices};
    bool has_hmem = more.has_hmem;

    for (unsigned i = 0; i < nxr_ofi.n_rails && has_hmem; i++) {
        has_hmem = ofi_provider_ask_for(&nxr_ofi.rails[i], more);
    }
    if (has_hmem) {
        unsigned *kinds_p =
            nxr_ofi.rails[0].is_software ? &nxr_ofi.attr.copied_kinds : &nxr_ofi.attr.device_kinds;

        *kinds_p = 1u << NIXL_MEM_CUDA;
    } else {
        nxr_ofi_forget_topology();
    }
    more.has_hmem = has_hmem;
    more.order |= FI_ORDER_SAW;
    if (nxr_ofi.n_rails == 1) {
        nxr_ofi.attr.orders_writes = ofi_provider_ask_for(&nxr_ofi.rails[0], more);
    }
}

static int choose_from(const struct fi_info *list, const char *wanted, char *why, size_t why_nbytes)
{
    const struct fi_info *found[NXR_OFI_MAX_RAILS];
    const char *provider = wanted[0] != '\0' ? list->fabric_attr->prov_name : best_provider(list);
    unsigned n;

    if (provider == NULL) {
        snprintf(why, why_nbytes, "libfabric has no suitable provider; it has %s",
                 list->fabric_attr->prov_name);
        return NIXL_E_UNSUPPORTED;
    }
    n = ofi_provider_find_devices(list, provider, found);
    if (n == 0) {
        snprintf(why, why_nbytes, "provider %s has none of the devices NIXLRUN_NET_DEVICES=%s",
                 provider, nxr_ofi.core->devices);
        return NIXL_E_NO_DEVICE;
    }
    nxr_ofi_nearest_first(found, n);
    snprintf(nxr_ofi.address.provider, sizeof(nxr_ofi.address.provider), "%s", provider);
    for (unsigned i = 0; i < n; i++) {
        int status = make_rail(i, found[i]);

        if (status != NIXL_OK) {
            snprintf(why, why_nbytes, "no memory for %u devices", n);
            return status;
        }
    }
    ask_for_more();
    return NIXL_OK;
}

bool nxr_ofi_is_own_tcp(void)
{
    return strcmp(nxr_ofi.address.provider, "net") == 0 ||
           strcmp(nxr_ofi.address.provider, "tcp") == 0;
}

int nxr_ofi_choose(char *why, size_t why_nbytes)
{
    const char *wanted = nxr_ofi.core->provider;
    struct fi_info *list = NULL;
    const struct wish least = {.order = FI_ORDER_SAS};
    int rc = query(wanted[0] != '\0' ? wanted : NULL, NULL, least, &list);
    int status;

    if (rc != 0) {
        if (wanted[0] != '\0') {
            snprintf(why, why_nbytes,
                     "libfabric's provider %s (NIXLRUN_OFI_PROVIDER) is not suitable: %s", wanted,
                     fi_strerror(-rc));
        } else {
            snprintf(why, why_nbytes, "libfabric has no provider with ordered messages and RMA: %s",
                     fi_strerror(-rc));
        }
        return NIXL_E_UNSUPPORTED;
    }
    status = choose_from(list, wanted, why, why_nbytes);
    fi_freeinfo(list);
    return status;
}
