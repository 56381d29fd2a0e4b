/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy bytes between host memories, by the fastest method of this processor for the size and the
 * alignment. One side is often shared memory that another core has just read or will read next.
 *
 * An aligned copy of 1, 2, 4 or 8 bytes is one store: peers poll such words. A copy of any size is
 * ordered before a later release store, even if it bypassed the caches.
 */
#ifndef NXR_UTIL_COPY_H
#define NXR_UTIL_COPY_H

#include "util/barrier.h"
#include "util/symbol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The copy methods. Not every processor supports all of them: see nxr_copy_is_usable(). */
#define NXR_COPY_METHODS(_x)                                                                       \
    _x(LIBC, "memcpy") _x(REP, "rep movsb") _x(AVX2, "avx2 loop") _x(AVX512, "avx512 loop")        \
        _x(STREAM, "non-temporal")

enum nxr_copy_method {
#define NXR_COPY_ENUM(_name, _text) NXR_COPY_##_name,
    NXR_COPY_METHODS(NXR_COPY_ENUM)
#undef NXR_COPY_ENUM
        NXR_COPY_N_METHODS
};

/* The method that nxr_copy() uses; LIBC for sizes of the inline path. */
enum nxr_copy_method nxr_copy_choose(const void *dst, const void *src, size_t nbytes);

/* Copy by one method, for measurements. The method must be usable. Any size and alignment. */
void nxr_copy_by(enum nxr_copy_method method, void *dst, const void *src, size_t nbytes);

bool nxr_copy_is_usable(enum nxr_copy_method method);
const char *nxr_copy_method_name(enum nxr_copy_method method);

/*
 * Many small copies that are parts of one transfer. nxr_copy_goes_past(): is the transfer so large
 * that its stores should bypass the caches? Then nxr_copy_past() copies each part, of any size and
 * alignment, and nxr_copy_past_end() follows the last one. It is the fence: only after it may a
 * flag or a notification announce the data.
 */
bool nxr_copy_goes_past(uint64_t total_nbytes);
void nxr_copy_past(void *dst, const void *src, size_t nbytes);
void nxr_copy_past_end(void);

/* Copies more than NXR_COPY_SMALL bytes; set once when the library is loaded. Callers use
 * nxr_copy(). */
extern NXR_HIDDEN void (*nxr_copy_large)(void *dst, const void *src, size_t nbytes);

#define NXR_COPY_SMALL 64

/* Words at any address, read and written by one instruction if the processor can do that. */
typedef uint64_t __attribute__((aligned(1), may_alias)) nxr_word64;
typedef uint32_t __attribute__((aligned(1), may_alias)) nxr_word32;
typedef uint16_t __attribute__((aligned(1), may_alias)) nxr_word16;
typedef uint64_t __attribute__((vector_size(16), aligned(1), may_alias)) nxr_block16;

/*
 * Peers poll whole words, and then read data that was flushed before the word. The flush has
 * fenced, but ThreadSanitizer does not see fences, so for it such a store is a release. False: not
 * a whole aligned word, or not a build for ThreadSanitizer.
 */
static inline bool nxr_store_for_tsan(void *dst, const void *src, size_t nbytes)
{
    if (!NXR_TSAN || (uintptr_t)dst % (nbytes | !nbytes) != 0) {
        return false;
    }
    switch (nbytes) {
    case 8:
        __atomic_store_n((uint64_t *)dst, *(const nxr_word64 *)src, __ATOMIC_RELEASE);
        break;
    case 4:
        __atomic_store_n((uint32_t *)dst, *(const nxr_word32 *)src, __ATOMIC_RELEASE);
        break;
    case 2:
        __atomic_store_n((uint16_t *)dst, *(const nxr_word16 *)src, __ATOMIC_RELEASE);
        break;
    case 1:
        __atomic_store_n((uint8_t *)dst, *(const uint8_t *)src, __ATOMIC_RELEASE);
        break;
    default:
        return false;
    }
    return true;
}

#if defined(__x86_64__) || defined(__aarch64__)

/*
 * Copy at most 64 bytes as a first and a last piece of suitable width, which may overlap. A size of
 * a whole word takes one store; volatile keeps the compiler from splitting or dropping it.
 */
static inline void nxr_copy_small(void *dst, const void *src, size_t nbytes)
{
    unsigned char *to = dst;
    const unsigned char *from = src;

    if (nxr_store_for_tsan(dst, src, nbytes)) {
        return;
    }
    if (nbytes >= 16) {
        const nxr_block16 *in = src, *in_end = (const void *)(from + nbytes);
        nxr_block16 *out = dst, *out_end = (void *)(to + nbytes);
        nxr_block16 first = in[0], last = in_end[-1];

        if (nbytes > 32) {
            nxr_block16 second = in[1], third = in_end[-2];

            out[1] = second;
            out_end[-2] = third;
        }
        out[0] = first;
        out_end[-1] = last;
    } else if (nbytes >= 8) {
        uint64_t first = *(const nxr_word64 *)from, last = *(const nxr_word64 *)(from + nbytes - 8);

        *(volatile nxr_word64 *)to = first;
        if (nbytes > 8) {
            *(volatile nxr_word64 *)(to + nbytes - 8) = last;
        }
    } else if (nbytes >= 4) {
        uint32_t first = *(const nxr_word32 *)from, last = *(const nxr_word32 *)(from + nbytes - 4);

        *(volatile nxr_word32 *)to = first;
        if (nbytes > 4) {
            *(volatile nxr_word32 *)(to + nbytes - 4) = last;
        }
    } else if (nbytes >= 2) {
        uint16_t first = *(const nxr_word16 *)from;
        unsigned char last = from[nbytes - 1];

        *(volatile nxr_word16 *)to = first;
        if (nbytes > 2) {
            *(volatile unsigned char *)(to + 2) = last;
        }
    } else if (nbytes == 1) {
        *(volatile unsigned char *)to = *from;
    }
}

#else

/*
 * For processors that trap on or split unaligned words: whole aligned words take one store,
 * anything else memcpy.
 */
static inline void nxr_copy_small(void *dst, const void *src, size_t nbytes)
{
    uintptr_t address = (uintptr_t)dst | (uintptr_t)src;

    if (nbytes == 8 && address % 8 == 0) {
        *(volatile uint64_t *)dst = *(const uint64_t *)src;
    } else if (nbytes == 4 && address % 4 == 0) {
        *(volatile uint32_t *)dst = *(const uint32_t *)src;
    } else if (nbytes == 2 && address % 2 == 0) {
        *(volatile uint16_t *)dst = *(const uint16_t *)src;
    } else if (nbytes > 0) {
        __builtin_memcpy(dst, src, nbytes);
    }
}

#endif

/* Copy; source and destination must not overlap. */
static inline void nxr_copy(void *dst, const void *src, size_t nbytes)
{
    if (nbytes <= NXR_COPY_SMALL) {
        nxr_copy_small(dst, src, nbytes);
    } else {
        nxr_copy_large(dst, src, nbytes);
    }
}

#endif
