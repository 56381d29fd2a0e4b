/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The asymmetric store-load barrier. Two sides each store one word and then load the other's; at
 * least one must see the other's store. The side that runs often (a put, a notification) uses
 * nxr_barrier_light(), the side that runs rarely (a close, going to sleep) uses
 * nxr_barrier_heavy(), which makes every running thread of every registered process pass a full
 * barrier (membarrier(2), global expedited). If the kernel lacks it, both sides use a full fence:
 * the rare side publishes nxr_barrier_is_full(), and the frequent side passes that value to
 * nxr_barrier_light().
 */
#ifndef NXR_UTIL_BARRIER_H
#define NXR_UTIL_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__SANITIZE_THREAD__)
#define NXR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NXR_TSAN 1
#endif
#endif
#ifndef NXR_TSAN
#define NXR_TSAN 0
#endif

/*
 * For a function that reads without a lock and whose answer is only a hint: ThreadSanitizer does
 * not check it.
 */
#if NXR_TSAN
#define NXR_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define NXR_NO_TSAN
#endif

/* Register this process. Call once, before any other use. */
void nxr_barrier_init(void);

/* Is membarrier missing, so that this process needs full fences from itself and from its peers? */
bool nxr_barrier_is_full(void);

/*
 * Sequentially consistent fence. ThreadSanitizer does not understand fences: an atomic update takes
 * its place.
 */
static inline void nxr_fence_full(void)
{
#if NXR_TSAN
    static atomic_int word;

    atomic_fetch_add_explicit(&word, 0, memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The weaker ones, around what is read or written without a lock and compared by a counter. */
static inline void nxr_fence_acquire(void)
{
#if NXR_TSAN
    nxr_fence_full();
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

static inline void nxr_fence_release(void)
{
#if NXR_TSAN
    nxr_fence_full();
#else
    atomic_thread_fence(memory_order_release);
#endif
}

/* `is_full`: whether this process or the other side lacks membarrier. */
static inline void nxr_barrier_light(bool is_full)
{
    if (__builtin_expect(is_full || NXR_TSAN, 0)) {
        nxr_fence_full();
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
}

void nxr_barrier_heavy(void);

#endif
