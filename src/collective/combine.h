/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combining arrays of values element by element: every type with every operation, by the widest
 * vectors of this processor, and the caller's own operations. The only state is the choice of the
 * vectors, made when the library is loaded.
 *
 * Values of 16-bit floating-point types are widened, combined and rounded to the nearest even at
 * each step. Whole numbers wrap around.
 */
#ifndef NXR_COLLECTIVE_COMBINE_H
#define NXR_COLLECTIVE_COMBINE_H

#include "nixlrun.h"

#include <stdbool.h>
#include <stddef.h>

#define NXR_N_TYPES (NIXL_TYPE_BFLOAT16 + 1)
#define NXR_N_OPS   (NIXL_REDUCE_XOR + 1)

/* dst[i] = left[i] OP right[i]; any alignment; dst may be left or right, exactly. */
typedef void nxr_combine_fn(void *dst, const void *left, const void *right, size_t count);

/* How values are combined; made by nxr_combine_make(). */
struct nxr_combine {
    nxr_combine_fn *fn;    /* NULL: the caller's */
    nixl_combine_fn *user; /* NULL: fn */
    void *user_arg;
    size_t element_nbytes;
    /*
     * If it is not the caller's. In another order than in struct nixl_reduce_args: compilers would
     * read both there as one word, which waits for all stores of a caller that has just written
     * them one by one.
     */
    enum nixl_reduce_op op;
    enum nixl_type type;
};

/* Bytes of a value; 0 for a type that does not exist. */
size_t nxr_combine_type_nbytes(unsigned type);

/* Does the operation exist for the type? Bitwise operations exist for integers only. */
bool nxr_combine_is_valid(unsigned type, unsigned op);

/* The vectors that there are loops for, each wider than those before: the last one that the
 * processor has is used. */
enum nxr_combine_vectors {
    NXR_COMBINE_BASIC, /* what every processor of the architecture has */
    NXR_COMBINE_AVX2,
    NXR_COMBINE_AVX512,
    NXR_COMBINE_N_VECTORS
};

/* The loop for these vectors; NULL: the processor lacks them, or the operation does not exist. */
nxr_combine_fn *nxr_combine_loop(enum nxr_combine_vectors vectors, unsigned type, unsigned op);

/* Choose how to combine, for arguments that were checked. */
void nxr_combine_make(const struct nixl_reduce_args *args, struct nxr_combine *combine_p);

static inline struct nxr_combine nxr_combine_choose(const struct nixl_reduce_args *args)
{
    struct nxr_combine combine;

    nxr_combine_make(args, &combine);
    return combine;
}

#define NXR_ELEMENT_MAX 256 /* bytes; larger elements of the caller's use nxr_whole_reduce() */

/*
 * dst = srcs[0] OP srcs[1] OP ... from left to right, nbytes of each (whole elements). dst may be
 * one of them, exactly, and overlaps no other. n_srcs is at least 1.
 */
void nxr_combine_all(const struct nxr_combine *combine, void *dst, const void *const *srcs,
                     size_t n_srcs, size_t nbytes);

/*
 * nxr_combine_all() for members that combine the same sources at the same time. All combine in the
 * same order, so one member's cache after the other would have to serve all members at once. Each
 * member therefore prefetches first the sources behind its own, `me`. Pieces above 16 KiB are not
 * prefetched: processors detect such streams.
 */
void nxr_combine_members(const struct nxr_combine *combine, void *dst, const void *const *srcs,
                         size_t n_srcs, size_t me, size_t nbytes);

/* dst = left OP right; dst may be either, exactly. */
void nxr_combine_two(const struct nxr_combine *combine, void *dst, const void *left,
                     const void *right, size_t nbytes);

#endif
