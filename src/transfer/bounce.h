/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounce buffer: the path to registered memory of a peer on this host if the kernel forbids
 * process_vm calls. The initiator creates it at first use: a sealed memfd with a few chunks, one
 * for each (initiator, owner) pair. The owner's service thread copies between the chunks and its
 * region, so the owner's user threads are free to compute. Both sides use the chunks in turn:
 *     FREE -> POSTED (initiator: a put's bytes are in it, or a get's are wanted) -> SERVING (owner)
 *          -> DONE (owner) -> FREE (initiator, after it took status and bytes)
 *     POSTED -> REVOKED (initiator cancels) -> DONE (owner, untouched)
 * Each step is an atomic exchange or release store that pairs with the other side's acquire load.
 *
 * The owner's side runs on the service thread.
 */
#ifndef NXR_TRANSFER_BOUNCE_H
#define NXR_TRANSFER_BOUNCE_H

#include <stdbool.h>
#include <stdint.h>

struct nxr_op;

/* Register what takes the messages of initiators. */
void nxr_bounce_register(void);

/* Serve posted chunks, and poll a while longer for more. Service thread, no lock. */
void nxr_bounce_serve(void);

/* Did serving stop only to let the service thread do other work? */
bool nxr_bounce_is_hot(void);
void nxr_bounce_serve_stop(void);

/* The service thread has ended: wait for copies of device memory. Without job.lock. */
void nxr_bounce_serve_end(void);

/*
 * When the service thread must next drive own operations, in case the user does not. Caller holds
 * job.lock.
 */
int64_t nxr_bounce_tick(int64_t now);

/* Unmap everything; nobody uses it any more. Caller holds job.lock. */
void nxr_bounce_stop(void);

/* The initiator's side, as nxr_host_paths (transports/transport.h) has it. */
int nxr_host_bounce_start(struct nxr_op *op);
int nxr_host_bounce_cancel(struct nxr_op *op);
int nxr_host_bounce_progress(void);

extern const struct nxr_subsystem nxr_bounce_subsystem;

#endif
