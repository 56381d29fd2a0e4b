/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to expect of routes: figures that were measured where they were written, by which ways are
 * compared and which the user is told. No state, no lock.
 */
#include "config.h"

#include "net/net.h"
#include "region/region.h"
#include "core/route.h"
#include "transfer/stage.h"
#include "transfer/op.h"

#include <string.h>

/*
 * What nixl_bench measured on two cores of an Intel Xeon that are near each other: put_notify of 8
 * bytes one way, put and flush of 1 MiB. Bounce: while the owner leaves its service thread a core.
 */
static const struct {
    const char *transport;
    enum nxr_method method;
    unsigned latency_ns;
    unsigned bandwidth_mbps;
} measured[] = {
    {"self", NXR_METHOD_MEMCPY, 45, 27000},
    {"shm", NXR_METHOD_MEMCPY, 200, 27000},
    {"shm", NXR_METHOD_PROCESS_VM, 950, 17000},
    {"shm", NXR_METHOD_BOUNCE, 4000, 10000},
};

void nxr_route_expect_of(const char *transport, enum nxr_method method, uint64_t *latency_ns_p,
                         uint64_t *bandwidth_mbps_p)
{
    *latency_ns_p = 0;
    *bandwidth_mbps_p = 0;
    for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
        if (measured[i].method == method && strcmp(measured[i].transport, transport) == 0) {
            *latency_ns_p = measured[i].latency_ns;
            *bandwidth_mbps_p = measured[i].bandwidth_mbps;
        }
    }
}

void nxr_route_expect(const struct nxr_part *part, uint64_t *latency_ns_p,
                      uint64_t *bandwidth_mbps_p)
{
    if (part->peer->net != NULL) {
        nxr_net_expect(part->peer, latency_ns_p, bandwidth_mbps_p);
    } else {
        nxr_route_expect_of(part->transport->name, part->method, latency_ns_p, bandwidth_mbps_p);
    }
}

/* ---- with memory of GPUs --------------------------------------------------------------------- */

/* One behind the other: the slower one sets the pace. */
static struct nxr_copy_rate chain(struct nxr_copy_rate first, struct nxr_copy_rate second)
{
    struct nxr_copy_rate both = {first.latency_ns + second.latency_ns, first.bandwidth_mbps};

    if (second.bandwidth_mbps < both.bandwidth_mbps) {
        both.bandwidth_mbps = second.bandwidth_mbps;
    }
    return both;
}

/* A copy by a GPU, of memory that is all within its reach. */
static struct nxr_copy_rate copied(const struct nxr_range *here, const struct nxr_range *there)
{
    const struct nxr_range *device = here != NULL ? here : there;
    struct nxr_copy_rate rate, other;

    if (device == NULL) {
        return (struct nxr_copy_rate){0};
    }
    rate = device->kind->expect(device, here == NULL || there == NULL);
    if (here != NULL && there != NULL) {
        other = there->kind->expect(there, false);
        rate.latency_ns = other.latency_ns > rate.latency_ns ? other.latency_ns : rate.latency_ns;
        rate.bandwidth_mbps =
            other.bandwidth_mbps < rate.bandwidth_mbps ? other.bandwidth_mbps : rate.bandwidth_mbps;
    }
    return rate;
}

/* Pieces go from GPU memory to host memory here, on the way of host memory, and back there. */
static struct nxr_copy_rate staged(const struct nxr_part *part, const struct nxr_range *here)
{
    struct nxr_copy_rate rate;

    nxr_route_expect(part, &rate.latency_ns, &rate.bandwidth_mbps);
    if (here != NULL) {
        rate = chain(rate, here->kind->expect(here, true));
    }
    if (part->key.kind != NIXL_MEM_HOST) {
        const struct nxr_memory_kind *kind = nxr_memory_kind((enum nixl_mem_kind)part->key.kind);

        rate = chain(rate, kind->expect(NULL, true));
    }
    return rate;
}

void nxr_route_expect_between(const struct nxr_part *part, const void *local,
                              uint64_t *latency_ns_p, uint64_t *bandwidth_mbps_p)
{
    const struct nxr_transport *mover = nxr_part_mover(part, local);
    const struct nxr_range *here = nxr_range_find(local);
    struct nxr_copy_rate rate;

    if (mover == &nxr_transport_stage) {
        rate = staged(part, here);
    } else if (part->method == NXR_METHOD_DEVICE || mover == &nxr_transport_device) {
        rate = copied(here, part->method == NXR_METHOD_DEVICE ? nxr_range_find(part->addr) : NULL);
    } else {
        nxr_route_expect(part, &rate.latency_ns, &rate.bandwidth_mbps);
    }
    *latency_ns_p = rate.latency_ns;
    *bandwidth_mbps_p = rate.bandwidth_mbps;
}
