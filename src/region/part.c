/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and retiring parts, and the pointers to them that were given out. region.h describes the
 * life of a part; part_ask.c asks owners for parts. Lock: job.lock.
 */
#include "config.h"

#include "core/service.h"
#include "core/event.h"
#include "core/subsystem.h"
#include "region/part.h"
#include "control/question.h"
#include "region/region.h"
#include "core/request.h"
#include "util/handle.h"
#include "util/clock.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNMAP_RETRY (10 * NXR_MS) /* while a stale part is still being copied from or to */

static struct nxr_handle_cache part_handles =
    NXR_HANDLE_CACHE(part_handles, struct nxr_region_part, link, 256);
static struct nxr_list closing = {&closing, &closing}; /* stale or retired, but still in use */
static struct nxr_list part_mapped = {&part_mapped, &part_mapped}; /* n_maps > 0 */

/* Ready parts, hashed by owner and the owner's region id, to find at once what an owner closes. */
#define N_BUCKETS 4096
static struct nxr_list part_ready[N_BUCKETS]; /* all zeros: never used */

/* ---- making and retiring --------------------------------------------------------------------- */

struct nxr_region_part *nxr_part_new(void)
{
    struct nxr_region_part *part = nxr_handle_take(&part_handles);

    if (part == NULL) {
        return NULL;
    }
    memset(part, 0, sizeof(*part));
    nxr_list_init(&part->ask_link);
    nxr_list_init(&part->waiting);
    nxr_list_init(&part->link);
    nxr_list_init(&part->map_link);
    return part;
}

/* Close the part at its transport unless it is in use. False: try again later. */
static bool try_close(struct nxr_region_part *part)
{
    if (part->is_open && (part->n_maps > 0 || nxr_inflight_is_busy_here(&part->part) ||
                          part->part.transport->part_is_busy(&part->part))) {
        return false;
    }
    if (part->is_open) {
        part->is_open = false;
        part->part.transport->part_close(&part->part);
    }
    return true;
}

/* Prevent new use; copies in flight end by themselves. */
static void invalidate(struct nxr_region_part *part)
{
    atomic_store_explicit(&part->part.generation, 0, memory_order_seq_cst);
}

void nxr_part_retire(struct nxr_region_part *part)
{
    nxr_list_remove(&part->ask_link);
    nxr_list_remove(&part->link);
    part->region = NULL;
    if (try_close(part)) {
        nxr_handle_retire(&part_handles, part);
    } else {
        nxr_list_append(&closing, &part->link);
        nxr_service_kick();
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
                nxr_handle_retire(&part_handles, part);
            }
        }
    }
    return nxr_list_is_empty(&closing) ? INT64_MAX : now + UNMAP_RETRY;
}

static struct nxr_list *part_bucket_of(int rank, uint32_t id)
{
    struct nxr_list *bucket = &part_ready[((uint32_t)rank * 2654435761u + id) % N_BUCKETS];

    if (bucket->next == NULL) {
        nxr_list_init(bucket);
    }
    return bucket;
}

void nxr_part_ready(struct nxr_region_part *part)
{
    nxr_list_append(part_bucket_of(part->rank, part->part.id), &part->link);
}

/*
 * A ready part becomes stale: the owner has closed it or died. It is unmapped once it is no longer
 * in use.
 */
static void make_stale(struct nxr_region_part *part)
{
    nxr_list_remove(&part->link);
    invalidate(part);
    atomic_store_explicit(&part->state, NXR_PART_STALE, memory_order_release);
    if (!try_close(part)) {
        nxr_list_append(&closing, &part->link);
        nxr_service_kick();
    }
}

void nxr_part_owner_closed(struct nxr_region_part *part)
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
        nxr_part_owner_closed(part);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* ---- pointers that were given out ------------------------------------------------------------ */

void nxr_region_take_map(struct nxr_region_part *part)
{
    if (part->n_maps++ == 0) {
        nxr_list_append(&part_mapped, &part->map_link);
    }
}

/* A part of this rank's own memory at `addr` to which pointers are given out; or NULL. */
static struct nxr_region_part *find_holder(const void *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &part_mapped) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, map_link);

        if (part->rank == nxr_job.rank && part->part.addr == addr) {
            return part;
        }
    }
    return NULL;
}

/* Own shared memory is closed: pass it to a part with pointers to it, or free it. */
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
 * The last pointer to a part was returned: memory it has inherited goes to the next holder, or is
 * freed.
 */
static void part_give_back(struct nxr_region_part *part)
{
    if (part->inherited_nbytes > 0) {
        inherit_or_free(part->part.addr, part->inherited_nbytes);
        part->inherited_nbytes = 0;
    }
}

int nxr_region_release_map(int rank, const void *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &part_mapped) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, map_link);

        if (part->rank == rank && part->part.addr == addr) {
            if (--part->n_maps == 0) {
                nxr_list_remove(&part->map_link);
                part_give_back(part);
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

/* ---- how its bytes are reached --------------------------------------------------------------- */

static void part_lose_process_vm(struct nxr_part *part, int error)
{
    pthread_mutex_lock(&nxr_job.lock);
    if (part->method == NXR_METHOD_PROCESS_VM) {
        snprintf(part->note, sizeof(part->note),
                 "process_vm calls on pid %d have worked before and fail now: %s", (int)part->pid,
                 strerror(error));
        part->method = NXR_METHOD_BOUNCE;
        nxr_info(SHM, "registered memory goes through a bounce buffer: %s", part->note);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

void nxr_part_copy_note(const struct nxr_part *part, char *text, size_t nbytes)
{
    pthread_mutex_lock(&nxr_job.lock);
    snprintf(text, nbytes, "%s", part->note);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* ---- what happens to peers ------------------------------------------------------------------- */

void nxr_region_peer_closed(struct nxr_peer *peer, uint32_t id, uint64_t generation)
{
    struct nxr_list *link, *after, *bucket = part_bucket_of(peer->rank, id);

    nxr_list_for_each (link, after, bucket) {
        struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, link);

        if (part->rank == peer->rank && part->part.id == id &&
            part->part.key.generation == generation) {
            nxr_part_owner_closed(part);
        }
    }
}

void nxr_region_peer_lost(struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    nxr_region_end_asks(peer, NIXL_ERR_PEER_LOST);
    nxr_questions_end(peer);
    for (size_t i = 0; i < N_BUCKETS; i++) {
        if (part_ready[i].next == NULL) {
            continue;
        }
        nxr_list_for_each (link, after, &part_ready[i]) {
            struct nxr_region_part *part = nxr_list_entry(link, struct nxr_region_part, link);

            if (part->rank == peer->rank) {
                make_stale(part);
            }
        }
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
                nxr_part_retire(part);
            }
        }
    }
}

static void part_peer_ended(struct nxr_peer *peer)
{
    nxr_publish_unpark_remote(peer);
    nxr_region_peer_lost(peer);
}

static void part_take_closed(const struct nxr_control_source *source,
                             const union nxr_wire_message *message)
{
    nxr_region_peer_closed(source->peer, message->closed.id, message->closed.generation);
}

static void part_register(void)
{
    nxr_publish_register();
    nxr_host_paths.lose_process_vm = part_lose_process_vm;
    nxr_control_register(NXR_WIRE_KEY, NXR_CONTROL_HOST, nxr_region_take_key);
    nxr_control_register(NXR_WIRE_CLOSED, NXR_CONTROL_HOST, part_take_closed);
}

const struct nxr_subsystem nxr_region_subsystem = {
    .name = "region",
    .register_handlers = part_register,
    .tick = nxr_region_tick,
    .peer_ended = part_peer_ended,
    .quiesce = nxr_regions_close_all,
    .stop = nxr_publish_reset,
};
