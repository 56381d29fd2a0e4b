/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that only their owner can access with processor atomics: registered memory of a same-host
 * peer, and device memory. The owner's process changes them, so that all accesses share one
 * atomicity domain. Changes are requested through a ring in the owner's control page
 * (atomic_ring.h); atomic_serve.h says which thread of the owner makes them and how it is woken.
 * Puts of words to such memory take the same path.
 *
 * What transports call (put, start, cancel, progress) they have from transports/host_paths.h.
 */
#ifndef NXR_HOST_ATOMIC_ASK_H
#define NXR_HOST_ATOMIC_ASK_H

#include "core/job.h"

/*
 * Ask the owner of a segment and wait for the answer, at most NIXLRUN_OP_TIMEOUT. NIXL_OK and the
 * previous value; NIXL_E_STALE, NIXL_E_RANGE, NIXL_E_NO_MEMORY, NIXL_E_LIMIT.
 * NIXL_E_TIMEOUT: the change was not made, unless the owner had already taken the question and
 * was stopped while making it. NIXL_E_PEER_LOST: whether the change was made is unknown.
 */
int nxr_atomic_ask(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                   uint64_t *fetched_p);

/*
 * The same if a thread of the owner is polling and answers at once. NIXL_E_AGAIN: none does, and
 * nothing has happened.
 */
int nxr_atomic_ask_at_once(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                           uint64_t *fetched_p);

/* Like nxr_atomic_ask(), for a put of a word for which nxr_atomic_serves_put() is true. */
int nxr_atomic_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes);

/*
 * When the service thread must next collect answers that no call waits for. Caller holds job.lock.
 */
int64_t nxr_atomic_tick(int64_t now);

/* Take an attached peer that has ended out of the list of owners. Caller holds job.lock. */
void nxr_atomic_unlink(struct nxr_peer *peer);

/* Is a word asked of that peer, as no thread has been told the end of? Caller holds job.lock. */
bool nxr_atomic_is_asked_by(const struct nxr_peer *peer);

/* Free the state for asking that peer, which no thread asks any more. */
void nxr_atomic_forget(struct nxr_peer *peer);

/* As nxr_host_paths (transports/host_paths.h) has them. */
bool nxr_atomic_serves_put(const struct nxr_segment *segment, uint64_t offset, size_t nbytes);
int nxr_host_atomic_put(struct nxr_segment *segment, uint64_t offset, const void *src,
                        size_t nbytes);
int nxr_host_atomic_start(struct nxr_op *op);
int nxr_host_atomic_cancel(struct nxr_op *op);
int nxr_host_atomic_progress(void);

#endif
