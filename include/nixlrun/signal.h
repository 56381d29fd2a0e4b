/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/signal.h
 * Signals: 64-bit words that peers raise and their owner waits for.
 */
#ifndef NIXLRUN_SIGNAL_H
#define NIXLRUN_SIGNAL_H

#include <nixlrun/base.h>
#include <nixlrun/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Set a signal: a 64-bit word in a rank's part, aligned to 8 bytes. Its owner waits for it with
 * nixl_signal_wait(), and then sees all earlier puts of this process to that rank.
 * Returns, order and threads as nixl_atomic().
 */
NIXL_API int nixl_signal_set(int rank, struct nixl_region *region, uint64_t offset,
                             uint64_t value) NIXL_MUST_CHECK;

/** Add to a signal, so that those of many ranks can be counted; else as nixl_signal_set(). */
NIXL_API int nixl_signal_add(int rank, struct nixl_region *region, uint64_t offset,
                             uint64_t value) NIXL_MUST_CHECK;

/**
 * nixl_put(), and an addition to a signal in a region of the same rank, which is seen after the
 * data. Nothing is moved where the signal is found to be impossible.
 */
NIXL_API int nixl_put_signal(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                             size_t nbytes, struct nixl_region *signal_region,
                             uint64_t signal_offset, uint64_t value) NIXL_MUST_CHECK;

/** How a signal is compared with a value; both are unsigned. */
enum nixl_compare {
    NIXL_EQ = 0,
    NIXL_NE = 1,
    NIXL_LT = 2,
    NIXL_LE = 3,
    NIXL_GT = 4,
    NIXL_GE = 5,
};

/**
 * Wait until a signal of this rank compares true: word OP value.
 *
 * Spins briefly, then sleeps; woken by nixl_signal_set(), nixl_signal_add() and nixl_put_signal(),
 * which also make an armed event fd readable. A word that is changed by other means (a put, an
 * atomic, a store) is looked at once a second while asleep. A word in device memory is copied to
 * the host to be looked at, with pauses that grow to 200 us.
 *
 * @param word    8-byte aligned, usually in an own region
 * @param seen_p  the value that was seen, or NULL
 * @return NIXL_OK               it compared true
 * @return NIXL_INPROGRESS       (timeout 0) it does not
 * @return NIXL_ERR_TIMEOUT      it did not in time
 * @return NIXL_ERR_PEER_LOST    it does not, and a rank has died, which is in nixl_last_error():
 *                               once for each death in each thread that waits for signals
 * @return NIXL_ERR_INVALID_ARG  NULL, not aligned, no such comparison, a negative timeout
 * Threads: any.
 */
NIXL_API int nixl_signal_wait(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                              int64_t timeout_ns, uint64_t *seen_p) NIXL_MUST_CHECK;

/**
 * Wait until one of several signals compares true. *index_p, which may be NULL, is the first that
 * does. Else as nixl_signal_wait(). NIXL_ERR_INVALID_ARG also where there is none.
 */
NIXL_API int nixl_signal_wait_any(const uint64_t *const *words, size_t nwords,
                                  enum nixl_compare compare, uint64_t value, int64_t timeout_ns,
                                  size_t *index_p, uint64_t *seen_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_SIGNAL_H */
