/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on words: every type with every operation, against the plain arithmetic of C. */
#include "util/atomic.h"

#include "test/unit/unit.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

static _Alignas(64) uint64_t words[3];

/* Apply it to words[1], between two others that must not change. */
static uint64_t apply(enum nixl_type type, unsigned op, uint64_t before, uint64_t operand,
                      uint64_t compare)
{
    struct nxr_atomic atomic = {
        .op = (uint8_t)op, .type = (uint8_t)type, .operand = operand, .compare = compare};
    uint64_t fetched;

    cr_assert(nxr_atomic_is_valid(type, op));
    words[0] = words[2] = 0x5a5a5a5a5a5a5a5a;
    words[1] = before;
    fetched = nxr_atomic_apply(&words[1], &atomic);
    cr_expect(eq(u64, words[0], 0x5a5a5a5a5a5a5a5a));
    cr_expect(eq(u64, words[2], 0x5a5a5a5a5a5a5a5a));
    return fetched;
}

/* What the bits of a whole number are after the operation. */
static uint64_t expected(unsigned op, uint64_t before, uint64_t operand, uint64_t compare)
{
    switch (op) {
    case NIXL_ATOMIC_ADD:
        return before + operand;
    case NIXL_ATOMIC_AND:
        return before & operand;
    case NIXL_ATOMIC_OR:
        return before | operand;
    case NIXL_ATOMIC_XOR:
        return before ^ operand;
    case NIXL_ATOMIC_FETCH:
        return before;
    case NXR_ATOMIC_COMPARE_SWAP:
        return before == compare ? operand : before;
    default:
        return operand;
    }
}

static const uint64_t values[] = {
    0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, INT64_MAX, 1ull << 63, UINT64_MAX,
};
#define N_VALUES (sizeof(values) / sizeof(values[0]))

TestSuite(word, .timeout = 120);

Test(word, whole_numbers_of_64_bits)
{
    for (unsigned op = 0; op <= NXR_ATOMIC_COMPARE_SWAP; op++) {
        for (size_t i = 0; i < N_VALUES * N_VALUES * N_VALUES; i++) {
            uint64_t before = values[i % N_VALUES], operand = values[i / N_VALUES % N_VALUES];
            uint64_t compare = values[i / N_VALUES / N_VALUES];
            enum nixl_type type = i % 2 == 0 ? NIXL_TYPE_INT64 : NIXL_TYPE_UINT64;

            cr_expect(eq(u64, apply(type, op, before, operand, compare), before));
            cr_expect(eq(u64, words[1], expected(op, before, operand, compare)), "operation %u",
                      op);
        }
    }
}

Test(word, whole_numbers_of_32_bits_leave_the_other_half)
{
    for (unsigned op = 0; op <= NXR_ATOMIC_COMPARE_SWAP; op++) {
        for (size_t i = 0; i < N_VALUES * N_VALUES * N_VALUES; i++) {
            uint32_t before = (uint32_t)values[i % N_VALUES];
            uint32_t operand = (uint32_t)values[i / N_VALUES % N_VALUES];
            uint32_t compare = (uint32_t)values[i / N_VALUES / N_VALUES], after;
            enum nixl_type type = i % 2 == 0 ? NIXL_TYPE_INT32 : NIXL_TYPE_UINT32;
            unsigned char half[4];

            cr_expect(
                eq(u64, apply(type, op, 0xabababab00000000 | before, operand, compare), before));
            memcpy(&after, &words[1], 4);
            memcpy(half, (char *)&words[1] + 4, 4);
            cr_expect(eq(u32, after, (uint32_t)expected(op, before, operand, compare)), "op %u",
                      op);
            cr_expect(eq(int, memcmp(half, "\xab\xab\xab\xab", 4), 0));
        }
    }
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

Test(word, doubles)
{
    static const double cases[] = {0, -0.0, 1.5, -3.25, 1e308, -1e308, INFINITY};

    for (size_t i = 0; i < 49; i++) {
        double before = cases[i % 7], addend = cases[i / 7];

        cr_expect(eq(u64,
                     apply(NIXL_TYPE_DOUBLE, NIXL_ATOMIC_ADD, bits_of(before), bits_of(addend), 0),
                     bits_of(before)));
        cr_expect(eq(u64, words[1], bits_of(before + addend)));
        apply(NIXL_TYPE_DOUBLE, NIXL_ATOMIC_SWAP, bits_of(before), bits_of(addend), 0);
        cr_expect(eq(u64, words[1], bits_of(addend)));
    }
    /* Not a number is equal to itself here: bits are compared. */
    apply(NIXL_TYPE_DOUBLE, NXR_ATOMIC_COMPARE_SWAP, bits_of(NAN), bits_of(1), bits_of(NAN));
    cr_expect(eq(u64, words[1], bits_of(1)));
}

Test(word, floats_leave_the_other_half)
{
    static const float cases[] = {0, 0.5f, -7.75f, 3e38f, -3e38f, INFINITY};

    for (size_t i = 0; i < 36; i++) {
        float before = cases[i % 6], addend = cases[i / 6], sum = before + addend;
        uint32_t low, addend_bits, after;

        memcpy(&low, &before, 4);
        memcpy(&addend_bits, &addend, 4);
        memcpy(&after, &sum, 4);
        cr_expect(eq(u64,
                     apply(NIXL_TYPE_FLOAT, NIXL_ATOMIC_ADD, 0xcdull << 56 | low, addend_bits, 0),
                     low));
        cr_expect(eq(u64, words[1], 0xcdull << 56 | after));
    }
}

Test(word, what_does_not_exist_is_not_valid)
{
    static const unsigned bits[] = {NIXL_ATOMIC_AND, NIXL_ATOMIC_OR, NIXL_ATOMIC_XOR};

    for (unsigned type = 0; type < 300; type++) {
        cr_expect(eq(int, nxr_atomic_is_valid(type, NIXL_ATOMIC_ADD), type <= NIXL_TYPE_DOUBLE));
        cr_expect(eq(int, nxr_type_nbytes(type) != 0, type <= NIXL_TYPE_DOUBLE));
    }
    for (unsigned op = 0; op < 300; op++) {
        cr_expect(eq(int, nxr_atomic_is_valid(NIXL_TYPE_INT32, op), op <= NXR_ATOMIC_COMPARE_SWAP));
    }
    for (int i = 0; i < 3; i++) {
        cr_expect(not(nxr_atomic_is_valid(NIXL_TYPE_FLOAT, bits[i])));
        cr_expect(not(nxr_atomic_is_valid(NIXL_TYPE_DOUBLE, bits[i])));
    }
}

static void *add_many(void *arg)
{
    const struct nxr_atomic *atomic = arg;

    for (int i = 0; i < 20000; i++) {
        nxr_atomic_apply(&words[1], atomic);
    }
    return NULL;
}

/* The loop of a floating-point addition loses none to others. */
Test(word, doubles_of_many_threads_add_up)
{
    struct nxr_atomic atomic = {
        .op = NIXL_ATOMIC_ADD, .type = NIXL_TYPE_DOUBLE, .operand = bits_of(0.25)};
    pthread_t threads[4];

    words[1] = 0;
    for (int i = 0; i < 4; i++) {
        cr_assert(eq(int, pthread_create(&threads[i], NULL, add_many, &atomic), 0));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_expect(eq(u64, words[1], bits_of(20000)));
}

Test(word, a_store_writes_its_bytes_and_no_others)
{
    static const size_t sizes[] = {2, 4, 8};

    for (size_t i = 0; i < 3; i++) {
        struct nxr_atomic atomic = {
            .op = NXR_ATOMIC_STORE, .type = (uint8_t)sizes[i], .operand = 0x1122334455667788};
        uint64_t word = UINT64_MAX;

        cr_assert(nxr_atomic_is_asked(&atomic));
        cr_expect(eq(sz, nxr_atomic_nbytes(&atomic), sizes[i]));
        (void)nxr_atomic_apply(&word, &atomic);
        cr_expect(eq(int, memcmp(&word, &atomic.operand, sizes[i]), 0), "%zu bytes", sizes[i]);
        for (size_t k = sizes[i]; k < sizeof(word); k++) {
            cr_expect(eq(u8, ((unsigned char *)&word)[k], 0xff), "%zu bytes", sizes[i]);
        }
    }
}

Test(word, only_what_exists_is_asked_for)
{
    for (unsigned type = 0; type < 256; type++) {
        struct nxr_atomic store = {.op = NXR_ATOMIC_STORE, .type = (uint8_t)type};
        struct nxr_atomic sync = {.op = NXR_ATOMIC_SYNC, .type = (uint8_t)type};
        struct nxr_atomic sync_at = {.op = NXR_ATOMIC_SYNC, .type = (uint8_t)type, .offset = 8};
        struct nxr_atomic beyond = {.op = NXR_ATOMIC_SYNC + 1, .type = (uint8_t)type};
        struct nxr_atomic bits = {.op = NIXL_ATOMIC_XOR, .type = (uint8_t)type};

        cr_expect(eq(int, nxr_atomic_is_asked(&store), type == 2 || type == 4 || type == 8));
        cr_expect(eq(int, nxr_atomic_is_asked(&sync), type == 0));
        cr_expect(not(nxr_atomic_is_asked(&sync_at)));
        cr_expect(not(nxr_atomic_is_asked(&beyond)));
        cr_expect(eq(int, nxr_atomic_is_asked(&bits), type < NIXL_TYPE_FLOAT));
    }
}
