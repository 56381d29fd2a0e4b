/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that agree on a team share: saying, and giving up. All callers hold job.lock. */
#ifndef NXR_COLLECTIVE_REFORM_SAY_H
#define NXR_COLLECTIVE_REFORM_SAY_H

#include "collective/reform.h"

/* The attempt of this process in that context; NULL: none. (reform.c) */
struct nxr_reform *nxr_reform_in(uint64_t context);

/*
 * Begin again, as the coordinator: nobody has accepted. Who has withdrawn from an epoch has said so
 * in its register, and cannot be in a team of that epoch any more. (reform.c)
 */
void nxr_reform_new_epoch(struct nxr_reform *reform);

/* Is this process its coordinator? */
static inline bool nxr_reform_is_mine(const struct nxr_reform *reform)
{
    return reform->me == reform->coordinator;
}

/* Wake the caller. Any thread, with or without the lock. */
void nxr_reform_news(struct nxr_reform *reform);

/* A message with what the attempt has. */
union nxr_wire_message nxr_reform_message(const struct nxr_reform *reform,
                                          enum nxr_reform_step step);

/* Send to a peer, or to a member, if it can be reached; if not, it is connected, and false. */
bool nxr_reform_send(struct nxr_peer *peer, const union nxr_wire_message *message);
bool nxr_reform_tell(const struct nxr_reform *reform, int member, enum nxr_reform_step step);

/* Set the bits of the members that have not called, or if all have, of those that have given up. */
void nxr_reform_mark_missing(const struct nxr_reform *reform, uint64_t *missing);

/* End the attempt, and tell those who rely on it. */
void nxr_reform_give_up(struct nxr_reform *reform, const struct nxr_reform_failure *failure);

#endif
