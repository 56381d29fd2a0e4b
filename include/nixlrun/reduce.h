/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/reduce.h
 * Collectives that combine data. nixlrun/collective.h has the rules for all collectives.
 */
#ifndef NIXLRUN_REDUCE_H
#define NIXLRUN_REDUCE_H

#include <nixlrun/base.h>
#include <nixlrun/request.h>
#include <nixlrun/team.h>
#include <nixlrun/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a reduction combines two values. AND, OR and XOR are bitwise, on integers only. */
enum nixl_reduce_op {
    NIXL_REDUCE_SUM = 0,
    NIXL_REDUCE_PROD = 1,
    NIXL_REDUCE_MIN = 2, /**< of a NaN and a number, the first in the order of operands */
    NIXL_REDUCE_MAX = 3,
    NIXL_REDUCE_AND = 4,
    NIXL_REDUCE_OR = 5,
    NIXL_REDUCE_XOR = 6,
    NIXL_REDUCE_USER = 7, /**< the caller's `combine` */
};

/**
 * A reduction of the caller's own: left[i] becomes left[i] OP right[i], for @p count elements.
 * Must be associative and commutative, must not call the library, and may be called from any of the
 * library's threads. Elements need not be aligned to more than 8 bytes.
 */
typedef void nixl_combine_fn(void *left, const void *right, size_t count, void *arg);

/** What to reduce. src may be dst (in place); otherwise they must not overlap. */
struct nixl_reduce_args {
    size_t struct_nbytes;
    const void *src;
    void *dst;
    size_t count;             /**< elements of src; nixl_reduce_scatter(): of dst */
    int32_t type;             /**< enum nixl_type */
    int32_t op;               /**< enum nixl_reduce_op */
    nixl_combine_fn *combine; /**< NIXL_REDUCE_USER: the operation */
    void *combine_arg;        /**< its last argument */
    size_t element_nbytes;    /**< NIXL_REDUCE_USER: of an element that is not of `type`; else 0 */
    int is_exclusive;         /**< nixl_scan(): 1: leave out the caller's own src; else 0 */
};
#define NIXL_REDUCE_ARGS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct nixl_reduce_args), NULL, NULL, 0, 0, 0, NULL, NULL, 0, 0                     \
    }

/** Combine the src of all members into dst of member @p root; dst of others is not used. */
NIXL_API int nixl_reduce(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                         int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_reduce_x(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                           const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Combine the src of all members into dst of each. */
NIXL_API int nixl_allreduce(struct nixl_team *team, const struct nixl_reduce_args *args,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_allreduce_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                              const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Combine the src of all members, each with `count` elements for every member, and give the i-th
 * part to member i. In place: the part goes to the beginning of src.
 */
NIXL_API int nixl_reduce_scatter(struct nixl_team *team, const struct nixl_reduce_args *args,
                                 int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_reduce_scatter_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                                   const struct nixl_op *op,
                                   struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * dst of member i becomes the src of members 0 to i (exclusive: 0 to i - 1), combined in this
 * order. An exclusive scan leaves dst of member 0 unchanged.
 */
NIXL_API int nixl_scan(struct nixl_team *team, const struct nixl_reduce_args *args,
                       int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_scan_x(struct nixl_team *team, const struct nixl_reduce_args *args,
                         const struct nixl_op *op, struct nixl_req **req_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_REDUCE_H */
