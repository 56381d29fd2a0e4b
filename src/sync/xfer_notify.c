/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prepared transfer followed by a notification. The message is kept with the transfer until the
 * start has ended. No lock: only the thread that has claimed the transfer writes it.
 */
#include "config.h"

#include "sync/notify.h"
#include "transfer/xfer.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

struct xfer_note {
    uint64_t tag;
    size_t nbytes;
    unsigned char msg[NIXL_NOTE_MAX];
};

/* The start has succeeded. */
static int xfer_note_send(struct nixl_xfer *xfer)
{
    const struct xfer_note *note = xfer->follower;

    return nxr_notify_hand_over(xfer->peer, note->tag, note->msg, note->nbytes);
}

/* The note of a transfer, made when first needed; NULL: no memory. */
static struct xfer_note *xfer_note_of(struct nixl_xfer *xfer)
{
    if (xfer->follower == NULL) {
        xfer->follower = malloc(sizeof(struct xfer_note));
        xfer->follower_nbytes = xfer->follower != NULL ? sizeof(struct xfer_note) : 0;
    }
    return xfer->follower;
}

int nixl_xfer_start_notify(struct nixl_xfer *xfer, uint64_t tag, const void *msg, size_t msg_nbytes,
                           struct nixl_req **req_p)
{
    static const char operation[] = "nixl_xfer_start_notify";
    int status = nxr_xfer_check(operation, xfer);
    struct xfer_note *note;

    if (status == NIXL_OK) {
        status = nxr_notify_check(operation, xfer->rank, msg, msg_nbytes, 0);
    }
    if (status == NIXL_OK) {
        status = nxr_xfer_claim(operation, xfer);
    }
    if (status != NIXL_OK) {
        return status;
    }
    note = xfer_note_of(xfer);
    if (note == NULL) {
        return nxr_xfer_unclaim(xfer, nxr_fail(NIXL_E_NO_MEMORY, operation, xfer->rank, "", 0,
                                               "no memory for the message"));
    }
    note->tag = tag;
    note->nbytes = msg_nbytes;
    if (msg_nbytes > 0) {
        memcpy(note->msg, msg, msg_nbytes);
    }
    return nxr_xfer_start(operation, xfer, xfer_note_send, req_p);
}
