/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications. The inbox is the set of rings that peers write into, plus a queue of messages that
 * were taken out of the rings without being received: because a call wanted another tag, or because
 * this rank waits for room at a peer that may be waiting for room here.
 */
#ifndef NXR_SYNC_NOTIFY_H
#define NXR_SYNC_NOTIFY_H

#include "core/context.h"
#include "core/request.h"

/* Are the arguments of a notification valid? Records the failure. */
int nxr_notify_check(const char *operation, int rank, const void *msg, size_t nbytes,
                     int64_t timeout_ns);

/*
 * What a call says if it cannot send (notify_say.c): its arguments are wrong, or this status came.
 * Apart, so that what is right does not prepare for it. Both return the status.
 */
__attribute__((cold)) int nxr_notify_fail_invalid(const char *operation, int rank, const void *msg,
                                                  size_t nbytes, int64_t timeout_ns);
__attribute__((cold)) int nxr_notify_fail_unsent(const char *operation, int status,
                                                 const struct nxr_peer *peer, int64_t timeout_ns);

/* Send; the arguments were checked. */
int nxr_notify_send(const char *operation, int rank, const struct nxr_message *message,
                    int64_t timeout_ns);

/*
 * Send, or keep a copy until the peer is connected, there is room and earlier puts are visible;
 * never waits. NIXL_OK, NIXL_E_PEER_LOST, NIXL_E_NO_MEMORY. Any thread.
 */
int nxr_notify_hand_over(struct nxr_peer *peer, const struct nxr_message *message);

/*
 * Keep a copy of a notification that follows a request: nxr_request_follow(), or go() at once. If
 * that has gone well it is sent, and otherwise dropped. With `keeps_place` it is sent before all
 * notifications that are handed over from now on. NULL: no memory. Any thread.
 */
struct nxr_follower *nxr_notify_reserve(struct nxr_peer *peer, const struct nxr_message *message,
                                        bool keeps_place);

/* Put and notify in one trip, or NIXL_E_AGAIN: nothing happened. */
int nxr_notify_put(struct nxr_segment *segment, const struct nxr_put_notify *what);

/* Send what was held back behind puts that are complete now. Any thread. */
void nxr_notify_send_held(struct nxr_peer *peer);

/* Send held ones that found no room (service thread, without job.lock); tick: when to. */
void nxr_notify_retry(void);
int64_t nxr_notify_tick(int64_t now);

/* Is any held back? */
bool nxr_notify_has_held(void);

/* Make the receiving end of a peer's ring; a connected peer may write into it from now on. */
void nxr_inbox_init(struct nxr_peer *peer);
void nxr_inbox_add(struct nxr_peer *peer);

/*
 * Drop what that peer has sent and nobody has received, and take nothing from it any more. Caller
 * holds job.lock. nxr_inbox_forget() when another process of its rank takes its place.
 */
void nxr_inbox_shut(struct nxr_peer *peer);
void nxr_inbox_forget(struct nxr_peer *peer);

/* Is a notification waiting? For nixl_event_arm(). */
bool nxr_inbox_has_any(void);

/* A context is opened: receives from any rank report the losses from now on. */
void nxr_inbox_open(struct nixl_context *context);

/* Drop what has arrived for a context. */
void nxr_inbox_drop(struct nixl_context *context);

/* Where completion queues get notifications. */
extern const struct nxr_note_source nxr_inbox_note_source;

/* Forget everything (last finalize). */
void nxr_inbox_reset(void);

extern const struct nxr_subsystem nxr_notify_subsystem;

#endif
