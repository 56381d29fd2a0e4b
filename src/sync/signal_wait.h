/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait for signals, between what waits (signal_wait.c) and what it says of itself (signal_say.c).
 * It belongs to the thread that waits; observers read it through the record that this one fills in.
 */
#ifndef NXR_SYNC_SIGNAL_WAIT_H
#define NXR_SYNC_SIGNAL_WAIT_H

#include "core/job.h"
#include "core/wait.h"
#include "region/leaving.h"

struct nxr_signal_wait {
    const char *operation;
    const uint64_t *const *words; /* where they lie; NULL: at `base`, `stride` bytes apart */
    const char *base;
    size_t stride;
    size_t n_words;
    enum nixl_type type;
    enum nixl_compare compare;
    uint64_t value; /* its bits */
    size_t index;
    uint64_t seen; /* its bits */
    const struct nxr_peer
        *awaited;               /* the only peer whose loss ends the wait; NULL: any loss, once */
    struct nxr_leaving leaving; /* of `awaited` */
    struct nxr_leaving_all leaving_all; /* of all, if there is none */
    bool is_lost;                       /* a rank has died, and no signal was found */
    bool is_in_vain;                    /* those that could raise it are in nixl_finalize() */
};

static inline const void *nxr_signal_word(const struct nxr_signal_wait *wait, size_t i)
{
    return wait->words != NULL ? (const void *)wait->words[i] : wait->base + i * wait->stride;
}

/* Acquire: pairs with the signal's atomic, which follows the put of the data. */
static inline uint64_t nxr_signal_load(const void *word, enum nixl_type type)
{
    return nxr_type_nbytes(type) == sizeof(uint64_t)
               ? atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_acquire)
               : atomic_load_explicit((const _Atomic uint32_t *)word, memory_order_acquire);
}

/* Fill in the record of a wait; `about` is the wait. */
void nxr_signal_describe(const void *about, struct nxr_wait_record *record);

/*
 * Record that the wait ends for the loss of a rank: it may be the one that would have raised the
 * signal. Returns NIXL_E_PEER_LOST.
 */
int nxr_signal_fail_lost(const char *operation, const struct nxr_signal_wait *wait, int rank);

/* The same, since those that could raise it have called nixl_finalize(). */
int nxr_signal_fail_in_vain(const char *operation, const struct nxr_signal_wait *wait);

/* Record that it timed out, or that a word in device memory cannot be read. Returns `status`. */
int nxr_signal_fail_wait(const char *operation, int status, const struct nxr_signal_wait *wait,
                         int64_t timeout_ns);

#endif
