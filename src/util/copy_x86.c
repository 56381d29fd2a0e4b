/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy loops for x86-64. All align the destination to a cache line first: a store that crosses a
 * line costs two, a load that does costs little. The remainder at either end is copied as one
 * unaligned piece that overlaps the loop's. If that piece would cross a page, the remainder is
 * copied word by word instead: a store across pages costs more than twenty others. No state, no
 * lock.
 */
#include "util/copy_x86.h"

#ifdef NXR_COPY_X86

#include <immintrin.h>
#include <string.h>

#define LINE 64
#define PAGE 4096

#define WITH_AVX2   __attribute__((target("avx2")))
#define WITH_AVX512 __attribute__((target("avx512f")))
#define INLINE      static inline __attribute__((always_inline))
#define RARE        static __attribute__((noinline, cold)) /* no register saves on the hot path */

/* Would a piece of one line at `address` cross a page boundary? */
INLINE bool crosses_page(const unsigned char *address)
{
    return ((uintptr_t)address & (PAGE - 1)) > PAGE - LINE;
}

/* Copy a piece of constant size if `nbytes` has its bit set, and advance past it. */
#define COPY_PIECE(_size)                                                                          \
    do {                                                                                           \
        if (nbytes & (_size)) {                                                                    \
            nxr_copy_small(dst, src, (_size));                                                     \
            dst += (_size);                                                                        \
            src += (_size);                                                                        \
        }                                                                                          \
    } while (0)

/*
 * Copy less than a line to an aligned address, in falling powers of two, so that no piece crosses a
 * page.
 */
WITH_AVX2 RARE void copy_tail_by_words(unsigned char *dst, const unsigned char *src, size_t nbytes)
{
    COPY_PIECE(32);
    COPY_PIECE(16);
    COPY_PIECE(8);
    COPY_PIECE(4);
    COPY_PIECE(2);
    COPY_PIECE(1);
}

/* The same, ending at an aligned address, in rising powers of two. */
WITH_AVX2 RARE void copy_head_by_words(unsigned char *dst, const unsigned char *src, size_t nbytes)
{
    COPY_PIECE(1);
    COPY_PIECE(2);
    COPY_PIECE(4);
    COPY_PIECE(8);
    COPY_PIECE(16);
    COPY_PIECE(32);
}

/* The number of bytes from `address` to the next line boundary; 0 if it is aligned. */
INLINE size_t head_nbytes(const unsigned char *address)
{
    return -(uintptr_t)address & (LINE - 1);
}

/* Copy `nbytes` up to the first line boundary of dst; a whole line may be read and written. */
INLINE void copy_head(unsigned char *dst, const unsigned char *src, size_t nbytes)
{
    if (nbytes == 0) {
        return;
    }
    if (__builtin_expect(crosses_page(dst), 0)) {
        copy_head_by_words(dst, src, nbytes);
    } else {
        nxr_copy_small(dst, src, LINE);
    }
}

/* Copy the last nbytes < LINE, dst aligned to a line; the line before may be written again. */
INLINE void copy_tail(unsigned char *dst, const unsigned char *src, size_t nbytes)
{
    if (nbytes == 0) {
        return;
    }
    if (__builtin_expect(crosses_page(dst + nbytes - LINE), 0)) {
        copy_tail_by_words(dst, src, nbytes);
    } else {
        nxr_copy_small(dst + nbytes - LINE, src + nbytes - LINE, LINE);
    }
}

INLINE void rep_movsb(void *dst, const void *src, size_t nbytes)
{
    size_t head = head_nbytes(dst);

    copy_head(dst, src, head);
    dst = (unsigned char *)dst + head;
    src = (const unsigned char *)src + head;
    nbytes -= head;
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(nbytes) : : "memory");
}

void nxr_copy_rep(void *dst, const void *src, size_t nbytes)
{
    rep_movsb(dst, src, nbytes);
}

WITH_AVX2 INLINE void loop_avx2(void *dst, const void *src, size_t nbytes)
{
    size_t head = head_nbytes(dst);
    unsigned char *to = (unsigned char *)dst + head;
    const unsigned char *from = (const unsigned char *)src + head;

    copy_head(dst, src, head);
    nbytes -= head;
    for (; nbytes >= 2 * LINE; nbytes -= 2 * LINE, to += 2 * LINE, from += 2 * LINE) {
        __m256i a = _mm256_loadu_si256((const __m256i *)from);
        __m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));
        __m256i c = _mm256_loadu_si256((const __m256i *)(from + 64));
        __m256i d = _mm256_loadu_si256((const __m256i *)(from + 96));

        _mm256_store_si256((__m256i *)to, a);
        _mm256_store_si256((__m256i *)(to + 32), b);
        _mm256_store_si256((__m256i *)(to + 64), c);
        _mm256_store_si256((__m256i *)(to + 96), d);
    }
    if (nbytes >= LINE) {
        nxr_copy_small(to, from, LINE);
        nbytes -= LINE;
        to += LINE;
        from += LINE;
    }
    copy_tail(to, from, nbytes);
}

WITH_AVX2 void nxr_copy_avx2(void *dst, const void *src, size_t nbytes)
{
    loop_avx2(dst, src, nbytes);
}

WITH_AVX512 INLINE void loop_avx512(void *dst, const void *src, size_t nbytes)
{
    size_t head = head_nbytes(dst);
    unsigned char *to = (unsigned char *)dst + head;
    const unsigned char *from = (const unsigned char *)src + head;

    copy_head(dst, src, head);
    nbytes -= head;
    for (; nbytes >= 4 * LINE; nbytes -= 4 * LINE, to += 4 * LINE, from += 4 * LINE) {
        __m512i a = _mm512_loadu_si512(from);
        __m512i b = _mm512_loadu_si512(from + LINE);
        __m512i c = _mm512_loadu_si512(from + 2 * LINE);
        __m512i d = _mm512_loadu_si512(from + 3 * LINE);

        _mm512_store_si512(to, a);
        _mm512_store_si512(to + LINE, b);
        _mm512_store_si512(to + 2 * LINE, c);
        _mm512_store_si512(to + 3 * LINE, d);
    }
    for (; nbytes >= LINE; nbytes -= LINE, to += LINE, from += LINE) {
        _mm512_store_si512(to, _mm512_loadu_si512(from));
    }
    copy_tail(to, from, nbytes);
}

WITH_AVX512 void nxr_copy_avx512(void *dst, const void *src, size_t nbytes)
{
    loop_avx512(dst, src, nbytes);
}

WITH_AVX2 INLINE void stream_line(unsigned char *dst, const unsigned char *src)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)src);
    __m256i high = _mm256_loadu_si256((const __m256i *)(src + 32));

    _mm256_stream_si256((__m256i *)dst, low);
    _mm256_stream_si256((__m256i *)(dst + 32), high);
}

/*
 * Copy with stores that bypass the caches. Four pages at a time, two lines of each in turn: this
 * keeps more loads in flight than one stream does, and the hardware prefetcher follows each page.
 * The pages are STAGGER apart in their offsets, which avoids 4K aliasing: a load waits for earlier
 * stores in flight that have the same offset in a page (Zen 3, both sides aligned alike, 64 MiB:
 * 9.0 GB/s; with all pages at one offset 4.3).
 */
#define STAGGER 256
WITH_AVX2 void nxr_copy_stream_part(void *dst, const void *src, size_t nbytes)
{
    size_t head = head_nbytes(dst);
    unsigned char *to = (unsigned char *)dst + head;
    const unsigned char *from = (const unsigned char *)src + head;

    copy_head(dst, src, head);
    nbytes -= head;
    for (; nbytes >= 4 * PAGE; nbytes -= 4 * PAGE, to += 4 * PAGE, from += 4 * PAGE) {
        for (size_t line = 0; line < PAGE; line += 2 * LINE) {
            for (size_t page = 0; page < 4; page++) {
                size_t at = page * PAGE + ((line + page * STAGGER) & (PAGE - 1));

                stream_line(to + at, from + at);
                stream_line(to + at + LINE, from + at + LINE);
            }
        }
    }
    for (; nbytes >= LINE; nbytes -= LINE, to += LINE, from += LINE) {
        stream_line(to, from);
    }
    copy_tail(to, from, nbytes);
}

WITH_AVX2 void nxr_copy_stream(void *dst, const void *src, size_t nbytes)
{
    nxr_copy_stream_part(dst, src, nbytes);
    _mm_sfence();
}

/* Each has its own copy of the choice with the loops inlined, which saves a call per copy. */
WITH_AVX2 void nxr_copy_large_avx2(void *dst, const void *src, size_t nbytes)
{
    switch (nxr_copy_x86_choose(NXR_COPY_AVX2, dst, src, nbytes)) {
    case NXR_COPY_REP:
        rep_movsb(dst, src, nbytes);
        break;
    case NXR_COPY_AVX2:
        loop_avx2(dst, src, nbytes);
        break;
    case NXR_COPY_STREAM:
        nxr_copy_stream(dst, src, nbytes);
        break;
    default:
        memcpy(dst, src, nbytes);
    }
}

WITH_AVX512 void nxr_copy_large_avx512(void *dst, const void *src, size_t nbytes)
{
    switch (nxr_copy_x86_choose(NXR_COPY_AVX512, dst, src, nbytes)) {
    case NXR_COPY_AVX512:
        loop_avx512(dst, src, nbytes);
        break;
    case NXR_COPY_REP:
        rep_movsb(dst, src, nbytes);
        break;
    case NXR_COPY_AVX2:
        loop_avx2(dst, src, nbytes);
        break;
    case NXR_COPY_STREAM:
        nxr_copy_stream(dst, src, nbytes);
        break;
    default:
        memcpy(dst, src, nbytes);
    }
}

#endif
