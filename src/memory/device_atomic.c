/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of changes to words in device memory. One change is in progress at a time, in three
 * steps: copy the word out, change it, copy it back. What makes storage durable changes nothing,
 * takes long, and holds up no other. Lock: device_atomic_lock, innermost.
 */
#include "config.h"

#include "memory/device_atomic.h"
#include "core/subsystem.h"
#include "core/wait.h"

#include <pthread.h>

_Atomic uint64_t nxr_device_n_changes;

static pthread_mutex_t device_atomic_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list device_atomic_queue = {&device_atomic_queue, &device_atomic_queue};
static bool is_busy; /* a change is in progress */
static atomic_bool has_queue;

static void device_atomic_copy_ended(struct nxr_device_copy *copy, int status);

void nxr_device_atomic_add(struct nxr_device_atomic *word)
{
    pthread_mutex_lock(&device_atomic_lock);
    nxr_list_append(&device_atomic_queue, &word->link);
    atomic_store_explicit(&has_queue, true, memory_order_release);
    pthread_mutex_unlock(&device_atomic_lock);
}

static bool device_atomic_is_sync(const struct nxr_device_atomic *word)
{
    return word->atomic.op == NXR_ATOMIC_SYNC;
}

static int device_atomic_begin_sync(struct nxr_device_atomic *word)
{
    word->copy = (struct nxr_device_copy){
        .dst = word->range, .is_sync = true, .ended = device_atomic_copy_ended};
    return nxr_device_copy_begin(&word->copy);
}

static int device_atomic_begin_copy(struct nxr_device_atomic *word, bool is_storing)
{
    size_t nbytes = nxr_atomic_nbytes(&word->atomic);

    word->is_storing = is_storing;
    word->piece = is_storing ? (struct nxr_device_piece){word->addr, &word->value, nbytes}
                             : (struct nxr_device_piece){&word->value, word->addr, nbytes};
    word->copy = (struct nxr_device_copy){.pieces = &word->piece,
                                          .n_pieces = 1,
                                          .dst = is_storing ? word->range : NULL,
                                          .src = is_storing ? NULL : word->range,
                                          .ended = device_atomic_copy_ended};
    return nxr_device_copy_begin(&word->copy);
}

/* The word has arrived: change it, and copy it back unless it stays the same. */
static int device_atomic_change(struct nxr_device_atomic *word)
{
    uint64_t before = word->value;

    word->fetched = nxr_atomic_apply(&word->value, &word->atomic);
    return word->value != before ? device_atomic_begin_copy(word, true) : NIXL_OK;
}

static void device_atomic_finish(struct nxr_device_atomic *word, int status)
{
    pthread_mutex_lock(&device_atomic_lock);
    is_busy = is_busy && device_atomic_is_sync(word);
    pthread_mutex_unlock(&device_atomic_lock);
    atomic_fetch_add(&nxr_device_n_changes, 1);
    word->ended(word, status);
    nxr_wake_self();
}

static void device_atomic_copy_ended(struct nxr_device_copy *copy, int status)
{
    struct nxr_device_atomic *word = nxr_list_entry(copy, struct nxr_device_atomic, copy);

    if (status == NIXL_OK && !word->is_storing && !device_atomic_is_sync(word)) {
        status = device_atomic_change(word);
    }
    if (status != NIXL_INPROGRESS) {
        device_atomic_finish(word, status);
        nxr_device_atomics_run();
    }
}

static struct nxr_device_atomic *next_word(void)
{
    struct nxr_list *link = NULL;

    pthread_mutex_lock(&device_atomic_lock);
    if (!is_busy) {
        link = nxr_list_pop(&device_atomic_queue);
        is_busy = link != NULL &&
                  !device_atomic_is_sync(nxr_list_entry(link, struct nxr_device_atomic, link));
    }
    atomic_store_explicit(&has_queue, !nxr_list_is_empty(&device_atomic_queue),
                          memory_order_relaxed);
    pthread_mutex_unlock(&device_atomic_lock);
    return link != NULL ? nxr_list_entry(link, struct nxr_device_atomic, link) : NULL;
}

void nxr_device_atomics_run(void)
{
    struct nxr_device_atomic *word;

    while (atomic_load_explicit(&has_queue, memory_order_acquire) && (word = next_word()) != NULL) {
        int status;

        word->value = 0;
        if (device_atomic_is_sync(word)) {
            status = device_atomic_begin_sync(word);
        } else {
            status = device_atomic_begin_copy(word, false);
            status = status == NIXL_OK ? device_atomic_change(word) : status;
        }
        if (status != NIXL_INPROGRESS) {
            device_atomic_finish(word, status);
        }
    }
}

const struct nxr_subsystem nxr_device_atomics_subsystem = {
    .name = "device words",
    .serve = nxr_device_atomics_run,
};
