/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/signal.h
 * Signals: 64-bit words that peers raise and their owner waits for.
 */
#ifndef NIXLRUN_SIGNAL_H
#define NIXLRUN_SIGNAL_H

#include <nixlrun/base.h>
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
 * nixl_put_signal() that does not wait: @p src must not change until the request is complete, that
 * is, until the signal has changed. The first use of the signal's segment waits for its owner to
 * publish it, as nixl_signal_set() does. Otherwise as nixl_put_nb().
 */
NIXL_API int nixl_put_signal_nb(int rank, struct nixl_region *region, uint64_t offset,
                                const void *src, size_t nbytes, struct nixl_region *signal_region,
                                uint64_t signal_offset, enum nixl_signal_op op, uint64_t value,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * nixl_get_nb(), and a change of a signal of this process when @p dst holds the data, so that
 * another thread can wait for it by nixl_signal_wait().
 * @param signal  aligned to 8 bytes, in host memory, in a region or not. It must stay valid until
 *                the request is complete. NIXL_E_INVALID_ARG: it is not aligned or not in host
 *                memory, or @p op does not exist.
 */
NIXL_API int nixl_get_signal_nb(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                                size_t nbytes, uint64_t *signal, enum nixl_signal_op op,
                                uint64_t value, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * nixl_signal_set() or nixl_signal_add(), chosen by @p op, that does not wait for earlier puts: the
 * signal is raised when they are visible. Otherwise as nixl_atomic_nb().
 */
NIXL_API int nixl_signal_nb(int rank, struct nixl_region *region, uint64_t offset,
                            enum nixl_signal_op op, uint64_t value,
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
 *                               once for each death in each thread that waits for signals
 * @return NIXL_E_INVALID_ARG    NULL, not aligned, no such comparison, a negative timeout
 * Threads: any.
 */
NIXL_API int nixl_signal_wait(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                              int64_t timeout_ns, uint64_t *seen_p) NIXL_MUST_CHECK;

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
