/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/request.h
 * Operations in progress: wait for, cancel or free them.
 */
#ifndef NIXLRUN_REQUEST_H
#define NIXLRUN_REQUEST_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nixl_req; /**< an operation in progress */

/**
 * Is a request complete? The call that reports completion (any return but NIXL_INPROGRESS) frees
 * the request and sets *req_p NULL. A NULL request is complete.
 * @return NIXL_OK, NIXL_INPROGRESS, or the failure that ended the request (as nixl_put());
 *         NIXL_E_INVALID_ARG also if req_p is NULL
 * Threads: any, one at a time for one request.
 */
NIXL_API int nixl_req_test(struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Wait for a request; as nixl_req_test(). NIXL_E_TIMEOUT leaves the request in progress. */
NIXL_API int nixl_req_wait(struct nixl_req **req_p, int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * Wait until one of several requests is complete; report and free that one.
 * @param reqs     array of @p nreqs requests; NULL entries are skipped
 * @param index_p  which one; written only if the return value is its outcome
 * @return the outcome of that request; NIXL_E_TIMEOUT or NIXL_INPROGRESS (timeout 0) with
 *         *index_p untouched; NIXL_E_INVALID_ARG if all are NULL or nreqs is 0
 * Threads: any, one at a time for each of the requests.
 */
NIXL_API int nixl_req_wait_any(struct nixl_req **reqs, size_t nreqs, int64_t timeout_ns,
                               size_t *index_p) NIXL_MUST_CHECK;

/** What a canceled request had done. */
enum nixl_outcome {
    NIXL_OUTCOME_UNTOUCHED = 0, /**< no byte was moved */
    NIXL_OUTCOME_PARTIAL = 1,   /**< some bytes were moved */
    NIXL_OUTCOME_DONE = 2,      /**< it was complete */
};

/**
 * Stop a request: work that has not started is dropped, work that has started is waited for.
 * @param outcome_p  enum nixl_outcome; may be NULL
 * @return NIXL_OK           no byte moves any more; the request is freed and *req_p NULL
 * @return NIXL_E_TIMEOUT    (NIXL_INPROGRESS with 0) a copy is in flight; the request still exists
 * @return NIXL_E_INVALID_ARG    req_p is NULL, or the timeout is negative
 * A NULL request is complete. Threads: any, one at a time for one request.
 */
NIXL_API int nixl_req_cancel(struct nixl_req **req_p, int64_t timeout_ns,
                             int32_t *outcome_p) NIXL_MUST_CHECK;

/**
 * Detach a request: it completes by itself, unobserved. Its memory must stay valid until a flush
 * has completed. Sets *req_p NULL. @return NIXL_OK, NIXL_E_INVALID_ARG (req_p is NULL). Threads:
 * any.
 */
NIXL_API int nixl_req_detach(struct nixl_req **req_p);

/**
 * End the questions that a thread asks, which is in nixl_region_open_object(),
 * nixl_region_open_directory(), nixl_object_stat(), nixl_object_delete(), nixl_object_list(),
 * nixl_grant_query() or nixl_grant_renew(): that call returns NIXL_E_CANCELED soon, unless its
 * answer comes just then. Whether the other side has done what was asked is not known.
 * @param thread  what gettid() gives that thread; 0: all of this process
 * @return NIXL_OK             it asks something, or one of them does
 * @return NIXL_INPROGRESS     it asks nothing now; perhaps it is about to, or between two questions
 * @return NIXL_E_INVALID_ARG  a negative number; NIXL_E_NOT_INIT
 * Threads: any; never waits.
 */
NIXL_API int nixl_question_cancel(int64_t thread);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_REQUEST_H */
