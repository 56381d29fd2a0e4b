/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of bounce buffers. It runs on the service thread; no other thread touches the
 * list of buffers, but copies of device memory may end in any thread. Copies enter the own region
 * like those of a peer, so that a close waits for them.
 */
#include "config.h"

#include "transfer/staging_buffer.h"
#include "transfer/staging_memory.h"
#include "control/dispatch.h"
#include "core/subsystem.h"
#include "region/publish.h"
#include "memory/memory.h"
#include "util/clock.h"
#include "util/copy.h"
#include "util/log.h"
#include "core/wait.h"

#include <stdlib.h>
#include <unistd.h>

#define MAX_NBYTES    (UINT64_C(1) << 30)
#define LINGER_NS     (200 * NXR_US) /* how long to poll for the next chunk before sleeping again */
#define END_NS        (10 * NXR_S)   /* how long the last finalize waits for copies */
#define MAX_LINGER_NS (2 * NXR_MS)   /* ... and before serving connections */

struct served_buffer;

/* A chunk's request, read once: the peer may change the chunk at any time. */
struct bounce_work {
    uint32_t id;
    bool is_put;
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes;
};

/* A copy between a chunk and device memory. */
struct served_copy {
    struct nxr_device_copy copy;
    struct nxr_device_piece piece;
    struct served_buffer *served_by;
    struct nxr_bounce_chunk *chunk;
    struct nxr_inflight_slot *slot; /* in the own page, while the copy is under way */
    atomic_bool is_busy;
    bool is_at_gpu; /* not at storage, which takes longer */
};

/* A buffer that a peer has offered. */
struct served_buffer {
    struct nxr_list link;
    struct nxr_peer *peer;
    struct nxr_bounce_buffer *buffer; /* the head of `memory` */
    struct staging_memory memory;
    unsigned n_chunks;
    unsigned next;               /* chunk that the peer probably posts next */
    _Atomic uint32_t n_copies;   /* copies of device memory under way */
    struct served_copy copies[]; /* n_chunks */
};

static struct nxr_list bounce_server_served = {&bounce_server_served, &bounce_server_served};
static struct nxr_inflight_slot *bounce_server_guard; /* the service thread's, in the own page */
static bool is_hot;                /* chunks keep arriving: serve again at once */
static atomic_bool has_ended;      /* a copy of device memory has, since the last look */
static _Atomic uint32_t n_at_gpus; /* copies under way, of all buffers */

/*
 * The initiator must not wait for a buffer that nobody serves. It is not mapped here, so the mark
 * is written through its file.
 */
static void bounce_server_refuse(const struct nxr_control_source *source)
{
    const uint32_t refused = 1;

    nxr_warn(HOST, "cannot use the bounce buffer that %s offers", nxr_peer_name(source->peer));
    if (pwrite(source->fds[0], &refused, sizeof(refused),
               offsetof(struct nxr_bounce_buffer, is_refused)) == sizeof(refused)) {
        nxr_wake_peer(source->peer);
    }
}

/* A peer offers a buffer. */
static void bounce_server_take_offer(const struct nxr_control_source *source,
                                     const union nxr_wire_message *message)
{
    uint64_t nbytes = message->bounce.nbytes;
    uint32_t n_chunks = message->bounce.n_chunks;
    bool is_sound = n_chunks > 0 && n_chunks <= NXR_BOUNCE_STORAGE_CHUNKS &&
                    nbytes > NXR_BOUNCE_HEAD_NBYTES && nbytes <= MAX_NBYTES;
    struct served_buffer *offered =
        is_sound ? calloc(1, sizeof(*offered) + n_chunks * sizeof(offered->copies[0])) : NULL;
    size_t mapped_nbytes;
    void *addr;

    if (offered == NULL ||
        nxr_memory_host_map(source->fds[0], nbytes, false, &addr, &mapped_nbytes) != NIXL_OK) {
        bounce_server_refuse(source);
        free(offered);
        return;
    }
    offered->peer = source->peer;
    offered->buffer = addr;
    nxr_staging_adopt(&offered->memory, addr, mapped_nbytes, NXR_BOUNCE_HEAD_NBYTES,
                      (nbytes - NXR_BOUNCE_HEAD_NBYTES) / n_chunks);
    offered->n_chunks = n_chunks;
    nxr_list_append(&bounce_server_served, &offered->link);
}

/* A peer has posted chunks while we slept. */
static void bounce_server_take_work(const struct nxr_control_source *source,
                                    const union nxr_wire_message *message)
{
    (void)source; /* the message has woken this thread: bounce_server_serve() follows */
    (void)message;
}

static void bounce_server_register(void)
{
    nxr_control_register(NXR_WIRE_BOUNCE, bounce_server_take_offer);
    nxr_control_register(NXR_WIRE_WORK, bounce_server_take_work);
}

/* Enter an own region on behalf of a peer, in that in-flight slot. */
static int bounce_server_enter_own(struct nxr_inflight_slot *slot, const struct bounce_work *work)
{
    return slot == NULL                                               ? NIXL_E_LIMIT
           : nxr_inflight_enter_own(slot, work->id, work->generation) ? NIXL_OK
                                                                      : NIXL_E_STALE;
}

/* A chunk is done: report it to its initiator. */
static void finish_chunk(struct served_buffer *served_by, struct nxr_bounce_chunk *chunk,
                         int status)
{
    chunk->status = status;
    atomic_store_explicit(&chunk->state, NXR_BOUNCE_DONE, memory_order_release);
    nxr_wake_peer(served_by->peer);
}

static void bounce_server_copy_ended(struct nxr_device_copy *copy, int status)
{
    struct served_copy *over = nxr_list_entry(copy, struct served_copy, copy);
    struct served_buffer *served_by = over->served_by;

    atomic_fetch_sub(&n_at_gpus, over->is_at_gpu);
    nxr_inflight_give_own(over->slot);
    atomic_store_explicit(&over->is_busy, false, memory_order_release);
    finish_chunk(served_by, over->chunk, status);
    atomic_store_explicit(&has_ended, true, memory_order_relaxed);
    atomic_fetch_sub_explicit(&served_by->n_copies, 1, memory_order_release);
}

/* Begin to copy between a chunk and own device memory: NIXL_INPROGRESS, or the outcome. */
static int serve_device(struct served_buffer *served_by, unsigned index,
                        const struct bounce_work *work, char *addr)
{
    struct served_copy *copy = &served_by->copies[index];
    const struct nxr_range *device = nxr_publish_memory(work->id).range;
    char *data = nxr_staging_slot(&served_by->memory, index);
    int status;

    copy->slot = nxr_inflight_claim_own();
    status = bounce_server_enter_own(copy->slot, work);
    if (status != NIXL_OK) {
        if (copy->slot != NULL) {
            nxr_inflight_give_own(copy->slot);
        }
        return status;
    }
    nxr_staging_pin(&served_by->memory, device);
    copy->served_by = served_by;
    copy->chunk = &served_by->buffer->chunks[index];
    nxr_staging_copy(&copy->copy, &copy->piece, work->is_put, data, addr, work->nbytes, device);
    copy->copy.ended = bounce_server_copy_ended;
    copy->copy.origin = nxr_peer_origin(served_by->peer);
    copy->copy.owner = copy;
    copy->is_at_gpu = !device->kind->is_storage;
    atomic_fetch_add(&n_at_gpus, copy->is_at_gpu);
    atomic_store(&copy->is_busy, true);
    atomic_fetch_add(&served_by->n_copies, 1);
    status = nxr_device_copy_begin(&copy->copy);
    if (status != NIXL_INPROGRESS) {
        nxr_inflight_give_own(copy->slot);
        atomic_fetch_sub(&n_at_gpus, copy->is_at_gpu);
        atomic_store(&copy->is_busy, false);
        atomic_fetch_sub(&served_by->n_copies, 1);
    }
    return status;
}

/*
 * Move the bytes of one chunk and return the outcome; NIXL_INPROGRESS: the copy has begun. The
 * peer wrote the descriptor, so everything in it is checked.
 */
static int serve_chunk(struct served_buffer *served_by, unsigned index)
{
    struct nxr_bounce_chunk *chunk = &served_by->buffer->chunks[index];
    char *data = nxr_staging_slot(&served_by->memory, index);
    const struct bounce_work work = {chunk->id, chunk->is_put != 0, chunk->generation,
                                     chunk->offset, chunk->nbytes};
    struct nxr_own_memory own;
    int status;

    if (work.id >= NXR_N_REGION_IDS || work.generation == 0 ||
        work.nbytes > served_by->memory.slot_nbytes) {
        return NIXL_E_INVALID_ARG;
    }
    if (bounce_server_guard == NULL) {
        bounce_server_guard = nxr_inflight_claim_own();
    }
    status = bounce_server_enter_own(bounce_server_guard, &work);
    if (status != NIXL_OK) {
        return status;
    }
    own = nxr_publish_memory(work.id);
    if (work.offset > own.nbytes || work.nbytes > own.nbytes - work.offset) {
        status = NIXL_E_RANGE;
    } else if ((own.access & (work.is_put ? NIXL_ACCESS_NO_PUT : NIXL_ACCESS_NO_GET)) != 0) {
        status = NIXL_E_ACCESS;
    } else if (own.range != NULL) {
        status = serve_device(served_by, index, &work, own.addr + work.offset);
    } else if (work.is_put) {
        nxr_copy(own.addr + work.offset, data, work.nbytes);
    } else {
        nxr_copy(data, own.addr + work.offset, work.nbytes);
    }
    nxr_inflight_leave(&bounce_server_guard->busy);
    return status;
}

/* The initiator has given up a chunk that is being copied: end it early, if that can be done. */
static void stop_if_wanted(struct served_buffer *served_by, unsigned index)
{
    struct nxr_bounce_chunk *chunk = &served_by->buffer->chunks[index];
    uint32_t wanted = 1;

    if (atomic_load_explicit(&chunk->must_stop, memory_order_relaxed) == 1 &&
        atomic_load_explicit(&served_by->copies[index].is_busy, memory_order_acquire) &&
        atomic_compare_exchange_strong(&chunk->must_stop, &wanted, 2)) {
        nxr_device_copy_cancel(&served_by->copies[index]);
    }
}

/* Serve a chunk if it is posted. Was it? */
static bool serve_if_posted(struct served_buffer *served_by, unsigned index)
{
    struct nxr_bounce_chunk *chunk = &served_by->buffer->chunks[index];
    uint32_t state = NXR_BOUNCE_POSTED;
    int status;

    stop_if_wanted(served_by, index);
    /* A chunk that is being copied is not looked at, whatever the peer writes there. */
    if (atomic_load_explicit(&chunk->state, memory_order_relaxed) != NXR_BOUNCE_POSTED ||
        atomic_load_explicit(&served_by->copies[index].is_busy, memory_order_acquire) ||
        !atomic_compare_exchange_strong_explicit(&chunk->state, &state, NXR_BOUNCE_SERVING,
                                                 memory_order_acquire, memory_order_acquire)) {
        return false;
    }
    status = serve_chunk(served_by, index);
    if (status != NIXL_INPROGRESS) {
        finish_chunk(served_by, chunk, status);
    }
    return true;
}

/*
 * Serve the posted chunks of one buffer, each at most once: in turn as far as the peer posts them
 * so. Was there any?
 */
static bool serve_buffer(struct served_buffer *served_by)
{
    unsigned first = served_by->next;
    struct nxr_device_gather gather; /* what is posted together begins together */
    bool has_served = false;

    nxr_device_gather_begin(&gather);
    for (unsigned i = 0; i < served_by->n_chunks; i++) {
        unsigned index = (first + i) % served_by->n_chunks;

        if (serve_if_posted(served_by, index)) {
            served_by->next = (index + 1) % served_by->n_chunks;
            has_served = true;
        }
    }
    nxr_device_gather_end(&gather);
    return has_served;
}

static bool serve_all(void)
{
    struct nxr_list *link, *after;
    bool has_served = false;

    nxr_list_for_each (link, after, &bounce_server_served) {
        struct served_buffer *served_by = nxr_list_entry(link, struct served_buffer, link);

        if (nxr_peer_is_lost(served_by->peer)) {
            if (atomic_load_explicit(&served_by->n_copies, memory_order_acquire) != 0) {
                continue; /* the GPU still reads or writes the buffer */
            }
            nxr_list_remove(&served_by->link);
            nxr_staging_unmap(&served_by->memory);
            free(served_by);
            continue;
        }
        has_served |= serve_buffer(served_by);
    }
    return has_served;
}

/* Does a buffer of that peer wait for the end of a copy? */
static bool bounce_server_peer_is_used(struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &bounce_server_served) {
        if (nxr_list_entry(link, struct served_buffer, link)->peer == peer) {
            return true;
        }
    }
    return false;
}

/* Tell the initiators whether they must send a message to wake this thread. */
static void set_sleeping(bool is_sleeping)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &bounce_server_served) {
        struct served_buffer *served_by = nxr_list_entry(link, struct served_buffer, link);

        atomic_store_explicit(&served_by->buffer->owner_sleeps, is_sleeping, memory_order_relaxed);
    }
    nxr_fence_full();
}

/*
 * Serve until no chunk arrives for a while, or it is time to serve connections. True: the latter.
 */
static bool bounce_server_linger(void)
{
    int64_t now = nxr_now_ns(), until = now + LINGER_NS, at_most = now + MAX_LINGER_NS;

    do {
        if (serve_all() || nxr_device_progress() > 0) {
            until = nxr_now_ns() + LINGER_NS;
        } else if (nxr_job.is_oversubscribed) {
            nxr_yield();
        } else {
            nxr_pause();
        }
        now = nxr_now_ns();
    } while (now < until && now < at_most);
    return now < until;
}

/*
 * The service thread has many reasons to wake. To linger pays only where chunks come: it takes a
 * fifth of a core while a copy of storage is under way, which is looked after every millisecond.
 */
static void bounce_server_serve(void)
{
    bool is_busy = atomic_exchange(&has_ended, false) || is_hot || atomic_load(&n_at_gpus) > 0;

    is_hot = false;
    if (nxr_list_is_empty(&bounce_server_served)) {
        return;
    }
    for (;;) {
        if (is_busy) {
            set_sleeping(false);
            is_hot = bounce_server_linger();
            if (is_hot) {
                return;
            }
        }
        set_sleeping(true);
        if (!serve_all()) {
            return;
        }
        is_busy = true;
    }
}

static int64_t bounce_server_tick(int64_t now)
{
    return is_hot ? now : INT64_MAX;
}

/* The service thread has ended: wait for copies of device memory. */
static void bounce_server_halt(void)
{
    int64_t until = nxr_now_ns() + END_NS;
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &bounce_server_served) {
        struct served_buffer *served_by = nxr_list_entry(link, struct served_buffer, link);

        while (atomic_load_explicit(&served_by->n_copies, memory_order_acquire) != 0 &&
               nxr_now_ns() < until) {
            nxr_device_progress();
        }
    }
}

/* Unmap everything; no peer uses it any more. */
static void bounce_server_close(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&bounce_server_served)) != NULL) {
        struct served_buffer *served_by = nxr_list_entry(link, struct served_buffer, link);

        nxr_staging_unmap(&served_by->memory);
        free(served_by);
    }
    bounce_server_guard = NULL;
}

const struct nxr_subsystem nxr_bounce_subsystem = {
    .name = "bounce",
    .peer_is_used = bounce_server_peer_is_used,
    .register_handlers = bounce_server_register,
    .tick = bounce_server_tick,
    .serve = bounce_server_serve,
    .halt = bounce_server_halt,
    .close = bounce_server_close,
};
