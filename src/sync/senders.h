/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether anybody is left who could send to this process, or raise a signal of it. In elastic jobs
 * ranks leave one by one, and a wait looks at once. In others it hears of each loss, and the
 * program counts; but ranks in nixl_finalize() stay until all have called it, so a wait asks them.
 */
#ifndef NXR_SYNC_SENDERS_H
#define NXR_SYNC_SENDERS_H

#include "region/leaving.h"
#include "util/symbol.h"

#include <stdatomic.h>
#include <stdbool.h>

extern NXR_HIDDEN atomic_bool nxr_senders_gone; /* written under job.lock */

/* Is it an elastic job in which all other ranks and attached processes are gone? Any thread. */
static inline bool nxr_senders_are_gone(void)
{
    return atomic_load_explicit(&nxr_senders_gone, memory_order_acquire);
}

/* The words of the error. */
#define NXR_SENDERS_LEAVE "all other ranks that live have called nixl_finalize()"

/*
 * The caller has waited in vain for something that any process may do. True: all others are in
 * nixl_finalize() or lost, nobody is attached or can attach to this process, and it has never sent
 * anything to itself, as another thread of it could. What they have done is visible then. Takes
 * job.lock.
 */
bool nxr_senders_never_come(struct nxr_leaving_all *leaving);

/* A peer has ended, has been replaced or is connected. Caller holds job.lock. */
void nxr_senders_look(void);

/* The last finalize. */
void nxr_senders_reset(void);

#endif
