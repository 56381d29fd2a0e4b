/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads do while they wait or test: poll networks, do what peers ask for, help to copy. The
 * provider of such work sets a flag here when there is something to do, and the work is called
 * through a table, so that a wait with nothing to do makes no calls. The table is set once
 * (init.c), before anything else runs.
 */
#ifndef NXR_CORE_POLL_H
#define NXR_CORE_POLL_H

#include "core/job.h"
#include "util/symbol.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- flags, each written by its owner -------------------------------------------------------- */

/*
 * Networks are open: nothing arrives unless this process polls them. Constant between init and
 * finalize.
 */
extern NXR_HIDDEN atomic_bool nxr_net_is_open;

/*
 * User threads poll the networks. Otherwise the service thread does, and must be kicked after
 * anything that no descriptor signals.
 */
extern NXR_HIDDEN atomic_bool nxr_net_is_polled;

/*
 * Valid while nxr_n_at_networks > 0: the time until which large puts and gets of this process are
 * expected to keep the networks busy. Networks report an operation only when it ends.
 */
extern NXR_HIDDEN _Atomic int64_t nxr_net_expected_end;

/* Has a peer ever asked for words? Then waits announce from their first check on that they poll. */
extern NXR_HIDDEN atomic_bool nxr_atomics_are_used;

/* Operations and transfers that have bytes left to copy. */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_to_copy;

/* Operations that the copy thread has; no other thread needs to drive them. */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_at_copy_thread;

/* ---- the work -------------------------------------------------------------------------------- */

struct nxr_pollers {
    /*
     * Poll the networks, which are open; `now` is what nxr_now_ns() returned. Has anything moved?
     */
    bool (*net)(int64_t now);

    /*
     * Do what peers ask for: change the words that control->atomics_asked announces, and connect
     * the ranks that control->announced tells of. Takes job.lock. Has anything been done?
     */
    bool (*asked)(void);

    /*
     * Copy for a while on a thread that waits. False: there is nothing to copy. The first call
     * makes the thread a helper; the caller ends that with copy_end() before it continues or
     * sleeps.
     */
    bool (*copy)(bool *is_helper_p);
    void (*copy_end)(void);

    /* Copy a little on a thread that only tests for completion. */
    void (*copy_briefly)(void);
};
extern NXR_HIDDEN struct nxr_pollers nxr_pollers;

static inline bool nxr_poll_asked(void)
{
    const struct nxr_control *control = nxr_job.control;

    return __builtin_expect((atomic_load_explicit(&control->atomics_asked, memory_order_relaxed) |
                             atomic_load_explicit(&control->announced, memory_order_relaxed)) != 0,
                            0) &&
           nxr_pollers.asked();
}

/* The calling thread calls nxr_poll_asked() repeatedly between these two calls. */
static inline void nxr_poll_asked_begin(void)
{
    atomic_fetch_add(&nxr_job.control->n_pollers, 1);
}

static inline void nxr_poll_asked_end(void)
{
    atomic_fetch_sub(&nxr_job.control->n_pollers, 1);
    nxr_fence_full();
    nxr_poll_asked();
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
