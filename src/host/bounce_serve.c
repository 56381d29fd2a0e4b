/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of bounce buffers. All of it runs on the service thread, which alone touches the
 * list of buffers; copies enter the own region like those of a peer, so that a close waits for
 * them.
 */
#include "config.h"

#include "host/bounce.h"
#include "host/bounce_buffer.h"
#include "host/conn.h"
#include "host/publish.h"
#include "memory/memory.h"
#include "util/clock.h"
#include "util/copy.h"
#include "util/log.h"
#include "wait.h"

#include <stdlib.h>

#define LINGER_NS     (200 * NXR_US) /* how long to look for the next chunk before sleeping again */
#define MAX_LINGER_NS (2 * NXR_MS)   /* ... and before looking after the connections */

/* A buffer that a peer has offered. */
struct served_buffer {
    struct nxr_list link;
    struct nxr_peer *peer;
    struct nxr_bounce_buffer *buffer;
    size_t mapped_nbytes;
    uint64_t chunk_nbytes;
    unsigned next; /* chunk that the peer posts next */
};

static struct nxr_list served = {&served, &served};
static struct nxr_guard_slot *guard; /* the service thread's, in the own page */
static bool is_hot;                  /* chunks keep coming: serve again at once */

void nxr_bounce_offered(struct nxr_conn *conn, uint64_t nbytes, const int *fd)
{
    struct served_buffer *offered = calloc(1, sizeof(*offered));
    void *addr;

    if (offered == NULL || nbytes <= NXR_BOUNCE_HEAD_NBYTES || nbytes > (1ull << 30) ||
        nxr_memory_host_map(*fd, nbytes, &addr, &offered->mapped_nbytes) != NIXL_OK) {
        nxr_warn(HOST, "cannot use the bounce buffer that rank %d offers", conn->peer->rank);
        free(offered);
        return;
    }
    offered->peer = conn->peer;
    offered->buffer = addr;
    offered->chunk_nbytes = (nbytes - NXR_BOUNCE_HEAD_NBYTES) / NXR_BOUNCE_CHUNKS;
    nxr_list_append(&served, &offered->link);
}

void nxr_bounce_work(struct nxr_conn *conn)
{
    (void)conn; /* the message has woken us: nxr_bounce_serve() follows */
}

/* Enter an own region on behalf of a peer; false: closed. */
static bool enter_own(uint32_t id, uint64_t generation)
{
    if (guard == NULL) {
        guard = nxr_guard_claim_own();
        if (guard == NULL) {
            return false;
        }
    }
    atomic_store_explicit(&guard->busy, id + 1, memory_order_relaxed);
    nxr_barrier_light(nxr_barrier_is_full());
    if (atomic_load_explicit(&nxr_job.control->generations[id], memory_order_acquire) !=
        generation) {
        nxr_guard_leave(&guard->busy);
        return false;
    }
    return true;
}

/* Move the bytes of one chunk. The descriptor is the peer's: everything in it is checked. */
static int serve_chunk(struct served_buffer *served_by, unsigned index)
{
    struct nxr_bounce_chunk *chunk = &served_by->buffer->chunks[index];
    void *data = nxr_bounce_data(served_by->buffer, index, served_by->chunk_nbytes);
    uint32_t id = chunk->id;
    uint64_t generation = chunk->generation, offset = chunk->offset, nbytes = chunk->nbytes;
    bool is_put = chunk->is_put != 0;
    int status = NIXL_OK;
    struct nxr_own_memory own;

    if (id >= NXR_N_REGION_IDS || generation == 0 || nbytes > served_by->chunk_nbytes) {
        return NIXL_ERR_INVALID_ARG;
    }
    if (!enter_own(id, generation)) {
        return NIXL_ERR_STALE;
    }
    own = nxr_publish_memory(id);
    if (offset > own.nbytes || nbytes > own.nbytes - offset) {
        status = NIXL_ERR_RANGE;
    } else if (is_put) {
        nxr_copy(own.addr + offset, data, nbytes);
    } else {
        nxr_copy(data, own.addr + offset, nbytes);
    }
    nxr_guard_leave(&guard->busy);
    return status;
}

/* Serve what is posted in one buffer; whether there was anything. */
static bool serve_buffer(struct served_buffer *served_by)
{
    bool has_served = false;

    for (;;) {
        struct nxr_bounce_chunk *chunk = &served_by->buffer->chunks[served_by->next];
        uint32_t state = NXR_BOUNCE_POSTED;

        if (atomic_compare_exchange_strong_explicit(&chunk->state, &state, NXR_BOUNCE_SERVING,
                                                    memory_order_acquire, memory_order_acquire)) {
            chunk->status = serve_chunk(served_by, served_by->next);
        } else if (state == NXR_BOUNCE_REVOKED) {
            chunk->status = NIXL_ERR_CANCELED;
        } else {
            return has_served;
        }
        atomic_store_explicit(&chunk->state, NXR_BOUNCE_DONE, memory_order_release);
        served_by->next = (served_by->next + 1) % NXR_BOUNCE_CHUNKS;
        has_served = true;
        nxr_wake_peer(served_by->peer);
    }
}

static bool serve_all(void)
{
    struct nxr_list *link, *after;
    bool has_served = false;

    nxr_list_for_each (link, after, &served) {
        struct served_buffer *served_by = nxr_list_entry(link, struct served_buffer, link);

        if (nxr_peer_is_lost(served_by->peer)) {
            nxr_list_remove(&served_by->link);
            nxr_memory_host_free(served_by->buffer, served_by->mapped_nbytes);
            free(served_by);
            continue;
        }
        has_served |= serve_buffer(served_by);
    }
    return has_served;
}

/* Tell the initiators whether a message is needed to be heard. */
static void set_sleeping(bool is_sleeping)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &served) {
        struct served_buffer *served_by = nxr_list_entry(link, struct served_buffer, link);

        atomic_store_explicit(&served_by->buffer->owner_sleeps, is_sleeping, memory_order_relaxed);
    }
    nxr_fence_full();
}

/* Serve until nothing came for a while, or it is time to look after the connections. */
static bool linger(void)
{
    int64_t now = nxr_now_ns(), until = now + LINGER_NS, at_most = now + MAX_LINGER_NS;

    do {
        if (serve_all()) {
            until = nxr_now_ns() + LINGER_NS;
        } else if (nxr_job.is_crowded) {
            sched_yield();
        } else {
            nxr_pause();
        }
        now = nxr_now_ns();
    } while (now < until && now < at_most);
    return now < until;
}

void nxr_bounce_serve(void)
{
    is_hot = false;
    if (nxr_list_is_empty(&served)) {
        return;
    }
    set_sleeping(false);
    for (;;) {
        is_hot = linger();
        if (is_hot) {
            return;
        }
        set_sleeping(true);
        if (!serve_all()) {
            return;
        }
        set_sleeping(false);
    }
}

bool nxr_bounce_is_hot(void)
{
    return is_hot;
}

void nxr_bounce_serve_stop(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&served)) != NULL) {
        struct served_buffer *served_by = nxr_list_entry(link, struct served_buffer, link);

        nxr_memory_host_free(served_by->buffer, served_by->mapped_nbytes);
        free(served_by);
    }
    guard = NULL;
}
