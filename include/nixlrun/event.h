/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/event.h
 * Events of peers and regions, and the descriptor to sleep on.
 */
#ifndef NIXLRUN_EVENT_H
#define NIXLRUN_EVENT_H

#include <nixlrun/base.h>
#include <nixlrun/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A descriptor for epoll, poll, libuv, asyncio. It becomes readable when a notification, an event
 * or a completed request is pending, or a signal of this rank was raised, if nixl_event_arm() was
 * called since it was last readable. Owned by the library; the caller must not read or close it.
 * The value is the same until nixl_finalize().
 * @return the descriptor, or a negative status
 * Threads: any.
 */
NIXL_API int nixl_event_fd(void);

/**
 * Announce that the caller is about to sleep on the event fd.
 * @return NIXL_OK          nothing is pending: sleep until the descriptor is readable
 * @return NIXL_INPROGRESS  something is pending: take it first
 * Signals are not included: to wait for one, check its word between this call and the sleep.
 * Threads: any.
 */
NIXL_API int nixl_event_arm(void) NIXL_MUST_CHECK;

enum nixl_event_type {
    NIXL_EVENT_PEER_LOST = 1,     /**< `rank` died */
    NIXL_EVENT_REGION_CLOSED = 2, /**< `rank` closed the region `name`, which this rank used */
    NIXL_EVENT_LAUNCHER_LOST = 3, /**< this rank ends after NIXLRUN_ORPHAN_GRACE */
    NIXL_EVENT_PEER_LEFT = 4,     /**< `rank` left by nixl_finalize() before this rank called it,
                                       or has ended the attachment */
    NIXL_EVENT_PEER_JOINED = 5,   /**< `rank` is attached; `name` is the publication's. Or a rank of
                                       the job has come back, see nixl_peer_readmit(); "" then */
};

struct nixl_event {
    size_t struct_nbytes;
    int32_t type;                 /**< enum nixl_event_type */
    int rank;                     /**< -1 for NIXL_EVENT_LAUNCHER_LOST */
    char name[NIXL_NAME_MAX + 1]; /**< of the region or the publication; else "" */
    uint32_t incarnation;         /**< of `rank`: its processes in the job before; 0 without one */
};
#define NIXL_EVENT_INIT                                                                            \
    {                                                                                              \
        sizeof(struct nixl_event), 0, 0, "", 0                                                     \
    }

/**
 * Take the oldest event; each event goes to one call only.
 * @param event_p  made with NIXL_EVENT_INIT
 * @return NIXL_OK, NIXL_INPROGRESS (timeout 0), NIXL_E_TIMEOUT or NIXL_E_INVALID_ARG.
 * Threads: any.
 */
NIXL_API int nixl_event_recv(int64_t timeout_ns, struct nixl_event *event_p) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_event_recv(): in a context, which has its own copy of every event.
 * `timeout_ns` 0: NIXL_FOREVER.
 */
NIXL_API int nixl_event_recv_x(const struct nixl_op *op,
                               struct nixl_event *event_p) NIXL_MUST_CHECK;

enum nixl_peer_liveness {
    NIXL_PEER_ALIVE = 0,    /**< nothing else is known */
    NIXL_PEER_LOST = 1,     /**< died; final until nixl_peer_readmit() */
    NIXL_PEER_FINISHED = 2, /**< left by nixl_finalize() */
};

/** State of a rank (enum nixl_peer_liveness), or a negative status. Never blocks. Threads: any. */
NIXL_API int nixl_peer_state(int rank);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_EVENT_H */
