/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions. A kernel reads the operands in place, on this GPU or on others, and writes the result
 * to every destination. It waits for nothing, so that it always ends. Each step gives the same bits
 * as the processor's loops (collective/combine.h). `make ptx` compiles this file to
 * kernel_reduce.ptx.
 */
#include "memory/kernels/kernel.h"

/* ---- types: as stored in memory, and as combined --------------------------------------------- */

template <typename Unsigned, typename Signed> struct whole {
    typedef Unsigned element;
    typedef Unsigned number;
    typedef Signed with_sign;
    static const bool has_bits = true;

    static __device__ __forceinline__ Unsigned widen(Unsigned value)
    {
        return value;
    }
    static __device__ __forceinline__ Unsigned narrow(Unsigned value)
    {
        return value;
    }
};

template <typename T> struct floating {
    typedef T element;
    typedef T number;
    typedef T with_sign;
    static const bool has_bits = false;

    static __device__ __forceinline__ T widen(T value)
    {
        return value;
    }
    static __device__ __forceinline__ T narrow(T value)
    {
        return value;
    }
};

struct half {
    typedef uint16_t element;
    typedef float number;
    typedef float with_sign;
    static const bool has_bits = false;

    static __device__ __forceinline__ float widen(uint16_t value)
    {
        float wide;

        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value));
        return wide;
    }
    static __device__ __forceinline__ uint16_t narrow(float value)
    {
        uint16_t half;

        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
        return half;
    }
};

struct brain {
    typedef uint16_t element;
    typedef float number;
    typedef float with_sign;
    static const bool has_bits = false;

    static __device__ __forceinline__ float widen(uint16_t value)
    {
        return __uint_as_float(static_cast<uint32_t>(value) << 16);
    }
    static __device__ __forceinline__ uint16_t narrow(float value)
    {
        uint32_t bits = __float_as_uint(value);
        uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);

        return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u
                                                                        : rounded >> 16);
    }
};

/* ---- operations ------------------------------------------------------------------------------ */

#define OPERATION(_name, _expression)                                                              \
    struct _name {                                                                                 \
        template <typename T> static __device__ __forceinline__ T apply(T a, T b)                  \
        {                                                                                          \
            return _expression;                                                                    \
        }                                                                                          \
    };
OPERATION(op_sum, (a + b))
OPERATION(op_prod, (a * b))
OPERATION(op_min, (b < a ? b : a))
OPERATION(op_max, (b > a ? b : a))
OPERATION(op_and, (a & b))
OPERATION(op_or, (a | b))
OPERATION(op_xor, (a ^ b))

template <typename Element> struct alignas(NXR_KERNEL_WORD_NBYTES) word {
    Element elements[NXR_KERNEL_WORD_NBYTES / sizeof(Element)];
};

/* Combine two elements as values of `Number`, such as signed ones for the minimum. */
template <typename Type, typename Number, typename Op>
static __device__ __forceinline__ void apply(typename Type::element *a, typename Type::element b)
{
    Number left = static_cast<Number>(Type::widen(*a)), right = static_cast<Number>(Type::widen(b));

    *a = Type::narrow(static_cast<typename Type::number>(Op::template apply<Number>(left, right)));
}

template <typename Type, typename Number, typename Op, int N>
static __device__ __forceinline__ void apply(word<typename Type::element> (&a)[N],
                                             const word<typename Type::element> (&b)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (unsigned k = 0; k < sizeof(a[i].elements) / sizeof(a[i].elements[0]); k++) {
            apply<Type, Number, Op>(&a[i].elements[k], b[i].elements[k]);
        }
    }
}

template <typename Type, typename Number, typename Op>
static __device__ __forceinline__ void apply(typename Type::element &a,
                                             const typename Type::element &b)
{
    apply<Type, Number, Op>(&a, b);
}

/* All threads take the same branch, and its cost is small beside that of memory. */
template <typename Type, typename Operand>
static __device__ __forceinline__ void combine(unsigned op, Operand &a, const Operand &b)
{
    typedef typename Type::number number;
    typedef typename Type::with_sign with_sign;

    if (!Type::has_bits && op > NXR_KERNEL_MAX) {
        return;
    }
    switch (op) {
    case NXR_KERNEL_SUM:
        return apply<Type, number, op_sum>(a, b);
    case NXR_KERNEL_PROD:
        return apply<Type, number, op_prod>(a, b);
    case NXR_KERNEL_MIN:
        return apply<Type, number, op_min>(a, b);
    case NXR_KERNEL_MAX:
        return apply<Type, number, op_max>(a, b);
    }
    if constexpr (Type::has_bits) {
        switch (op) {
        case NXR_KERNEL_AND:
            return apply<Type, number, op_and>(a, b);
        case NXR_KERNEL_OR:
            return apply<Type, number, op_or>(a, b);
        case NXR_KERNEL_XOR:
            return apply<Type, number, op_xor>(a, b);
        case NXR_KERNEL_MIN_SIGNED:
            return apply<Type, with_sign, op_min>(a, b);
        case NXR_KERNEL_MAX_SIGNED:
            return apply<Type, with_sign, op_max>(a, b);
        }
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ T load(uint64_t address, uint64_t index)
{
    return reinterpret_cast<const T *>(address)[index];
}

/* A word has 16 bytes: one access. */
template <typename Element>
static __device__ __forceinline__ word<Element> load_word(uint64_t address, uint64_t index)
{
    union {
        uint4 bits;
        word<Element> elements;
    } both;

    both.bits = load<uint4>(address, index);
    return both.elements;
}

template <typename Element>
static __device__ __forceinline__ void store_word(uint64_t address, uint64_t index,
                                                  const word<Element> &value)
{
    union {
        uint4 bits;
        word<Element> elements;
    } both;

    both.elements = value;
    reinterpret_cast<uint4 *>(address)[index] = both.bits;
}

/* ---- the kernels ----------------------------------------------------------------------------- */

/* Reduce N words that are `stride` apart, of which those below n_words exist. */
template <typename Type, int N>
static __device__ __forceinline__ void reduce_words(const struct nxr_kernel_reduction &what,
                                                    uint64_t skip, uint64_t at, uint64_t stride)
{
    typedef typename Type::element element;
    word<element> left[N], right[N];

#pragma unroll
    for (int i = 0; i < N; i++) {
        if (at + i * stride < what.n_words) {
            left[i] = load_word<element>(what.srcs[0] + skip, at + i * stride);
        }
    }
    for (unsigned k = 1; k < what.n_srcs; k++) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (at + i * stride < what.n_words) {
                right[i] = load_word<element>(what.srcs[k] + skip, at + i * stride);
            }
        }
        combine<Type>(what.op, left, right);
    }
    for (unsigned k = 0; k < what.n_dsts; k++) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (at + i * stride < what.n_words) {
                store_word<element>(what.dsts[k] + skip, at + i * stride, left[i]);
            }
        }
    }
}

template <typename Type>
static __device__ __forceinline__ void reduce_element(const struct nxr_kernel_reduction &what,
                                                      uint64_t at)
{
    typedef typename Type::element element;
    element left = load<element>(what.srcs[0], at);

    for (unsigned k = 1; k < what.n_srcs; k++) {
        combine<Type>(what.op, left, load<element>(what.srcs[k], at));
    }
    for (unsigned k = 0; k < what.n_dsts; k++) {
        reinterpret_cast<element *>(what.dsts[k])[at] = left;
    }
}

/* Set the flag of this block: its part of the result is visible to all. */
static __device__ __forceinline__ void tell(uint64_t done)
{
    if (done == 0) {
        return;
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        reinterpret_cast<volatile uint64_t *>(done)[blockIdx.x] = 1;
    }
}

template <typename Type, int N>
static __device__ __forceinline__ void reduce(const struct nxr_kernel_reduction &what)
{
    const uint64_t in_word = NXR_KERNEL_WORD_NBYTES / sizeof(typename Type::element);
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * NXR_KERNEL_REDUCE_THREADS + threadIdx.x;
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * NXR_KERNEL_REDUCE_THREADS;
    uint64_t skip = what.n_head * sizeof(typename Type::element);

    for (uint64_t at = first; at < what.n_words; at += N * stride) {
        reduce_words<Type, N>(what, skip, at, stride);
    }
    for (uint64_t at = first; at < what.n_head + what.n_tail; at += stride) {
        reduce_element<Type>(what, at < what.n_head ? at : at + what.n_words * in_word);
    }
    tell(what.done);
}

#define KERNEL(_name, _words, ...)                                                                 \
    extern "C" __global__ void __launch_bounds__(NXR_KERNEL_REDUCE_THREADS)                        \
        nixlrun_reduce_##_name(const struct nxr_kernel_reduction what)                             \
    {                                                                                              \
        reduce<__VA_ARGS__, _words>(what);                                                         \
    }

/* The number is that of the words of an operand that a thread has in flight at a time. */
KERNEL(u8, 1, whole<uint8_t, int8_t>)
KERNEL(u16, 2, whole<uint16_t, int16_t>)
KERNEL(u32, 4, whole<uint32_t, int32_t>)
KERNEL(u64, 4, whole<uint64_t, int64_t>)
KERNEL(f16, 2, half)
KERNEL(b16, 2, brain)
KERNEL(f32, 4, floating<float>)
KERNEL(f64, 4, floating<double>)
