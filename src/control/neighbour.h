/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who watches whom for all, so that every rank hears of every death. On each host the ranks watch
 * each other in a ring: each keeps a link to the next living one, and when that dies tells the
 * others of the host and watches the one behind. The lowest living rank of a host is its leader;
 * the leaders watch each other in a ring, too, and pass on to both sides what they hear. Nothing is
 * elected: everybody computes the same from the deaths that it knows. All functions: caller holds
 * job.lock.
 */
#ifndef NXR_CONTROL_NEIGHBOUR_H
#define NXR_CONTROL_NEIGHBOUR_H

#include "core/job.h"

/* Begin or mend the watch; when to look again. */
int64_t nxr_neighbour_tick(int64_t now);

/* A peer is no more; its state is set. */
void nxr_neighbour_peer_ended(const struct nxr_peer *peer);

/* A peer that is linked now may have to be told of deaths. */
void nxr_neighbour_linked(struct nxr_peer *peer);

/*
 * Tell that this rank leaves before the others: to all who are linked, and to one who tells the
 * others. False: that one is not linked yet.
 */
bool nxr_neighbour_tell_left(void);

/* A rank has said so. */
void nxr_neighbour_heard_left(int rank);

/*
 * A rank on another host, watched for all, does not answer for a while: perhaps its host is gone,
 * and the other ranks there are looked at before the bound is over.
 */
void nxr_neighbour_suspect(int rank);

/*
 * The leader of this host, and that of the next host in a direction, 1 or -1, that has one; -1:
 * there is no other host.
 */
int nxr_neighbour_leader(void);
int nxr_neighbour_leader_beside(int direction);

/* The service thread has ended. */
void nxr_neighbour_stop(void);

extern const struct nxr_subsystem nxr_neighbour_subsystem;

#endif
