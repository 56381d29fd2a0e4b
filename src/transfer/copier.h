/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy thread: large copies between memories of this host, beside the caller.
 *
 * What a transport would copy within its call takes as long as the bytes do. A call that only
 * starts an operation copies up to NXR_AT_ONCE_NBYTES itself, or what the first bytes show to be
 * copied within some 15 us, and leaves the rest to one thread, which is made when first needed and
 * ends in the last nixl_finalize(). Operations are cut into pieces. User threads that wait take
 * pieces, too, so that starting and waiting is not slower than a blocking call; where no core is
 * free for the copy thread, it takes none meanwhile. A piece holds its part by an in-flight
 * reference while it is copied, as every copy does; the operation keeps the part mapped until it
 * ends.
 *
 * The transports of this host start and cancel operations by nxr_host_paths.
 *
 * Prepared transfers that have more to copy than a start may are driven by the same thread, turn by
 * turn (xfer_run.c).
 */
#ifndef NXR_TRANSFER_COPIER_H
#define NXR_TRANSFER_COPIER_H

#include "transports/transport.h"

/* What a call that does not wait copies by itself in any case: about 10 us. */
#define NXR_AT_ONCE_NBYTES (128ul << 10)

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

/*
 * Copy within the call that starts an operation, as much as does not take long: op->nbytes_done
 * grows. False: start the rest, which also reports a failure.
 */
bool nxr_copier_begin(struct nxr_op *op);

/* Is there a copy thread? Makes it. False: the caller has to do without. Any thread. */
bool nxr_copier_is_there(void);

/* There is something to copy: the thread has to look. Any thread. */
void nxr_copier_kick(void);

/* What threads that wait, or look, do for the copy thread: slots of nxr_pollers (core/poll.h). */
bool nxr_copier_help_now(bool *is_helper_p);
void nxr_copier_help_ends(void);
void nxr_copier_look(void);

/* The thread will run where the caller of nixl_init() may run, whoever makes it. */
void nxr_copier_init(void);

/* The last finalize: cancel what is left, and end the thread. Without locks. */
void nxr_copier_stop(void);

/*
 * Copy about that many bytes of prepared transfers; false: none is there. Set by xfer before
 * anything starts; the copy thread and the threads that help it call it.
 */
extern bool (*nxr_copier_copy_lists)(uint64_t nbytes);

/* As nxr_host_paths (transports/transport.h) has them. */
int nxr_host_copy_start(struct nxr_op *op);
int nxr_host_copy_cancel(struct nxr_op *op);

extern const struct nxr_subsystem nxr_copier_subsystem;

#endif
