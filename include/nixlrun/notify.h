/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/notify.h
 * Notifications: a tag and some bytes, delivered after the data that they announce.
 */
#ifndef NIXLRUN_NOTIFY_H
#define NIXLRUN_NOTIFY_H

#include <nixlrun/base.h>
#include <nixlrun/op.h>
#include <nixlrun/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A received notification. Only the first `nbytes` of `payload` are written. */
struct nixl_note {
    size_t struct_nbytes;
    int rank;        /**< the sender, as the library knows it, not as the message claims */
    uint32_t nbytes; /**< of payload */
    uint64_t tag;
    unsigned char payload[NIXL_NOTE_MAX];
};

/**
 * @fn void nixl_note_init(struct nixl_note *note);
 * Make a note ready to receive; cheaper than an initializer, which would clear the payload. It is a
 * macro: the size is that of the caller's struct, and generators of bindings take no inline
 * function. Other languages set struct_nbytes themselves.
 */
#define nixl_note_init(_note) ((void)((_note)->struct_nbytes = sizeof(struct nixl_note)))

/**
 * Send a rank a tag and up to NIXL_NOTE_MAX bytes.
 *
 * Delivered once, in order per (sender, receiver), after all earlier puts of this process to that
 * rank are visible there. Never lost to a full queue: the call waits for room.
 *
 * @param rank   may be the caller
 * @param tag    any value
 * @param msg    may be NULL if nbytes is 0
 * @return NIXL_OK               on its way; no further call is needed
 * @return NIXL_E_AGAIN          timeout 0 and no room, or not connected yet; nothing was sent
 * @return NIXL_E_TIMEOUT        no room in time; nothing was sent
 * @return NIXL_E_NO_MEMORY      for the library's state of the rank or the message; nothing was
 *                               sent
 * @return NIXL_E_UNSUPPORTED    no transport reaches that rank
 * @return NIXL_E_PEER_LOST      the peer is dead; or there is no room, and it is in nixl_finalize()
 * @return NIXL_E_STALE          an earlier put or signal to that rank was dropped, as its region
 *                               had been closed; nothing was sent. Told by the first call that
 *                               would order something behind it.
 * @return NIXL_E_INVALID_ARG    bad rank, msg NULL with nbytes > 0, nbytes > NIXL_NOTE_MAX
 * Threads: any.
 */
NIXL_API int nixl_notify(int rank, uint64_t tag, const void *msg, size_t nbytes,
                         int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_notify(): in a context. With a request or a queue the call never waits:
 * the library keeps a copy until the rank is connected, earlier puts are visible and there is room;
 * it is dropped if the rank is lost. No request is ever made: NIXL_OK, or a failure;
 * NIXL_E_AGAIN: 1024 of them are kept for that rank.
 */
NIXL_API int nixl_notify_x(int rank, uint64_t tag, const void *msg, size_t nbytes,
                           const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * A put and a notification that becomes visible after the data: nixl_put() followed by
 * nixl_notify(), in one call. on NIXL_E_AGAIN, NIXL_E_TIMEOUT and NIXL_E_NO_MEMORY no
 * notification was sent, though data may have moved: the call may be made again.
 */
NIXL_API int nixl_put_notify(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                             size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                             int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * A get, and a notification to the owner after its last byte was read. Otherwise as
 * nixl_put_notify().
 */
NIXL_API int nixl_get_notify(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                             size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                             int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * Receive the oldest notification that matches.
 *
 * Notifications that do not match stay queued for other calls, in their order.
 *
 * @param rank      a sender, or NIXL_ANY_RANK
 * @param tag       compared in the bits that are set in tag_mask
 * @param tag_mask  0 matches any tag, UINT64_MAX exactly `tag`
 * @param note_p    made ready with nixl_note_init()
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_E_TIMEOUT   none arrived
 * @return NIXL_E_PEER_LOST    @p rank is dead or has left, and everything that it had sent was
 *                             received; with NIXL_ANY_RANK once for each such rank, after
 *                             everything that arrived before; the rank is in nixl_last_error().
 *                             In an elastic job not for ranks that have left, but each time when
 *                             nobody is left who could send: the rank is -1. With @p rank also if
 *                             that one is in nixl_finalize(), after a second or two; with
 *                             NIXL_ANY_RANK, and rank -1, if all others that live are, nobody is
 *                             attached or may attach, and this process never sent to itself
 * @return NIXL_E_STALE        received, and note_p is written, but a put that the sender made
 *                             before it did not arrive: this rank had closed its region, or the
 *                             put failed or was canceled, as the sender had not been told yet
 * @return NIXL_E_TRUNCATED    note_p was made for a smaller payload; the notification stays queued
 * @return NIXL_E_LIMIT        more notifications that do not match are queued than
 *                             NIXLRUN_NOTE_QUEUE allows
 * Threads: any.
 */
NIXL_API int nixl_notify_recv(int rank, uint64_t tag, uint64_t tag_mask, int64_t timeout_ns,
                              struct nixl_note *note_p) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_notify_recv(): in a context, whose notifications no other one gets.
 * `timeout_ns` 0: NIXL_FOREVER.
 */
NIXL_API int nixl_notify_recv_x(int rank, uint64_t tag, uint64_t tag_mask, const struct nixl_op *op,
                                struct nixl_note *note_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_NOTIFY_H */
