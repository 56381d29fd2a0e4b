/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/notify.h
 * Notifications: a tag and some bytes, behind the data that they announce.
 */
#ifndef NIXLRUN_NOTIFY_H
#define NIXLRUN_NOTIFY_H

#include <nixlrun/base.h>
#include <nixlrun/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A received notification. Only the first `nbytes` of `payload` are written. */
struct nixl_note {
    size_t struct_nbytes;
    int rank;        /**< the sender, known by the library, not told by the message */
    uint32_t nbytes; /**< of payload */
    uint64_t tag;
    unsigned char payload[NIXL_NOTE_MAX];
};

/** Make a note ready to receive; cheaper than an initialiser, which would clear the payload. */
static inline void nixl_note_init(struct nixl_note *note)
{
    note->struct_nbytes = sizeof(*note);
}

/**
 * Tell a rank something: a tag and up to NIXL_NOTE_MAX bytes.
 *
 * Delivered once, in order per (sender, receiver), after all earlier puts of this process to that
 * rank are visible there. Never lost to a full queue: the call waits for room.
 *
 * @param rank   may be the caller
 * @param tag    any value
 * @param msg    may be NULL if nbytes is 0
 * @return NIXL_OK               on its way; no further call is needed
 * @return NIXL_ERR_AGAIN        timeout 0 and no room, or not connected yet; nothing was sent
 * @return NIXL_ERR_TIMEOUT      no room in time; nothing was sent
 * @return NIXL_ERR_NO_MEMORY    for what is kept of the rank or the message; nothing was sent
 * @return NIXL_ERR_UNSUPPORTED  no transport reaches that rank
 * @return NIXL_ERR_PEER_LOST    the peer is dead
 * @return NIXL_ERR_INVALID_ARG  bad rank, msg NULL with nbytes > 0, nbytes > NIXL_NOTE_MAX
 * Threads: any.
 */
NIXL_API int nixl_notify(int rank, uint64_t tag, const void *msg, size_t nbytes,
                         int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * A put and a notification that becomes visible after the data. As nixl_put() followed by
 * nixl_notify(), in one call; on NIXL_ERR_AGAIN, NIXL_ERR_TIMEOUT and NIXL_ERR_NO_MEMORY no
 * notification was sent, though data may have moved: the call may be made again.
 */
NIXL_API int nixl_put_notify(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                             size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                             int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * A get, and a notification to the owner after its last byte was read. Else as nixl_put_notify().
 */
NIXL_API int nixl_get_notify(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                             size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                             int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * Receive the oldest notification that fits.
 *
 * Notifications that do not fit stay for other calls, in their order.
 *
 * @param rank      a sender, or NIXL_ANY_RANK
 * @param tag       wanted where tag_mask has ones
 * @param tag_mask  0 takes any tag, UINT64_MAX exactly `tag`
 * @param note_p    made ready with nixl_note_init()
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_ERR_TIMEOUT   none came
 * @return NIXL_ERR_PEER_LOST  @p rank is dead or has left, and everything that it had sent was
 *                             received; with NIXL_ANY_RANK once for each such rank, after
 *                             everything that came before; the rank is in nixl_last_error()
 * @return NIXL_ERR_TRUNCATED  note_p was made for a smaller payload; the notification stays
 * @return NIXL_ERR_LIMIT      more unfitting notifications wait than NIXLRUN_NOTE_QUEUE allows
 * Threads: any.
 */
NIXL_API int nixl_notify_recv(int rank, uint64_t tag, uint64_t tag_mask, int64_t timeout_ns,
                              struct nixl_note *note_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_NOTIFY_H */
