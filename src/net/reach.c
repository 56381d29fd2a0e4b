/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory a network is given. Host memory always. Mapped device memory, which the processor
 * reads and writes like host memory, if no adapter has to pin it. Other device memory if the
 * library claims to support its kind and registered it when first tried. All other memory is
 * staged by the core: no library ever gets a device pointer that it would mistake for host memory.
 * Lock: nxr_net.lock, while trying.
 */
#include "config.h"

#include "memory/memory.h"
#include "net/connect.h"
#include "util/env.h"
#include "util/log.h"

#include <string.h>

static bool is_choice(const char *word)
{
    return strcmp(nxr_env.net_gpu, word) == 0;
}

/* Try once whether the library registers memory of that kind; the key is discarded. */
static void show(struct net *net, const struct nxr_range *range)
{
    unsigned char key[NXR_NET_KEY_NBYTES];
    size_t nbytes = sizeof(key);
    unsigned bit = 1u << nxr_range_kind(range);
    struct nxr_net_mem *mem;

    if (net_module(net)->mem_register((void *)range->addr, range->nbytes, nxr_range_kind(range), 0,
                                      &mem, key, &nbytes) == NIXL_OK) {
        net_module(net)->mem_release(mem);
        nxr_info(NET, "%s reads and writes %s memory itself", net->module->name, range->kind->name);
        atomic_fetch_or(&net->known_kinds, bit);
    } else {
        nxr_info(NET, "%s does not accept %s memory after all: it goes through host memory",
                 net->module->name, range->kind->name);
        atomic_fetch_or(&net->unknown_kinds, bit);
    }
}

/* May the library be tried with that memory? */
static bool is_candidate(const struct net *net, const struct nxr_range *range)
{
    unsigned bit = 1u << nxr_range_kind(range);

    return net->attr->has_rma && !range->is_loose &&
           (((net->attr->device_kinds & bit) != 0 && range->is_direct) ||
            ((net->attr->copied_kinds & bit) != 0 && is_choice("always")));
}

bool nxr_net_takes(struct net *net, const struct nxr_range *range, bool is_locked)
{
    unsigned bit = 1u << nxr_range_kind(range);

    NXR_ASSERT(is_locked == nxr_spin_is_mine(&nxr_net.lock));
    if (range == NULL) {
        return true;
    }
    if (range->is_mapped) {
        return net->attr->takes_mappings && !is_choice("never");
    }
    if (is_choice("never") || !is_candidate(net, range)) {
        return false;
    }
    if (((atomic_load(&net->known_kinds) | atomic_load(&net->unknown_kinds)) & bit) == 0) {
        if (!is_locked) {
            net_lock();
        }
        show(net, range);
        if (!is_locked) {
            net_unlock();
        }
    }
    return (atomic_load(&net->known_kinds) & bit) != 0;
}

bool nxr_net_serves(const struct nxr_segment *segment, const struct nxr_range *range)
{
    return (range->is_mapped || segment->net->how == NET_RMA) &&
           nxr_net_takes(net_peer_at(segment->peer)->bulk, range, false);
}

/* The device range of `local`; NULL: it counts as host memory to a network. */
static const struct nxr_range *device_range(const void *local)
{
    const struct nxr_range *range = nxr_range_find(local);

    return range == NULL || range->is_mapped ? NULL : range;
}

enum nixl_mem_kind nxr_net_local_kind(const void *local)
{
    return nxr_range_kind(device_range(local));
}

struct nxr_net_op nxr_net_local_op(const void *local)
{
    const struct nxr_range *range = device_range(local);

    return (struct nxr_net_op){.memory_kind = nxr_range_kind(range),
                               .pci = range != NULL ? range->kind->pci(range) : ""};
}

const char *nxr_net_memory(const struct nxr_peer *peer, enum nixl_mem_kind kind)
{
    const struct net *net = net_peer_at(peer)->bulk;
    unsigned bit = 1u << kind;

    if (kind == NIXL_MEM_HOST) {
        return "direct";
    }
    if (is_choice("never")) {
        return "through host memory: NIXLRUN_NET_GPU is never";
    }
    if (kind == NIXL_MEM_VULKAN && net->attr->takes_mappings) {
        return "direct, where the processor maps it; else through host memory";
    }
    if ((atomic_load(&net->unknown_kinds) & bit) != 0) {
        return "through host memory: the library has refused such memory";
    }
    if ((net->attr->device_kinds & bit) != 0) {
        return "direct, where the GPU admits adapters";
    }
    if ((net->attr->copied_kinds & bit) != 0) {
        return is_choice("always") ? "direct, and copied by the library"
                                   : "through host memory, as the library would do it";
    }
    return "through host memory: the library does not know the kind";
}
