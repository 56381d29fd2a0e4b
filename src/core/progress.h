/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drive operations that transports have accepted. Waiting threads call this while they spin, and
 * the service thread while anything is pending. Costs nothing when nothing is.
 */
#ifndef NXR_CORE_PROGRESS_H
#define NXR_CORE_PROGRESS_H

#include "core/poll.h"
#include "util/clock.h"
#include "util/symbol.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Operations that transports have accepted and not ended. */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_started;

/* Of these, those that networks have: their descriptors signal when there is something to do. */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_at_networks;

/* ... and those that GPUs have: memory/copy.c polls them, or their copies wake this process. */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_at_devices;

/* Are there operations that move only while a thread drives them? */
static inline bool nxr_must_drive(void)
{
    return atomic_load(&nxr_n_started) > atomic_load(&nxr_n_at_networks) +
                                             atomic_load(&nxr_n_at_devices) +
                                             atomic_load(&nxr_n_at_copy_thread);
}

/*
 * Rounds driven by waiting user threads: while this grows, the service thread need not drive any.
 */
extern NXR_HIDDEN _Atomic uint32_t nxr_n_user_rounds;

/*
 * Drive all transports once; never blocks. Has anything moved? Any thread, without job.lock, and
 * not from within itself: what nxr_op_done() calls neither drives nor waits.
 */
bool nxr_progress_all(void);
#ifdef NXR_DEBUG
bool nxr_progress_is_allowed(void); /* for assertions */
#endif

/*
 * The same, and words and networks; `now` is what nxr_now_ns() has just returned, or 0: not read.
 */
static inline bool nxr_progress_at(int64_t now)
{
    bool has_moved = nxr_poll_asked();

    if (__builtin_expect(atomic_load_explicit(&nxr_n_started, memory_order_relaxed) !=
                             atomic_load_explicit(&nxr_n_at_networks, memory_order_relaxed),
                         0)) {
        has_moved |= nxr_progress_all();
    }
    if (__builtin_expect(atomic_load_explicit(&nxr_net_is_open, memory_order_relaxed), 0)) {
        has_moved |= nxr_pollers.net(now != 0 ? now : nxr_now_ns());
    }
    return has_moved;
}

static inline bool nxr_progress(void)
{
    return nxr_progress_at(0);
}

extern const struct nxr_subsystem nxr_transports_subsystem;

#endif
