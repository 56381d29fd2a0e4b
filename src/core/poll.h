/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads that wait or look do meanwhile: poll networks, change words that peers ask for, help
 * to copy. Who does it sets a flag here when there is something to do; the work goes through a
 * table, so that a wait with nothing to do calls nobody. The table is set once (init.c), before
 * anything else runs.
 */
#ifndef NXR_CORE_POLL_H
#define NXR_CORE_POLL_H

#include "core/job.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- flags, each written by its owner -------------------------------------------------------- */

/*
 * Networks are open: something comes only if this process looks after them. Constant between init
 * and finalize.
 */
extern atomic_bool nxr_net_is_open;

/*
 * Threads of the user look after the networks. Else the service thread does, and is to be kicked
 * behind what no descriptor tells of.
 */
extern atomic_bool nxr_net_is_polled;

/*
 * While nxr_n_at_networks > 0: until when large puts and gets of this process should keep the
 * networks moving. Networks tell of an operation when it ends, not on the way.
 */
extern _Atomic int64_t nxr_net_expected_end;

/*
 * Has a peer asked for words before? Then waits say from their first look on that they are there.
 */
extern atomic_bool nxr_words_are_used;

/* Operations and transfers that have bytes left to copy. */
extern _Atomic uint32_t nxr_n_to_copy;

/* Operations that the copy thread has: nobody else needs to drive them. */
extern _Atomic uint32_t nxr_n_at_copier;

/* ---- the work -------------------------------------------------------------------------------- */

struct nxr_pollers {
    /* Look after networks, which are open; `now` is what nxr_now_ns() tells. Has anything moved? */
    bool (*net)(int64_t now);

    /* Change the words that control->words_asked tells of. Has anything been done? */
    bool (*words)(void);

    /*
     * Copy for a while on a thread that waits. False: there is nothing to copy. The first call
     * makes the thread a helper; the caller ends that by copy_end() before it goes on or sleeps.
     */
    bool (*copy)(bool *is_helper_p);
    void (*copy_end)(void);

    /* Copy a little on a thread that looks whether something is over, and goes on. */
    void (*copy_briefly)(void);
};
extern struct nxr_pollers nxr_pollers;

static inline bool nxr_poll_words(void)
{
    return __builtin_expect(
               atomic_load_explicit(&nxr_job.control->words_asked, memory_order_relaxed) != 0, 0) &&
           nxr_pollers.words();
}

/* The calling thread calls nxr_poll_words() again and again, until the end. */
static inline void nxr_poll_words_begin(void)
{
    atomic_fetch_add(&nxr_job.control->n_pollers, 1);
}

static inline void nxr_poll_words_end(void)
{
    atomic_fetch_sub(&nxr_job.control->n_pollers, 1);
    nxr_fence_full();
    nxr_poll_words();
}

static inline bool nxr_poll_has_copies(void)
{
    return __builtin_expect(atomic_load_explicit(&nxr_n_to_copy, memory_order_relaxed) != 0, 0);
}

static inline bool nxr_poll_copy(bool *is_helper_p)
{
    return nxr_poll_has_copies() && nxr_pollers.copy(is_helper_p);
}

static inline void nxr_poll_copy_briefly(void)
{
    if (nxr_poll_has_copies()) {
        nxr_pollers.copy_briefly();
    }
}

#endif
