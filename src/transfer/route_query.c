/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of how a rank is reached, and why not differently. No state, no lock of its own. */
#include "config.h"

#include "core/job.h"
#include "memory/memory.h"
#include "net/net.h"
#include "region/region.h"
#include "core/route.h"
#include "transfer/staging.h"
#include "transfer/transfer.h"
#include "util/status.h"
#include "util/struct.h"
#include "transfer/op.h"

#include <stdio.h>
#include <string.h>

static const struct nxr_struct_type route_info_type =
    NXR_STRUCT_TYPE(nixl_route_info, NIXL_ROUTE_INFO_INIT, is_chosen);

/* The own memory and the segment that the user asks about. */
struct between {
    const struct nxr_segment *segment;
    const void *local;
};

/*
 * Why a working transport of this host does not serve a peer, or its kind of memory. A transport
 * that could not open the segment has left the reason in the segment's note.
 */
static void route_query_tell_why_not(const struct nxr_transport *transport,
                                     const struct nxr_peer *peer, const struct between *between,
                                     struct nixl_route_info *info)
{
    enum nixl_scope_kind scope = peer->rank == nxr_job.rank ? NIXL_SCOPE_SELF
                                 : nxr_peer_is_local(peer)  ? NIXL_SCOPE_LOCAL
                                                            : NIXL_SCOPE_REMOTE;
    const struct nxr_segment *segment = between != NULL ? between->segment : NULL;
    const struct nxr_transport *chosen = segment != NULL ? segment->transport : peer->transport;
    enum nixl_mem_kind kind =
        segment != NULL ? (enum nixl_mem_kind)segment->key.kind : NIXL_MEM_HOST;

    if (transport->reach(scope, kind, info->why, sizeof(info->why)) != NIXL_OK) {
        return;
    }
    if (segment != NULL && segment->note[0] != '\0' &&
        (kind != NIXL_MEM_HOST || transport->cost < chosen->cost)) {
        snprintf(info->why, sizeof(info->why), "%s", segment->note);
    } else {
        snprintf(info->why, sizeof(info->why), "%s is faster",
                 chosen != NULL ? chosen->name : "another");
    }
}

/* Describe a transport of this host. */
static void ask_local(size_t index, const struct nxr_peer *peer, const struct between *between,
                      struct nixl_route_info *info)
{
    const char *why;
    bool is_usable;
    const struct nxr_transport *transport = nxr_route_at(index, &is_usable, &why);

    snprintf(info->transport, sizeof(info->transport), "%s", transport->name);
    snprintf(info->why, sizeof(info->why), "%s", why);
    info->is_usable = is_usable;
    info->is_chosen =
        transport == (between != NULL ? between->segment->transport : peer->transport);
    info->nrails = is_usable;
    nxr_route_expect_of(transport, NULL, NXR_METHOD_MEMCPY, &info->latency_ns,
                        &info->bandwidth_mbps);
    if (is_usable && !info->is_chosen) {
        route_query_tell_why_not(transport, peer, between, info);
    }
}

/* Is the segment own GPU memory? Its transport is in no list, since it serves nothing else. */
static bool is_own_device(const struct between *between)
{
    return between != NULL && between->segment->transport == &nxr_transport_device;
}

/* Own storage goes the same way, but no device copies it. */
static void ask_own_device(const struct between *between, struct nixl_route_info *info)
{
    snprintf(info->transport, sizeof(info->transport), "%s",
             nxr_segment_is_storage(between->segment) ? nxr_storage_route
                                                      : nxr_transport_device.name);
    info->is_usable = 1;
    info->is_chosen = 1;
    info->nrails = 1;
}

/*
 * Describe transport number `index`: first those of this host, then the networks, then that of own
 * GPU memory. False: there is none.
 */
static bool route_query_ask(unsigned index, const struct nxr_peer *peer,
                            const struct between *between, struct nixl_route_info *info)
{
    size_t n = nxr_n_transports + nxr_net_count();

    if (index >= n + is_own_device(between)) {
        return false;
    }
    pthread_mutex_lock(&nxr_job.lock);
    if (index < nxr_n_transports) {
        ask_local(index, peer, between, info);
    } else if (index < n) {
        nxr_net_ask(index - nxr_n_transports, peer, info);
    } else if (between != NULL) { /* so is_own_device() says */
        ask_own_device(between, info);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return true;
}

static int fail_index(const char *operation, int rank, unsigned index)
{
    return nxr_fail(NIXL_E_NOT_FOUND, operation, rank, "", 0, "there is no transport number %u",
                    index);
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
    status = nxr_struct_check("nixl_route_query", "info_p", &route_info_type, info_p);
    if (status != NIXL_OK) {
        return status;
    }
    if (!route_query_ask(index, peer, NULL, &info)) {
        return fail_index("nixl_route_query", rank, index);
    }
    nxr_struct_write(&route_info_type, &info, info_p);
    return NIXL_OK;
}

/* ---- pairs of memories ----------------------------------------------------------------------- */

/* Why bytes are staged: the transport cannot be given the local memory, or the peer's. */
static void tell_why_staged(const struct between *between, struct nixl_route_info *info)
{
    const struct nxr_segment *segment = between->segment;
    const struct nxr_range *here = nxr_range_find(between->local);
    bool is_ours = here != NULL && !segment->transport->serves(segment, here);
    enum nixl_mem_kind kind =
        is_ours ? nxr_range_kind(here) : (enum nixl_mem_kind)segment->key.kind;
    const char *name = nxr_memory_kind(kind)->name;
    const char *words =
        nxr_peer_is_remote(segment->peer) ? nxr_net_memory(segment->peer, kind) : "";

    if (!nxr_peer_is_remote(segment->peer)) {
        snprintf(info->why, sizeof(info->why), "%s does not move %s memory by itself",
                 info->transport, name);
    } else if (strncmp(words, "direct", strlen("direct")) != 0) {
        snprintf(info->why, sizeof(info->why), "%s memory goes %s", name, words);
    } else {
        snprintf(info->why, sizeof(info->why),
                 "%s memory goes through host memory, as %s gives it to no network", name,
                 is_ours ? "this rank" : "its owner");
    }
}

/* Own storage with memory of a GPU: does the kind of storage say how? */
static bool tell_how_with_device(const struct between *between, struct nixl_route_info *info)
{
    const struct nxr_memory_between both = {.storage = nxr_range_find(between->segment->addr),
                                            .device = nxr_range_find(between->local),
                                            .memory = between->local};
    struct nxr_memory_how how = {.method = ""};

    if (both.storage == NULL || both.device == NULL || both.storage->kind->how == NULL) {
        return false;
    }
    both.storage->kind->how(&both, &how);
    memcpy(info->method, how.method, sizeof(info->method));
    memcpy(info->why, how.why, sizeof(info->why));
    return true;
}

/*
 * Storage: how its bytes come to its owner, and by what that reads and writes it. How long that
 * takes is not known.
 */
static void tell_how_storage(const struct between *between, const struct nxr_transport *mover,
                             struct nixl_route_info *info)
{
    const struct nxr_segment *segment = between->segment;
    const char *engine = nxr_method_name(nxr_key_storage(&segment->key));
    bool is_own = segment->transport == &nxr_transport_device;

    info->latency_ns = info->bandwidth_mbps = 0;
    snprintf(info->method, sizeof(info->method), "%s",
             mover == &nxr_transport_staging ? "staged"
             : is_own                        ? engine
                                             : nxr_segment_method(segment));
    if (is_own && tell_how_with_device(between, info)) {
        return;
    }
    if (segment->readable != NULL && mover != &nxr_transport_staging) {
        snprintf(info->why, sizeof(info->why),
                 "this rank reads it by %s, its owner writes it by %s",
                 nxr_method_name(segment->read_by), engine);
    } else if (!is_own || mover == &nxr_transport_staging) {
        snprintf(info->why, sizeof(info->why), "%s reads and writes it%s%s",
                 is_own ? "this rank" : "its owner", engine[0] != '\0' ? " by " : "", engine);
    }
}

/*
 * How the chosen transport moves the bytes, how long that takes, and why no better method is used.
 */
static void route_query_tell_how(const struct between *between, struct nixl_route_info *info)
{
    const struct nxr_segment *segment = between->segment;
    const struct nxr_transport *mover = nxr_segment_mover(segment, between->local);

    if (nxr_segment_is_storage(segment)) {
        tell_how_storage(between, mover, info);
        return;
    }
    nxr_route_expect_between(segment, between->local, &info->latency_ns, &info->bandwidth_mbps);
    snprintf(info->method, sizeof(info->method), "%s",
             mover == &nxr_transport_staging  ? "staged"
             : mover == &nxr_transport_device ? "device"
                                              : nxr_segment_method(segment));
    nxr_segment_copy_note(segment, info->why, sizeof(info->why));
    if (mover == &nxr_transport_staging && info->why[0] == '\0') {
        tell_why_staged(between, info);
    }
}

int nixl_route_query_segment(int rank, struct nixl_region *region, const void *local,
                             unsigned index, struct nixl_route_info *info_p)
{
    struct nixl_route_info info = NIXL_ROUTE_INFO_INIT;
    struct between between = {.local = local};
    struct nxr_segment *segment;
    uint64_t offset = 0; /* of a region of extents, the first one */
    int status = nxr_transfer_find_segment("nixl_route_query_segment", rank, region, 0, &offset, 0,
                                           &segment);

    if (status == NIXL_OK) {
        status = nxr_struct_check("nixl_route_query_segment", "info_p", &route_info_type, info_p);
    }
    if (status != NIXL_OK) {
        return status;
    }
    between.segment = segment;
    if (!route_query_ask(index, segment->peer, &between, &info)) {
        return fail_index("nixl_route_query_segment", rank, index);
    }
    if (info.is_chosen) {
        route_query_tell_how(&between, &info);
    } else if (info.is_usable && !nxr_peer_is_remote(segment->peer) && index >= nxr_n_transports) {
        snprintf(info.why, sizeof(info.why), "%s is faster", segment->transport->name);
    }
    nxr_struct_write(&route_info_type, &info, info_p);
    return NIXL_OK;
}
