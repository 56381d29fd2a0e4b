/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engine: every method copies exactly what it should, at any size and alignment. */
#include "util/copy.h"
#include "util/copy_x86.h"

#include "test/unit/unit.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GUARD        192
#define PAGE         4096
#define GUARD_BYTE   0xa5
#define AUTOMATIC    NXR_COPY_N_METHODS /* nxr_copy() itself */
#define PAST         (AUTOMATIC + 1)    /* nxr_copy_past() */
#define MAX_NBYTES   (3ul << 20)
#define BUFFER_BYTES (MAX_NBYTES + 4 * PAGE)

static unsigned char *target, *source;

static void setup(void)
{
    uint64_t x = 88172645463325252ull;

    target = aligned_alloc(PAGE, BUFFER_BYTES);
    source = aligned_alloc(PAGE, BUFFER_BYTES);
    cr_assert(target != NULL && source != NULL);
    for (size_t i = 0; i < BUFFER_BYTES; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        source[i] = (unsigned char)x;
    }
}

static void teardown(void)
{
    free(target);
    free(source);
}

TestSuite(copy, .init = setup, .fini = teardown, .timeout = 120);

/* Copy to page + dst_offset and look at every byte and at the guards on both sides. */
static void check(int method, size_t nbytes, size_t dst_offset, size_t src_offset)
{
    unsigned char *dst = target + PAGE + dst_offset;
    const unsigned char *src = source + PAGE + src_offset;

    memset(dst - GUARD, GUARD_BYTE, nbytes + 2 * GUARD);
    if (method == AUTOMATIC) {
        nxr_copy(dst, src, nbytes);
    } else if (method == PAST) {
        nxr_copy_past(dst, src, nbytes);
        nxr_copy_past_end();
    } else {
        nxr_copy_by((enum nxr_copy_method)method, dst, src, nbytes);
    }
    cr_assert(memcmp(dst, src, nbytes) == 0, "method %d: %zu bytes, dst +%zu, src +%zu", method,
              nbytes, dst_offset, src_offset);
    for (size_t i = 0; i < GUARD; i++) {
        cr_assert(dst[-1 - (long)i] == GUARD_BYTE && dst[nbytes + i] == GUARD_BYTE,
                  "method %d: %zu bytes, dst +%zu, src +%zu wrote outside", method, nbytes,
                  dst_offset, src_offset);
    }
}

static bool is_usable(int method)
{
    return method == AUTOMATIC || (method == PAST && nxr_copy_goes_past(UINT64_MAX)) ||
           (method != PAST && nxr_copy_is_usable((enum nxr_copy_method)method));
}

Test(copy, every_small_size_at_every_alignment)
{
    for (size_t nbytes = 0; nbytes <= 300; nbytes++) {
        for (size_t dst = 0; dst < 64; dst++) {
            check(AUTOMATIC, nbytes, dst, (dst * 7 + nbytes) % 64);
        }
    }
}

Test(copy, every_pair_of_alignments)
{
    for (int method = 0; method <= PAST; method++) {
        for (size_t dst = 0; is_usable(method) && dst < 64; dst++) {
            for (size_t src = 0; src < 64; src++) {
                check(method, 1000 + dst, dst, src);
            }
        }
    }
}

Test(copy, ends_around_page_boundaries)
{
    for (int method = 0; method <= PAST; method++) {
        for (size_t at = 0; is_usable(method) && at < 130; at++) {
            check(method, PAGE, PAGE - 65 + at, at % 64);
            check(method, PAGE - 65 + at, 0, 0);
            check(method, 65 + at, PAGE - 65 + at, 3);
        }
    }
}

/* Around every size at which the choice changes, found by asking. */
Test(copy, around_thresholds)
{
    static const size_t distances[] = {0, 1, 32, 63, 64, 4095};

    for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
        const unsigned char *dst = target + PAGE + distances[i];
        enum nxr_copy_method before = nxr_copy_choose(dst, source + PAGE, 0);

        for (size_t nbytes = 1; nbytes <= MAX_NBYTES; nbytes += nbytes < 4096 ? 1 : 512) {
            enum nxr_copy_method method = nxr_copy_choose(dst, source + PAGE, nbytes);

            if (method != before) {
                for (size_t near = nbytes - 3; near <= nbytes + 3; near++) {
                    check(AUTOMATIC, near, distances[i], 0);
                }
                before = method;
            }
        }
    }
}

Test(copy, large_by_every_method)
{
    static const size_t sizes[] = {16384, 65535, 262145, 1048576, MAX_NBYTES};

    for (int method = 0; method <= PAST; method++) {
        for (size_t i = 0; is_usable(method) && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            check(method, sizes[i], 0, 0);
            check(method, sizes[i], 13, 5);
            check(method, sizes[i], 5, 4095);
        }
    }
}

#ifdef NXR_COPY_X86

/* The choice as it is on processors that have less than this one. */
Test(copy, the_choice_of_every_processor)
{
    static void (*const choices[])(void *, const void *, size_t) = {nxr_copy_large_avx2,
                                                                    nxr_copy_large_avx512};
    static const enum nxr_copy_method needed[] = {NXR_COPY_AVX2, NXR_COPY_AVX512};
    static const size_t distances[] = {0, 1, 32, 63};

    for (int i = 0; i < 2 && is_usable(needed[i]); i++) {
        nxr_copy_large = choices[i];
        for (size_t nbytes = NXR_COPY_SMALL + 1; nbytes <= MAX_NBYTES; nbytes += nbytes / 16 + 1) {
            for (size_t k = 0; k < sizeof(distances) / sizeof(distances[0]); k++) {
                check(AUTOMATIC, nbytes, distances[k], 0);
            }
        }
    }
}

#endif

Test(copy, the_choice_is_usable)
{
    for (size_t nbytes = 1; nbytes <= 1ul << 30; nbytes += nbytes / 3 + 1) {
        for (size_t offset = 0; offset < 70; offset++) {
            cr_assert(nxr_copy_is_usable(nxr_copy_choose(target + offset, source, nbytes)));
        }
    }
}

/* A word of 8 bytes whose halves are equal: a reader that sees them differ has seen half a store.
 */
static _Alignas(64) _Atomic uint64_t word;
static _Atomic bool is_done;

static void *write_words(void *arg)
{
    for (uint32_t i = 1; i <= 2000000; i++) {
        uint64_t value = (uint64_t)i << 32 | i;

        nxr_copy((void *)&word, &value, sizeof(value));
    }
    atomic_store(&is_done, true);
    return arg;
}

Test(copy, an_aligned_word_is_one_store)
{
    pthread_t writer;
    uint64_t seen = 0;

    cr_assert(pthread_create(&writer, NULL, write_words, NULL) == 0);
    while (!atomic_load(&is_done)) {
        uint64_t value = atomic_load_explicit(&word, memory_order_relaxed);

        cr_assert(eq(u32, (uint32_t)value, (uint32_t)(value >> 32)), "torn word %016lx", value);
        cr_assert(value >= seen);
        seen = value;
    }
    pthread_join(writer, NULL);
}

Test(copy, names_are_distinct)
{
    for (int a = 0; a < NXR_COPY_N_METHODS; a++) {
        for (int b = 0; b < a; b++) {
            cr_assert(strcmp(nxr_copy_method_name((enum nxr_copy_method)a),
                             nxr_copy_method_name((enum nxr_copy_method)b)) != 0);
        }
    }
}
