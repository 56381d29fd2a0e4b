/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driving what takes time: operations that transports have accepted. Waiting threads call this
 * while they spin, the service thread while anything is pending. Free when nothing is.
 */
#ifndef NXR_PROGRESS_H
#define NXR_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Operations that transports have accepted and not ended. */
extern _Atomic uint32_t nxr_n_started;

/*
 * Rounds that waiting threads of the user have driven: while it grows, the service thread need not.
 */
extern _Atomic uint32_t nxr_n_user_rounds;

/*
 * Look after all transports once; never blocks. Has anything moved? Any thread, without job.lock.
 */
bool nxr_progress_all(void);

static inline bool nxr_progress(void)
{
    return __builtin_expect(atomic_load_explicit(&nxr_n_started, memory_order_relaxed) != 0, 0) &&
           nxr_progress_all();
}

#endif
