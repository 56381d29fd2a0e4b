/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy thread: large copies between memories of this host, in parallel with the caller.
 *
 * A transport that copies within its call returns only when all bytes are copied. So a call that
 * only starts an operation copies up to NXR_AT_ONCE_NBYTES itself, of mapped memory twice as much,
 * or as much as the speed of the first bytes allows in some 15 us. It leaves the rest to one
 * thread, which is created when first needed and ends in the last nixl_finalize(). Operations are
 * cut into pieces. User threads that wait take pieces as well, so that starting and waiting is not
 * slower than a blocking call; if no core is free for the copy thread, it takes none meanwhile; on
 * hosts with many idle cores the crew (copy_crew.h) takes pieces, too. Each piece holds an in-
 * flight reference to its segment while it is copied, as every copy does; the operation keeps the
 * segment mapped until it ends.
 *
 * The transports of this host start and cancel operations by nxr_host_paths.
 *
 * Prepared transfers with more to copy than a start may copy are driven by the same thread, in
 * turns (xfer_run.c).
 */
#ifndef NXR_TRANSFER_COPY_THREAD_H
#define NXR_TRANSFER_COPY_THREAD_H

#include "transports/transport.h"
#include "util/symbol.h"

/* Does the segment's transport copy within its call, however long that takes? */
static inline bool nxr_copy_thread_reaches(const struct nxr_segment *segment)
{
    return segment->method == NXR_METHOD_MEMCPY || segment->method == NXR_METHOD_PROCESS_VM;
}

/* Should the operation be started, although its transport could do it within the call? */
static inline bool nxr_copy_thread_takes(const struct nxr_op *op)
{
    return op->nbytes > NXR_AT_ONCE_NBYTES && nxr_copy_thread_reaches(op->segment);
}

/*
 * In the call that starts an operation, copy as much as does not take long; op->nbytes_done grows.
 * True: all is copied. False: start the rest; this also reports a failure.
 */
bool nxr_copy_thread_begin(struct nxr_op *op);

/*
 * Create the copy thread unless it runs. False: there is none, and the caller must do without. Any
 * thread.
 */
bool nxr_copy_thread_is_there(void);

/* There is something to copy: wake the copy thread. Any thread. */
void nxr_copy_thread_kick(void);

/*
 * What waiting or polling threads do for the copy thread; installed in nxr_pollers (core/poll.h).
 */
bool nxr_copy_thread_help_now(bool *is_helper_p);
void nxr_copy_thread_help_ends(void);
void nxr_copy_thread_look(void);

/*
 * Record the CPUs of the caller of nixl_init(): the copy thread will run on these, whichever
 * thread creates it.
 */
void nxr_copy_thread_init(void);

/* The last finalize: cancel what is left, and stop the thread. Without locks held. */
void nxr_copy_thread_stop(void);

/*
 * Copy about that many bytes of prepared transfers; false: none is there. Set by xfer before
 * anything starts; the copy thread and the threads that help it call it.
 */
extern NXR_HIDDEN bool (*nxr_copy_thread_copy_lists)(uint64_t nbytes);

/* As nxr_host_paths (transports/transport.h) has them. */
int nxr_host_copy_start(struct nxr_op *op);
int nxr_host_copy_cancel(struct nxr_op *op);

extern const struct nxr_subsystem nxr_copy_thread_subsystem;

#endif
