/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Referrals: a process becomes known to a rank of a job that a rank of its own job, or it itself,
 * is attached to. Its card goes to that rank, and the rank's card comes back, over connections that
 * have proved themselves:
 *     the process -> a rank of its job that is attached -> a rank of the other job -> that rank
 * where the second and the third are left out if they are an end. Each passes on the cards of its
 * own job only, so nobody can vouch for a third job. From then on the two know each other as after
 * an introduction, and connect with the secrets of both cards. So the cost follows the ranks that
 * are used. Caller holds job.lock.
 */
#ifndef NXR_ATTACH_REFERRAL_H
#define NXR_ATTACH_REFERRAL_H

#include "attach/attach.h"
#include "control/wire.h"

/* Fill in the question by which this process asks to be made known to that rank of that job. */
void nxr_referral_make(union nxr_wire_message *message, uint64_t job, int job_rank);

/*
 * A process of that job that this one is attached to, is connected with, and has told the program
 * of; NULL: there is none.
 */
struct nxr_peer *nxr_referral_contact(uint64_t job);

#endif
