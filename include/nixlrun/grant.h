/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/grant.h
 * Grants: blocks of a region that their owner lends, for some uses and some time, by a token.
 */
#ifndef NIXLRUN_GRANT_H
#define NIXLRUN_GRANT_H

#include <nixlrun/base.h>
#include <nixlrun/pair.h>
#include <nixlrun/request.h>
#include <nixlrun/xfer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the holders of a token may do with the blocks; either, or both together. */
enum nixl_grant_right {
    NIXL_GRANT_READ = 1,  /**< get them */
    NIXL_GRANT_WRITE = 2, /**< put into them */
};

struct nixl_grant_params {
    size_t struct_nbytes;
    uint32_t rights;     /**< of enum nixl_grant_right; 0: NIXL_GRANT_READ */
    uint32_t uses;       /**< how many operations; 0: any number */
    int64_t lifetime_ns; /**< > 0: no operation begins later, by the owner's clock; 0: no limit */
};
#define NIXL_GRANT_PARAMS_INIT                                                                     \
    {                                                                                              \
        sizeof(struct nixl_grant_params), NIXL_GRANT_READ, 0, 0                                    \
    }

/** A grant has at most that many uses, or any number. */
#define NIXL_GRANT_USES_MAX 16777214

/** Blocks that adjoin are one piece; a grant has at most that many pieces (in each extent). */
#define NIXL_GRANT_PIECES_MAX 65536

/**
 * Lend blocks of this rank's segment of a region: who has the token may move them, by puts, gets
 * and prepared transfers with NIXL_OP_GRANT and struct nixl_op's field `grant`. Each of these
 * operations is one use, however many of the blocks it moves.
 *
 * The blocks belong to the users until the request is complete: then nobody moves a byte of them
 * any more, and nobody will, whatever token he has. That is the time to give them to someone else.
 * The request ends when all uses are over, the lifetime is, the grant is revoked
 * (nixl_grant_revoke() or nixl_req_cancel()), or the region is closed; and, in each case, when
 * those who had begun have ended or died. A use that has begun counts, however it ends. Operations
 * that come later fail with NIXL_E_STALE, and say for which of these reasons. The owner makes no
 * further call for any of that.
 *
 * Like the flags of enum nixl_access on one host, a grant binds processes that use this library: it
 * does not stop one that writes to shared memory by itself, or that puts without a grant.
 *
 * @param blocks       which: one entry, as of a prepared transfer; its `region` has a segment of
 *                     this rank and a name. Read within the call
 * @param params       NULL: to be read, any number of times, without limit
 * @param token_p      the token and its final zero: text as of nixl_pair_expose(), to be sent in
 * any way; any process that reaches this one may use it
 * @param token_nbytes room there; NIXL_TOKEN_MAX + 1 suffices for every version
 * @param req_p        the request, for nixl_req_wait() and the like; nixl_req_detach() leaves the
 *                     blocks lent until the grant ends
 * @return NIXL_INPROGRESS        lent
 * @return NIXL_E_INVALID_ARG     a bad entry, handle, right, number or lifetime; no blocks
 * @return NIXL_E_RANGE           a block lies outside of this rank's segment
 * @return NIXL_E_ACCESS          the region does not allow peers that right (enum nixl_access)
 * @return NIXL_E_TRUNCATED       the room is too small; nothing is lent
 * @return NIXL_E_LIMIT           4,096 grants are open; or NIXL_GRANT_PIECES_MAX is exceeded, or
 * the room for pieces, 500,000 in all
 * @return NIXL_E_NO_MEMORY
 * The request ends with NIXL_OK: all uses are over; NIXL_E_EXPIRED; NIXL_E_CANCELED: revoked, or
 * the region was closed. Threads: any.
 */
NIXL_API int nixl_grant_create(const struct nixl_blocks *blocks,
                               const struct nixl_grant_params *params, char *token_p,
                               size_t token_nbytes, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Let a grant live for @p lifetime_ns from now on, whether that is longer or shorter than before;
 * NIXL_FOREVER: without limit. Its owner may, and everyone who has the token. The owner's library
 * answers, whatever its program does; the time counts from when it reads the question.
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG  the token is damaged or forged, or of a process that is neither in
 * the job nor attached; the lifetime is not above 0
 * @return NIXL_E_STALE        the grant has ended, or no use is left; the detail says why
 * @return NIXL_E_PEER_LOST, NIXL_E_UNSUPPORTED, NIXL_E_TIMEOUT  as nixl_region_is_published()
 * @return NIXL_E_CANCELED     nixl_question_cancel() has ended it; perhaps it was renewed
 * Threads: any.
 */
NIXL_API int nixl_grant_renew(const char *token, int64_t lifetime_ns) NIXL_MUST_CHECK;

/**
 * End a grant of this process: no operation begins any more. Waits until those that had begun have
 * ended, so that the blocks can be given to someone else.
 * @return NIXL_OK             the grant has ended, by this call or before; nobody uses the blocks
 * @return NIXL_E_TIMEOUT      (NIXL_INPROGRESS with 0) no operation begins, but one that had begun
 *                             has not ended: the detail names whose. The blocks are not free yet
 * @return NIXL_E_INVALID_ARG  the token is damaged or forged, or another process made it
 * The request still has to be waited for, tested or detached. Threads: any.
 */
NIXL_API int nixl_grant_revoke(const char *token, int64_t timeout_ns) NIXL_MUST_CHECK;

/** Where a grant is in its life. */
enum nixl_grant_state {
    NIXL_GRANT_OPEN = 1,    /**< may be used */
    NIXL_GRANT_USED = 2,    /**< no use is left */
    NIXL_GRANT_EXPIRED = 3, /**< its lifetime is over */
    NIXL_GRANT_REVOKED = 4, /**< its owner has taken it back */
    NIXL_GRANT_CLOSED = 5,  /**< its region was closed */
};

/** What is known of a grant. */
struct nixl_grant_info {
    size_t struct_nbytes;
    int rank;           /**< its owner */
    int32_t state;      /**< enum nixl_grant_state */
    uint32_t rights;    /**< of enum nixl_grant_right */
    uint32_t uses_left; /**< UINT32_MAX: any number */
    uint32_t nusers;    /**< operations that have begun and not ended */
    int64_t left_ns;    /**< of its lifetime; NIXL_FOREVER: no limit */
    uint64_t nbytes;    /**< of all blocks, in all extents */
};
#define NIXL_GRANT_INFO_INIT                                                                       \
    {                                                                                              \
        sizeof(struct nixl_grant_info), 0, 0, 0, 0, 0, 0, 0                                        \
    }

/**
 * Ask the owner of a grant about it. Returns as nixl_grant_renew(); NIXL_E_STALE: it ended so long
 * ago that its owner has forgotten it. Threads: any.
 */
NIXL_API int nixl_grant_query(const char *token, struct nixl_grant_info *info_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_GRANT_H */
