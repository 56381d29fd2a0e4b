/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and retiring segments, and the pointers to them that were given out. region.h describes
 * the life of a segment; segment_ask.c asks owners for segments. Lock: job.lock.
 */
#include "config.h"

#include "core/carrier.h"
#include "core/service.h"
#include "core/context.h"
#include "core/event.h"
#include "core/subsystem.h"
#include "region/extents.h"
#include "region/leaving.h"
#include "region/segment.h"
#include "control/question.h"
#include "region/region.h"
#include "core/request.h"
#include "util/handle.h"
#include "util/clock.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNMAP_RETRY (10 * NXR_MS) /* while a stale segment is still being copied from or to */

static struct nxr_handle_cache segment_handles =
    NXR_HANDLE_CACHE(segment_handles, struct nxr_region_segment, link, 256);
/* Of extents: as late as two closes of the largest region. */
static struct nxr_handle_cache part_handles =
    NXR_HANDLE_CACHE(part_handles, struct nxr_region_segment, link, 2 * NIXL_EXTENTS_MAX);
static struct nxr_list closing = {&closing, &closing}; /* stale or retired, but still in use */
static struct nxr_list segment_mapped = {&segment_mapped, &segment_mapped}; /* n_maps > 0 */

/*
 * Ready segments, hashed by owner and the owner's region id, to find at once what an owner
 * closes.
 */
#define N_BUCKETS 4096
static struct nxr_list segment_ready[N_BUCKETS]; /* all zeros: never used */

/* ---- making and retiring --------------------------------------------------------------------- */

static struct nxr_handle_cache *cache_of(bool is_part)
{
    return is_part ? &part_handles : &segment_handles;
}

struct nxr_region_segment *nxr_segment_new(struct nxr_region_segment *whole)
{
    struct nxr_region_segment *segment = nxr_handle_take(cache_of(whole != NULL));

    if (segment == NULL) {
        return NULL;
    }
    free(atomic_load(&segment->extents)); /* of its former use */
    memset(segment, 0, sizeof(*segment));
    segment->whole = whole;
    segment->is_part = whole != NULL;
    nxr_list_init(&segment->ask_link);
    nxr_list_init(&segment->waiting);
    nxr_list_init(&segment->link);
    nxr_list_init(&segment->map_link);
    return segment;
}

/* Close the segment at its transport unless it is in use. False: try again later. */
static bool try_close(struct nxr_region_segment *segment)
{
    if (segment->is_open && (segment->n_maps > 0 || nxr_inflight_is_busy_here(&segment->segment) ||
                             segment->segment.transport->segment_is_busy(&segment->segment))) {
        return false;
    }
    if (segment->is_open) {
        segment->is_open = false;
        segment->segment.transport->segment_close(&segment->segment);
    }
    return true;
}

/* Prevent new use; copies in flight end by themselves. */
static void invalidate(struct nxr_region_segment *segment)
{
    atomic_store_explicit(&segment->segment.generation, 0, memory_order_seq_cst);
}

void nxr_segment_retire(struct nxr_region_segment *segment)
{
    nxr_list_remove(&segment->ask_link);
    nxr_list_remove(&segment->link);
    invalidate(segment);
    nxr_extents_drop(segment);
    segment->region = NULL;
    if (try_close(segment)) {
        nxr_handle_retire(cache_of(segment->is_part), segment);
    } else {
        nxr_list_append(&closing, &segment->link);
        nxr_service_kick();
    }
}

int64_t nxr_region_tick(int64_t now)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &closing) {
        struct nxr_region_segment *segment = nxr_list_entry(link, struct nxr_region_segment, link);

        if (try_close(segment)) {
            nxr_list_remove(&segment->link);
            if (segment->region == NULL) {
                nxr_handle_retire(cache_of(segment->is_part), segment);
            }
        }
    }
    return nxr_list_is_empty(&closing) ? INT64_MAX : now + UNMAP_RETRY;
}

static struct nxr_list *segment_bucket_of(int rank, uint32_t id)
{
    struct nxr_list *bucket = &segment_ready[((uint32_t)rank * 2654435761u + id) % N_BUCKETS];

    if (bucket->next == NULL) {
        nxr_list_init(bucket);
    }
    return bucket;
}

void nxr_segment_ready(struct nxr_region_segment *segment)
{
    nxr_list_append(segment_bucket_of(segment->rank, segment->segment.id), &segment->link);
}

/*
 * A ready segment becomes stale: the owner has closed it or died. It is unmapped once it is no
 * longer in use.
 */
static void make_stale(struct nxr_region_segment *segment)
{
    nxr_list_remove(&segment->link);
    invalidate(segment);
    atomic_store_explicit(&segment->state, NXR_SEGMENT_STALE, memory_order_release);
    nxr_extents_drop(segment);
    if (!try_close(segment)) {
        nxr_list_append(&closing, &segment->link);
        nxr_service_kick();
    }
}

void nxr_segment_owner_closed(struct nxr_region_segment *part)
{
    struct nxr_region_segment *segment = part->whole != NULL ? part->whole : part;

    if (atomic_load(&segment->state) == NXR_SEGMENT_ASKING) {
        nxr_extents_ask_again(segment);
        return;
    }
    if (segment->region->name[0] != NXR_REGION_INTERNAL) {
        nxr_event_push(segment->region->context, NIXL_EVENT_REGION_CLOSED, segment->rank,
                       nxr_region_label(segment->region->name));
    }
    make_stale(segment);
}

void nxr_region_mark_stale(struct nxr_segment *stale)
{
    struct nxr_region_segment *segment = nxr_list_entry(stale, struct nxr_region_segment, segment);

    pthread_mutex_lock(&nxr_job.lock);
    if (segment->region != NULL && atomic_load(&segment->state) == NXR_SEGMENT_READY) {
        nxr_segment_owner_closed(segment);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* ---- pointers that were given out ------------------------------------------------------------ */

void nxr_region_take_map(struct nxr_region_segment *segment)
{
    if (segment->n_maps++ == 0) {
        nxr_list_append(&segment_mapped, &segment->map_link);
    }
}

/* A segment of this rank's own memory at `addr` to which pointers are given out; or NULL. */
static struct nxr_region_segment *find_holder(const void *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &segment_mapped) {
        struct nxr_region_segment *segment =
            nxr_list_entry(link, struct nxr_region_segment, map_link);

        if (segment->rank == nxr_job.rank && segment->segment.addr == addr) {
            return segment;
        }
    }
    return NULL;
}

/* Own shared memory is closed: pass it to a segment with pointers to it, or free it. */
static void inherit_or_free(void *addr, size_t mapped_nbytes)
{
    struct nxr_region_segment *holder = find_holder(addr);

    if (holder != NULL) {
        holder->inherited_nbytes = mapped_nbytes;
    } else {
        nxr_memory_host_free(addr, mapped_nbytes);
    }
}

/*
 * The last pointer to a segment was returned: memory it has inherited goes to the next holder, or
 * is freed.
 */
static void segment_give_back(struct nxr_region_segment *segment)
{
    if (segment->inherited_nbytes > 0) {
        inherit_or_free(segment->segment.addr, segment->inherited_nbytes);
        segment->inherited_nbytes = 0;
    }
}

int nxr_region_release_map(int rank, const void *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &segment_mapped) {
        struct nxr_region_segment *segment =
            nxr_list_entry(link, struct nxr_region_segment, map_link);

        if (segment->rank == rank && segment->segment.addr == addr) {
            if (--segment->n_maps == 0) {
                nxr_list_remove(&segment->map_link);
                segment_give_back(segment);
            }
            return NIXL_OK;
        }
    }
    return NIXL_E_INVALID_ARG;
}

void nxr_region_free_memory(struct nxr_memory *memory)
{
    if (memory->kind == &nxr_memory_host && !memory->is_registered) {
        inherit_or_free(memory->addr, memory->mapped_nbytes);
    } else {
        nxr_memory_release(memory);
    }
}

/* ---- how its bytes are reached --------------------------------------------------------------- */

static void segment_lose_process_vm(struct nxr_segment *segment, int error)
{
    pthread_mutex_lock(&nxr_job.lock);
    if (segment->method == NXR_METHOD_PROCESS_VM) {
        snprintf(segment->note, sizeof(segment->note),
                 "process_vm calls on pid %d have worked before and fail now: %s",
                 (int)segment->pid, strerror(error));
        segment->method = NXR_METHOD_BOUNCE;
        nxr_info(SHM, "registered memory goes through a bounce buffer: %s", segment->note);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

void nxr_segment_copy_note(const struct nxr_segment *segment, char *text, size_t nbytes)
{
    pthread_mutex_lock(&nxr_job.lock);
    snprintf(text, nbytes, "%s", segment->note);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* ---- what happens to peers ------------------------------------------------------------------- */

static void region_peer_closed(struct nxr_peer *peer, uint32_t id, uint64_t generation)
{
    struct nxr_list *bucket = segment_bucket_of(peer->rank, id), *link = bucket->next;

    while (link != bucket) {
        struct nxr_region_segment *segment = nxr_list_entry(link, struct nxr_region_segment, link);

        link = link->next;
        if (segment->rank == peer->rank && segment->segment.id == id &&
            segment->segment.key.generation == generation) {
            nxr_segment_owner_closed(segment); /* and others of its region, in any bucket */
            link = bucket->next;
        }
    }
}

/* Make the ready segments of a rank stale in one bucket. */
static void lose_bucket(struct nxr_list *bucket, int rank)
{
    struct nxr_list *link = bucket->next;

    while (link != bucket) {
        struct nxr_region_segment *segment = nxr_list_entry(link, struct nxr_region_segment, link);

        link = link->next;
        if (segment->rank == rank) {
            make_stale(segment->whole != NULL ? segment->whole : segment);
            link = bucket->next; /* extents were taken out with it */
        }
    }
}

void nxr_region_peer_lost(struct nxr_peer *peer)
{
    nxr_region_end_asks(peer, NIXL_E_PEER_LOST);
    nxr_questions_end(peer);
    for (size_t i = 0; i < N_BUCKETS; i++) {
        if (segment_ready[i].next != NULL) {
            lose_bucket(&segment_ready[i], peer->rank);
        }
    }
}

void nxr_region_drop_segment(struct nxr_region_segment *_Atomic *place)
{
    struct nxr_region_segment *segment =
        atomic_exchange_explicit(place, NULL, memory_order_acq_rel);

    if (segment != NULL) {
        nxr_request_fail_waiting(&segment->waiting, NIXL_E_CANCELED);
        nxr_segment_retire(segment);
    }
}

void nxr_region_drop_segments(struct nixl_region *region)
{
    unsigned n_numbers = nxr_n_numbers();

    for (unsigned i = 0; i < n_numbers; i += NXR_SEGMENTS_PER_CHUNK) {
        struct nxr_segment_chunk *chunk = atomic_load(&region->chunks[i / NXR_SEGMENTS_PER_CHUNK]);

        for (int j = 0; chunk != NULL && j < NXR_SEGMENTS_PER_CHUNK; j++) {
            nxr_region_drop_segment(&chunk->segments[j]);
        }
    }
}

/* Is a segment of that peer in this list? */
static bool segment_list_has(const struct nxr_list *list, const struct nxr_peer *peer)
{
    for (const struct nxr_list *link = list->next; link != list; link = link->next) {
        if (nxr_list_entry(link, struct nxr_region_segment, link)->segment.peer == peer) {
            return true;
        }
    }
    return false;
}

/* Segments that are still copied from or to, or mapped by the program, are closed later. */
static bool segment_peer_is_used(struct nxr_peer *peer)
{
    if (!nxr_peer_is_replaced(peer)) {
        nxr_regions_forget(peer->rank);
    }
    return segment_list_has(&closing, peer);
}

/* The next use of a name asks the new process. */
static void segment_peer_replaced(struct nxr_peer *peer)
{
    nxr_regions_forget(peer->rank);
}

static void segment_peer_ended(struct nxr_peer *peer)
{
    nxr_publish_unpark_remote(peer);
    nxr_region_peer_lost(peer);
    nxr_leaving_peer_ended(peer);
}

static void segment_take_closed(const struct nxr_control_source *source,
                                const union nxr_wire_message *message)
{
    const struct nxr_wire_closed *closed = &message->closed;
    struct nxr_peer *peer = source->peer;

    if (peer->carrier->revoked != NULL) {
        peer->carrier->revoked(peer, closed->id, closed->generation);
    }
    region_peer_closed(peer, closed->id, closed->generation);
}

static void segment_register(void)
{
    nxr_publish_register();
    nxr_host_paths.lose_process_vm = segment_lose_process_vm;
    nxr_control_register(NXR_WIRE_KEY, nxr_region_take_key);
    nxr_control_register(NXR_WIRE_CLOSED, segment_take_closed);
    nxr_control_register(NXR_WIRE_PROBED, nxr_region_take_probed);
}

/*
 * Close what was busy when the regions were closed. Segments that the program has mapped, or whose
 * copies do not end, stay until the process ends. Nothing waits for them after the next
 * nixl_init(), which makes new peers.
 */
static void segment_stop(void)
{
    struct nxr_list *link;

    (void)nxr_region_tick(nxr_now_ns());
    while ((link = nxr_list_pop(&closing)) != NULL) {
        struct nxr_region_segment *segment = nxr_list_entry(link, struct nxr_region_segment, link);

        if (segment->n_maps > 0) {
            segment->segment.peer = NULL;
        }
    }
    nxr_publish_reset();
}

const struct nxr_subsystem nxr_region_subsystem = {
    .name = "region",
    .peer_slot = &nxr_region_slot,
    .peer_init = nxr_region_peer_init,
    .register_handlers = segment_register,
    .tick = nxr_region_tick,
    .peer_ended = segment_peer_ended,
    .numbers_grow = nxr_regions_grow,
    .peer_replaced = segment_peer_replaced,
    .peer_is_used = segment_peer_is_used,
    .quiesce = nxr_regions_close_all,
    .stop = segment_stop,
};
