/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/atomic.h
 * Atomic operations on words in a rank's segment of a region.
 */
#ifndef NIXLRUN_ATOMIC_H
#define NIXLRUN_ATOMIC_H

#include <nixlrun/base.h>
#include <nixlrun/op.h>
#include <nixlrun/region.h>
#include <nixlrun/request.h>
#include <nixlrun/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an atomic operation does to the word. AND, OR and XOR are for integers only. */
enum nixl_atomic_op {
    NIXL_ATOMIC_ADD = 0,
    NIXL_ATOMIC_AND = 1,
    NIXL_ATOMIC_OR = 2,
    NIXL_ATOMIC_XOR = 3,
    NIXL_ATOMIC_SWAP = 4,
    NIXL_ATOMIC_SET = 5,   /**< same as SWAP */
    NIXL_ATOMIC_FETCH = 6, /**< reads only; the operand may be NULL */
};

/**
 * Change a word in a rank's segment of a region, and fetch its old value.
 *
 * Atomic with every other access of the library to that word, from any rank and over any path. The
 * owner's own threads must use their compiler's atomics, or this call. Sequentially consistent. A
 * word in registered memory of another rank, or on another host, is changed by that rank's process:
 * by a thread that waits in a call, or by its service thread, so the rank may compute meanwhile.
 * nixl_atomic(3) gives the cost. Threads that wait for the word in nixl_signal_wait() or
 * nixl_word_wait() are woken.
 *
 * @param offset     of the word, which must be aligned to its size in the owner's memory and lie
 *                   inside the segment; segments that the library allocates are page aligned
 * @param operand    one value of the type
 * @param fetched_p  one value of the type, or NULL
 * @return NIXL_OK                done, visible to all
 * @return NIXL_E_INVALID_ARG     bad rank, handle, type or operation, or a misaligned word
 * @return NIXL_E_TIMEOUT         no answer within NIXLRUN_OP_TIMEOUT: unknown whether it was done
 * @return NIXL_E_TRANSPORT       the connection to the owner broke: unknown whether it was done
 * and as nixl_put(). Completion: remote. Order: after earlier puts of this process to that rank,
 * for which it waits if they are not complete. Threads: any.
 */
NIXL_API int nixl_atomic(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                         enum nixl_atomic_op op, const void *operand,
                         void *fetched_p) NIXL_MUST_CHECK;

/**
 * Change a word without its old value and without an answer, as nixl_put() writes: changes that
 * follow each other are sent together. nixl_flush() makes them visible to all, and reports
 * failures. What a notification, signal, fence or flush orders behind earlier puts to that rank, it
 * orders behind this as well, and this comes after earlier puts. Peers need the right to put only.
 *
 * Returns as nixl_signal_add(), which is this for NIXL_TYPE_UINT64. NIXL_E_INVALID_ARG also for
 * NIXL_ATOMIC_FETCH, and if @p operand is NULL. Completion: local. Threads: any. The name is UCX's
 * (ucp_atomic_post); OpenSHMEM calls these non-fetching.
 */
NIXL_API int nixl_atomic_post(int rank, struct nixl_region *region, uint64_t offset,
                              enum nixl_type type, enum nixl_atomic_op op,
                              const void *operand) NIXL_MUST_CHECK;

/**
 * Replace a word by @p desired if its bits equal those of @p expected. *fetched_p is its old value:
 * the bits of @p expected if it was replaced. Otherwise as nixl_atomic().
 */
NIXL_API int nixl_atomic_compare_swap(int rank, struct nixl_region *region, uint64_t offset,
                                      enum nixl_type type, const void *expected,
                                      const void *desired, void *fetched_p) NIXL_MUST_CHECK;

/**
 * The extended forms of nixl_atomic() and nixl_atomic_compare_swap(). A change that is only started
 * waits neither for the answer nor for earlier puts; the word is still changed after those puts.
 * The operands are read within the call, *fetched_p is written when the request completes. The
 * first use of a segment waits for its owner to publish it. Changes of one word that are under way
 * at once may be made in any order. Of struct nixl_op, no flag is used.
 * @return NIXL_OK          done at once; no request was made
 * @return NIXL_INPROGRESS  started: wait for, test or detach *req_p. A canceled operation was not
 *                          done if the cancel reports NIXL_OUTCOME_UNTOUCHED
 * Failures as nixl_atomic(): a failure known at once makes no request, any other ends the request.
 */
NIXL_API int nixl_atomic_x(int rank, struct nixl_region *region, uint64_t offset,
                           enum nixl_type type, enum nixl_atomic_op atomic_op, const void *operand,
                           const struct nixl_op *op, void *fetched_p,
                           struct nixl_req **req_p) NIXL_MUST_CHECK;
NIXL_API int nixl_atomic_compare_swap_x(int rank, struct nixl_region *region, uint64_t offset,
                                        enum nixl_type type, const void *expected,
                                        const void *desired, const struct nixl_op *op,
                                        void *fetched_p, struct nixl_req **req_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_ATOMIC_H */
