/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying on x86-64: the loops, and the choice between them. Each copies more than NXR_COPY_SMALL
 * bytes of any alignment between memories that do not overlap, and needs the instructions in its
 * name.
 */
#ifndef NXR_UTIL_COPY_X86_H
#define NXR_UTIL_COPY_X86_H

#include "util/copy.h"
#include "util/symbol.h"

/* A sanitizer checks the ranges of memcpy, but would not see what these loops access. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NXR_COPY_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NXR_COPY_SANITIZED 1
#endif

#if defined(__x86_64__) && !defined(NXR_COPY_SANITIZED)
#define NXR_COPY_X86 1
#endif

/*
 * From this size on the loops are faster than libc's memcpy, which gives 100 GB/s at 256 B, and 87
 * against the loops' 100 at 512 B.
 */
#define NXR_COPY_LOOP_FROM 513

/* Thresholds of this processor, in bytes; SIZE_MAX: never. Filled by copy.c before main. */
struct nxr_copy_tuning {
    size_t rep_from;       /* rep movsb */
    size_t rep_close_from; /* rep movsb also if the destination lies close above the source */
    size_t stream_from;    /* non-temporal stores */
    bool rep_unaligned;    /* rep movsb also if the sides differ in their offset in a line */
};
extern NXR_HIDDEN struct nxr_copy_tuning nxr_copy_tuning;

/*
 * rep movsb slows down if the destination is less than a line above the source, modulo the page
 * size: its loads then seem to depend on its own stores (Zen 4: 3.5 GB/s at any size; Intel: 8 % in
 * the L2).
 */
static inline bool nxr_copy_rep_is_slow(size_t distance, size_t nbytes)
{
    bool is_close = (distance & 4095) - 1 < 63;

    return (is_close && nbytes < nxr_copy_tuning.rep_close_from) ||
           (!nxr_copy_tuning.rep_unaligned && distance % 64 != 0);
}

/* The method for a copy; `loop` is the widest vector loop of this processor. */
static inline enum nxr_copy_method nxr_copy_x86_choose(enum nxr_copy_method loop, const void *dst,
                                                       const void *src, size_t nbytes)
{
    size_t distance = (uintptr_t)dst - (uintptr_t)src;

    if (nbytes < NXR_COPY_LOOP_FROM) {
        return NXR_COPY_LIBC;
    }
    if (nbytes < nxr_copy_tuning.rep_from) {
        /* The sides are half a line apart: loads of half a line never cross a line. */
        return distance % 64 == 32 ? NXR_COPY_AVX2 : loop;
    }
    if (nbytes >= nxr_copy_tuning.stream_from) {
        return NXR_COPY_STREAM;
    }
    return nxr_copy_rep_is_slow(distance, nbytes) ? NXR_COPY_AVX2 : NXR_COPY_REP;
}

void nxr_copy_rep(void *dst, const void *src, size_t nbytes);
void nxr_copy_avx2(void *dst, const void *src, size_t nbytes);
void nxr_copy_avx512(void *dst, const void *src, size_t nbytes);
void nxr_copy_stream(void *dst, const void *src, size_t nbytes);      /* AVX2; fenced */
void nxr_copy_stream_part(void *dst, const void *src, size_t nbytes); /* the same, not fenced */

/* Choose a method and copy. The processor determines which of the two is used. */
void nxr_copy_large_avx2(void *dst, const void *src, size_t nbytes);
void nxr_copy_large_avx512(void *dst, const void *src, size_t nbytes);

#endif
