/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications. The inbox is the set of rings that peers write into, plus a queue of messages that
 * were taken out of the rings without being received: because a call wanted another tag, or because
 * this rank waits for room at a peer that may be waiting for room here.
 */
#ifndef NXR_SYNC_NOTIFY_H
#define NXR_SYNC_NOTIFY_H

#include "core/job.h"

/* Are the arguments of a notification valid? Records the failure. */
int nxr_notify_check(const char *operation, int rank, const void *msg, size_t nbytes,
                     int64_t timeout_ns);

/* Send; the arguments were checked. */
int nxr_notify_send(const char *operation, int rank, uint64_t tag, const void *msg, size_t nbytes,
                    int64_t timeout_ns);

/*
 * Send, or keep a copy until there is room and earlier puts are visible; never waits. The peer is
 * connected. NIXL_OK, NIXL_E_PEER_LOST, NIXL_E_NO_MEMORY. Any thread.
 */
int nxr_notify_hand_over(struct nxr_peer *peer, uint64_t tag, const void *msg, size_t nbytes);

/* Put and notify in one trip, or NIXL_E_AGAIN: nothing happened. */
int nxr_notify_put(struct nxr_segment *segment, const struct nxr_put_notify *what);

/* Send what was held back behind puts that are complete now. Any thread. */
void nxr_notify_send_held(struct nxr_peer *peer);

/* Send held ones that found no room (service thread, without job.lock); tick: when to. */
void nxr_notify_retry(void);
int64_t nxr_notify_tick(int64_t now);

/* Make the receiving end of a peer's ring; a connected peer may write into it from now on. */
void nxr_inbox_init(struct nxr_peer *peer);
void nxr_inbox_add(struct nxr_peer *peer);

/* Is a notification waiting? For nixl_event_arm(). */
bool nxr_inbox_has_any(void);

/* Forget everything (last finalize). */
void nxr_inbox_reset(void);

extern const struct nxr_subsystem nxr_notify_subsystem;

#endif
