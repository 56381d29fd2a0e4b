/* SPDX-License-Identifier: Apache-2.0 */
/* The content check of the example kv_transfer sees every wrong byte, and the sizes are the
 * models'. */
#include "examples/kv_cache.h"

#include "test/unit/unit.h"
#include <string.h>

static const struct kv_origin origin = {3, 7, 11, 13};

Test(kv_cache, every_flipped_byte_is_seen, .timeout = 120)
{
    unsigned char piece[83]; /* ten words and a tail */

    for (size_t nbytes = 0; nbytes <= sizeof(piece); nbytes++) {
        kv_piece_fill(piece, nbytes, &origin);
        cr_assert_eq(kv_piece_verify(piece, nbytes, &origin), nbytes);
        for (size_t at = 0; at < nbytes; at++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                piece[at] ^= (unsigned char)(1u << bit);
                cr_assert_eq(kv_piece_verify(piece, nbytes, &origin), at);
                piece[at] ^= (unsigned char)(1u << bit);
            }
        }
    }
}

Test(kv_cache, fill_writes_its_bytes_and_no_more, .timeout = 120)
{
    unsigned char piece[64];

    memset(piece, 0x55, sizeof(piece));
    kv_piece_fill(piece, 33, &origin);
    cr_assert_eq(kv_piece_verify(piece, 33, &origin), 33);
    for (size_t at = 33; at < sizeof(piece); at++) {
        cr_assert_eq(piece[at], 0x55);
    }
}

Test(kv_cache, another_origin_is_wrong_from_the_first_word_on, .timeout = 120)
{
    unsigned char piece[256];
    struct kv_origin others[] = {{2, 7, 11, 13}, {3, 8, 11, 13}, {3, 7, 10, 13},
                                 {3, 7, 11, 14}, {7, 3, 11, 13}, {3, 7, 13, 11}};

    kv_piece_fill(piece, sizeof(piece), &origin);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cr_assert_lt(kv_piece_verify(piece, sizeof(piece), &others[i]), 8);
    }
    /* The right content in a wrong block. */
    cr_assert_lt(kv_piece_verify(piece + 8, 8, &origin), 8);
}

Test(kv_cache, sizes_are_those_of_the_models, .timeout = 120)
{
    const struct kv_shape *llama = kv_model("llama3-8b"), *deepseek = kv_model("deepseek-v3");

    cr_assert_not_null(llama);
    cr_assert_not_null(deepseek);
    /* 128 KiB per token: 32 layers, key and value, 8 heads of 128 values of 2 bytes. */
    cr_assert_eq(kv_block_nbytes(llama) / llama->block_tokens, 131072);
    cr_assert_eq(kv_block_nbytes(kv_model("llama3-70b")) / 16, 327680);
    /* MLA: 576 values of 2 bytes per token and layer, 61 layers. */
    cr_assert_eq(kv_block_nbytes(deepseek) / deepseek->block_tokens, 61 * 576 * 2);
    cr_assert_null(kv_model("llama"));
    cr_assert_eq(kv_dtype_nbytes("fp8"), 1);
    cr_assert_eq(kv_dtype_nbytes("int3"), 0);
}

Test(kv_cache, pieces_do_not_overlap, .timeout = 120)
{
    struct kv_shape shape = {"test", 3, 2, 2, 4, 2, "bf16"};
    const uint32_t n_blocks = 5;
    unsigned char cache[3 * 5 * 64];

    cr_assert_eq(kv_piece_nbytes(&shape), 64);
    memset(cache, 0, sizeof(cache));
    for (uint32_t layer = 0; layer < shape.layers; layer++) {
        for (uint32_t block = 0; block < n_blocks; block++) {
            uint64_t at = kv_piece_offset(&shape, n_blocks, block, layer);

            cr_assert_leq(at + 64, sizeof(cache));
            for (uint64_t i = at; i < at + 64; i++) {
                cr_assert_eq(cache[i]++, 0);
            }
        }
    }
}
