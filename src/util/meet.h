/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks under nixlrun meet and exchange their cards. Each rank queries the launcher's server
 * for this key, and all are answered when every living rank of the job has asked. The query carries
 * the rank's name as PMIX_PROCID, since PMIx 4.2 does not report the sender, and its card as a byte
 * object under the same key. The answer is the cards of the living ranks, one after the other, each
 * with this head, and the number of the latest change. A rank that nixlrun has started again meets
 * the others late: it is answered at once, and they get an event NXR_MEET_JOINED with its card. The
 * query also carries the process id as PMIX_PROC_PID: a process that follows
 * another one of the same rank which has ended without leaving PMIx is refused
 * (NXR_MEET_RESTARTED). PMIx's own fence would wait for a rank that died before PMIx_Init, and
 * would fail if a rank died in it.
 *
 * In their last nixl_finalize() they ask for NXR_MEET_LEAVE_KEY, likewise with PMIX_PROCID, and are
 * answered when all that live and have not left have asked. Not by a fence: in PMIx 4.2 the server
 * completes one twice, and frees it twice, when two ranks die in it.
 */
#ifndef NXR_UTIL_MEET_H
#define NXR_UTIL_MEET_H

#include <stdint.h>

#define NXR_MEET_KEY       "nixlrun.meet"
#define NXR_MEET_LEAVE_KEY "nixlrun.leave"

#define NXR_MEET_RESTARTED (PMIX_EXTERNAL_ERR_BASE - 1)

/* A rank has joined late: an event about it, with its card as a byte object under NXR_MEET_KEY. */
#define NXR_MEET_JOINED (PMIX_EXTERNAL_ERR_BASE - 2)

/*
 * Ends of ranks and late joins are numbered from 1, as uint64 under this key of their events. What
 * an answer says includes all changes up to its number, so that earlier events, which PMIx may
 * still deliver, are no news.
 */
#define NXR_MEET_CHANGE_KEY "nixlrun.change"

#define NXR_MEET_CARD_MAX 8192 /* bytes of a card */

struct nxr_meet_head {
    int32_t rank;    /* NXR_MEET_CHANGES: the number of the latest change follows, a uint64 */
    uint32_t nbytes; /* of the card that follows, without padding; 0: the rank has left in order */
};
#define NXR_MEET_CHANGES (-1)

#endif
