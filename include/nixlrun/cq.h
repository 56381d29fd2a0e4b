/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/cq.h
 * Completion queues: everything that ended, arrived or was lost, in batches.
 */
#ifndef NIXLRUN_CQ_H
#define NIXLRUN_CQ_H

#include <nixlrun/base.h>
#include <nixlrun/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A completion queue of a context. It reports the operations whose struct nixl_op names it, and, if
 * it was opened so, the notifications and events of its context, which then go to this queue
 * instead of nixl_notify_recv_x() and nixl_event_recv_x(): whichever call comes first takes them.
 *
 * (The shape is that of libfabric's fi_cq_readfrom() and io_uring's batches.)
 */
struct nixl_cq;

enum nixl_cq_flag {
    NIXL_CQ_NOTES = 1,  /**< report the context's notifications */
    NIXL_CQ_EVENTS = 2, /**< report the context's events */
};

/** What an entry is about. */
enum nixl_cq_kind {
    NIXL_CQ_OPERATION = 1, /**< an operation has ended: `user_data`, `status`, `rank` */
    NIXL_CQ_SIGNAL = 2,    /**< a signal compared true: `user_data`, `value` is what was seen */
    NIXL_CQ_NOTE = 3,      /**< a notification: `rank`, `value` is its tag, `data` its payload */
    NIXL_CQ_EVENT = 4,     /**< an event: `rank`, `value` is enum nixl_event_type, `data` the name
                              of the region, `user_data` the incarnation of the rank */
};

struct nixl_cq_entry {
    uint64_t user_data; /**< as given with the operation; 0 for notifications */
    uint64_t value;
    const void *data; /**< the library's, until the next call for the same queue; or NULL */
    uint32_t nbytes;  /**< of data */
    int32_t kind;     /**< enum nixl_cq_kind */
    int32_t status;   /**< NIXL_OK, or the failure that ended the operation; see nixl_cq(3) */
    int rank;         /**< the other rank; -1: none, or several */
};

struct nixl_cq_params {
    size_t struct_nbytes;
    struct nixl_context *context; /**< NULL: the default one */
    uint32_t flags;               /**< of enum nixl_cq_flag */
    uint32_t entry_nbytes; /**< sizeof(struct nixl_cq_entry) of the caller; 0: the library's */
};
#define NIXL_CQ_PARAMS_INIT                                                                        \
    {                                                                                              \
        sizeof(struct nixl_cq_params), NULL, 0, sizeof(struct nixl_cq_entry)                       \
    }

/**
 * Open a completion queue.
 * @param params  NULL: for operations only, in the default context
 * @param cq_p    the handle, to be closed with nixl_cq_close()
 * @return NIXL_OK, NIXL_E_INVALID_ARG (bad params, no open context), NIXL_E_NO_MEMORY,
 *         NIXL_E_LIMIT (no descriptor), NIXL_E_NOT_INIT
 * Threads: any.
 */
NIXL_API int nixl_cq_open(const struct nixl_cq_params *params,
                          struct nixl_cq **cq_p) NIXL_MUST_CHECK;

/**
 * Take up to @p max entries, oldest first of each kind; wait until there is one.
 * @param entries  array of @p max entries of params.entry_nbytes each; written up to *n_p
 * @param n_p      how many; 1 .. max with NIXL_OK
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_E_TIMEOUT  nothing has happened
 * @return NIXL_E_INVALID_ARG  no open queue, max is 0, a NULL pointer, a negative timeout
 * A failure of an operation is in its entry only, not in nixl_last_error(). Entries of operations
 * keep the order in which they ended. Threads: any, one at a time for one queue.
 */
NIXL_API int nixl_cq_wait(struct nixl_cq *cq, struct nixl_cq_entry *entries, size_t max,
                          int64_t timeout_ns, size_t *n_p) NIXL_MUST_CHECK;

/**
 * Stop the operations and waits of this queue that have that user_data. They are reported with
 * NIXL_E_CANCELED, or as what they had become before.
 * @param user_data  as given with the operations
 * @return NIXL_OK, also if there is none (any more); NIXL_E_INVALID_ARG
 * Threads: any.
 */
NIXL_API int nixl_cq_cancel(struct nixl_cq *cq, uint64_t user_data);

/**
 * A descriptor for epoll, poll, libuv, asyncio: one for everything that the queue reports. It
 * becomes readable when there is something, if nixl_cq_arm() was called since it was last
 * readable. Owned by the library: the caller must not read or close it. The same until
 * nixl_cq_close().
 * @return the descriptor, or a negative status. Threads: any.
 */
NIXL_API int nixl_cq_fd(struct nixl_cq *cq);

/**
 * Announce that the caller is about to sleep on nixl_cq_fd().
 * @return NIXL_OK          the queue is empty: sleep until the descriptor is readable
 * @return NIXL_INPROGRESS  it is not: call nixl_cq_wait() first
 * Threads: any.
 */
NIXL_API int nixl_cq_arm(struct nixl_cq *cq) NIXL_MUST_CHECK;

/**
 * Close a queue. Operations that it would report are detached, as by nixl_req_detach(): a flush
 * covers them and reports their failure; their memory must stay valid until then.
 * @return NIXL_OK, NIXL_E_INVALID_ARG
 * The last nixl_finalize() closes all queues. Threads: any, but no other call may use the handle.
 */
NIXL_API int nixl_cq_close(struct nixl_cq *cq);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_CQ_H */
