/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking whether a rank has published a region at this moment. Unlike the request for a key, this
 * is always answered at once. No lock of its own.
 */
#include "config.h"

#include "control/wire.h"
#include "control/question.h"
#include "region/extents.h"
#include "region/region.h"
#include "util/status.h"

#include <stdio.h>

/* NIXL_OK or NIXL_E_NOT_FOUND as the owner answers, or why there is no answer. */
static int probe_run(struct nxr_peer *peer, const char *name, int64_t timeout_ns)
{
    union nxr_wire_message message;
    int status;

    nxr_wire_init(&message, NXR_WIRE_PROBE);
    snprintf(message.resolve.name, sizeof(message.resolve.name), "%s", name);
    status = nxr_question_ask(peer, &message, timeout_ns);
    if (status == NIXL_OK && message.probed.found == NXR_FOUND_NEVER) {
        status = NIXL_E_NOT_FOUND;
    }
    return status;
}

static int fail_probe(const char *operation, struct nxr_peer *peer, const char *name, int status,
                      int64_t timeout_ns)
{
    switch (status) {
    case NIXL_E_PEER_LOST:
        return nxr_peer_fail_lost(operation, peer->rank, "");
    case NIXL_E_UNSUPPORTED:
        return nxr_peer_fail_unreached(operation, peer);
    case NIXL_E_TIMEOUT:
        return nxr_fail(status, operation, peer->rank, "", 0,
                        "%s has not answered within %s whether it has region '%s'",
                        nxr_peer_name(peer), nxr_duration(timeout_ns).text, name);
    default:
        return nxr_fail(status, operation, peer->rank, "", 0, "%s has no region '%s' at present",
                        nxr_peer_name(peer), name);
    }
}

/* Is its key known here, and has its owner not closed it as far as is known? */
static bool segment_probe_is_open(struct nixl_region *region, int rank)
{
    uint64_t offset = 0; /* of extents, the first stands for all */
    const struct nxr_segment *segment = nxr_region_segment_at(region, rank, &offset, 0);

    return segment != NULL && atomic_load_explicit(segment->generation_now, memory_order_acquire) ==
                                  segment->key.generation;
}

int nixl_region_is_published(int rank, struct nixl_region *region, int64_t timeout_ns)
{
    static const char operation[] = "nixl_region_is_published";
    int status = nxr_region_check(operation, region, timeout_ns);
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    if (!nxr_region_is_named(region)) {
        return nxr_fail(NIXL_E_NOT_FOUND, operation, rank, "", 0,
                        "the region has no name: it is published by no rank");
    }
    peer = nxr_peer_get(rank);
    if (peer == NULL) {
        return nxr_fail_no_peer(operation, rank);
    }
    if (rank == nxr_job.rank) {
        pthread_mutex_lock(&nxr_job.lock);
        status = nxr_publish_find(region->name) != NULL ? NIXL_OK : NIXL_E_NOT_FOUND;
        pthread_mutex_unlock(&nxr_job.lock);
    } else if (!segment_probe_is_open(region, rank)) {
        status = probe_run(peer, region->name, timeout_ns);
    }
    return status >= 0
               ? status
               : fail_probe(operation, peer, nxr_region_label(region->name), status, timeout_ns);
}
