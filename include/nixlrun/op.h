/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/op.h
 * The extended form of every operation: how it is started, what follows it, who hears of its end.
 */
#ifndef NIXLRUN_OP_H
#define NIXLRUN_OP_H

#include <nixlrun/base.h>
#include <nixlrun/context.h>
#include <nixlrun/region.h>
#include <nixlrun/request.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nixl_cq;
struct nixl_coll;

/** Which fields of struct nixl_op are used, beyond those that are always looked at. */
enum nixl_op_flag {
    NIXL_OP_NOTE = 1,      /**< `tag`, `msg`, `msg_nbytes`: a notification follows the operation */
    NIXL_OP_SIGNAL = 2,    /**< `signal_*`: the change of a signal follows the operation */
    NIXL_OP_STREAM = 4,    /**< `stream`: the operation runs in the order of a CUDA stream */
    NIXL_OP_RANK = 8,      /**< `rank`: a wait ends with NIXL_E_PEER_LOST if that rank is lost */
    NIXL_OP_GETS = 16,     /**< a flush also waits for gets whose requests are still there */
    NIXL_OP_GRANT = 32,    /**< `grant`: a put, get or prepared transfer of blocks that are lent */
    NIXL_OP_DURABLE = 64,  /**< puts into files, or a flush, end when the bytes are durable */
    NIXL_OP_PREPARE = 128, /**< `coll_p`: a collective is prepared, and not started */
    NIXL_OP_KEEP = 256,    /**< nixl_finalize_x(): memory stays as it is until the process ends */
};

#define NIXL_AT_ONCE (-1) /**< `timeout_ns`: what would wait is given up */

/**
 * The extended form. Each call nixl_NAME_x() is nixl_NAME() with `op` before its outputs, and with
 * `req_p` last if it can be waited for later. `op` may be NULL: all fields 0.
 *
 * How the call returns:
 * - `req_p` is not NULL: at once. NIXL_INPROGRESS: started, and *req_p is the request. NIXL_OK: it
 *   has ended well, and *req_p is NULL, which every call on requests takes for a complete one.
 * - `req_p` is NULL and `cq` is not: the same, but the end of what was started is reported by the
 *   completion queue, with `user_data`. What has ended within the call is not in the queue.
 * - both are given: NIXL_E_INVALID_ARG; nixl_cq_cancel() stops what a queue will report.
 * - neither is: when the operation has ended, or after `timeout_ns`, which stops it. The call then
 *   returns NIXL_E_TIMEOUT; part of the bytes may have moved, and none moves after the return.
 *
 * A request that was started ends with NIXL_E_TIMEOUT when `timeout_ns` is over, if that is not 0.
 * Where the first use of a segment asks its owner within the call, it waits no longer than that.
 *
 * A call that cannot do what a field asks for returns NIXL_E_UNSUPPORTED and says why; nixl_op(3)
 * has the table. The struct and what it points to is read within the call.
 */
struct nixl_op {
    size_t struct_nbytes;
    uint32_t flags; /**< of enum nixl_op_flag */
    int rank;       /**< NIXL_OP_RANK: the rank that a wait depends on */

    struct nixl_context *context; /**< of notes, events, names and teams; NULL: the default */
    struct nixl_cq *cq;           /**< the completion queue that reports the end; or NULL */
    uint64_t user_data;           /**< for the completion queue's entry */
    int64_t timeout_ns; /**< 0: the default of the context, or of the simple call; NIXL_AT_ONCE */

    void *stream; /**< NIXL_OP_STREAM: a CUstream or cudaStream_t; NULL: CUDA's default stream */

    uint64_t tag;      /**< NIXL_OP_NOTE: as nixl_notify() */
    const void *msg;   /**< ... copied within the call */
    size_t msg_nbytes; /**< ... 0 .. NIXL_NOTE_MAX */

    struct nixl_region *signal_region; /**< NIXL_OP_SIGNAL, after a put */
    uint64_t signal_offset; /**< ... of the word, in the same rank's segment of that region */
    uint64_t *signal;       /**< after a get: the word, in host memory; valid until the end */
    uint64_t signal_value;
    int32_t signal_op; /**< enum nixl_signal_op */

    const char *grant; /**< NIXL_OP_GRANT: a token of nixl_grant_create() */

    struct nixl_coll **coll_p; /**< NIXL_OP_PREPARE: where the prepared collective goes */
};
#define NIXL_OP_INIT                                                                               \
    {                                                                                              \
        sizeof(struct nixl_op), 0, 0, NULL, NULL, 0, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0,     \
            NULL, NULL                                                                             \
    }

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_OP_H */
