/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/pair.h
 * Paired operations: a buffer for a single use by the holder of its token.
 */
#ifndef NIXLRUN_PAIR_H
#define NIXLRUN_PAIR_H

#include <nixlrun/base.h>
#include <nixlrun/region.h>
#include <nixlrun/request.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the partner may do with an exposed buffer. */
enum nixl_pair_use {
    NIXL_PAIR_READ = 1,  /**< copy it out: nixl_pair_read() */
    NIXL_PAIR_WRITE = 2, /**< fill it: nixl_pair_write() */
};

/**
 * The longest token of any version, in bytes without the final zero: characters A-Z a-z 0-9 - _.
 * NIXL_TOKEN_MAX + 1 bytes are room enough.
 */
#define NIXL_TOKEN_MAX 255

/**
 * Expose a buffer for one use: one partner may read it, or write it, once and as a whole.
 *
 * The partner needs the token. It is text that fits a JSON string, an HTTP header or a command
 * line, and the application sends it over any channel it has. Any rank of the job that has the
 * token may use it, unless @p rank names one; the first use counts. Both sides complete without
 * further calls: the request of this side is complete when the partner has finished, and its status
 * is the outcome; it also makes an armed event fd readable. NIXL Connect of NVIDIA's Dynamo works
 * in this manner.
 *
 * Canceling the request (nixl_req_cancel()) takes the buffer back if the partner has not begun,
 * else it waits for the partner. Closing the region cancels requests whose partner has not begun. A
 * detached request (nixl_req_detach()) leaves the buffer exposed until it is used or expires.
 *
 * @param rank         the rank that may use it, or NIXL_ANY_RANK; may be the caller
 * @param region       with a segment of this rank, of any kind of memory; offset + nbytes <= its
 *                     size
 * @param nbytes       0 is allowed: then the two only synchronize
 * @param lifetime_ns  > 0: the partner begins within this time or not at all; or NIXL_FOREVER
 * @param token_p      the token and its final zero
 * @param token_nbytes room there; NIXL_TOKEN_MAX + 1 suffices for every version
 * @param req_p        the request, for nixl_req_wait() and the like
 * @return NIXL_INPROGRESS        exposed
 * @return NIXL_E_INVALID_ARG     a bad rank, handle, use or lifetime; a region without a segment of
 *                                this rank, or without a name
 * @return NIXL_E_RANGE           outside this rank's segment
 * @return NIXL_E_ACCESS          the region does not allow peers that use (enum nixl_access); for
 *                                the caller alone it may be exposed
 * @return NIXL_E_TRUNCATED       the room is too small (the detail says what is needed); nothing is
 *                                exposed
 * @return NIXL_E_LIMIT           4,096 buffers are exposed
 * @return NIXL_E_NO_MEMORY
 * The request ends with NIXL_OK: used, and what was written is visible; NIXL_E_CANCELED: canceled
 * by either side, or the region was closed; NIXL_E_EXPIRED; NIXL_E_PEER_LOST: the partner named
 * by @p rank, or the one that had begun, has died, or @p rank is in nixl_finalize() without having
 * begun and the request is waited for, after a second or two; or with the error of the partner's
 * transfer, in which case some bytes may have moved. Threads: any.
 */
NIXL_API int nixl_pair_expose(int rank, struct nixl_region *region, uint64_t offset, size_t nbytes,
                              enum nixl_pair_use use, int64_t lifetime_ns, char *token_p,
                              size_t token_nbytes, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** What a token contains. */
struct nixl_pair_info {
    size_t struct_nbytes;
    int rank;    /**< the exposer */
    int32_t use; /**< enum nixl_pair_use */
    uint64_t nbytes;
};
#define NIXL_PAIR_INFO_INIT                                                                        \
    {                                                                                              \
        sizeof(struct nixl_pair_info), 0, 0, 0                                                     \
    }

/**
 * Decode a token, so that a buffer of its size can be made. Contacts no other rank: the token may
 * already have been used.
 * @return NIXL_OK, NIXL_E_INVALID_ARG (damaged, truncated, of another version, or of another
 *         job)
 * Threads: any.
 */
NIXL_API int nixl_pair_query(const char *token, struct nixl_pair_info *info_p) NIXL_MUST_CHECK;

/**
 * Read the buffer that a token names, all of it. The call queries the exposer, so it may block as
 * the first use of a region does; then the bytes move as by nixl_get_x(), and the exposer is
 * notified when they have moved, without another call. Nothing is touched unless the token is
 * valid.
 *
 * @param token   as nixl_pair_expose() wrote it, with its final zero; any bytes are safe
 * @param dst     any alignment and kind of memory, as for nixl_get()
 * @param nbytes  exactly the size of the buffer
 * @param req_p   written only with NIXL_INPROGRESS. Canceling it also ends the exposer's request
 * @return NIXL_OK                complete
 * @return NIXL_INPROGRESS        started
 * @return NIXL_E_INVALID_ARG     the token is damaged, forged, of another job, for another rank or
 *                                the other use; nbytes is not its size; dst NULL with nbytes > 0
 * @return NIXL_E_STALE           the token was already used, is in use by another rank, or was
 *                                made by another process of the exposer's rank, before it was
 *                                started again; or the exposer has left
 * @return NIXL_E_EXPIRED         its lifetime is over
 * @return NIXL_E_CANCELED        the exposer has taken it back
 * and as nixl_get_x(). Threads: any.
 */
NIXL_API int nixl_pair_read(const char *token, void *dst, size_t nbytes,
                            struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Fill the buffer that a token names from @p src; otherwise as nixl_pair_read(). */
NIXL_API int nixl_pair_write(const char *token, const void *src, size_t nbytes,
                             struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Say that a token will not be used: the exposer's request ends with NIXL_E_CANCELED.
 * @return NIXL_OK, and as nixl_pair_read() for a token that is not valid. Threads: any.
 */
NIXL_API int nixl_pair_decline(const char *token) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_PAIR_H */
