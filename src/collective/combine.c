/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of the loops for this processor, and combining more than two arrays, a block at a
 * time, so that intermediate results stay in the first-level cache. The choice is made before main
 * and only read afterwards: no lock.
 */
#include "config.h"

#include "collective/combine.h"
#include "collective/half.h"
#include "util/copy.h"
#include "util/ring.h"

#include <stdint.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* Vectors that every processor of the architecture has. */
#define LOOPS(_name) basic_##_name
#define WITH_VECTORS
#define VECTOR_NBYTES 16
#define WIDEN_HALF    nxr_widen_half
#define NARROW_HALF   nxr_narrow_half
#include "collective/combine_loops.h"

#ifdef __x86_64__

#define LOOPS(_name)  avx2_##_name
#define WITH_VECTORS  __attribute__((target("avx2")))
#define VECTOR_NBYTES 32
#define WIDEN_HALF    nxr_widen_half_f16c
#define NARROW_HALF   nxr_narrow_half_f16c
#include "collective/combine_loops.h"

#define LOOPS(_name)  avx512_##_name
#define WITH_VECTORS  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR_NBYTES 64
#define WIDEN_HALF    nxr_widen_half_f16c
#define NARROW_HALF   nxr_narrow_half_f16c
#include "collective/combine_loops.h"
#include "util/symbol.h"

static bool has_vectors(enum nxr_combine_vectors vectors)
{
    unsigned eax, ebx, ecx = 0, edx;

    __builtin_cpu_init();
    if (vectors == NXR_COMBINE_AVX512) {
        return has_vectors(NXR_COMBINE_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    }
    return vectors == NXR_COMBINE_BASIC ||
           (__builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) &&
            (ecx & bit_F16C) != 0);
}

#else

static bool has_vectors(enum nxr_combine_vectors vectors)
{
    return vectors == NXR_COMBINE_BASIC;
}

#endif

static nxr_combine_fn *const (*const tables[NXR_COMBINE_N_VECTORS])[NXR_N_OPS] = {
    [NXR_COMBINE_BASIC] = basic_table,
#ifdef __x86_64__
    [NXR_COMBINE_AVX2] = avx2_table,
    [NXR_COMBINE_AVX512] = avx512_table,
#endif
};

static nxr_combine_fn *const (*loops)[NXR_N_OPS] = basic_table;

__attribute__((constructor)) static void choose_loops(void)
{
    for (int vectors = 0; vectors < NXR_COMBINE_N_VECTORS; vectors++) {
        if (has_vectors((enum nxr_combine_vectors)vectors)) {
            loops = tables[vectors];
        }
    }
}

nxr_combine_fn *nxr_combine_loop(enum nxr_combine_vectors vectors, unsigned type, unsigned op)
{
    return has_vectors(vectors) ? tables[vectors][type][op] : NULL;
}

#define BLOCK_NBYTES 8192 /* with a piece of every source: fits into any first-level cache */

/* Small pieces, and what all blocks that are fetched together may take of a second-level cache. */
#define FETCH_PIECE_NBYTES 16384
#define FETCH_NBYTES       131072

#define NOT_FETCHED SIZE_MAX

size_t nxr_combine_type_nbytes(unsigned type)
{
    static const unsigned char nbytes[NXR_N_TYPES] = {
        [NIXL_TYPE_INT8] = 1,   [NIXL_TYPE_UINT8] = 1,  [NIXL_TYPE_INT16] = 2,
        [NIXL_TYPE_UINT16] = 2, [NIXL_TYPE_INT32] = 4,  [NIXL_TYPE_UINT32] = 4,
        [NIXL_TYPE_INT64] = 8,  [NIXL_TYPE_UINT64] = 8, [NIXL_TYPE_FLOAT16] = 2,
        [NIXL_TYPE_FLOAT] = 4,  [NIXL_TYPE_DOUBLE] = 8, [NIXL_TYPE_BFLOAT16] = 2,
    };

    return type < NXR_N_TYPES ? nbytes[type] : 0;
}

NXR_HOT bool nxr_combine_is_valid(unsigned type, unsigned op)
{
    return type < NXR_N_TYPES && op < NXR_N_OPS && basic_table[type][op] != NULL;
}

NXR_HOT void nxr_combine_make(const struct nixl_reduce_args *args, struct nxr_combine *combine_p)
{
    if (args->op == NIXL_REDUCE_USER) {
        *combine_p = (struct nxr_combine){
            .user = args->combine,
            .user_arg = args->combine_arg,
            .element_nbytes = args->element_nbytes != 0 ? args->element_nbytes
                                                        : nxr_combine_type_nbytes(args->type),
        };
        return;
    }
    *combine_p = (struct nxr_combine){
        .fn = loops[args->type][args->op],
        .element_nbytes = nxr_combine_type_nbytes(args->type),
        .type = args->type,
        .op = args->op,
    };
}

void nxr_combine_two(const struct nxr_combine *combine, void *dst, const void *left,
                     const void *right, size_t nbytes)
{
    size_t count = nbytes / combine->element_nbytes;

    if (combine->fn != NULL) {
        combine->fn(dst, left, right, count);
        return;
    }
    if (dst == right && dst != left) { /* the operation is commutative */
        combine->user(dst, left, count, combine->user_arg);
        return;
    }
    if (dst != left) {
        nxr_copy(dst, left, nbytes);
    }
    combine->user(dst, right, count, combine->user_arg);
}

/* Combine all sources from `at` on, nbytes of each, into `to`; only the first may be `to`. */
static void combine_combine_block(const struct nxr_combine *combine, void *to,
                                  const void *const *srcs, size_t n_srcs, size_t at, size_t nbytes)
{
    const char *left = (const char *)srcs[0] + at;

    for (size_t i = 1; i < n_srcs; i++) {
        nxr_combine_two(combine, to, left, (const char *)srcs[i] + at, nbytes);
        left = to;
    }
}

/* Ask for a block of each source but that of `me`, those behind it first. */
static void combine_fetch_block(const void *const *srcs, size_t n_srcs, size_t me, size_t at,
                                size_t nbytes)
{
    for (size_t k = 1; k < n_srcs; k++) {
        const char *from = (const char *)srcs[(me + k) % n_srcs] + at;

        for (size_t i = 0; i < nbytes; i += NXR_LINE_NBYTES) {
            __builtin_prefetch(from + i);
        }
    }
    __asm__ volatile(""); /* GCC drops calls of functions that only prefetch */
}

static bool combine_is_source(const void *dst, const void *const *srcs, size_t n_srcs)
{
    bool is_source = false;

    for (size_t i = 1; i < n_srcs; i++) {
        is_source |= dst == srcs[i];
    }
    return is_source;
}

/* me: NOT_FETCHED, or as in nxr_combine_members(). */
static void combine_blocks(const struct nxr_combine *combine, void *dst, const void *const *srcs,
                           size_t n_srcs, size_t me, size_t nbytes)
{
    _Alignas(64) char own[BLOCK_NBYTES];
    size_t most = me == NOT_FETCHED || FETCH_NBYTES / n_srcs > BLOCK_NBYTES ? BLOCK_NBYTES
                                                                            : FETCH_NBYTES / n_srcs;
    size_t block = most < combine->element_nbytes
                       ? combine->element_nbytes
                       : most / combine->element_nbytes * combine->element_nbytes;
    bool is_source = combine_is_source(dst, srcs, n_srcs);

    for (size_t at = 0; at < nbytes; at += block) {
        size_t n = nbytes - at < block ? nbytes - at : block;

        if (me != NOT_FETCHED) {
            combine_fetch_block(srcs, n_srcs, me, at, n);
        }
        combine_combine_block(combine, is_source ? own : (char *)dst + at, srcs, n_srcs, at, n);
        if (is_source) {
            nxr_copy((char *)dst + at, own, n);
        }
    }
}

/* A single block needs no other, and not the stack for it. */
void nxr_combine_all(const struct nxr_combine *combine, void *dst, const void *const *srcs,
                     size_t n_srcs, size_t nbytes)
{
    if (n_srcs == 1) {
        if (dst != srcs[0] && nbytes > 0) {
            nxr_copy(dst, srcs[0], nbytes);
        }
    } else if (n_srcs == 2 || /* one pass, whatever dst is */
               (nbytes <= BLOCK_NBYTES && !combine_is_source(dst, srcs, n_srcs))) {
        combine_combine_block(combine, dst, srcs, n_srcs, 0, nbytes);
    } else {
        combine_blocks(combine, dst, srcs, n_srcs, NOT_FETCHED, nbytes);
    }
}

void nxr_combine_members(const struct nxr_combine *combine, void *dst, const void *const *srcs,
                         size_t n_srcs, size_t me, size_t nbytes)
{
    if (n_srcs <= 2 || nbytes > FETCH_PIECE_NBYTES) {
        nxr_combine_all(combine, dst, srcs, n_srcs, nbytes);
    } else {
        combine_blocks(combine, dst, srcs, n_srcs, me, nbytes);
    }
}
