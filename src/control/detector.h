/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank watches which on behalf of all, so that every rank learns of every death. On each
 * host the ranks watch each other in a ring: each keeps a connection to the next living one. When
 * that one dies, it tells the others of the host and watches the one after it. The lowest living
 * rank of a host is its leader. The leaders watch each other in a ring, too, and forward what
 * they learn to both sides. There is no election: each rank computes this from the deaths that it
 * knows.
 *
 * A rank that was silent for too long may live, and others may still hear it. So that all come to
 * the same verdict, whoever finds the silence tells its leader, and everyone who learns of it tells
 * the silent rank, too: if that one lives, all others are lost for it from then on.
 *
 * All functions: caller holds job.lock.
 */
#ifndef NXR_CONTROL_DETECTOR_H
#define NXR_CONTROL_DETECTOR_H

#include "core/job.h"

/* Begin or repair the watch. Returns when to call again. */
int64_t nxr_detector_tick(int64_t now);

/* A peer has died or left; its state is set. */
void nxr_detector_peer_ended(const struct nxr_peer *peer);

/* A peer is connected now: report the deaths that it has not been told. */
void nxr_detector_connected(struct nxr_peer *peer);

/*
 * Announce that this rank leaves before the others: to all connected peers, among them one that
 * forwards it to the rest. False: that one is not connected yet; nothing was sent.
 */
bool nxr_detector_tell_left(void);

/* A rank has announced that. */
void nxr_detector_heard_left(int rank);

/*
 * A rank on another host that this one watches on behalf of all has not answered for a while. Its
 * host may be gone, so watch all living ranks of that host before the bound expires.
 */
void nxr_detector_suspect(int rank);

/* This rank is about to declare that one lost, because it was silent for so long. */
void nxr_detector_found_silent(const struct nxr_peer *peer, int64_t silent_ns);

/* Does this rank watch that one on behalf of all? */
bool nxr_detector_is_watched(const struct nxr_peer *peer);

/*
 * The leader of this host, and that of the next host with one in `direction`, 1 or -1. -1: there is
 * none.
 */
int nxr_detector_leader(void);
int nxr_detector_leader_beside(int direction);

/* The service thread has ended. */
void nxr_detector_stop(void);

extern const struct nxr_subsystem nxr_detector_subsystem;

#endif
