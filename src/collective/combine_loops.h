/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of combine.c for one kind of vectors. Included once for each kind, with
 *   LOOPS(name)            the name of a function or table of this kind
 *   WITH_VECTORS           the attribute that lets a function use them
 *   VECTOR_NBYTES          what one step processes
 *   WIDEN_HALF, NARROW_HALF  the conversions of float16
 * Steps are written in the compiler's vector types: what the processor cannot do in one instruction
 * becomes several. Signed numbers are added and multiplied as unsigned ones, which have the same
 * bits and may wrap around.
 */

#define SUM(_a, _b)  ((_a) + (_b))
#define PROD(_a, _b) ((_a) * (_b))
#define AND(_a, _b)  ((_a) & (_b))
#define OR(_a, _b)   ((_a) | (_b))
#define XOR(_a, _b)  ((_a) ^ (_b))

/* A vector comparison yields all ones or all zeros per lane. */
#define PICK(_mask, _yes, _no) ((vector)(((_mask) & (mask)(_yes)) | (~(_mask) & (mask)(_no))))
#define VECTOR_MIN(_a, _b)     PICK((mask)((_b) < (_a)), _b, _a)
#define VECTOR_MAX(_a, _b)     PICK((mask)((_b) > (_a)), _b, _a)
#define MIN(_a, _b)            ((_b) < (_a) ? (_b) : (_a))
#define MAX(_a, _b)            ((_b) > (_a) ? (_b) : (_a))

/* `_wide` is the type for single elements: small types would be promoted to signed int. */
#define DEFINE_LOOP(_name, _type, _mask, _wide, _vector_step, _step)                               \
    WITH_VECTORS static void LOOPS(_name)(void *dst, const void *left, const void *right,          \
                                          size_t count)                                            \
    {                                                                                              \
        typedef _type vector __attribute__((vector_size(VECTOR_NBYTES), aligned(1), may_alias));   \
        typedef _mask mask __attribute__((vector_size(VECTOR_NBYTES), unused));                    \
        typedef _type element __attribute__((aligned(1), may_alias));                              \
        enum { LANES = VECTOR_NBYTES / sizeof(_type) };                                            \
        const element *a = left, *b = right;                                                       \
        element *to = dst;                                                                         \
                                                                                                   \
        for (; count >= 2 * LANES; count -= 2 * LANES) {                                           \
            vector a0 = *(const vector *)a, a1 = *(const vector *)(a + LANES);                     \
            vector b0 = *(const vector *)b, b1 = *(const vector *)(b + LANES);                     \
                                                                                                   \
            *(vector *)to = _vector_step(a0, b0);                                                  \
            *(vector *)(to + LANES) = _vector_step(a1, b1);                                        \
            a += 2 * LANES;                                                                        \
            b += 2 * LANES;                                                                        \
            to += 2 * LANES;                                                                       \
        }                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            _wide x = (_wide)a[i], y = (_wide)b[i];                                                \
                                                                                                   \
            to[i] = (_type)_step(x, y);                                                            \
        }                                                                                          \
    }

#define DEFINE_UNSIGNED(_bits, _wide)                                                              \
    DEFINE_LOOP(sum_u##_bits, uint##_bits##_t, int##_bits##_t, _wide, SUM, SUM)                    \
    DEFINE_LOOP(prod_u##_bits, uint##_bits##_t, int##_bits##_t, _wide, PROD, PROD)                 \
    DEFINE_LOOP(min_u##_bits, uint##_bits##_t, int##_bits##_t, _wide, VECTOR_MIN, MIN)             \
    DEFINE_LOOP(max_u##_bits, uint##_bits##_t, int##_bits##_t, _wide, VECTOR_MAX, MAX)             \
    DEFINE_LOOP(and_u##_bits, uint##_bits##_t, int##_bits##_t, _wide, AND, AND)                    \
    DEFINE_LOOP(or_u##_bits, uint##_bits##_t, int##_bits##_t, _wide, OR, OR)                       \
    DEFINE_LOOP(xor_u##_bits, uint##_bits##_t, int##_bits##_t, _wide, XOR, XOR)

#define DEFINE_SIGNED(_bits)                                                                       \
    DEFINE_LOOP(min_i##_bits, int##_bits##_t, int##_bits##_t, int##_bits##_t, VECTOR_MIN, MIN)     \
    DEFINE_LOOP(max_i##_bits, int##_bits##_t, int##_bits##_t, int##_bits##_t, VECTOR_MAX, MAX)

#define DEFINE_FLOATING(_type, _mask)                                                              \
    DEFINE_LOOP(sum_##_type, _type, _mask, _type, SUM, SUM)                                        \
    DEFINE_LOOP(prod_##_type, _type, _mask, _type, PROD, PROD)                                     \
    DEFINE_LOOP(min_##_type, _type, _mask, _type, VECTOR_MIN, MIN)                                 \
    DEFINE_LOOP(max_##_type, _type, _mask, _type, VECTOR_MAX, MAX)

DEFINE_UNSIGNED(8, uint32_t)
DEFINE_UNSIGNED(16, uint32_t)
DEFINE_UNSIGNED(32, uint32_t)
DEFINE_UNSIGNED(64, uint64_t)
DEFINE_SIGNED(8)
DEFINE_SIGNED(16)
DEFINE_SIGNED(32)
DEFINE_SIGNED(64)
DEFINE_FLOATING(float, int32_t)
DEFINE_FLOATING(double, int64_t)

/* 16-bit floats: a block at a time is widened, combined as floats and narrowed again. */
#define DEFINE_HALF(_name, _float_loop, _widen, _narrow)                                           \
    static void LOOPS(_name)(void *dst, const void *left, const void *right, size_t count)         \
    {                                                                                              \
        _Alignas(64) float a[NXR_HALF_BLOCK], b[NXR_HALF_BLOCK];                                   \
        const char *in_a = left, *in_b = right;                                                    \
        char *to = dst;                                                                            \
                                                                                                   \
        while (count > 0) {                                                                        \
            size_t n = count < NXR_HALF_BLOCK ? count : NXR_HALF_BLOCK;                            \
                                                                                                   \
            _widen(a, in_a, n);                                                                    \
            _widen(b, in_b, n);                                                                    \
            LOOPS(_float_loop)(a, a, b, n);                                                        \
            _narrow(to, a, n);                                                                     \
            in_a += n * sizeof(uint16_t);                                                          \
            in_b += n * sizeof(uint16_t);                                                          \
            to += n * sizeof(uint16_t);                                                            \
            count -= n;                                                                            \
        }                                                                                          \
    }

DEFINE_HALF(sum_half, sum_float, WIDEN_HALF, NARROW_HALF)
DEFINE_HALF(prod_half, prod_float, WIDEN_HALF, NARROW_HALF)
DEFINE_HALF(min_half, min_float, WIDEN_HALF, NARROW_HALF)
DEFINE_HALF(max_half, max_float, WIDEN_HALF, NARROW_HALF)
DEFINE_HALF(sum_brain, sum_float, nxr_widen_brain, nxr_narrow_brain)
DEFINE_HALF(prod_brain, prod_float, nxr_widen_brain, nxr_narrow_brain)
DEFINE_HALF(min_brain, min_float, nxr_widen_brain, nxr_narrow_brain)
DEFINE_HALF(max_brain, max_float, nxr_widen_brain, nxr_narrow_brain)

#define INTEGER_ROW(_sign, _bits)                                                                  \
    {                                                                                              \
        LOOPS(sum_u##_bits), LOOPS(prod_u##_bits), LOOPS(min_##_sign##_bits),                      \
            LOOPS(max_##_sign##_bits), LOOPS(and_u##_bits), LOOPS(or_u##_bits),                    \
            LOOPS(xor_u##_bits)                                                                    \
    }
#define FLOATING_ROW(_type)                                                                        \
    {                                                                                              \
        LOOPS(sum_##_type), LOOPS(prod_##_type), LOOPS(min_##_type), LOOPS(max_##_type)            \
    }

static nxr_combine_fn *const LOOPS(table)[NXR_N_TYPES][NXR_N_OPS] = {
    [NIXL_TYPE_INT8] = INTEGER_ROW(i, 8),     [NIXL_TYPE_UINT8] = INTEGER_ROW(u, 8),
    [NIXL_TYPE_INT16] = INTEGER_ROW(i, 16),   [NIXL_TYPE_UINT16] = INTEGER_ROW(u, 16),
    [NIXL_TYPE_INT32] = INTEGER_ROW(i, 32),   [NIXL_TYPE_UINT32] = INTEGER_ROW(u, 32),
    [NIXL_TYPE_INT64] = INTEGER_ROW(i, 64),   [NIXL_TYPE_UINT64] = INTEGER_ROW(u, 64),
    [NIXL_TYPE_FLOAT] = FLOATING_ROW(float),  [NIXL_TYPE_DOUBLE] = FLOATING_ROW(double),
    [NIXL_TYPE_FLOAT16] = FLOATING_ROW(half), [NIXL_TYPE_BFLOAT16] = FLOATING_ROW(brain),
};

#undef SUM
#undef PROD
#undef AND
#undef OR
#undef XOR
#undef PICK
#undef VECTOR_MIN
#undef VECTOR_MAX
#undef MIN
#undef MAX
#undef DEFINE_LOOP
#undef DEFINE_UNSIGNED
#undef DEFINE_SIGNED
#undef DEFINE_FLOATING
#undef DEFINE_HALF
#undef INTEGER_ROW
#undef FLOATING_ROW
#undef LOOPS
#undef WITH_VECTORS
#undef VECTOR_NBYTES
#undef WIDEN_HALF
#undef NARROW_HALF
