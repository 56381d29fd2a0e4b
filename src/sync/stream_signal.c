/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals in the order of a CUDA stream of the user's. A signal is a word that the GPU writes after
 * the stream's earlier work, followed by a host function, which wakes a target that sleeps.
 *
 * Lock: calls_lock guards the list of host functions that were queued and have not run. What they
 * would touch is gone after the last finalize, which detaches them from it.
 */
#include "config.h"

#include "core/subsystem.h"
#include "memory/memory.h"
#include "sync/notify.h"
#include "sync/stream_signal.h"
#include "transfer/stream.h"
#include "transfer/transfer.h"
#include "util/env.h"
#include "util/status.h"
#include "core/wait.h"

#include <pthread.h>
#include <stdlib.h>

/* A signal that a stream is going to raise. */
struct raise {
    struct nxr_list link;
    struct nxr_segment *segment; /* NULL: the library was finalized meanwhile */
    nxr_inflight_word *hold;
};

static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list raises = {&raises, &raises};

/* ---- raising --------------------------------------------------------------------------------- */

/* Call with calls_lock held. */
static void raise_let_go(struct raise *raise)
{
    nxr_inflight_release(raise->hold);
    atomic_fetch_sub_explicit(&raise->segment->n_copies, 1, memory_order_release);
    nxr_list_remove(&raise->link);
    raise->segment = NULL;
}

/* Runs in the driver's thread, after the write: the word is there. */
static void raised(void *argument)
{
    struct raise *raise = argument;

    pthread_mutex_lock(&calls_lock);
    if (raise->segment != NULL) {
        nxr_wake_peer(raise->segment->peer);
        raise_let_go(raise);
    }
    pthread_mutex_unlock(&calls_lock);
    free(raise);
}

/* Keep the segment open, here and at its owner, until the stream has written the word. */
static struct raise *raise_begin(struct nxr_segment *segment, int *status_p)
{
    struct raise *raise = malloc(sizeof(*raise));

    *status_p = NIXL_E_NO_MEMORY;
    if (raise == NULL) {
        return NULL;
    }
    atomic_fetch_add(&segment->n_copies, 1);
    *status_p = nxr_inflight_hold(segment, &raise->hold);
    if (*status_p != NIXL_OK) {
        atomic_fetch_sub(&segment->n_copies, 1);
        free(raise);
        return NULL;
    }
    raise->segment = segment;
    pthread_mutex_lock(&calls_lock);
    nxr_list_append(&raises, &raise->link);
    pthread_mutex_unlock(&calls_lock);
    return raise;
}

static void raise_undo(struct raise *raise)
{
    pthread_mutex_lock(&calls_lock);
    raise_let_go(raise);
    pthread_mutex_unlock(&calls_lock);
    free(raise);
}

/*
 * The address where the stream writes the word, reachable by the GPU. NULL: the GPU cannot reach
 * it.
 */
static void *raised_word_of(struct nxr_segment *segment, uint64_t offset,
                            const struct nxr_memory_kind *kind)
{
    if (segment->method == NXR_METHOD_DEVICE) {
        const struct nxr_range *range = nxr_range_find(segment->addr);

        return nxr_range_kind(range) == kind->kind ? segment->addr + offset : NULL;
    }
    if (segment->method != NXR_METHOD_MEMCPY) {
        return NULL;
    }
    kind->pin(segment->addr,
              segment->mapped_nbytes != 0 ? segment->mapped_nbytes : segment->nbytes);
    return segment->addr + offset;
}

static int fail_stream(const char *operation, int rank, int status, const char *why)
{
    return nxr_fail(status, operation, rank, "", 0, "%s", why);
}

int nxr_stream_signal(const char *operation, int rank, struct nixl_region *region,
                      const struct nxr_atomic *atomic, void *stream)
{
    const uint64_t value = atomic->operand;
    uint64_t offset = atomic->offset;
    const struct nxr_memory_kind *kind = nxr_memory_stream_kind();
    struct nxr_segment *segment;
    struct raise *raise;
    char why[160];
    void *word;
    int status = nxr_transfer_find_segment(operation, rank, region, NIXL_ACCESS_NO_PUT, &offset,
                                           sizeof(value), &segment);

    if (status != NIXL_OK) {
        return status;
    }
    if (atomic->op != NIXL_ATOMIC_SET) {
        return fail_stream(operation, rank, NIXL_E_UNSUPPORTED,
                           "a stream can only set a signal: use NIXL_SIGNAL_SET");
    }
    if ((segment->key.addr + offset) % sizeof(value) != 0) {
        return fail_stream(operation, rank, NIXL_E_INVALID_ARG,
                           "the signal is not aligned to its 8 bytes");
    }
    raise = raise_begin(segment, &status);
    if (raise == NULL) {
        return nxr_transfer_fail(operation, status, region, segment);
    }
    word = raised_word_of(segment, offset, kind);
    if (word == NULL) {
        raise_undo(raise);
        return fail_stream(operation, rank, NIXL_E_UNSUPPORTED,
                           "the GPU does not reach that segment: synchronise the stream and use "
                           "nixl_signal_set()");
    }
    status = kind->streams->write(nxr_stream_of(stream), word, value, why, sizeof(why));
    if (status != NIXL_OK) {
        raise_undo(raise);
        return fail_stream(operation, rank, status, why);
    }
    status = kind->streams->call(nxr_stream_of(stream), raised, raise, why, sizeof(why));
    /* The word will be written in any case: it can be neither taken back nor released early. */
    return status == NIXL_OK ? status : fail_stream(operation, rank, status, why);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Words in host regions must be pinned for the GPU. False: it is in no region of this rank. */
static bool is_reachable(const uint64_t *word, const struct nxr_memory_kind *kind)
{
    struct nxr_memory memory;

    if (nxr_range_kind(nxr_range_find(word)) == kind->kind) {
        return true;
    }
    if (!nxr_region_own_memory(word, &memory) || memory.kind != &nxr_memory_host) {
        return false;
    }
    kind->pin(memory.addr, memory.mapped_nbytes != 0 ? memory.mapped_nbytes : memory.nbytes);
    return true;
}

int nxr_stream_wait(const char *operation, const uint64_t *word, enum nixl_compare compare,
                    uint64_t value, void *stream)
{
    const struct nxr_memory_kind *kind = nxr_memory_stream_kind();
    char why[160];
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (word == NULL || (uintptr_t)word % sizeof(*word) != 0) {
        return fail_stream(operation, -1, NIXL_E_INVALID_ARG,
                           "the word is NULL or not aligned to 8 bytes");
    }
    if (compare != NIXL_COMPARE_EQ && compare != NIXL_COMPARE_GE) {
        return fail_stream(operation, -1, NIXL_E_INVALID_ARG,
                           "a stream compares by NIXL_COMPARE_EQ or NIXL_COMPARE_GE only");
    }
    status = kind->start(why, sizeof(why));
    if (status != NIXL_OK) {
        return fail_stream(operation, -1, NIXL_E_UNSUPPORTED, why);
    }
    if (!is_reachable(word, kind)) {
        return fail_stream(operation, -1, NIXL_E_INVALID_ARG,
                           "the word is in no host or CUDA region of this rank");
    }
    status = kind->streams->wait(nxr_stream_of(stream), word, value, compare == NIXL_COMPARE_EQ,
                                 why, sizeof(why));
    return status == NIXL_OK ? status : fail_stream(operation, -1, status, why);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Closing regions has waited for the signals; functions that run late must not touch anything. */
static void raises_leave(void)
{
    pthread_mutex_lock(&calls_lock);
    while (!nxr_list_is_empty(&raises)) {
        raise_let_go(nxr_list_entry(raises.next, struct raise, link));
    }
    pthread_mutex_unlock(&calls_lock);
}

const struct nxr_subsystem nxr_stream_signal_subsystem = {
    .name = "stream signals",
    .quiesce = raises_leave,
};
