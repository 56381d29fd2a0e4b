/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounce buffer: the way to registered memory of a peer on this host where the kernel forbids
 * process_vm calls. The initiator makes it at first use, a sealed memfd of a few chunks per
 * (initiator, owner); the owner's service thread copies between chunks and its region, so the
 * owner's user may compute. Chunks are used in turn by both sides:
 *     FREE -> POSTED (initiator: a put's bytes are in it, or a get's are wanted) -> SERVING (owner)
 *          -> DONE (owner) -> FREE (initiator, after it took status and bytes)
 *     POSTED -> REVOKED (initiator cancels) -> DONE (owner, untouched)
 * Each step is an atomic exchange or release store that the other side's acquire load pairs with.
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

/* Serve posted chunks, and a while longer for those that follow. Service thread, no lock. */
void nxr_bounce_serve(void);

/* Did serving stop only to let the service thread look after other things? */
bool nxr_bounce_is_hot(void);
void nxr_bounce_serve_stop(void);

/* The service thread has ended: wait for copies of device memory. Without job.lock. */
void nxr_bounce_serve_end(void);

/* When the service thread has to drive the own operations, should the user not. Holds job.lock. */
int64_t nxr_bounce_tick(int64_t now);

/* Unmap everything; nobody uses it any more. Caller holds job.lock. */
void nxr_bounce_stop(void);

/* The initiator's side, as nxr_host_paths (transports/transport.h) has it. */
int nxr_host_bounce_start(struct nxr_op *op);
int nxr_host_bounce_cancel(struct nxr_op *op);
int nxr_host_bounce_progress(void);

extern const struct nxr_subsystem nxr_bounce_subsystem;

#endif
