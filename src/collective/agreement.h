/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreements: all living members of a team call come to the same verdict, whichever members die
 * meanwhile.
 *
 * Each member has a register for the call: the verdict at its team rank. The first value that is
 * written into a register stays. There are two ways to a verdict:
 *   - No failure: the member at team rank 0 has heard from all that the team is ready. It writes
 *     NIXL_OK into its register and sends the verdict along the tree; each member that gets it
 *     writes it into its own register. A member that succeeds with that has the
 *     verdict.
 *   - A failure or a death: a member visits the registers of all living members in the order of
 *     their team ranks, its own included, and proposes to each the value that it has found in the
 *     last one, at first its own failure. The value of the last register is the verdict.
 * All visitors see the living members in the same order, so after the first member that survives to
 * the end, all carry the same value. And if a living member has NIXL_OK in its own register, all
 * visitors adopt NIXL_OK there; so that member has the verdict, whichever way was taken. A member
 * that has returned from the call answers by its service thread: registers outlive calls.
 */
#ifndef NXR_COLLECTIVE_AGREEMENT_H
#define NXR_COLLECTIVE_AGREEMENT_H

#include "control/wire.h"
#include "core/job.h"

/* Write a verdict into this process's register for a call. Returns what the register now holds. */
struct nxr_verdict nxr_agreement_write(uint64_t call, const struct nxr_verdict *verdict);

/* Does this process's register have a verdict on a call? */
bool nxr_agreement_is_written(uint64_t call);

/*
 * Processes of other jobs take part in a call: they may visit its register from now on. Members
 * of a team with this process may visit every register, other processes of other jobs no other.
 */
void nxr_agreement_admit(uint64_t call);

/*
 * Visit the registers of all these ranks with a proposal. NIXL_OK: *verdict_p, which is the
 * proposal at first, is the verdict. NIXL_E_CANCELED: this rank is leaving the job before there is
 * one. Unless the deadline is 0, a rank that does not answer within a second after it counts as
 * dead.
 */
int nxr_agreement_visit(uint64_t call, const int *ranks, int size, int64_t deadline,
                        struct nxr_verdict *verdict_p);

/*
 * Register the handler that answers visits of peers. is_with: is that process of another job in a
 * team with this one?
 */
typedef bool nxr_agreement_is_with_fn(const struct nxr_identity *process);
void nxr_agreement_register(nxr_agreement_is_with_fn *is_with);

/* This rank leaves the job: no visit starts, and every wait for members ends. */
void nxr_agreements_set_stopping(bool is_stopping);
bool nxr_agreements_are_stopping(void);

/* Forget all registers (last finalize; the service thread has ended). */
void nxr_agreements_forget(void);

#endif
