/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, layout and content of the paged KV cache. The content is a sequence of 64-bit words that
 * starts at a hash of the origin and grows by a fixed odd step, so that every byte is checked, and
 * a piece of another request, block or layer, or a shifted piece, never looks right.
 */
#include "kv_cache.h"

#include <string.h>

#define WORD_STEP 0x9e3779b97f4a7c15ull

static const struct kv_shape models[] = {
    {"llama3-8b", 32, 2, 8, 128, 16, "bf16"},
    {"llama3-70b", 80, 2, 8, 128, 16, "bf16"},
    /* MLA: one latent of kv_lora_rank 512 and 64 rope values for all heads. */
    {"deepseek-v3", 61, 1, 1, 576, 64, "bf16"},
};

static const struct {
    const char *name;
    uint32_t nbytes;
} dtypes[] = {{"bf16", 2}, {"fp16", 2}, {"fp32", 4}, {"fp8", 1}};

const struct kv_shape *kv_model(const char *name)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strcmp(models[i].model, name) == 0) {
            return &models[i];
        }
    }
    return NULL;
}

const char *kv_model_names(void)
{
    return "llama3-8b, llama3-70b, deepseek-v3";
}

uint32_t kv_dtype_nbytes(const char *dtype)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        if (strcmp(dtypes[i].name, dtype) == 0) {
            return dtypes[i].nbytes;
        }
    }
    return 0;
}

const char *kv_dtype_names(void)
{
    return "bf16, fp16, fp32, fp8";
}

size_t kv_piece_nbytes(const struct kv_shape *shape)
{
    return (size_t)shape->tensors * shape->kv_heads * shape->head_dim * shape->block_tokens *
           kv_dtype_nbytes(shape->dtype);
}

size_t kv_block_nbytes(const struct kv_shape *shape)
{
    return kv_piece_nbytes(shape) * shape->layers;
}

uint64_t kv_piece_offset(const struct kv_shape *shape, uint32_t n_blocks, uint32_t block,
                         uint32_t layer)
{
    return ((uint64_t)layer * n_blocks + block) * kv_piece_nbytes(shape);
}

/* Mix all bits of the origin (the finaliser of splitmix64 after each field). */
static uint64_t first_word(const struct kv_origin *origin)
{
    const uint32_t fields[] = {origin->rank, origin->request, origin->block, origin->layer};
    uint64_t hash = 0;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        hash += fields[i] + WORD_STEP;
        hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
        hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
        hash ^= hash >> 31;
    }
    return hash;
}

void kv_piece_fill(void *piece, size_t nbytes, const struct kv_origin *origin)
{
    uint64_t word = first_word(origin);
    unsigned char *to = piece;

    for (; nbytes >= sizeof(word); nbytes -= sizeof(word), to += sizeof(word)) {
        memcpy(to, &word, sizeof(word));
        word += WORD_STEP;
    }
    memcpy(to, &word, nbytes);
}

size_t kv_piece_verify(const void *piece, size_t nbytes, const struct kv_origin *origin)
{
    uint64_t word = first_word(origin), found;
    const unsigned char *from = piece;
    size_t done = 0;

    for (; nbytes - done >= sizeof(word); done += sizeof(word)) {
        memcpy(&found, from + done, sizeof(found));
        if (found != word) {
            break;
        }
        word += WORD_STEP;
    }
    /* The first wrong word, or the tail that is shorter than a word: byte by byte. */
    for (size_t i = 0; i < sizeof(word) && done < nbytes; i++, done++) {
        if (from[done] != ((const unsigned char *)&word)[i]) {
            break;
        }
    }
    return done;
}
