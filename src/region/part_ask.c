/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking owners for parts: the question, its answer, and the wait for it. Lock: job.lock, except
 * during the wait.
 */
#include "config.h"

#include "core/service.h"
#include "control/dispatch.h"
#include "control/wire.h"
#include "region/part.h"
#include "region/region.h"
#include "core/request.h"
#include "core/route.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

static uint64_t part_ask_last_ask;

/* ---- outcomes of asking ---------------------------------------------------------------------- */

static void part_failed(struct nxr_region_part *part, int status)
{
    nxr_list_remove(&part->ask_link);
    part->status = status;
    atomic_store_explicit(&part->state, NXR_PART_FAILED, memory_order_release);
    nxr_request_fail_waiting(&part->waiting, status);
    nxr_wake_self();
}

/* Set where a peer on this host shows whether the part is still open. */
static void enter_locally(struct nxr_part *open, const struct nxr_peer *peer)
{
    open->inflight_index = peer->inflight_index;
    open->full_fence = peer->full_fence;
    open->generation_now = &peer->control->generations[open->id];
}

/*
 * Open with the transport that serves the peer. Exception: device memory on this host is opened for
 * device copies, this rank's own directly, a peer's with the first transport that can open its
 * kind. The note keeps what the transport reports.
 */
static int open_part(struct nxr_part *open, int fd)
{
    struct nxr_peer *peer = open->peer;
    const struct nxr_transport *transport;
    size_t index = 0;

    if (open->key.kind == NIXL_MEM_HOST || peer->net != NULL) {
        open->transport = peer->transport;
        return open->transport->part_open(open, fd);
    }
    if (peer->rank == nxr_job.rank) {
        open->transport = &nxr_transport_device;
        return open->transport->part_open(open, fd);
    }
    while ((transport = nxr_route_for_device(&index, (enum nixl_mem_kind)open->key.kind)) != NULL) {
        open->transport = transport;
        if (transport->part_open(open, fd) == NIXL_OK) {
            return NIXL_OK;
        }
        nxr_info(ROUTE, "%s cannot open a region of rank %d: %s", transport->name, peer->rank,
                 open->note);
    }
    open->transport = peer->transport;
    return open->transport->part_open(open, fd);
}

/* The key has arrived, with the memory behind `fd`, or with the networks' state of it in `net`. */
static void part_came(struct nxr_region_part *part, const struct nxr_key *key,
                      const struct nxr_export *export, int fd, struct net_part *net)
{
    struct nxr_peer *peer = nxr_job.peers[part->rank];
    struct nxr_part *open = &part->part;
    int status;

    nxr_list_remove(&part->ask_link);
    open->peer = peer;
    open->key = *key;
    if (export != NULL) {
        open->export = *export;
    }
    open->nbytes = key->nbytes;
    open->id = key->id;
    open->put_at_once = open->get_at_once = NXR_ANY_NBYTES;
    open->net = net;
    if (net == NULL) {
        enter_locally(open, peer);
    }
    status = open_part(open, fd);
    if (status != NIXL_OK) {
        part_failed(part, status);
        return;
    }
    part->is_open = true;
    nxr_part_ready(part);
    atomic_store_explicit(&open->generation, key->generation, memory_order_release);
    atomic_store_explicit(&part->state, NXR_PART_READY, memory_order_release);
    nxr_request_begin_waiting(&part->waiting);
    nxr_wake_self();
}

/* The part that waits for that answer; NULL: none does any more. */
static struct nxr_region_part *find_asking(struct nxr_peer *peer, uint64_t ask)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &peer->asks) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, ask_link);

        if (part->ask == ask) {
            return part;
        }
    }
    return NULL;
}

void nxr_region_take_key(const struct nxr_control_source *source,
                         const union nxr_wire_message *message)
{
    struct nxr_region_part *part = find_asking(source->peer, message->key.ask);

    if (part != NULL) {
        part_came(part, &message->key.key, &message->key.export,
                  source->n_fds > 0 ? source->fds[0] : -1, NULL);
    }
}

bool nxr_region_net_key_came(struct nxr_peer *peer, uint64_t ask, const struct nxr_key *key,
                             struct net_part *net)
{
    struct nxr_region_part *part = find_asking(peer, ask);

    if (part != NULL) {
        part_came(part, key, NULL, -1, net);
    }
    return part != NULL;
}

void nxr_region_published(struct nxr_published *published)
{
    struct nxr_peer *self = nxr_job.peers[nxr_job.rank];
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &self->asks) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, ask_link);

        if (strcmp(part->region->name, published->name) == 0) {
            part_came(part, &published->key, NULL, published->fd, NULL);
        }
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

void nxr_region_send_ask(struct nxr_list *ask_link)
{
    struct nxr_region_part *part = nxr_list_entry(ask_link, struct nxr_region_part, ask_link);
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_RESOLVE);
    message.resolve.ask = part->ask;
    memcpy(message.resolve.name, part->region->name, sizeof(message.resolve.name));
    nxr_peer_tell(nxr_job.peers[part->rank], &message);
}

static void part_ask_ask(struct nxr_region_part *part, struct nxr_peer *peer)
{
    int link = atomic_load(&peer->link);

    part->ask = ++part_ask_last_ask;
    if (nxr_peer_is_lost(peer)) {
        part_failed(part, NIXL_ERR_PEER_LOST);
    } else if (link == NXR_LINK_REMOTE || (link == NXR_LINK_UP && peer->transport == NULL)) {
        part_failed(part, NIXL_ERR_UNSUPPORTED);
    } else if (peer->rank == nxr_job.rank) {
        struct nxr_published *published = nxr_publish_find(part->region->name);

        nxr_list_append(&peer->asks, &part->ask_link);
        if (published != NULL) {
            part_came(part, &published->key, NULL, published->fd, NULL);
        }
    } else {
        nxr_list_append(&peer->asks, &part->ask_link);
        if (link == NXR_LINK_UP) {
            nxr_region_send_ask(&part->ask_link);
            nxr_service_kick();
        } else {
            nxr_peer_want(peer);
        }
    }
}

static struct nxr_part_chunk *get_chunk(struct nixl_region *region, int rank)
{
    struct nxr_part_chunk *_Atomic *slot = &region->chunks[rank / NXR_PARTS_PER_CHUNK];

    if (atomic_load(slot) == NULL) {
        atomic_store_explicit(slot, calloc(1, sizeof(struct nxr_part_chunk)), memory_order_release);
    }
    return atomic_load(slot);
}

/* Is this part known to be of no further use, without asking its owner? */
static bool is_worn(struct nxr_region_part *part)
{
    int state = atomic_load(&part->state);

    if (state == NXR_PART_READY &&
        atomic_load_explicit(part->part.generation_now, memory_order_acquire) !=
            part->part.key.generation) {
        nxr_part_owner_closed(part);
        state = NXR_PART_STALE;
    }
    return state == NXR_PART_STALE || state == NXR_PART_FAILED;
}

int nxr_region_want_part(struct nixl_region *region, int rank, bool renew,
                         struct nxr_region_part **part_p)
{
    struct nxr_part_chunk *chunk = get_chunk(region, rank);
    struct nxr_peer *peer = nxr_peer_get_locked(rank);
    struct nxr_region_part *part;

    if (chunk == NULL || peer == NULL) {
        return NIXL_ERR_NO_MEMORY;
    }
    part = atomic_load(&chunk->parts[rank % NXR_PARTS_PER_CHUNK]);
    if (part != NULL && renew && is_worn(part)) {
        nxr_part_retire(part);
        part = NULL;
    }
    if (part == NULL) {
        part = nxr_part_new();
        if (part == NULL) {
            return NIXL_ERR_NO_MEMORY;
        }
        part->region = region;
        part->rank = rank;
        atomic_store_explicit(&chunk->parts[rank % NXR_PARTS_PER_CHUNK], part,
                              memory_order_release);
        part_ask_ask(part, peer);
    }
    *part_p = part;
    return NIXL_OK;
}

int nxr_region_fail_part(const char *operation, const struct nxr_region_part *part)
{
    struct nxr_peer *peer = nxr_peer_find(part->rank);
    const char *name = part->region != NULL ? part->region->name : "?";

    if (nxr_peer_is_lost(peer)) {
        return nxr_peer_fail_lost(operation, part->rank, "");
    }
    if (atomic_load(&part->state) == NXR_PART_STALE) {
        return nxr_fail(NIXL_ERR_STALE, operation, part->rank, part->part.transport->name, 0,
                        "rank %d has closed region '%s'; nixl_region_query() finds a new one",
                        part->rank, name);
    }
    if (part->status == NIXL_ERR_UNSUPPORTED) {
        return nxr_peer_fail_unreached(operation, peer);
    }
    return nxr_fail(part->status, operation, part->rank, "", 0,
                    "cannot open region '%s' of rank %d: %s", name, part->rank,
                    nixl_strerror(part->status));
}

static bool part_ask_is_answered(void *arg)
{
    struct nxr_region_part *part = arg;

    return atomic_load_explicit(&part->state, memory_order_acquire) != NXR_PART_ASKING;
}

int nxr_region_fail_unanswered(int status, const char *operation, const struct nixl_region *region,
                               int rank, const char *within)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);
    char why[NXR_WHY_NBYTES];

    if (peer != NULL && nxr_peer_is_unconnected(peer, within, why, sizeof(why))) {
        return nxr_fail(status, operation, rank, "", 0, "rank %d does not answer: %s", rank, why);
    }
    return nxr_fail(status, operation, rank, "", 0,
                    "rank %d has not published region '%s' within %s", rank, region->name, within);
}

int nxr_region_resolve(const char *operation, struct nixl_region *region, int rank, bool renew,
                       int64_t timeout_ns, struct nxr_part **part_p)
{
    int64_t deadline = nxr_deadline(timeout_ns), left_ns = timeout_ns;
    struct nxr_region_part *part;
    int status, state;

    do {
        pthread_mutex_lock(&nxr_job.lock);
        status = nxr_region_want_part(region, rank, renew, &part);
        pthread_mutex_unlock(&nxr_job.lock);
        if (status != NIXL_OK) {
            return nxr_fail(status, operation, rank, "", 0, "no memory for rank %d's part", rank);
        }
        status = nxr_wait(part_ask_is_answered, part, left_ns);
        if (timeout_ns != 0 && timeout_ns != NIXL_FOREVER) {
            left_ns = deadline - nxr_now_ns();
            left_ns = left_ns > 0 ? left_ns : 1; /* 0 would test instead of timing out */
        }
        state = atomic_load_explicit(&part->state, memory_order_acquire);
        /* Closed again as soon as its key had arrived: wait for the next one. */
    } while (status == NIXL_OK && renew && state == NXR_PART_STALE);
    if (status == NIXL_INPROGRESS) {
        return status;
    }
    if (status == NIXL_ERR_TIMEOUT) {
        return nxr_region_fail_unanswered(status, operation, region, rank, "the timeout");
    }
    if (state != NXR_PART_READY) {
        return nxr_region_fail_part(operation, part);
    }
    *part_p = &part->part;
    return NIXL_OK;
}

void nxr_region_end_asks(struct nxr_peer *peer, int status)
{
    while (!nxr_list_is_empty(&peer->asks)) {
        part_failed(nxr_list_entry(peer->asks.next, struct nxr_region_part, ask_link), status);
    }
}
