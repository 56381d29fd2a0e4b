/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to expect of routes with memory of GPUs, by the figures of transports and of memory kinds.
 * No state, no lock.
 */
#include "config.h"

#include "region/region.h"
#include "core/route.h"
#include "transfer/staging.h"
#include "transfer/op.h"

/* One behind the other: the slower one sets the pace. */
static struct nxr_copy_rate chain(struct nxr_copy_rate first, struct nxr_copy_rate second)
{
    struct nxr_copy_rate both = {first.latency_ns + second.latency_ns, first.bandwidth_mbps};

    if (second.bandwidth_mbps < both.bandwidth_mbps) {
        both.bandwidth_mbps = second.bandwidth_mbps;
    }
    return both;
}

/* A copy by a GPU between memories that it can access. */
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

/*
 * Staging: GPU memory to host memory here, the host memory's route, and host memory to GPU memory
 * there.
 */
static struct nxr_copy_rate staged(const struct nxr_segment *segment, const struct nxr_range *here)
{
    struct nxr_copy_rate rate;

    nxr_route_expect(segment, &rate.latency_ns, &rate.bandwidth_mbps);
    if (here != NULL) {
        rate = chain(rate, here->kind->expect(here, true));
    }
    if (segment->key.kind != NIXL_MEM_HOST) {
        const struct nxr_memory_kind *kind = nxr_memory_kind((enum nixl_mem_kind)segment->key.kind);

        rate = chain(rate, kind->expect(NULL, true));
    }
    return rate;
}

void nxr_route_expect_between(const struct nxr_segment *segment, const void *local,
                              uint64_t *latency_ns_p, uint64_t *bandwidth_mbps_p)
{
    const struct nxr_transport *mover = nxr_segment_mover(segment, local);
    const struct nxr_range *here = nxr_range_find(local);
    struct nxr_copy_rate rate;

    if (nxr_segment_is_storage(segment)) {
        rate = (struct nxr_copy_rate){0}; /* transports' figures are those of memory */
    } else if (mover == &nxr_transport_staging) {
        rate = staged(segment, here);
    } else if (segment->method == NXR_METHOD_DEVICE || mover == &nxr_transport_device) {
        rate = copied(here,
                      segment->method == NXR_METHOD_DEVICE ? nxr_range_find(segment->addr) : NULL);
    } else {
        nxr_route_expect(segment, &rate.latency_ns, &rate.bandwidth_mbps);
    }
    *latency_ns_p = rate.latency_ns;
    *bandwidth_mbps_p = rate.bandwidth_mbps;
}
