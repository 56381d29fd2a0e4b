/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts: asking owners for them, opening them, and letting them go. Lock: job.lock, but for the
 * waiting itself. The life of a part stands in region.h.
 */
#include "config.h"

#include "event.h"
#include "host/conn.h"
#include "host/link.h"
#include "host/wire.h"
#include "region.h"
#include "request.h"
#include "route.h"
#include "stage.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUARANTINE  256           /* retired parts that are not used again yet */
#define UNMAP_RETRY (10 * NXR_MS) /* a stale part is still being copied from or to */

static struct nxr_list retired = {&retired, &retired}; /* oldest first */
static unsigned n_retired;
static struct nxr_list closing = {&closing, &closing}; /* stale, mapping not yet undone */
static struct nxr_list mapped = {&mapped, &mapped};    /* n_maps > 0 */
static uint64_t last_ask;

/* ---- making and retiring --------------------------------------------------------------------- */

static struct nxr_region_part *part_new(void)
{
    struct nxr_region_part *part;

    if (n_retired > QUARANTINE) {
        part = nxr_list_entry(nxr_list_pop(&retired), struct nxr_region_part, link);
        n_retired--;
    } else {
        part = aligned_alloc(NXR_LINE_NBYTES, (sizeof(*part) + NXR_LINE_NBYTES - 1) /
                                                  NXR_LINE_NBYTES * NXR_LINE_NBYTES);
        if (part == NULL) {
            return NULL;
        }
    }
    memset(part, 0, sizeof(*part));
    nxr_list_init(&part->ask_link);
    nxr_list_init(&part->waiting);
    nxr_list_init(&part->link);
    nxr_list_init(&part->map_link);
    return part;
}

/* Undo the mapping if no thread of ours copies; false: later. */
static bool try_close(struct nxr_region_part *part)
{
    if (part->is_open && (part->n_maps > 0 || nxr_guard_is_busy_here(&part->part) ||
                          part->part.transport->part_is_busy(&part->part))) {
        return false;
    }
    if (part->is_open) {
        part->is_open = false;
        part->part.transport->part_close(&part->part);
    }
    return true;
}

/* No new use from here on; what is in flight ends by itself. */
static void invalidate(struct nxr_region_part *part)
{
    atomic_store_explicit(&part->part.generation, 0, memory_order_seq_cst);
}

static void retire(struct nxr_region_part *part)
{
    nxr_list_remove(&part->ask_link);
    nxr_list_remove(&part->link);
    part->region = NULL;
    if (try_close(part)) {
        nxr_list_append(&retired, &part->link);
        n_retired++;
    } else {
        nxr_list_append(&closing, &part->link);
    }
}

int64_t nxr_region_tick(int64_t now)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &closing) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, link);

        if (try_close(part)) {
            nxr_list_remove(&part->link);
            if (part->region == NULL) {
                nxr_list_append(&retired, &part->link);
                n_retired++;
            }
        }
    }
    return nxr_list_is_empty(&closing) ? INT64_MAX : now + UNMAP_RETRY;
}

/* A ready part becomes stale: the owner closed it. Its mapping goes as soon as nobody copies. */
static void make_stale(struct nxr_region_part *part)
{
    invalidate(part);
    atomic_store_explicit(&part->state, NXR_PART_STALE, memory_order_release);
    if (!try_close(part)) {
        nxr_list_append(&closing, &part->link);
        nxr_service_kick();
    }
}

static void owner_closed(struct nxr_region_part *part)
{
    if (part->region->name[0] != NXR_REGION_INTERNAL) {
        nxr_event_push(NIXL_EVENT_REGION_CLOSED, part->rank, part->region->name);
    }
    make_stale(part);
}

void nxr_region_mark_stale(struct nxr_part *stale)
{
    struct nxr_region_part *part = nxr_list_entry(stale, struct nxr_region_part, part);

    pthread_mutex_lock(&nxr_job.lock);
    if (part->region != NULL && atomic_load(&part->state) == NXR_PART_READY) {
        owner_closed(part);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* ---- pointers that were given out ------------------------------------------------------------ */

void nxr_region_take_map(struct nxr_region_part *part)
{
    if (part->n_maps++ == 0) {
        nxr_list_append(&mapped, &part->map_link);
    }
}

/* A part of this rank's own memory at `addr` that pointers were given out to; or NULL. */
static struct nxr_region_part *find_holder(const void *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &mapped) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, map_link);

        if (part->rank == nxr_job.rank && part->part.addr == addr) {
            return part;
        }
    }
    return NULL;
}

/* Own shared memory that is closed: to a holder of a pointer to it, or back to the system. */
static void inherit_or_free(void *addr, size_t mapped_nbytes)
{
    struct nxr_region_part *holder = find_holder(addr);

    if (holder != NULL) {
        holder->inherited_nbytes = mapped_nbytes;
    } else {
        nxr_memory_host_free(addr, mapped_nbytes);
    }
}

/*
 * The last pointer of a part came back: memory that its owner left to it goes to the next holder.
 */
static void give_back(struct nxr_region_part *part)
{
    if (part->inherited_nbytes > 0) {
        inherit_or_free(part->part.addr, part->inherited_nbytes);
        part->inherited_nbytes = 0;
    }
}

int nxr_region_release_map(int rank, const void *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &mapped) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, map_link);

        if (part->rank == rank && part->part.addr == addr) {
            if (--part->n_maps == 0) {
                nxr_list_remove(&part->map_link);
                give_back(part);
            }
            return NIXL_OK;
        }
    }
    return NIXL_ERR_INVALID_ARG;
}

void nxr_region_free_memory(struct nxr_memory *memory)
{
    if (memory->kind == &nxr_memory_host && !memory->is_registered) {
        inherit_or_free(memory->addr, memory->mapped_nbytes);
    } else {
        memory->kind->release(memory);
    }
}

/* ---- outcomes of asking ---------------------------------------------------------------------- */

static void part_failed(struct nxr_region_part *part, int status)
{
    nxr_list_remove(&part->ask_link);
    part->status = status;
    atomic_store_explicit(&part->state, NXR_PART_FAILED, memory_order_release);
    nxr_request_fail_waiting(&part->waiting, status);
    nxr_wake_self();
}

/* The part of a peer on this host: where it says whether it is still open. */
static void enter_locally(struct nxr_part *open, const struct nxr_peer *peer)
{
    open->guard_index = peer->guard_index;
    open->full_fence = peer->full_fence;
    open->generation_now = &peer->control->generations[open->id];
}

/*
 * Open with what serves the peer, but device memory of this host by device copies: the own at once,
 * a peer's with the first transport for its kind that can. What that one says of itself stays in
 * the note.
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

/* The key came, with the memory behind `fd`, or with what the networks know of it. */
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
    atomic_store_explicit(&open->generation, key->generation, memory_order_release);
    atomic_store_explicit(&part->state, NXR_PART_READY, memory_order_release);
    nxr_request_begin_waiting(&part->waiting);
    nxr_wake_self();
}

/* The part that waits for that answer; NULL: none any more. */
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

void nxr_region_key_came(struct nxr_peer *peer, const struct nxr_wire_key *message, int fd)
{
    struct nxr_region_part *part = find_asking(peer, message->ask);

    if (part != NULL) {
        part_came(part, &message->key, &message->export, fd, NULL);
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

const struct nxr_transport *nxr_part_mover(const struct nxr_part *part, const void *local)
{
    const struct nxr_range *range = nxr_range_find(local);

    if (range == NULL) {
        return nxr_stage_is_needed(part) ? &nxr_transport_stage : part->transport;
    }
    if (!part->transport->serves(part, range)) {
        return &nxr_transport_stage;
    }
    if (part->net != NULL) {
        return nxr_stage_is_needed(part) ? &nxr_transport_stage : part->transport;
    }
    return part->method == NXR_METHOD_DEVICE ? part->transport : &nxr_transport_device;
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

static void ask(struct nxr_region_part *part, struct nxr_peer *peer)
{
    int link = atomic_load(&peer->link);

    part->ask = ++last_ask;
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
            nxr_link_want(peer);
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

/* Is this part of no further use, as far as can be told without asking? */
static bool is_worn(struct nxr_region_part *part)
{
    int state = atomic_load(&part->state);

    if (state == NXR_PART_READY &&
        atomic_load_explicit(part->part.generation_now, memory_order_acquire) !=
            part->part.key.generation) {
        owner_closed(part);
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
        retire(part);
        part = NULL;
    }
    if (part == NULL) {
        part = part_new();
        if (part == NULL) {
            return NIXL_ERR_NO_MEMORY;
        }
        part->region = region;
        part->rank = rank;
        atomic_store_explicit(&chunk->parts[rank % NXR_PARTS_PER_CHUNK], part,
                              memory_order_release);
        ask(part, peer);
    }
    *part_p = part;
    return NIXL_OK;
}

int nxr_region_fail_part(const char *operation, const struct nxr_region_part *part)
{
    struct nxr_peer *peer = nxr_peer_find(part->rank);
    const char *name = part->region != NULL ? part->region->name : "?";

    if (nxr_peer_is_lost(peer)) {
        return nxr_fail(NIXL_ERR_PEER_LOST, operation, part->rank, "", 0, "rank %d %s", part->rank,
                        atomic_load(&peer->state) == NIXL_PEER_FINISHED ? "has left the job"
                                                                        : "has died");
    }
    if (atomic_load(&part->state) == NXR_PART_STALE) {
        return nxr_fail(NIXL_ERR_STALE, operation, part->rank, part->part.transport->name, 0,
                        "rank %d has closed region '%s'; nixl_region_query() finds a new one",
                        part->rank, name);
    }
    if (part->status == NIXL_ERR_UNSUPPORTED) {
        return nxr_fail(NIXL_ERR_UNSUPPORTED, operation, part->rank, "", 0,
                        "no transport reaches rank %d: %s", part->rank, peer->why_remote);
    }
    return nxr_fail(part->status, operation, part->rank, "", 0,
                    "cannot open region '%s' of rank %d: %s", name, part->rank,
                    nixl_strerror(part->status));
}

static bool is_answered(void *arg)
{
    struct nxr_region_part *part = arg;

    return atomic_load_explicit(&part->state, memory_order_acquire) != NXR_PART_ASKING;
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
        status = nxr_wait(is_answered, part, left_ns);
        if (timeout_ns != 0 && timeout_ns != NIXL_FOREVER) {
            left_ns = deadline - nxr_now_ns();
            left_ns = left_ns > 0 ? left_ns : 1; /* 0 would be a test, not a wait that is over */
        }
        state = atomic_load_explicit(&part->state, memory_order_acquire);
        /* Closed again as soon as its key had come: wait for the next one. */
    } while (status == NIXL_OK && renew && state == NXR_PART_STALE);
    if (status == NIXL_INPROGRESS) {
        return status;
    }
    if (status == NIXL_ERR_TIMEOUT) {
        return nxr_fail(status, operation, rank, "", 0,
                        "rank %d has not published region '%s' in time", rank, region->name);
    }
    if (state != NXR_PART_READY) {
        return nxr_region_fail_part(operation, part);
    }
    *part_p = &part->part;
    return NIXL_OK;
}

/* ---- what happens to peers ------------------------------------------------------------------- */

void nxr_region_peer_closed(struct nxr_peer *peer, uint32_t id, uint64_t generation)
{
    struct nxr_region_part *part;

    while ((part = nxr_region_find_part(peer->rank, id, generation)) != NULL) {
        owner_closed(part);
    }
}

void nxr_region_end_asks(struct nxr_peer *peer, int status)
{
    while (!nxr_list_is_empty(&peer->asks)) {
        part_failed(nxr_list_entry(peer->asks.next, struct nxr_region_part, ask_link), status);
    }
}

void nxr_region_peer_lost(struct nxr_peer *peer)
{
    struct nxr_region_part *part;

    nxr_region_end_asks(peer, NIXL_ERR_PEER_LOST);
    while ((part = nxr_region_find_part(peer->rank, UINT32_MAX, 0)) != NULL) {
        make_stale(part);
    }
}

void nxr_region_drop_parts(struct nixl_region *region)
{
    for (int i = 0; i < nxr_job.size; i += NXR_PARTS_PER_CHUNK) {
        struct nxr_part_chunk *chunk = atomic_load(&region->chunks[i / NXR_PARTS_PER_CHUNK]);

        for (int j = 0; chunk != NULL && j < NXR_PARTS_PER_CHUNK; j++) {
            struct nxr_region_part *part =
                atomic_exchange_explicit(&chunk->parts[j], NULL, memory_order_acq_rel);

            if (part != NULL) {
                invalidate(part);
                nxr_request_fail_waiting(&part->waiting, NIXL_ERR_CANCELED);
                retire(part);
            }
        }
    }
}
