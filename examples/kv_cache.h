/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paged KV cache of the example kv_transfer: its size for a model, the place of a block, and
 * its content.
 *
 * An inference server keeps the keys and values of all tokens in blocks of a few tokens. A block
 * has one piece per layer, and the pieces of one layer lie together, as the attention kernels want
 * it:
 *
 *     layer 0: [block 0][block 1] ... [block n-1]   layer 1: [block 0][block 1] ...
 *
 * So moving one block moves as many scattered pieces as the model has layers.
 */
#ifndef EXAMPLE_KV_CACHE_H
#define EXAMPLE_KV_CACHE_H

#include <stdint.h>
#include <stddef.h>

/* What determines the size of a model's cache. */
struct kv_shape {
    const char *model;
    uint32_t layers;
    uint32_t tensors; /* per token and layer: 2 for key and value, 1 for a common latent (MLA) */
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t block_tokens;
    const char *dtype;
};

/* One token of a request's cache is identified by these; the content is made from them. */
struct kv_origin {
    uint32_t rank;    /* the rank that prefilled it */
    uint32_t request; /* number of the request there */
    uint32_t block;   /* number of the block within the request */
    uint32_t layer;
};

/* The shape of a known model, or NULL. */
const struct kv_shape *kv_model(const char *name);
const char *kv_model_names(void);

/* Bytes of a value, or 0 for an unknown type. */
uint32_t kv_dtype_nbytes(const char *dtype);
const char *kv_dtype_names(void);

/* Bytes of one piece: one block of one layer. */
size_t kv_piece_nbytes(const struct kv_shape *shape);

/* Bytes of one block over all layers. */
size_t kv_block_nbytes(const struct kv_shape *shape);

/* Where a piece begins in a cache of `n_blocks` blocks. */
uint64_t kv_piece_offset(const struct kv_shape *shape, uint32_t n_blocks, uint32_t block,
                         uint32_t layer);

/* Fill a piece with its content. */
void kv_piece_fill(void *piece, size_t nbytes, const struct kv_origin *origin);

/* The number of correct bytes from the start: `nbytes` if every byte is correct. */
size_t kv_piece_verify(const void *piece, size_t nbytes, const struct kv_origin *origin);

#endif
