/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking owners for segments: the question, its answer, and the wait for it. Lock: job.lock, except
 * during the wait.
 */
#include "config.h"

#include "core/service.h"
#include "control/dispatch.h"
#include "control/question.h"
#include "control/wire.h"
#include "region/extents.h"
#include "region/leaving.h"
#include "region/segment.h"
#include "region/region.h"
#include "core/request.h"
#include "core/route.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beside the numbers of questions, which may have the same answer. */
static uint64_t segment_ask_last_ask = NXR_QUESTION_OTHERS;

/* What this folder keeps of a peer. */
struct region_peer {
    struct nxr_list asks; /* struct nxr_region_segment: they wait for the peer's answer */
};
struct nxr_peer_slot nxr_region_slot = {.nbytes = sizeof(struct region_peer)};

struct nxr_list *nxr_region_asks(const struct nxr_peer *peer)
{
    struct region_peer *rp = nxr_peer_slot_of(peer, &nxr_region_slot);

    return &rp->asks;
}

bool nxr_region_peer_init(struct nxr_peer *peer)
{
    nxr_list_init(nxr_region_asks(peer));
    return true;
}

/* ---- outcomes of asking ---------------------------------------------------------------------- */

void nxr_segment_fail(struct nxr_region_segment *segment, int status)
{
    nxr_list_remove(&segment->ask_link);
    segment->status = status;
    atomic_store_explicit(&segment->state, NXR_SEGMENT_FAILED, memory_order_release);
    nxr_request_fail_waiting(&segment->waiting, status);
    nxr_wake_self();
    if (segment->whole != NULL) {
        nxr_extents_part_failed(segment->whole, status);
    }
}

/* Set where a peer on this host shows whether the segment is still open. */
static void enter_locally(struct nxr_segment *open, const struct nxr_peer *peer)
{
    open->inflight_index = peer->inflight_index;
    open->full_fence = peer->full_fence;
    open->generation_now = &peer->control->generations[open->id];
}

/*
 * Open with the first transport that reaches such memory and does not fail. The note keeps what
 * the transports report. Otherwise returns what the last one has answered.
 */
static int open_as(struct nxr_segment *open, int fd, enum nixl_mem_kind kind)
{
    bool is_own = open->peer->rank == nxr_job.rank;
    const struct nxr_transport *transport;
    int status = NIXL_E_UNSUPPORTED;
    size_t index = 0;

    while (status != NIXL_OK &&
           (transport = nxr_route_next(&index, is_own ? NIXL_SCOPE_SELF : NIXL_SCOPE_LOCAL,
                                       kind)) != NULL) {
        open->transport = transport;
        status = transport->segment_open(open, fd, NULL);
        if (status != NIXL_OK) {
            nxr_info(ROUTE, "%s cannot open a region of %s: %s: %s", transport->name,
                     nxr_peer_name(open->peer), nixl_strerror(status), open->note);
        }
    }
    return status;
}

/*
 * On another host, open with the network that serves the peer. Device memory on this host is opened
 * for device copies, this rank's own directly; a peer's that no transport opens is opened as host
 * memory is, to be copied by its owner.
 */
static int open_segment(struct nxr_segment *open, int fd, const struct nxr_remote_key *remote)
{
    enum nixl_mem_kind kind = (enum nixl_mem_kind)open->key.kind;

    if (remote != NULL) {
        open->transport = open->peer->transport;
        return open->transport->segment_open(open, fd, remote);
    }
    if (kind != NIXL_MEM_HOST && open->peer->rank == nxr_job.rank) {
        open->transport = &nxr_transport_device;
        return open->transport->segment_open(open, fd, NULL);
    }
    if (kind != NIXL_MEM_HOST && open_as(open, fd, kind) == NIXL_OK) {
        return NIXL_OK;
    }
    return open_as(open, fd, NIXL_MEM_HOST);
}

/*
 * The key has arrived: of this host, with the memory behind `fd` or its export, or with what the
 * owner's network adds to it.
 */
static void segment_came(struct nxr_region_segment *segment, const struct nxr_key *key,
                         const struct nxr_export *export, int fd,
                         const struct nxr_remote_key *remote)
{
    struct nxr_peer *peer = nxr_job.peers[segment->rank];
    struct nxr_segment *open = &segment->segment;
    int status;

    nxr_list_remove(&segment->ask_link);
    if ((key->marks & NXR_KEY_EXTENTS) != 0) {
        if (segment->whole == NULL) {
            nxr_extents_came(segment, key, remote != NULL);
        } else {
            nxr_segment_fail(segment, NIXL_E_TRANSPORT); /* no extent has extents */
        }
        return;
    }
    open->peer = peer;
    open->key = *key;
    if (export != NULL) {
        open->export = *export;
    }
    open->nbytes = key->nbytes;
    open->id = key->id;
    open->forbidden = peer->rank == nxr_job.rank ? 0 : key->access;
    open->put_at_once = open->get_at_once = NXR_ANY_NBYTES;
    if (remote == NULL) {
        enter_locally(open, peer);
    }
    status = open_segment(open, fd, remote);
    if (status != NIXL_OK) {
        nxr_segment_fail(segment, status);
        return;
    }
    if (open->method == NXR_METHOD_MEMCPY) {
        if (peer->rank != nxr_job.rank) {
            open->put_at_once = open->get_at_once = nxr_job.copy_at_once;
        }
        open->copied_at_once =
            open->put_at_once < NXR_AT_ONCE_NBYTES ? open->put_at_once : NXR_AT_ONCE_NBYTES;
    }
    segment->is_open = true;
    nxr_segment_ready(segment);
    atomic_store_explicit(&open->generation, key->generation, memory_order_release);
    atomic_store_explicit(&segment->state, NXR_SEGMENT_READY, memory_order_release);
    if (segment->whole != NULL) {
        nxr_extents_part_ready(segment->whole);
        return;
    }
    nxr_request_begin_waiting(&segment->waiting, NULL);
    nxr_wake_self();
}

/* This rank's own region that the handle means; NULL: there is none yet. */
static struct nxr_published *find_own(const struct nixl_region *region)
{
    return nxr_region_is_named(region) ? nxr_publish_find(region->name) : region->published;
}

/* What the segment asks this rank itself for: a region, or an extent of one. */
static struct nxr_published *find_asked(const struct nxr_region_segment *segment)
{
    struct nxr_published *published = find_own(segment->region);

    return segment->whole == NULL || published == NULL
               ? published
               : nxr_publish_extent(published, segment->whole->segment.key.generation,
                                    segment->extent);
}

/* The segment that waits for that answer; NULL: none does any more. */
static struct nxr_region_segment *find_asking(struct nxr_peer *peer, uint64_t ask)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, nxr_region_asks(peer)) {
        struct nxr_region_segment *segment =
            nxr_list_entry(link, struct nxr_region_segment, ask_link);

        if (segment->ask == ask) {
            return segment;
        }
    }
    return NULL;
}

void nxr_region_take_key(const struct nxr_control_source *source,
                         const union nxr_wire_message *message)
{
    const struct nxr_wire_key *key = &message->key;
    struct nxr_region_segment *segment = find_asking(source->peer, key->ask);
    bool is_remote = source->conn == NULL;

    if (segment != NULL) {
        segment_came(segment, &key->key, is_remote ? NULL : &key->export,
                     source->n_fds > 0 ? source->fds[0] : -1, is_remote ? &key->remote : NULL);
    }
}

/* Why a segment that is_never has none. */
static void segment_say_never(const struct nxr_region_segment *segment, char *why, size_t nbytes)
{
    snprintf(why, nbytes,
             "%s has called nixl_finalize() without publishing region '%s', and publishes none any "
             "more",
             nxr_rank_name(segment->rank), nxr_region_label(segment->region->name));
}

/*
 * The owner leaves, but has not left. What waits gets the status of a rank that has, with a reason
 * of its own, so that nobody takes the owner for dead.
 */
static void segment_never_comes(struct nxr_region_segment *segment)
{
    struct nxr_list *link, *after;
    char why[NXR_WHY_NBYTES];

    segment->is_never = true;
    nxr_leaving_heard_never(segment);
    segment_say_never(segment, why, sizeof(why));
    nxr_list_for_each (link, after, &segment->waiting) {
        nxr_request_keep_failure(nxr_list_entry(link, struct nixl_req, link), segment->rank, why);
    }
    nxr_segment_fail(segment, NIXL_E_PEER_LOST);
}

void nxr_region_take_probed(const struct nxr_control_source *source,
                            const union nxr_wire_message *message)
{
    struct nxr_region_segment *segment = find_asking(source->peer, message->probed.ask);

    if (message->probed.ask <= NXR_QUESTION_OTHERS) {
        nxr_question_answered(source, message);
    } else if (segment != NULL && message->probed.found == NXR_FOUND_NEVER) {
        segment_never_comes(segment);
    } else if (segment != NULL && message->probed.found == NXR_FOUND_NO_MEMORY) {
        segment->is_owner_short = true;
        nxr_segment_fail(segment, NIXL_E_NO_MEMORY);
    }
}

void nxr_region_published(struct nxr_published *published)
{
    struct nxr_peer *self = nxr_job.peers[nxr_job.rank];
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, nxr_region_asks(self)) {
        struct nxr_region_segment *segment =
            nxr_list_entry(link, struct nxr_region_segment, ask_link);

        if (segment->whole == NULL && strcmp(segment->region->name, published->name) == 0) {
            segment_came(segment, &published->key, NULL, published->fd, NULL);
        }
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

void nxr_region_send_ask(struct nxr_list *ask_link)
{
    struct nxr_region_segment *segment =
        nxr_list_entry(ask_link, struct nxr_region_segment, ask_link);
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_RESOLVE);
    message.resolve.ask = segment->ask;
    if (segment->whole != NULL) {
        message.resolve.generation = segment->whole->segment.key.generation;
        message.resolve.extent = segment->extent;
    }
    memcpy(message.resolve.name, segment->region->name, sizeof(message.resolve.name));
    nxr_peer_tell(nxr_job.peers[segment->rank], &message);
}

void nxr_segment_ask(struct nxr_region_segment *segment, struct nxr_peer *peer)
{
    int connection = atomic_load(&peer->connection);

    segment->ask = ++segment_ask_last_ask;
    if (!nxr_region_is_named(segment->region) && peer->rank != nxr_job.rank) {
        nxr_segment_fail(segment, NIXL_E_INVALID_ARG);
    } else if (nxr_peer_is_lost(peer)) {
        nxr_segment_fail(segment, NIXL_E_PEER_LOST);
    } else if (connection == NXR_CONNECTION_REMOTE ||
               (connection == NXR_CONNECTION_UP && peer->transport == NULL)) {
        nxr_segment_fail(segment, NIXL_E_UNSUPPORTED);
    } else if (peer->rank == nxr_job.rank) {
        struct nxr_published *published = find_asked(segment);

        nxr_list_append(nxr_region_asks(peer), &segment->ask_link);
        if (published != NULL) {
            segment_came(segment, &published->key, NULL, published->fd, NULL);
        }
    } else {
        nxr_list_append(nxr_region_asks(peer), &segment->ask_link);
        if (connection == NXR_CONNECTION_UP) {
            nxr_region_send_ask(&segment->ask_link);
            nxr_service_kick();
        } else {
            nxr_peer_want(peer);
        }
    }
}

static struct nxr_segment_chunk *get_chunk(struct nixl_region *region, int rank)
{
    struct nxr_segment_chunk *_Atomic *slot = &region->chunks[rank / NXR_SEGMENTS_PER_CHUNK];

    if (atomic_load(slot) == NULL) {
        atomic_store_explicit(slot, calloc(1, sizeof(struct nxr_segment_chunk)),
                              memory_order_release);
    }
    return atomic_load(slot);
}

/* Is this segment known to be of no further use, without asking its owner? */
static bool is_worn(struct nxr_region_segment *segment)
{
    int state = atomic_load(&segment->state);

    if (state == NXR_SEGMENT_READY &&
        atomic_load_explicit(segment->segment.generation_now, memory_order_acquire) !=
            segment->segment.key.generation) {
        nxr_segment_owner_closed(segment);
        state = NXR_SEGMENT_STALE;
    }
    return state == NXR_SEGMENT_STALE || state == NXR_SEGMENT_FAILED;
}

/* Could it not be opened for want of something that may be there again? */
static bool was_short(const struct nxr_region_segment *segment)
{
    return atomic_load(&segment->state) == NXR_SEGMENT_FAILED &&
           (segment->status == NIXL_E_NO_MEMORY || segment->status == NIXL_E_LIMIT);
}

int nxr_region_want_segment(struct nixl_region *region, int rank, bool renew,
                            struct nxr_region_segment **segment_p)
{
    struct nxr_segment_chunk *chunk = get_chunk(region, rank);
    struct nxr_peer *peer = nxr_peer_get_locked(rank);
    struct nxr_region_segment *segment;

    if (chunk == NULL || peer == NULL) {
        return nxr_attached_was(rank) ? NIXL_E_PEER_LOST : NIXL_E_NO_MEMORY;
    }
    segment = atomic_load(&chunk->segments[rank % NXR_SEGMENTS_PER_CHUNK]);
    if (segment != NULL && (was_short(segment) || (renew && is_worn(segment)))) {
        nxr_segment_retire(segment);
        segment = NULL;
    }
    if (segment == NULL) {
        segment = nxr_segment_new(NULL);
        if (segment == NULL) {
            return NIXL_E_NO_MEMORY;
        }
        segment->region = region;
        segment->rank = rank;
        atomic_store_explicit(&chunk->segments[rank % NXR_SEGMENTS_PER_CHUNK], segment,
                              memory_order_release);
        nxr_segment_ask(segment, peer);
    }
    *segment_p = segment;
    return NIXL_OK;
}

int nxr_region_fail_no_segment(const char *operation, int rank, int status)
{
    return status == NIXL_E_PEER_LOST
               ? nxr_fail_rank(operation, rank)
               : nxr_fail(status, operation, rank, "", 0, "no memory for the segment of %s",
                          nxr_rank_name(rank));
}

int nxr_region_fail_segment(const char *operation, const struct nxr_region_segment *segment)
{
    struct nxr_peer *peer = nxr_peer_find(segment->rank);
    const char *name = segment->region != NULL ? nxr_region_label(segment->region->name) : "?";
    char why[NXR_WHY_NBYTES];

    if (segment->region != NULL && !nxr_region_is_named(segment->region) &&
        segment->rank != nxr_job.rank) {
        return nxr_fail(segment->status, operation, segment->rank, "", 0,
                        "the region has no name, so that only its owner reaches it; allowed: rank "
                        "%d, this one",
                        nxr_job.rank);
    }
    if (peer == NULL) {
        return nxr_fail_rank(operation, segment->rank);
    }
    if (nxr_peer_is_lost(peer)) {
        return nxr_peer_fail_lost(operation, segment->rank, "");
    }
    if (atomic_load(&segment->state) == NXR_SEGMENT_STALE) {
        return nxr_fail(NIXL_E_STALE, operation, segment->rank, segment->segment.transport->name, 0,
                        "%s has closed region '%s'; nixl_region_query() finds a new one",
                        nxr_peer_name(peer), name);
    }
    if (segment->is_never) {
        segment_say_never(segment, why, sizeof(why));
        return nxr_fail(NIXL_E_PEER_LOST, operation, segment->rank, "", 0, "%s", why);
    }
    if (segment->status == NIXL_E_UNSUPPORTED) {
        return nxr_peer_fail_unreached(operation, peer);
    }
    if (segment->is_owner_short) {
        return nxr_fail(segment->status, operation, segment->rank, "", 0,
                        "%s has no memory left to give access to region '%s'", nxr_peer_name(peer),
                        name);
    }
    return nxr_fail(segment->status, operation, segment->rank, "", 0,
                    "cannot open region '%s' of %s: %s", name, nxr_peer_name(peer),
                    nixl_strerror(segment->status));
}

int nxr_region_fail_access(const char *operation, const struct nixl_region *region,
                           const struct nxr_segment *segment, uint32_t forbidden_by)
{
    static const char *const flags[] = {"0", "NIXL_ACCESS_NO_PUT", "NIXL_ACCESS_NO_GET",
                                        "NIXL_ACCESS_NO_PUT | NIXL_ACCESS_NO_GET"};
    bool is_put = (segment->forbidden & forbidden_by & NIXL_ACCESS_NO_PUT) != 0;

    return nxr_fail(NIXL_E_ACCESS, operation, segment->peer->rank, segment->transport->name, 0,
                    "peers of %s may not %s region '%s', which it has made with access %s",
                    nxr_peer_name(segment->peer), is_put ? "change" : "read",
                    nxr_region_label(region->name), flags[segment->forbidden & NXR_ACCESS_ALL]);
}

static bool segment_ask_is_answered(void *arg)
{
    struct nxr_region_segment *segment = arg;

    return atomic_load_explicit(&segment->state, memory_order_acquire) != NXR_SEGMENT_ASKING;
}

int nxr_region_fail_unanswered(int status, const char *operation, const struct nixl_region *region,
                               int rank, const char *within)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);
    char why[NXR_WHY_NBYTES];

    if (peer != NULL && nxr_peer_is_unconnected(peer, within, why, sizeof(why))) {
        return nxr_fail(status, operation, rank, "", 0, "%s does not answer: %s",
                        nxr_peer_name(peer), why);
    }
    return nxr_fail(status, operation, rank, "", 0, "%s has not published region '%s' within %s",
                    nxr_rank_name(rank), nxr_region_label(region->name), within);
}

int nxr_region_resolve(const char *operation, struct nixl_region *region, int rank, bool renew,
                       int64_t timeout_ns, struct nxr_segment **segment_p)
{
    int64_t deadline = nxr_deadline(timeout_ns), left_ns = timeout_ns;
    struct nxr_region_segment *segment;
    int status, state;

    do {
        pthread_mutex_lock(&nxr_job.lock);
        status = nxr_region_want_segment(region, rank, renew, &segment);
        pthread_mutex_unlock(&nxr_job.lock);
        if (status != NIXL_OK) {
            return nxr_region_fail_no_segment(operation, rank, status);
        }
        status = nxr_wait_as(segment_ask_is_answered, segment, left_ns, nxr_describe_reason,
                             &(const struct nxr_reason){.kind = NXR_WAIT_REGION,
                                                        .peer = rank,
                                                        .call = operation,
                                                        .object = nxr_region_label(region->name)});
        if (timeout_ns != 0 && timeout_ns != NIXL_FOREVER) {
            left_ns = deadline - nxr_now_ns();
            left_ns = left_ns > 0 ? left_ns : 1; /* 0 would test instead of timing out */
        }
        state = atomic_load_explicit(&segment->state, memory_order_acquire);
        /* Closed again as soon as its key had arrived: wait for the next one. */
    } while (status == NIXL_OK && renew && state == NXR_SEGMENT_STALE);
    if (status == NIXL_INPROGRESS) {
        return status;
    }
    if (status == NIXL_E_TIMEOUT) {
        return nxr_region_fail_unanswered(status, operation, region, rank, "the timeout");
    }
    if (state != NXR_SEGMENT_READY) {
        return nxr_region_fail_segment(operation, segment);
    }
    *segment_p = &segment->segment;
    return NIXL_OK;
}

void nxr_region_end_asks(struct nxr_peer *peer, int status)
{
    while (!nxr_list_is_empty(nxr_region_asks(peer))) {
        nxr_segment_fail(
            nxr_list_entry(nxr_region_asks(peer)->next, struct nxr_region_segment, ask_link),
            status);
    }
}
