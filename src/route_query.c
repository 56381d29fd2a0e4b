/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the user how a rank is reached, and why not otherwise. No state, no lock of its own. */
#include "config.h"

#include "job.h"
#include "net/net.h"
#include "route.h"
#include "util/status.h"

#include <stdio.h>
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

static void expect(const char *transport, enum nxr_method method, uint64_t *latency_ns_p,
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
        expect(part->transport->name, part->method, latency_ns_p, bandwidth_mbps_p);
    }
}

/* Why a transport of this host that works does not serve a peer. */
static void tell_why_not(const struct nxr_transport *transport, const struct nxr_peer *peer,
                         struct nixl_route_info *info)
{
    enum nixl_scope scope = peer->rank == nxr_job.rank ? NIXL_SCOPE_SELF
                            : nxr_peer_is_local(peer)  ? NIXL_SCOPE_LOCAL
                                                       : NIXL_SCOPE_REMOTE;

    if (transport->reach(scope, NIXL_MEM_HOST, info->why, sizeof(info->why)) == NIXL_OK) {
        snprintf(info->why, sizeof(info->why), "%s is faster",
                 peer->transport != NULL ? peer->transport->name : "another");
    }
}

/* One of the transports of this host. */
static void ask_local(size_t index, const struct nxr_peer *peer, struct nixl_route_info *info)
{
    const char *why;
    bool is_usable;
    const struct nxr_transport *transport = nxr_route_at(index, &is_usable, &why);

    snprintf(info->transport, sizeof(info->transport), "%s", transport->name);
    snprintf(info->why, sizeof(info->why), "%s", why);
    info->is_usable = is_usable;
    info->is_chosen = peer->transport == transport;
    info->n_rails = is_usable;
    expect(transport->name, NXR_METHOD_MEMCPY, &info->latency_ns, &info->bandwidth_mbps);
    if (is_usable && !info->is_chosen) {
        tell_why_not(transport, peer, info);
    }
}

int nixl_route_query(int rank, unsigned index, struct nixl_route_info *info_p)
{
    struct nixl_route_info info = NIXL_ROUTE_INFO_INIT;
    const struct nxr_peer *peer;
    int status;

    peer = nxr_peer_connected("nixl_route_query", rank, &status);
    if (peer == NULL) {
        return status;
    }
    if (info_p == NULL || info_p->struct_nbytes != sizeof(*info_p)) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_route_query", rank, "", 0, "%s",
                        info_p == NULL ? "info_p is NULL"
                                       : "info_p was not made with NIXL_ROUTE_INFO_INIT");
    }
    if (index >= nxr_n_transports + nxr_net_count()) {
        return nxr_fail(NIXL_ERR_NOT_FOUND, "nixl_route_query", rank, "", 0,
                        "there is no transport number %u", index);
    }
    pthread_mutex_lock(&nxr_job.lock);
    if (index < nxr_n_transports) {
        ask_local(index, peer, &info);
    } else {
        nxr_net_ask(index - nxr_n_transports, peer, &info);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    *info_p = info;
    return NIXL_OK;
}
