/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16-bit floating-point numbers: converted bit by bit, or by the processor's own instructions. No
 * state.
 */
#include "config.h"

#include "collective/half.h"

#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef uint16_t unaligned16 __attribute__((aligned(1), may_alias));

static inline uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- float16 --------------------------------------------------------------------------------- */

static float widen_one(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;

    if (magnitude >= 0x7c00u) { /* infinity, NaN */
        return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    if (magnitude < 0x400u) { /* zero, or less than the least normal number: a multiple of 2^-24 */
        float value = (float)magnitude * 0x1p-24f;

        return float_of(sign | bits_of(value));
    }
    return float_of(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

static uint16_t narrow_one(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* less than 2^-14: the adder rounds to a multiple of 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - ((127u - 15u) << 23)) >> 13);
}

void nxr_widen_half(float *dst, const void *src, size_t count)
{
    const unaligned16 *from = src;

    for (size_t i = 0; i < count; i++) {
        dst[i] = widen_one(from[i]);
    }
}

void nxr_narrow_half(void *dst, const float *src, size_t count)
{
    unaligned16 *to = dst;

    for (size_t i = 0; i < count; i++) {
        to[i] = narrow_one(src[i]);
    }
}

#ifdef __x86_64__

#define LANES 8

__attribute__((target("avx2,f16c"))) void nxr_widen_half_f16c(float *dst, const void *src,
                                                              size_t count)
{
    const unaligned16 *from = src;
    size_t i = 0;

    for (; i + LANES <= count; i += LANES) {
        __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(from + i));

        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(halves));
    }
    nxr_widen_half(dst + i, from + i, count - i);
}

__attribute__((target("avx2,f16c"))) void nxr_narrow_half_f16c(void *dst, const float *src,
                                                               size_t count)
{
    unaligned16 *to = dst;
    size_t i = 0;

    for (; i + LANES <= count; i += LANES) {
        __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);

        _mm_storeu_si128((__m128i *)(void *)(to + i), halves);
    }
    nxr_narrow_half(to + i, src + i, count - i);
}

#endif

/* ---- bfloat16 -------------------------------------------------------------------------------- */

#define STEP 16 /* values per vector step; the compiler splits it as it needs to */

typedef uint16_t vector16 __attribute__((vector_size(STEP * 2), aligned(1), may_alias));
typedef uint32_t vector32 __attribute__((vector_size(STEP * 4), aligned(1), may_alias));

/* The upper half of each; the compiler makes a shift of it. */
#define UPPER_HALF(_bits) ((_bits) / 0x10000u)

void nxr_widen_brain(float *dst, const void *src, size_t count)
{
    const unaligned16 *from = src;
    size_t i = 0;

    for (; i + STEP <= count; i += STEP) {
        vector16 halves = *(const vector16 *)(const void *)(from + i);

        *(vector32 *)(void *)(dst + i) = __builtin_convertvector(halves, vector32) * 0x10000u;
    }
    for (; i < count; i++) {
        dst[i] = float_of((uint32_t)from[i] << 16);
    }
}

static uint16_t narrow_brain_one(float value)
{
    uint32_t bits = bits_of(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u); /* quiet, so that no NaN becomes an infinity */
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

void nxr_narrow_brain(void *dst, const float *src, size_t count)
{
    unaligned16 *to = dst;
    size_t i = 0;

    for (; i + STEP <= count; i += STEP) {
        vector32 bits = *(const vector32 *)(const void *)(src + i);
        vector32 nan = (vector32)((bits & 0x7fffffffu) > 0x7f800000u);
        vector32 rounded = UPPER_HALF(bits + 0x7fffu + (UPPER_HALF(bits) & 1u));

        rounded = (nan & (UPPER_HALF(bits) | 0x40u)) | (~nan & rounded);
        *(vector16 *)(void *)(to + i) = __builtin_convertvector(rounded, vector16);
    }
    for (; i < count; i++) {
        to[i] = narrow_brain_one(src[i]);
    }
}
