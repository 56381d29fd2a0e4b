/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that only their owner can reach with processor atomics: registered memory of a same-host
 * peer. The owner's service thread changes the word, so that all accesses share one domain. So are
 * words in device memory (device_word.h), also those of this rank itself.
 */
#ifndef NXR_HOST_WORD_ASK_H
#define NXR_HOST_WORD_ASK_H

#include "host/wire.h"

struct nxr_conn;

/*
 * Ask the owner of a part and wait for the answer, at most NIXLRUN_OP_TIMEOUT. NIXL_OK and the
 * value from before; NIXL_ERR_STALE, NIXL_ERR_RANGE, NIXL_ERR_PEER_LOST; NIXL_ERR_TIMEOUT or
 * NIXL_ERR_TRANSPORT: whether it was done is unknown.
 */
int nxr_word_ask(struct nxr_part *part, const struct nxr_atomic *atomic, bool is_signal,
                 uint64_t *fetched_p);

/* The owner's side, and the answer. Caller holds job.lock. */
void nxr_word_asked(struct nxr_conn *conn, const struct nxr_wire_word *message);
void nxr_word_answered(struct nxr_peer *peer, const struct nxr_wire_word_done *message);

/* No answers will come from that peer: `status` says why. Caller holds job.lock. */
void nxr_word_end_asks(struct nxr_peer *peer, int status);

#endif
