/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of reductions: those of every kind of vectors that this processor has, each value held
 * against one that is computed here by itself, bit by bit. Of a NaN the sign and the payload depend
 * on the order in which the compiler gives operands to the processor: any NaN is as good.
 */
#include "collective/combine.h"
#include "collective/half.h"

#include "test/unit/unit.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define GUARD      64
#define GUARD_BYTE 0xa5
#define MAX_COUNT  600 /* more than two blocks of 16-bit floats, and four steps of any loop */
#define MAX_NBYTES (MAX_COUNT * 8)
#define ROOM       (MAX_NBYTES + 64 + 2 * GUARD)

static _Alignas(64) unsigned char left[ROOM], right[ROOM], result[ROOM];

static uint64_t next_random(void)
{
    static uint64_t x = 88172645463325252ull;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

/* ---- one value at a time --------------------------------------------------------------------- */

static bool is_floating(unsigned type)
{
    return type == NIXL_TYPE_FLOAT || type == NIXL_TYPE_DOUBLE || type == NIXL_TYPE_FLOAT16 ||
           type == NIXL_TYPE_BFLOAT16;
}

static bool is_signed(unsigned type)
{
    return type == NIXL_TYPE_INT8 || type == NIXL_TYPE_INT16 || type == NIXL_TYPE_INT32 ||
           type == NIXL_TYPE_INT64;
}

static uint64_t whole_of(unsigned type, const void *at)
{
    size_t nbytes = nxr_combine_type_nbytes(type);
    uint64_t value = 0;

    memcpy(&value, at, nbytes); /* little-endian, as the library is */
    if (is_signed(type) && nbytes < sizeof(value)) {
        uint64_t sign = 1ull << (8 * nbytes - 1);

        value = (value ^ sign) - sign;
    }
    return value;
}

static uint64_t combine_wholes(unsigned type, unsigned op, uint64_t a, uint64_t b)
{
    bool is_less = is_signed(type) ? (int64_t)b < (int64_t)a : b < a;
    bool is_more = is_signed(type) ? (int64_t)b > (int64_t)a : b > a;

    switch (op) {
    case NIXL_REDUCE_SUM:
        return a + b;
    case NIXL_REDUCE_PROD:
        return a * b;
    case NIXL_REDUCE_MIN:
        return is_less ? b : a;
    case NIXL_REDUCE_MAX:
        return is_more ? b : a;
    case NIXL_REDUCE_AND:
        return a & b;
    case NIXL_REDUCE_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* A float16 or bfloat16 as a float, and the float that is nearest to a double as either. */
static float widen(unsigned type, const void *at)
{
    float value;

    if (type == NIXL_TYPE_FLOAT) {
        memcpy(&value, at, sizeof(value));
    } else if (type == NIXL_TYPE_FLOAT16) {
        nxr_widen_half(&value, at, 1);
    } else {
        nxr_widen_brain(&value, at, 1);
    }
    return value;
}

static void narrow(unsigned type, void *at, float value)
{
    if (type == NIXL_TYPE_FLOAT) {
        memcpy(at, &value, sizeof(value));
    } else if (type == NIXL_TYPE_FLOAT16) {
        nxr_narrow_half(at, &value, 1);
    } else {
        nxr_narrow_brain(at, &value, 1);
    }
}

#define COMBINE_FLOATING(_op, _a, _b)                                                              \
    ((_op) == NIXL_REDUCE_SUM    ? (_a) + (_b)                                                     \
     : (_op) == NIXL_REDUCE_PROD ? (_a) * (_b)                                                     \
     : (_op) == NIXL_REDUCE_MIN  ? ((_b) < (_a) ? (_b) : (_a))                                     \
                                 : ((_b) > (_a) ? (_b) : (_a)))

/* What the loops must make of one pair; `is_nan`: any NaN will do. */
static void expect(unsigned type, unsigned op, const void *a, const void *b, void *value,
                   bool *is_nan)
{
    *is_nan = false;
    if (!is_floating(type)) {
        uint64_t whole = combine_wholes(type, op, whole_of(type, a), whole_of(type, b));

        memcpy(value, &whole, nxr_combine_type_nbytes(type));
    } else if (type == NIXL_TYPE_DOUBLE) {
        double x, y, combined;

        memcpy(&x, a, sizeof(x));
        memcpy(&y, b, sizeof(y));
        combined = COMBINE_FLOATING(op, x, y);
        *is_nan = isnan(combined);
        memcpy(value, &combined, sizeof(combined));
    } else {
        float x = widen(type, a), y = widen(type, b), combined = COMBINE_FLOATING(op, x, y);

        *is_nan = isnan(combined);
        narrow(type, value, combined);
    }
}

static bool is_nan_at(unsigned type, const void *at)
{
    double value;

    if (type != NIXL_TYPE_DOUBLE) {
        return isnan(widen(type, at));
    }
    memcpy(&value, at, sizeof(value));
    return isnan(value);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Any bits, every fourth value one where loops go wrong: 0, 1, all ones, the sign, an infinity. */
static void fill(unsigned type, unsigned char *at, size_t count)
{
    static const uint64_t wholes[] = {0, 1, UINT64_MAX, 0x80808080u, 0x7f, 0x8000, 0x7fff};
    size_t nbytes = nxr_combine_type_nbytes(type);

    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random(), pick = next_random();

        if (pick % 4 == 0) {
            bits = wholes[pick / 4 % 7];
        } else if (pick % 4 == 1) { /* of a middling size: neither NaN nor rounded to nothing */
            double wide = (double)(int64_t)(bits % 4096) / 64 - 32;

            if (type == NIXL_TYPE_DOUBLE) {
                memcpy(&bits, &wide, sizeof(bits));
            } else if (is_floating(type)) {
                narrow(type, &bits, (float)wide);
            }
        } else if (pick % 64 == 2 && is_floating(type)) {
            bits = type == NIXL_TYPE_DOUBLE    ? 0x7ff0000000000000u
                   : type == NIXL_TYPE_FLOAT   ? 0x7f800000u
                   : type == NIXL_TYPE_FLOAT16 ? 0x7c00u
                                               : 0x7f80u;
        }
        memcpy(at + i * nbytes, &bits, nbytes);
    }
}

/* Which operand the result overwrites. */
enum place { APART, ON_LEFT, ON_RIGHT, N_PLACES };

static void check(enum nxr_combine_vectors vectors, unsigned type, unsigned op, size_t count,
                  enum place place)
{
    size_t nbytes = nxr_combine_type_nbytes(type);
    unsigned char *a = left + GUARD + next_random() % 64;
    unsigned char *b = right + GUARD + next_random() % 64;
    unsigned char *to = result + GUARD + next_random() % 64;
    static unsigned char wanted[MAX_NBYTES];
    static bool is_nan[MAX_COUNT];

    to = place == ON_LEFT ? a : place == ON_RIGHT ? b : to;
    memset(to - GUARD, GUARD_BYTE, GUARD);
    memset(to + count * nbytes, GUARD_BYTE, GUARD);
    fill(type, a, count);
    fill(type, b, count);
    for (size_t i = 0; i < count; i++) {
        expect(type, op, a + i * nbytes, b + i * nbytes, wanted + i * nbytes, &is_nan[i]);
    }
    nxr_combine_loop(vectors, type, op)(to, a, b, count);
    for (size_t i = 0; i < count; i++) {
        cr_assert(memcmp(to + i * nbytes, wanted + i * nbytes, nbytes) == 0 ||
                      (is_nan[i] && is_nan_at(type, to + i * nbytes)),
                  "vectors %d, type %u, operation %u: value %zu of %zu", (int)vectors, type, op, i,
                  count);
    }
    for (size_t i = 1; i <= GUARD; i++) {
        cr_assert(to[-(long)i] == GUARD_BYTE && to[count * nbytes + i - 1] == GUARD_BYTE,
                  "vectors %d, type %u, operation %u: %zu values wrote outside", (int)vectors, type,
                  op, count);
    }
}

static void check_all(enum nxr_combine_vectors vectors)
{
    for (unsigned type = 0; type < NXR_N_TYPES; type++) {
        for (unsigned op = 0; op < NXR_N_OPS; op++) {
            if (nxr_combine_loop(vectors, type, op) == NULL) {
                cr_assert(not(nxr_combine_is_valid(type, op)));
                continue;
            }
            for (size_t count = 0; count <= MAX_COUNT; count += count < 270 ? 1 : 41) {
                check(vectors, type, op, count, (enum place)(count % N_PLACES));
            }
        }
    }
}

static bool has(enum nxr_combine_vectors vectors)
{
    return nxr_combine_loop(vectors, NIXL_TYPE_INT32, NIXL_REDUCE_SUM) != NULL;
}

/* Criterion calls a skipped test passed; the log says which it was. */
static void check_if_usable(enum nxr_combine_vectors vectors)
{
    if (!has(vectors)) {
        cr_skip("this processor has no such vectors");
    }
    check_all(vectors);
}

TestSuite(combine, .timeout = 300);

Test(combine, basic_vectors)
{
    cr_assert(has(NXR_COMBINE_BASIC));
    check_all(NXR_COMBINE_BASIC);
}

Test(combine, avx2)
{
    check_if_usable(NXR_COMBINE_AVX2);
}

Test(combine, avx512)
{
    check_if_usable(NXR_COMBINE_AVX512);
}

Test(combine, the_widest_is_chosen)
{
    enum nxr_combine_vectors widest = has(NXR_COMBINE_AVX512) ? NXR_COMBINE_AVX512
                                      : has(NXR_COMBINE_AVX2) ? NXR_COMBINE_AVX2
                                                              : NXR_COMBINE_BASIC;

    for (unsigned type = 0; type < NXR_N_TYPES; type++) {
        struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

        args.type = (enum nixl_type)type;
        cr_assert(nxr_combine_choose(&args).fn == nxr_combine_loop(widest, type, NIXL_REDUCE_SUM));
    }
}

/* ---- conversions of 16-bit floats ------------------------------------------------------------ */

/* Each float16 as a number, by arithmetic: a sign, 5 bits of exponent, 10 of fraction. */
static double half_value(unsigned bits)
{
    int exponent = (int)(bits >> 10 & 31u);
    double fraction = (double)(bits & 1023u) / 1024;
    double value = exponent == 0    ? ldexp(fraction, -14)
                   : exponent == 31 ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                                    : ldexp(1 + fraction, exponent - 15);

    return (bits & 0x8000u) != 0 ? -value : value;
}

Test(combine, every_float16_there_and_back)
{
    static uint16_t halves[65536], back[65536];
    static float values[65536];

    for (unsigned i = 0; i < 65536; i++) {
        halves[i] = (uint16_t)i;
    }
    nxr_widen_half(values, halves, 65536);
    nxr_narrow_half(back, values, 65536);
    for (unsigned i = 0; i < 65536; i++) {
        double value = half_value(i);

        cr_assert(isnan(value)
                      ? isnan(values[i])
                      : (double)values[i] == value && !signbit(values[i]) == !signbit(value),
                  "float16 %04x", i);
        cr_assert(isnan(value) ? (back[i] & 0x7fffu) > 0x7c00u : back[i] == i, "float16 %04x", i);
    }
}

/* Floats around and between all float16: nearest, ties to the even one. */
Test(combine, floats_are_rounded_to_the_nearest_float16)
{
    for (unsigned i = 0; i < 0x7c00u; i++) {
        double low = half_value(i), high = i == 0x7bffu ? 65536.0 : half_value(i + 1);
        float middle = (float)((low + high) / 2); /* exact */
        float below = nextafterf(middle, 0), above = nextafterf(middle, INFINITY);
        float signs[] = {below, middle, above, -below, -middle, -above};
        unsigned even = i % 2 == 0 ? i : i + 1;
        unsigned wanted[] = {i, even, i + 1, i | 0x8000u, even | 0x8000u, (i + 1) | 0x8000u};
        uint16_t halves[6];

        nxr_narrow_half(halves, signs, 6);
        for (int k = 0; k < 6; k++) {
            cr_assert(halves[k] == wanted[k], "%a: %04x, not %04x", (double)signs[k], halves[k],
                      wanted[k]);
        }
    }
}

#ifdef __x86_64__

Test(combine, the_processor_converts_float16_alike)
{
    static uint16_t halves[65536 + 3], plain[65536 + 3], fast[65536 + 3];
    static float values[65536 + 3], fast_values[65536 + 3];

    if (!has(NXR_COMBINE_AVX2)) {
        cr_skip("this processor has no F16C");
    }
    for (unsigned i = 0; i < 65536 + 3; i++) {
        halves[i] = (uint16_t)i;
    }
    nxr_widen_half(values, halves, 65536 + 3);
    nxr_widen_half_f16c(fast_values, halves, 65536 + 3);
    for (unsigned i = 0; i < 65536 + 3; i++) {
        cr_assert(memcmp(&values[i], &fast_values[i], sizeof(float)) == 0 ||
                      (isnan(values[i]) && isnan(fast_values[i])),
                  "float16 %04x", i);
    }
    for (int round = 0; round < 64; round++) {
        for (unsigned i = 0; i < 65536 + 3; i++) {
            /* Half of them around what float16 can hold: from 2^-26 to 2^17. */
            uint32_t bits = (uint32_t)next_random();
            uint32_t near = (bits & 0x807fffffu) | (101u + (bits >> 23 & 255u) % 44u) << 23;

            memcpy(&values[i], i % 2 == 0 ? &bits : &near, sizeof(float));
        }
        nxr_narrow_half(plain, values, 65536 + 3);
        nxr_narrow_half_f16c(fast, values, 65536 + 3);
        for (unsigned i = 0; i < 65536 + 3; i++) {
            cr_assert(plain[i] == fast[i], "%a: %04x and %04x", (double)values[i], plain[i],
                      fast[i]);
        }
    }
}

#endif

/* ---- many sources ---------------------------------------------------------------------------- */

static void combine_nothing(void *dst, const void *src, size_t count, void *arg)
{
    (void)dst;
    (void)src;
    (void)count;
    (void)arg;
}

Test(combine, elements_of_users_have_their_size_or_that_of_their_type)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    args.type = NIXL_TYPE_DOUBLE;
    args.op = NIXL_REDUCE_USER;
    args.combine = combine_nothing;
    cr_expect_eq(nxr_combine_choose(&args).element_nbytes, sizeof(double));
    for (size_t nbytes = 1; nbytes <= 40; nbytes++) {
        args.element_nbytes = nbytes;
        cr_expect_eq(nxr_combine_choose(&args).element_nbytes, nbytes);
    }
}

/* Sources one after the other, the result on any of them, in more than one block of the cache. */
Test(combine, any_source_may_be_the_result)
{
    enum { N = 5, COUNT = 7001 };
    static uint32_t values[N][COUNT], apart[COUNT];
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nxr_combine combine;

    args.type = NIXL_TYPE_UINT32;
    args.op = NIXL_REDUCE_SUM;
    combine = nxr_combine_choose(&args);
    for (size_t n_srcs = 1; n_srcs <= N; n_srcs++) {
        for (size_t dst = 0; dst <= n_srcs; dst++) { /* n_srcs: none of them */
            const void *srcs[N];
            const uint32_t *found = dst == n_srcs ? apart : values[dst];

            for (size_t i = 0; i < N; i++) {
                srcs[i] = values[i];
                for (size_t k = 0; k < COUNT; k++) {
                    values[i][k] = (uint32_t)((i + 1) * 1000003 + k);
                }
            }
            nxr_combine_all(&combine, dst == n_srcs ? apart : values[dst], srcs, n_srcs,
                            sizeof(apart));
            for (size_t k = 0; k < COUNT; k++) {
                size_t sum = n_srcs * (n_srcs + 1) / 2 * 1000003 + n_srcs * k;

                cr_assert(found[k] == (uint32_t)sum, "%zu sources onto %zu: value %zu", n_srcs, dst,
                          k);
            }
        }
    }
}

/* The buffer of the result may hold several sources: each is read before it is overwritten. */
Test(combine, all_sources_may_be_the_result)
{
    enum { N = 5, COUNT = 7001 };
    static uint32_t values[COUNT], other[COUNT];
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nxr_combine combine;

    args.type = NIXL_TYPE_UINT32;
    args.op = NIXL_REDUCE_SUM;
    combine = nxr_combine_choose(&args);
    for (size_t n_srcs = 3; n_srcs <= N; n_srcs++) {
        const void *srcs[N] = {other, values, values, values, values};

        for (size_t k = 0; k < COUNT; k++) {
            values[k] = (uint32_t)(k + 1);
            other[k] = (uint32_t)(1000003 * k);
        }
        nxr_combine_all(&combine, values, srcs, n_srcs, sizeof(values));
        for (size_t k = 0; k < COUNT; k++) {
            cr_assert(values[k] == (uint32_t)(1000003 * k + (n_srcs - 1) * (k + 1)),
                      "%zu sources: value %zu", n_srcs, k);
        }
    }
}

/* Pieces that are fetched, in one block or more, and one that is not; elements that fill none. */
Test(combine, members_combine_as_one_does)
{
    enum { N = 40, MOST = 24000 };
    static const size_t sizes[] = {4, 4096, 4100, 8192, 16384, MOST};
    static uint32_t values[N][MOST / sizeof(uint32_t)], dst[MOST / sizeof(uint32_t)];
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nxr_combine combine;
    const void *srcs[N];

    args.type = NIXL_TYPE_UINT32;
    args.op = NIXL_REDUCE_SUM;
    combine = nxr_combine_choose(&args);
    for (size_t i = 0; i < N; i++) {
        srcs[i] = values[i];
        for (size_t k = 0; k < MOST / sizeof(uint32_t); k++) {
            values[i][k] = (uint32_t)((i + 1) * 1000003 + k);
        }
    }
    for (size_t n_srcs = 1; n_srcs <= N; n_srcs++) {
        for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
            memset(dst, 0, sizeof(dst));
            nxr_combine_members(&combine, dst, srcs, n_srcs, size % n_srcs, sizes[size]);
            for (size_t k = 0; k < sizes[size] / sizeof(uint32_t); k++) {
                size_t sum = n_srcs * (n_srcs + 1) / 2 * 1000003 + n_srcs * k;

                cr_assert(dst[k] == (uint32_t)sum, "%zu sources, %zu bytes: value %zu", n_srcs,
                          sizes[size], k);
            }
        }
    }
}
