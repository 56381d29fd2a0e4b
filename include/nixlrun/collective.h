/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/collective.h
 * Collectives that move data: barrier, broadcast, gather, scatter, alltoall and their kin.
 * Also the rules for all collectives, including reductions.
 */
#ifndef NIXLRUN_COLLECTIVE_H
#define NIXLRUN_COLLECTIVE_H

#include <nixlrun/base.h>
#include <nixlrun/request.h>
#include <nixlrun/team.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * These rules hold for all collectives. Sizes, roots, types and operations must be the same on all
 * members. Buffers may have any alignment, and may be NULL if they have no bytes. They are host
 * memory, CUDA memory, or Vulkan memory that lies in a region of this process; a region must stay
 * open until the call is over. The kind of memory may differ from member to member and from buffer
 * to buffer. On one host the other members read and write large buffers in place; reductions of GPU
 * memory go through host memory, and NIXL_REDUCE_USER is called with host memory. Sizes may exceed
 * 4 GiB.
 * When the call has returned, its buffers may be reused and its result is there. Apart from the
 * barrier, and from what the arrival of data implies, no member learns how far the others are.
 *
 * The result of a reduction is the same on all members and in each run with the same team, size,
 * type, operation and algorithm (NIXLRUN_COLL_TABLE); the order of the operands is then fixed, but
 * unspecified.
 *
 * A timeout is for the whole call; with 0 the call returns NIXL_E_AGAIN and has no effect, unless
 * the team has only one member. Returns: NIXL_OK; NIXL_E_INVALID_ARG; NIXL_E_TIMEOUT;
 * NIXL_E_PEER_LOST: a member has died, or is in nixl_finalize() and has not begun the call; its
 * rank is in nixl_last_error(); NIXL_E_CANCELED: the team is broken; NIXL_E_UNSUPPORTED,
 * NIXL_E_NO_MEMORY, NIXL_E_TRANSPORT as nixl_put(): the team is broken. Threads: any, one
 * collective of a team at a time.
 *
 * The _x calls only start the collective. They return NIXL_INPROGRESS and a request for
 * nixl_req_test() and the like, or NIXL_OK, already complete, and no request. Those of one team run
 * one after the other, in the order of the calls, and progress without further calls; a call
 * without _x waits for them. Arguments and arrays may be reused at once, buffers when the request
 * is complete. Canceling a request that is not complete breaks the team.
 *
 * With NIXL_OP_PREPARE, an _x call makes a prepared collective and moves nothing; see
 * nixl_coll_start() at the end of this file.
 */

/** Wait until all members have called it. */
NIXL_API int nixl_barrier(struct nixl_team *team, int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_barrier_x(struct nixl_team *team, const struct nixl_op *op,
                            struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Copy @p nbytes at @p buf of member @p root to @p buf of all others. */
NIXL_API int nixl_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_broadcast_x(struct nixl_team *team, int root, void *buf, size_t nbytes,
                              const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Copy src of member i, nbytes of each, to dst + i * nbytes of member @p root; it may already lie
 * there.
 */
NIXL_API int nixl_gather(struct nixl_team *team, int root, const void *src, void *dst,
                         size_t nbytes, int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_gather_x(struct nixl_team *team, int root, const void *src, void *dst,
                           size_t nbytes, const struct nixl_op *op,
                           struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Copy src + i * nbytes of member @p root to dst of member i; it may already lie there. */
NIXL_API int nixl_scatter(struct nixl_team *team, int root, const void *src, void *dst,
                          size_t nbytes, int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_scatter_x(struct nixl_team *team, int root, const void *src, void *dst,
                            size_t nbytes, const struct nixl_op *op,
                            struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Copy src of member i to dst + i * nbytes of all; it may already lie there. */
NIXL_API int nixl_allgather(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_allgather_x(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                              const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Copy src + j * nbytes of member i to dst + i * nbytes of member j; src may be dst. */
NIXL_API int nixl_alltoall(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                           int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_alltoall_x(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                             const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Blocks of one size with strides, for an exchange among all members. block_nbytes and nblocks must
 * be the same on all members; strides and buffers may differ.
 */
struct nixl_strided_args {
    size_t struct_nbytes;
    const void *src;
    void *dst; /**< must not overlap src, but may be src if both strides are equal */
    size_t block_nbytes;
    size_t nblocks;    /**< for each member */
    size_t src_stride; /**< bytes from one block to the next in src; any value */
    size_t dst_stride; /**< the same in dst; at least block_nbytes */
};
#define NIXL_STRIDED_ARGS_INIT                                                                     \
    {                                                                                              \
        sizeof(struct nixl_strided_args), NULL, NULL, 0, 0, 0, 0                                   \
    }

/**
 * Block k that member i has for member j, at src + (j * nblocks + k) * src_stride, goes to
 * dst + (i * nblocks + k) * dst_stride of member j. Bytes between the blocks are not touched.
 */
NIXL_API int nixl_alltoall_strided(struct nixl_team *team, const struct nixl_strided_args *args,
                                   int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_alltoall_strided_x(struct nixl_team *team, const struct nixl_strided_args *args,
                                     const struct nixl_op *op,
                                     struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Data of different sizes. Each call says which fields it reads. A member must receive as many
 * bytes as the other sends. src and dst must not overlap, except that a member's data for itself
 * may already lie in its place.
 */
struct nixl_vector_args {
    size_t struct_nbytes;
    const void *src;
    void *dst;
    size_t nbytes;             /**< of the one piece */
    const size_t *src_nbytes;  /**< [size]: of the piece for each member */
    const size_t *src_offsets; /**< [size]: where it is in src */
    const size_t *dst_nbytes;  /**< [size]: of the piece of each member */
    const size_t *dst_offsets; /**< [size]: where it goes in dst */
};
#define NIXL_VECTOR_ARGS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct nixl_vector_args), NULL, NULL, 0, NULL, NULL, NULL, NULL                     \
    }

/** All: src, nbytes. Root: dst, dst_nbytes, dst_offsets. */
NIXL_API int nixl_gatherv(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                          int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_gatherv_x(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                            const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Root: src, src_nbytes, src_offsets. All: dst, nbytes. */
NIXL_API int nixl_scatterv(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                           int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_scatterv_x(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                             const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** All: src, nbytes, dst, dst_nbytes, dst_offsets. */
NIXL_API int nixl_allgatherv(struct nixl_team *team, const struct nixl_vector_args *args,
                             int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_allgatherv_x(struct nixl_team *team, const struct nixl_vector_args *args,
                               const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** All: src, src_nbytes, src_offsets, dst, dst_nbytes, dst_offsets. */
NIXL_API int nixl_alltoallv(struct nixl_team *team, const struct nixl_vector_args *args,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_alltoallv_x(struct nixl_team *team, const struct nixl_vector_args *args,
                              const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/* ---- prepared collectives -------------------------------------------------------------------- */

/**
 * A prepared collective: one call with its arguments, to be started any number of times. Checks,
 * mappings of the other members' buffers, and what members would ask each other are done once.
 *
 * The _x call of any collective prepares it, if `flags` of its struct nixl_op has NIXL_OP_PREPARE
 * and `coll_p` says where the handle goes; it takes neither a request nor a queue. All members
 * prepare the same, in the same order among the collectives of the team; the call waits until
 * those on the same host have prepared it, and moves nothing. Arguments and arrays are copied. The
 * buffers must stay where they are until the handle is freed, and the regions in which they lie
 * must stay open; their contents may change between starts, which read them anew.
 *
 * Preparing returns as the collective, and
 *   NIXL_E_INVALID_ARG: coll_p is NULL, a request or a queue was given; or a member on this host
 *   prepares another collective, or with another size or root, which all of them are told
 */
struct nixl_coll;

/**
 * Run a prepared collective, as the call with which it was prepared. All members start the same
 * prepared collectives of a team in the same order, among its other collectives.
 * @param coll  the handle, to be freed with nixl_coll_free()
 * @return as the collective; NIXL_E_INVALID_ARG: coll is NULL, or it or its team was freed.
 * Collective: the members. Threads: any, one collective of a team at a time.
 */
NIXL_API int nixl_coll_start(struct nixl_coll *coll, int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_coll_start(). A request or a queue is given as for the _x call of the
 * collective. A prepared collective may be started again before it has ended: starts run one after
 * the other.
 */
NIXL_API int nixl_coll_start_x(struct nixl_coll *coll, const struct nixl_op *op,
                               struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Free a prepared collective. nixl_team_free() frees those of the team, and the last
 * nixl_finalize() all.
 * @return NIXL_OK; NIXL_E_IN_USE: a start has not ended; NIXL_E_INVALID_ARG. Collective: no.
 * Threads: any, but no other call may use the handle.
 */
NIXL_API int nixl_coll_free(struct nixl_coll *coll);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_COLLECTIVE_H */
