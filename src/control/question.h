/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that another rank's service thread answers at once, whatever its program does. A
 * question is a message with a number; its answer has the same number and the next type. Lock:
 * job.lock guards the list of questions; the wait for the answer does not hold it.
 */
#ifndef NXR_CONTROL_QUESTION_H
#define NXR_CONTROL_QUESTION_H

#include "core/job.h"

union nxr_wire_message;

/*
 * Connect to a peer, send it *message, which is a struct nxr_wire_question, and wait for the
 * answer. NIXL_OK: *message is the answer. NIXL_E_PEER_LOST; NIXL_E_UNSUPPORTED: no transport
 * reaches it; NIXL_E_TIMEOUT, or NIXL_INPROGRESS if timeout_ns is 0. Any thread, without
 * job.lock.
 */
int nxr_question_ask(struct nxr_peer *peer, union nxr_wire_message *message, int64_t timeout_ns);

/* The same for a public call that nixl_question_cancel() may end: NIXL_E_CANCELED. */
int nxr_question_ask_openly(struct nxr_peer *peer, union nxr_wire_message *message,
                            int64_t timeout_ns);

/*
 * An answer has come: the handler of its type, unless that has one of its own, which passes on what
 * is not its own. Numbers of questions are below NXR_QUESTION_OTHERS. Caller holds job.lock.
 */
#define NXR_QUESTION_OTHERS (UINT64_C(1) << 63)
struct nxr_control_source;
void nxr_question_answered(const struct nxr_control_source *source,
                           const union nxr_wire_message *answer);

/* The peer has died: end its questions with NIXL_E_PEER_LOST. Caller holds job.lock. */
void nxr_questions_end(struct nxr_peer *peer);

extern const struct nxr_subsystem nxr_question_subsystem;

#endif
