/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun_device.cuh
 * Puts and signals that a CUDA kernel makes itself.
 *
 * The host gets a pointer to a peer's segment of a region with nixl_region_map() and passes it to
 * its kernel: device memory of a GPU that this one reaches, or shared host memory. The kernel
 * stores into it, without the host: over NVLink a flag takes less than a microsecond. Nothing of
 * the library runs on the GPU, and no library is linked; this header is all there is.
 *
 * What holds for all:
 *
 * - Made for up to a few KiB. The copy engines of a GPU are better at more: nixl_put().
 * - Each call says who makes it: one thread; _warp: all 32 threads of a warp, together and with the
 *   same arguments; _block: all threads of a block, likewise. _block calls contain __syncthreads().
 * - Order. A put is stores, no more: they may arrive in any order. A signal is raised behind
 *   everything that its callers (the thread, the warp, the block) have stored before, on whatever
 *   device and in whatever host memory, and behind what they have seen others store. A thread
 *   that sees the signal by nixl_device_signal_wait(), or on the host by nixl_signal_wait(), sees
 *   that data. nixl_device_fence() is the same order without a signal, for flags of your own.
 * - A signal that a kernel raises wakes no waiter. Another kernel, and a host that spins, see it at
 *   once. A nixl_signal_wait() that sleeps checks again, first after 0.2 ms and then less often,
 *   down to every 8 ms, where its process has memory of a GPU, own or a peer's; else once a second.
 * - A word is changed by atomic operations of the whole system. Words in shared host memory and in
 *   memory of a GPU that is linked by NVLink may be added to by many at once; over PCI Express a
 *   GPU has no atomic add for a peer: let one kernel alone raise such a word, by
 *   nixl_device_signal_set().
 * - Pointers stay valid until the host frees them with nixl_region_unmap(). A region that is
 *   closed by its owner stays until then: what is stored is lost, but does no harm. A peer
 *   that has died raises no signals: give each wait a timeout.
 *
 * CUDA C++ from C++11 on, compute capability 7.0 and later.
 */
#ifndef NIXLRUN_DEVICE_CUH
#define NIXLRUN_DEVICE_CUH

#include <nixlrun.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "nixlrun_device.cuh needs compute capability 7.0 or later: compile with -arch=sm_70 or above"
#endif

/* ---- order ----------------------------------------------------------------------------------- */

/** What this thread has stored, and seen stored, is visible to all before what it stores next. */
static __device__ __forceinline__ void nixl_device_fence(void)
{
    __threadfence_system();
}

/* ---- put ------------------------------------------------------------------------------------- */

/* Thread `lane` of `n_lanes` copies its share in words of the type, to which both are aligned. */
template <typename Word>
static __device__ __forceinline__ void nixl_device_put_words_(void *dst, const void *src,
                                                              size_t nbytes, unsigned lane,
                                                              unsigned n_lanes)
{
    Word *to = static_cast<Word *>(dst);
    const Word *from = static_cast<const Word *>(src);
    const size_t n_words = nbytes / sizeof(Word);

#pragma unroll 4
    for (size_t i = lane; i < n_words; i += n_lanes) {
        to[i] = from[i];
    }
}

static __device__ __forceinline__ void nixl_device_put_segment_(void *dst, const void *src,
                                                             size_t nbytes, unsigned lane,
                                                             unsigned n_lanes)
{
    const size_t bits = reinterpret_cast<size_t>(dst) | reinterpret_cast<size_t>(src) | nbytes;

    if (bits % 16 == 0) {
        nixl_device_put_words_<uint4>(dst, src, nbytes, lane, n_lanes);
    } else if (bits % 8 == 0) {
        nixl_device_put_words_<uint64_t>(dst, src, nbytes, lane, n_lanes);
    } else if (bits % 4 == 0) {
        nixl_device_put_words_<uint32_t>(dst, src, nbytes, lane, n_lanes);
    } else {
        nixl_device_put_words_<unsigned char>(dst, src, nbytes, lane, n_lanes);
    }
}

static __device__ __forceinline__ unsigned nixl_device_lane_(void)
{
    unsigned lane;

    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

static __device__ __forceinline__ unsigned nixl_device_thread_(void)
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/**
 * Copy bytes into a peer's mapped segment. Sizes and addresses that are multiples of 16 are
 * fastest.
 * @param dst     in memory of nixl_region_map()
 * @param src     any memory that the kernel can read; not overlapping
 * @param nbytes  may be 0
 */
static __device__ __forceinline__ void nixl_device_put(void *dst, const void *src, size_t nbytes)
{
    nixl_device_put_segment_(dst, src, nbytes, 0, 1);
}

static __device__ __forceinline__ void nixl_device_put_warp(void *dst, const void *src,
                                                            size_t nbytes)
{
    nixl_device_put_segment_(dst, src, nbytes, nixl_device_lane_(), 32);
}

static __device__ __forceinline__ void nixl_device_put_block(void *dst, const void *src,
                                                             size_t nbytes)
{
    nixl_device_put_segment_(dst, src, nbytes, nixl_device_thread_(),
                          blockDim.x * blockDim.y * blockDim.z);
}

/* ---- raising signals ------------------------------------------------------------------------- */

/** Set the word. @param signal  aligned to 8 bytes, in memory of nixl_region_map() */
static __device__ __forceinline__ void nixl_device_signal_set(uint64_t *signal, uint64_t value)
{
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(signal), "l"(value) : "memory");
}

/** Add to the word; the new value becomes visible at some time, as with all signals. */
static __device__ __forceinline__ void nixl_device_signal_add(uint64_t *signal, uint64_t value)
{
    asm volatile("red.release.sys.add.u64 [%0], %1;" ::"l"(signal), "l"(value) : "memory");
}

/** The warp's threads have all stored: one of them raises the signal for all. */
static __device__ __forceinline__ void nixl_device_signal_set_warp(uint64_t *signal, uint64_t value)
{
    __syncwarp();
    if (nixl_device_lane_() == 0) {
        nixl_device_signal_set(signal, value);
    }
    __syncwarp();
}

static __device__ __forceinline__ void nixl_device_signal_add_warp(uint64_t *signal, uint64_t value)
{
    __syncwarp();
    if (nixl_device_lane_() == 0) {
        nixl_device_signal_add(signal, value);
    }
    __syncwarp();
}

static __device__ __forceinline__ void nixl_device_signal_set_block(uint64_t *signal,
                                                                    uint64_t value)
{
    __syncthreads();
    if (nixl_device_thread_() == 0) {
        nixl_device_signal_set(signal, value);
    }
    __syncthreads();
}

static __device__ __forceinline__ void nixl_device_signal_add_block(uint64_t *signal,
                                                                    uint64_t value)
{
    __syncthreads();
    if (nixl_device_thread_() == 0) {
        nixl_device_signal_add(signal, value);
    }
    __syncthreads();
}

/** A put and a signal that is raised (added to) behind it. */
static __device__ __forceinline__ void nixl_device_put_signal(void *dst, const void *src,
                                                              size_t nbytes, uint64_t *signal,
                                                              uint64_t value)
{
    nixl_device_put(dst, src, nbytes);
    nixl_device_signal_add(signal, value);
}

static __device__ __forceinline__ void nixl_device_put_signal_warp(void *dst, const void *src,
                                                                   size_t nbytes, uint64_t *signal,
                                                                   uint64_t value)
{
    nixl_device_put_warp(dst, src, nbytes);
    nixl_device_signal_add_warp(signal, value);
}

static __device__ __forceinline__ void nixl_device_put_signal_block(void *dst, const void *src,
                                                                    size_t nbytes, uint64_t *signal,
                                                                    uint64_t value)
{
    nixl_device_put_block(dst, src, nbytes);
    nixl_device_signal_add_block(signal, value);
}

/* ---- waiting for signals --------------------------------------------------------------------- */

/** The word's present value; a caller that sees a signal sees what was stored before it. */
static __device__ __forceinline__ uint64_t nixl_device_signal_fetch(const uint64_t *signal)
{
    uint64_t seen;

    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(seen) : "l"(signal) : "memory");
    return seen;
}

static __device__ __forceinline__ bool
nixl_device_compare_(uint64_t seen, enum nixl_compare compare, uint64_t value)
{
    return compare == NIXL_COMPARE_EQ   ? seen == value
           : compare == NIXL_COMPARE_NE ? seen != value
           : compare == NIXL_COMPARE_LT ? seen < value
           : compare == NIXL_COMPARE_LE ? seen <= value
           : compare == NIXL_COMPARE_GT ? seen > value
                                : seen >= value;
}

static __device__ __forceinline__ uint64_t nixl_device_now_ns_(void)
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/**
 * Wait until a signal of this rank compares true.
 * @param signal      a word of the own segment, as an address that the kernel can read
 * @param timeout_ns  from now; 0 looks once; NIXL_FOREVER may leave a kernel waiting for a dead
 *                    peer, which nothing but the end of the process will stop
 * @param seen_p      what the word was; may be NULL
 * @return NIXL_OK, NIXL_E_TIMEOUT, or NIXL_INPROGRESS with timeout 0
 */
static __device__ __forceinline__ int nixl_device_signal_wait(const uint64_t *signal,
                                                              enum nixl_compare compare,
                                                              uint64_t value, int64_t timeout_ns,
                                                              uint64_t *seen_p)
{
    const uint64_t start = timeout_ns != NIXL_FOREVER ? nixl_device_now_ns_() : 0;
    uint64_t seen = nixl_device_signal_fetch(signal);
    unsigned n_looks = 0;

    while (!nixl_device_compare_(seen, compare, value)) {
        if (timeout_ns == 0) {
            return NIXL_INPROGRESS;
        }
        /* The timer is slow to read: now and then is enough. */
        if (++n_looks % 64 == 0 && timeout_ns != NIXL_FOREVER &&
            nixl_device_now_ns_() - start >= static_cast<uint64_t>(timeout_ns)) {
            return NIXL_E_TIMEOUT;
        }
        seen = nixl_device_signal_fetch(signal);
    }
    if (seen_p != NULL) {
        *seen_p = seen;
    }
    return NIXL_OK;
}

/**
 * One thread of the block waits, the others wait for it: all have the result, and see the data.
 * @param seen_p  written by that thread; may be NULL
 */
static __device__ __forceinline__ int nixl_device_signal_wait_block(const uint64_t *signal,
                                                                    enum nixl_compare compare,
                                                                    uint64_t value,
                                                                    int64_t timeout_ns,
                                                                    uint64_t *seen_p)
{
    int status = NIXL_OK;

    if (nixl_device_thread_() == 0) {
        status = nixl_device_signal_wait(signal, compare, value, timeout_ns, seen_p);
    }
    /* At most one thread is not 0, and NIXL_INPROGRESS and failures differ from it. */
    if (__syncthreads_or(status == NIXL_INPROGRESS)) {
        return NIXL_INPROGRESS;
    }
    return __syncthreads_or(status < 0) ? NIXL_E_TIMEOUT : NIXL_OK;
}

#endif
