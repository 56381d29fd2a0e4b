/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether anybody is left who could send to this process. Asked only in elastic jobs: in others a
 * wait for any rank hears of each loss, and the program counts.
 */
#ifndef NXR_SYNC_SENDERS_H
#define NXR_SYNC_SENDERS_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool nxr_senders_gone; /* written under job.lock */

/* Is it an elastic job in which all other ranks and attached processes are gone? Any thread. */
static inline bool nxr_senders_are_gone(void)
{
    return atomic_load_explicit(&nxr_senders_gone, memory_order_acquire);
}

/* A peer has ended, has been replaced or is connected. Caller holds job.lock. */
void nxr_senders_look(void);

/* The last finalize. */
void nxr_senders_reset(void);

#endif
