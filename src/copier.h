/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy thread: large copies between memories of this host, beside the caller.
 *
 * What a transport would copy within its call takes as long as the bytes do. A call that only
 * starts an operation copies up to NXR_AT_ONCE_NBYTES itself and leaves the rest to one thread,
 * which is made when first needed and ends in the last nixl_finalize(). Operations are cut into
 * pieces; user threads that wait take pieces, too, so that starting and waiting is not slower than
 * a blocking call. A piece holds its part by an in-flight reference while it is copied, as every
 * copy does; the operation keeps the part mapped until it ends.
 *
 * The transports of this host start and cancel operations by nxr_host_copy_start() and
 * nxr_host_copy_cancel() (transports/transport.h).
 *
 * Prepared transfers that have more to copy than a start may are driven by the same thread, turn by
 * turn (xfer_run.c).
 */
#ifndef NXR_COPIER_H
#define NXR_COPIER_H

#include "transports/transport.h"

/* What a call that does not wait copies by itself: about 10 us. */
#define NXR_AT_ONCE_NBYTES (128ul << 10)

/* Operations and transfers that have bytes left to copy. */
extern _Atomic uint32_t nxr_n_to_copy;

/* Operations that the copy thread has: nobody else needs to drive them. */
extern _Atomic uint32_t nxr_n_at_copier;

/* Does its transport copy to and from the part within its call, however long that takes? */
static inline bool nxr_copier_reaches(const struct nxr_part *part)
{
    return part->method == NXR_METHOD_MEMCPY || part->method == NXR_METHOD_PROCESS_VM;
}

/* Is the operation, which its transport could do at once, better started? */
static inline bool nxr_copier_takes(const struct nxr_op *op)
{
    return op->nbytes > NXR_AT_ONCE_NBYTES && nxr_copier_reaches(op->part);
}

/* Is there a copy thread? Makes it. False: the caller has to do without. Any thread. */
bool nxr_copier_is_there(void);

/* There is something to copy: the thread has to look. Any thread. */
void nxr_copier_kick(void);

/* Copy a piece of at most so many bytes, or take a turn of a transfer. False: there is nothing. */
bool nxr_copier_help_with(size_t max_nbytes);

/* For threads that wait. */
#define NXR_HELP_NBYTES (512ul << 10)
static inline bool nxr_copier_help(void)
{
    return __builtin_expect(atomic_load_explicit(&nxr_n_to_copy, memory_order_relaxed) != 0, 0) &&
           nxr_copier_help_with(NXR_HELP_NBYTES);
}

/* For threads that look whether something is over, and go on. */
#define NXR_LOOK_NBYTES (64ul << 10)
static inline void nxr_copier_help_briefly(void)
{
    if (atomic_load_explicit(&nxr_n_to_copy, memory_order_relaxed) != 0) {
        nxr_copier_help_with(NXR_LOOK_NBYTES);
    }
}

/* The thread will run where the caller of nixl_init() may run, whoever makes it. */
void nxr_copier_init(void);

/* The last finalize: cancel what is left, and end the thread. Without locks. */
void nxr_copier_stop(void);

#endif
