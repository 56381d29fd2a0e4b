/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/signal.h
 * Signals: 64-bit words that peers raise and their owner waits for.
 */
#ifndef NIXLRUN_SIGNAL_H
#define NIXLRUN_SIGNAL_H

#include <nixlrun/base.h>
#include <nixlrun/op.h>
#include <nixlrun/region.h>
#include <nixlrun/request.h>
#include <nixlrun/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Set a signal: a 64-bit word in a rank's segment, aligned to 8 bytes. Its owner waits for it with
 * nixl_signal_wait(), and then sees all earlier puts of this process to that rank.
 * Returns, order and threads as nixl_atomic().
 */
NIXL_API int nixl_signal_set(int rank, struct nixl_region *region, uint64_t offset,
                             uint64_t value) NIXL_MUST_CHECK;

/** Add to a signal, so that its owner can count many ranks; otherwise as nixl_signal_set(). */
NIXL_API int nixl_signal_add(int rank, struct nixl_region *region, uint64_t offset,
                             uint64_t value) NIXL_MUST_CHECK;

/** What an operation on data does to its signal. */
enum nixl_signal_op {
    NIXL_SIGNAL_ADD = 0,
    NIXL_SIGNAL_SET = 1,
};

/**
 * nixl_put(), and a change of a signal in a region of the same rank, which becomes visible after
 * the data. If the signal is found to be invalid, nothing is moved. NIXL_E_INVALID_ARG also if @p
 * op does not exist.
 */
NIXL_API int nixl_put_signal(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                             size_t nbytes, struct nixl_region *signal_region,
                             uint64_t signal_offset, enum nixl_signal_op op,
                             uint64_t value) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_signal_set() and nixl_signal_add(), chosen by @p signal_op. A change
 * that is only started does not wait for earlier puts: the signal is raised when they are visible.
 *
 * NIXL_OP_STREAM: the GPU sets the word after everything that the stream has put before, without
 * the host; a host function queued behind it wakes a waiter that sleeps. Nothing else should write
 * the word meanwhile; it lies in allocated host memory or CUDA memory. Only NIXL_SIGNAL_SET.
 * @return as nixl_atomic_x(); on a stream NIXL_OK: queued; NIXL_E_UNSUPPORTED: the GPU cannot reach
 *         that segment, or cannot write words in a stream; NIXL_E_TRANSPORT: the driver refused
 */
NIXL_API int nixl_signal_x(int rank, struct nixl_region *region, uint64_t offset,
                           enum nixl_signal_op signal_op, uint64_t value, const struct nixl_op *op,
                           struct nixl_req **req_p) NIXL_MUST_CHECK;

/** How a word is compared with a value. */
enum nixl_compare {
    NIXL_COMPARE_EQ = 0,
    NIXL_COMPARE_NE = 1,
    NIXL_COMPARE_LT = 2,
    NIXL_COMPARE_LE = 3,
    NIXL_COMPARE_GT = 4,
    NIXL_COMPARE_GE = 5,
};

/**
 * Wait until a signal of this rank compares true: word OP value; both are unsigned.
 *
 * Spins briefly, then sleeps. Signals and nixl_atomic() wake it, and also make an armed event fd
 * readable. Changes by other means (a put, a store) do not: a sleeping call checks the word once a
 * second. A word in device memory is copied to the host for each check, with pauses that grow to
 * 200 us.
 *
 * @param word    8-byte aligned, usually in a region of this rank
 * @param seen_p  the value that was seen, or NULL
 * @return NIXL_OK               it compared true
 * @return NIXL_INPROGRESS       (timeout 0) it does not
 * @return NIXL_E_TIMEOUT        it did not in time
 * @return NIXL_E_PEER_LOST      it does not, and a rank has died, which nixl_last_error() names:
 *                               once for each death in each thread that waits for signals. Also,
 *                               after a second or two, if all others that live are in
 *                               nixl_finalize(), nobody is attached or may attach, and this process
 *                               has no device memory and never wrote to itself by the library: the
 *                               rank is -1
 * @return NIXL_E_INVALID_ARG    NULL, not aligned, no such comparison, a negative timeout
 * Threads: any.
 */
NIXL_API int nixl_signal_wait(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                              int64_t timeout_ns, uint64_t *seen_p) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_signal_wait().
 *
 * With `cq` the call returns at once, and the queue reports NIXL_CQ_SIGNAL once, when the word
 * compares true, or with NIXL_E_TIMEOUT when a timeout_ns other than 0 is over; until then the word
 * must stay valid, and it lies in host memory. NIXL_OP_RANK: only the loss of that rank ends the
 * wait, and it always does, however often it was reported before; so does its nixl_finalize(),
 * after a second or two; without it, as nixl_signal_wait(), and a queue reports no loss here.
 *
 * NIXL_OP_STREAM: the stream waits, not the host: work queued after it begins when the word, in
 * host or CUDA memory of a region of this rank, compares true by NIXL_COMPARE_EQ, or by
 * NIXL_COMPARE_GE: the difference, as a signed number, is not below 0. A rank that dies raises no
 * signal: release the stream with nixl_signal_set() on the caller's own rank.
 * @return as nixl_signal_wait(); NIXL_OK: queued on the stream; NIXL_INPROGRESS: the queue reports
 *         it; NIXL_E_UNSUPPORTED, NIXL_E_TRANSPORT, NIXL_E_NO_MEMORY
 * Threads: any.
 */
NIXL_API int nixl_signal_wait_x(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                                const struct nixl_op *op, uint64_t *seen_p) NIXL_MUST_CHECK;

/**
 * Wait until one of several signals compares true. *index_p, which may be NULL, is the first that
 * does. Otherwise as nixl_signal_wait(). NIXL_E_INVALID_ARG also if there are no signals.
 */
NIXL_API int nixl_signal_wait_any(const uint64_t *const *words, size_t nwords,
                                  enum nixl_compare compare, uint64_t value, int64_t timeout_ns,
                                  size_t *index_p, uint64_t *seen_p) NIXL_MUST_CHECK;

/**
 * nixl_signal_wait() for an integer of any of these types; signed types compare as signed.
 *
 * @param word   aligned to its size
 * @param type   NIXL_TYPE_INT32, NIXL_TYPE_UINT32, NIXL_TYPE_INT64 or NIXL_TYPE_UINT64
 * @param value  one of the type
 * @param seen_p one of the type, or NULL
 * @return as nixl_signal_wait(); NIXL_E_INVALID_ARG also for another type or if value is NULL
 * Threads: any.
 */
NIXL_API int nixl_word_wait(const void *word, enum nixl_type type, enum nixl_compare compare,
                            const void *value, int64_t timeout_ns, void *seen_p) NIXL_MUST_CHECK;

/**
 * Wait until one of @p nwords words compares true. They lie @p stride bytes apart, starting at @p
 * base: words of an array, or a field of an array of structs. *index_p, which may be NULL, is the
 * first that does. Otherwise as nixl_word_wait(); every word must be aligned to its size.
 */
NIXL_API int nixl_word_wait_any(const void *base, size_t stride, size_t nwords, enum nixl_type type,
                                enum nixl_compare compare, const void *value, int64_t timeout_ns,
                                size_t *index_p, void *seen_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_SIGNAL_H */
