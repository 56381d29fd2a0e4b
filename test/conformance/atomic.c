/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on atomic operations: what each does, in one domain, in order, on passive targets. */
#include "conformance.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_READ 0x0a01

/* One operation on one type: the word before, the operand, and the word after. */
struct change {
    enum nixl_type type;
    enum nixl_atomic_op op;
    union value {
        uint64_t u64;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        float f;
        double d;
    } before, operand, after;
};

static const struct change changes[] = {
    {NIXL_TYPE_INT32, NIXL_ATOMIC_ADD, {.i32 = 5}, {.i32 = -7}, {.i32 = -2}},
    {NIXL_TYPE_INT32, NIXL_ATOMIC_ADD, {.i32 = INT32_MAX}, {.i32 = 1}, {.i32 = INT32_MIN}},
    {NIXL_TYPE_INT32, NIXL_ATOMIC_SWAP, {.i32 = -1}, {.i32 = 3}, {.i32 = 3}},
    {NIXL_TYPE_UINT32, NIXL_ATOMIC_ADD, {.u32 = UINT32_MAX}, {.u32 = 2}, {.u32 = 1}},
    {NIXL_TYPE_UINT32, NIXL_ATOMIC_AND, {.u32 = 0xf0f0}, {.u32 = 0xff00}, {.u32 = 0xf000}},
    {NIXL_TYPE_UINT32, NIXL_ATOMIC_OR, {.u32 = 0xf0f0}, {.u32 = 0xff00}, {.u32 = 0xfff0}},
    {NIXL_TYPE_UINT32, NIXL_ATOMIC_XOR, {.u32 = 0xf0f0}, {.u32 = 0xff00}, {.u32 = 0x0ff0}},
    {NIXL_TYPE_UINT32, NIXL_ATOMIC_FETCH, {.u32 = 0xabc}, {.u32 = 1}, {.u32 = 0xabc}},
    {NIXL_TYPE_INT64, NIXL_ATOMIC_ADD, {.i64 = INT64_MIN}, {.i64 = -1}, {.i64 = INT64_MAX}},
    {NIXL_TYPE_INT64, NIXL_ATOMIC_SET, {.i64 = 1}, {.i64 = -9}, {.i64 = -9}},
    {NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, {.u64 = UINT64_MAX}, {.u64 = 3}, {.u64 = 2}},
    {NIXL_TYPE_UINT64, NIXL_ATOMIC_AND, {.u64 = ~0ull}, {.u64 = 1ull << 63}, {.u64 = 1ull << 63}},
    {NIXL_TYPE_UINT64, NIXL_ATOMIC_OR, {.u64 = 1}, {.u64 = 1ull << 63}, {.u64 = 1ull << 63 | 1}},
    {NIXL_TYPE_UINT64, NIXL_ATOMIC_XOR, {.u64 = ~0ull}, {.u64 = 1}, {.u64 = ~1ull}},
    {NIXL_TYPE_UINT64, NIXL_ATOMIC_SWAP, {.u64 = 7}, {.u64 = 8}, {.u64 = 8}},
    {NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, {.u64 = 1ull << 40}, {.u64 = 1}, {.u64 = 1ull << 40}},
    {NIXL_TYPE_FLOAT, NIXL_ATOMIC_ADD, {.f = 1.5f}, {.f = -4.25f}, {.f = -2.75f}},
    {NIXL_TYPE_FLOAT, NIXL_ATOMIC_SWAP, {.f = 1.5f}, {.f = 0.5f}, {.f = 0.5f}},
    {NIXL_TYPE_FLOAT, NIXL_ATOMIC_FETCH, {.f = -0.125f}, {.f = 1}, {.f = -0.125f}},
    {NIXL_TYPE_DOUBLE, NIXL_ATOMIC_ADD, {.d = 1e300}, {.d = -1e300}, {.d = 0}},
    {NIXL_TYPE_DOUBLE, NIXL_ATOMIC_SET, {.d = 1}, {.d = 2.5}, {.d = 2.5}},
    {NIXL_TYPE_DOUBLE, NIXL_ATOMIC_FETCH, {.d = 6.5}, {.d = 1}, {.d = 6.5}},
};
#define N_CHANGES (sizeof(changes) / sizeof(changes[0]))

static size_t type_nbytes(enum nixl_type type)
{
    return type == NIXL_TYPE_INT64 || type == NIXL_TYPE_UINT64 || type == NIXL_TYPE_DOUBLE ? 8 : 4;
}

/* A word in the rank's segment that only this rank uses; 0xee is on both sides of it. */
static void change_word(int rank, struct segment *segment, const struct change *change,
                        uint64_t offset)
{
    size_t nbytes = type_nbytes(change->type);
    unsigned char line[24], fetched[8];

    memset(line, 0xee, sizeof(line));
    memcpy(line + 8, &change->before, nbytes);
    MPT_OK(nixl_put(rank, segment->region, offset - 8, line, sizeof(line)));
    memset(fetched, 0xdd, sizeof(fetched));
    MPT_OK(nixl_atomic(rank, segment->region, offset, change->type, change->op,
                       change->op == NIXL_ATOMIC_FETCH ? NULL : &change->operand, fetched));
    MPT_EQ(memcmp(fetched, &change->before, nbytes), 0);
    MPT_CHECK_BYTES(fetched + nbytes, 8 - nbytes, 0xdd);
    MPT_OK(nixl_get(rank, segment->region, offset - 8, line, sizeof(line)));
    MPT_EQ(memcmp(line + 8, &change->after, nbytes), 0);
    MPT_CHECK_BYTES(line, 8, 0xee);
    MPT_CHECK_BYTES(line + 8 + nbytes, 16 - nbytes, 0xee);
    MPT_OK(nixl_atomic(rank, segment->region, offset, change->type, change->op, &change->operand,
                       NULL)); /* the value from before is not asked for */
}

static void every_atomic_does_what_it_says(void)
{
    struct segment segment = conf_segment("atomic", (size_t)conf.size * 64);

    mpt_barrier();
    for (int rank = 0; rank < conf.size; rank++) {
        for (size_t i = 0; i < N_CHANGES; i++) {
            change_word(rank, &segment, &changes[i], (uint64_t)conf.rank * 64 + 8 + i % 2 * 8);
        }
    }
    conf_end(&segment);
}

/* Posted changes are visible after a flush, whatever they are, and come after earlier puts. */
static void posted_changes_are_done_at_a_flush(void)
{
    struct segment segment = conf_segment("posted", (size_t)conf.size * 64);

    mpt_barrier();
    for (int rank = 0; rank < conf.size; rank++) {
        for (size_t i = 0; i < N_CHANGES; i++) {
            const struct change *change = &changes[i];
            uint64_t offset = (uint64_t)conf.rank * 64 + i % 2 * 8;
            size_t nbytes = type_nbytes(change->type);
            unsigned char found[8];

            if (change->op == NIXL_ATOMIC_FETCH) {
                continue;
            }
            MPT_OK(nixl_put(rank, segment.region, offset, &change->before, nbytes));
            MPT_OK(nixl_atomic_post(rank, segment.region, offset, change->type, change->op,
                                    &change->operand));
            MPT_OK(nixl_flush(rank, MPT_PATIENCE));
            MPT_OK(nixl_get(rank, segment.region, offset, found, nbytes));
            MPT_EQ(memcmp(found, &change->after, nbytes), 0);
        }
    }
    conf_end(&segment);
}

/* All post into one word: none is lost, and a notification comes behind the sender's. */
static void posted_changes_of_all_make_one_sum(void)
{
    struct segment segment = conf_segment("posted sum", 8);
    const double half = 0.5;
    static struct nixl_note note;
    unsigned n = conf_rounds(500);
    double sum = -1;

    mpt_barrier();
    for (unsigned i = 0; i < n; i++) {
        MPT_OK(nixl_atomic_post(0, segment.region, 0, NIXL_TYPE_DOUBLE, NIXL_ATOMIC_ADD, &half));
    }
    MPT_OK(nixl_notify(0, 77, NULL, 0, MPT_PATIENCE));
    for (int i = 0; conf.rank == 0 && i < conf.size; i++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(i, 77, UINT64_MAX, MPT_PATIENCE, &note));
    }
    if (conf.rank == 0) {
        MPT_OK(nixl_get(0, segment.region, 0, &sum, sizeof(sum)));
        MPT_TRUE(sum == 0.5 * n * conf.size);
    }
    conf_end(&segment);
}

static void compare_swap_replaces_equal_bits_only(void)
{
    struct segment segment = conf_segment("compare_swap", (size_t)conf.size * 8);
    uint64_t offset = (uint64_t)conf.rank * 8, one = 1, two = 2, three = 3, fetched = 99;
    uint32_t low = 7, high = 8, before = 99;
    double minus_zero = -0.0, zero = 0, bits;

    mpt_barrier();
    MPT_OK(nixl_put(conf.next, segment.region, offset, &one, 8));
    MPT_OK(nixl_atomic_compare_swap(conf.next, segment.region, offset, NIXL_TYPE_UINT64, &two,
                                    &three, &fetched));
    MPT_EQ(fetched, 1);
    MPT_OK(nixl_atomic_compare_swap(conf.next, segment.region, offset, NIXL_TYPE_INT64, &one,
                                    &three, &fetched));
    MPT_EQ(fetched, 1);
    MPT_OK(nixl_atomic_compare_swap(conf.next, segment.region, offset, NIXL_TYPE_INT64, &one, &two,
                                    NULL));
    MPT_OK(nixl_get(conf.next, segment.region, offset, &fetched, 8));
    MPT_EQ(fetched, 3);
    MPT_OK(nixl_atomic_compare_swap(conf.next, segment.region, offset + 4, NIXL_TYPE_UINT32,
                                    &before, &low, &before));
    MPT_EQ(before, 0);
    MPT_OK(nixl_atomic_compare_swap(conf.next, segment.region, offset + 4, NIXL_TYPE_INT32, &before,
                                    &high, &before));
    MPT_OK(nixl_get(conf.next, segment.region, offset, &fetched, 8));
    MPT_EQ(fetched, 8ull << 32 | 3);
    /* Bits, not numbers: minus zero is not zero. */
    MPT_OK(nixl_put(conf.next, segment.region, offset, &minus_zero, 8));
    MPT_OK(nixl_atomic_compare_swap(conf.next, segment.region, offset, NIXL_TYPE_DOUBLE, &zero,
                                    &zero, &bits));
    MPT_EQ(memcmp(&bits, &minus_zero, 8), 0);
    conf_end(&segment);
}

/* ---- one domain ------------------------------------------------------------------------------ */

/* Words of rank 0 that all hammer, on lines of their own. */
enum { WORD_ADD = 0, WORD_DOUBLE = 128, WORD_SWAPPED = 256, WORD_LOW = 384, WORD_TICKET = 512 };

/* Add one by a loop over compare_swap. */
static void add_by_compare_swap(struct segment *segment)
{
    uint32_t seen = 0, wanted, fetched;

    for (;;) {
        wanted = seen + 1;
        MPT_OK(nixl_atomic_compare_swap(0, segment->region, WORD_SWAPPED, NIXL_TYPE_UINT32, &seen,
                                        &wanted, &fetched));
        if (fetched == seen) {
            return;
        }
        seen = fetched;
    }
}

/* The owner's own threads take part by their compiler's atomics, every other time. */
static void atomics_of_all_ranks_make_one_sum(void)
{
    struct segment segment = conf_segment("sum", 1024);
    const uint64_t one = 1;
    const uint32_t less = UINT32_MAX;
    const double half = 0.5;
    unsigned rounds = conf_rounds(500);

    mpt_barrier();
    for (unsigned i = 0; i < rounds; i++) {
        if (conf.rank == 0 && i % 2 == 0) {
            __atomic_fetch_add((uint64_t *)(void *)(segment.bytes + WORD_ADD), 1, __ATOMIC_SEQ_CST);
        } else {
            MPT_OK(nixl_atomic(0, segment.region, WORD_ADD, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                               NULL));
        }
        MPT_OK(nixl_atomic(0, segment.region, WORD_DOUBLE, NIXL_TYPE_DOUBLE, NIXL_ATOMIC_ADD, &half,
                           NULL));
        MPT_OK(nixl_atomic(0, segment.region, WORD_LOW, NIXL_TYPE_INT32, NIXL_ATOMIC_ADD, &less,
                           NULL));
        add_by_compare_swap(&segment);
    }
    mpt_barrier();
    if (conf.rank == 0) {
        uint64_t total = (uint64_t)rounds * (unsigned)conf.size;

        MPT_EQ(*(uint64_t *)(void *)(segment.bytes + WORD_ADD), total);
        MPT_TRUE(*(double *)(void *)(segment.bytes + WORD_DOUBLE) == (double)total * 0.5);
        MPT_EQ(*(int32_t *)(void *)(segment.bytes + WORD_LOW), -(int64_t)total);
        MPT_EQ(*(uint32_t *)(void *)(segment.bytes + WORD_LOW + 4), 0);
        MPT_EQ(*(uint32_t *)(void *)(segment.bytes + WORD_SWAPPED), total);
    }
    conf_end(&segment);
}

/* Tickets that are drawn from one word: none is drawn twice. A bit says that one was drawn. */
static void no_ticket_is_drawn_twice(void)
{
    unsigned rounds = conf_rounds(500);
    uint64_t n_tickets = (uint64_t)rounds * (unsigned)conf.size;
    struct segment segment = conf_segment("tickets", WORD_TICKET + n_tickets / 8 + 8);
    const uint64_t one = 1;

    mpt_barrier();
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t ticket, bit, drawn;

        MPT_OK(nixl_atomic(0, segment.region, WORD_ADD, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                           &ticket));
        MPT_LT(ticket, n_tickets);
        bit = 1ull << (ticket % 64);
        MPT_OK(nixl_atomic(0, segment.region, WORD_TICKET + ticket / 64 * 8, NIXL_TYPE_UINT64,
                           NIXL_ATOMIC_OR, &bit, &drawn));
        MPT_EQ(drawn & bit, 0);
    }
    conf_end(&segment);
}

/* ---- order, passive targets, limits ---------------------------------------------------------- */

#define BLOCK 40000

/* The target looks at its memory and makes no call. */
static void an_atomic_comes_after_earlier_puts(void)
{
    struct segment segment = conf_segment("after", BLOCK + 64);
    unsigned char *src = malloc(BLOCK);
    const uint64_t one = 1;

    mpt_barrier();
    for (unsigned round = 1; round <= conf_rounds(100); round++) {
        struct nixl_req *req = NULL;
        int status;

        mpt_fill(src, BLOCK, round);
        status = nixl_put_x(conf.next, segment.region, 64, src, BLOCK, NULL, &req);
        MPT_OK(nixl_atomic(conf.next, segment.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                           NULL));
        conf_spin((uint64_t *)(void *)segment.bytes, round);
        MPT_CHECK(segment.bytes + 64, BLOCK, round);
        MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
    }
    conf_end(&segment);
    free(src);
}

/* All add to one word without waiting: each value comes back once, and none is lost. */
static void atomics_under_way_at_once_are_all_done(void)
{
    enum { N = 100 };
    struct segment segment = conf_segment("nb", 64 + N * 8);
    static uint64_t fetched[N], desired[N];
    static struct nixl_req *reqs[2 * N];
    const uint64_t one = 1, zero = 0;
    bool is_seen[N] = {false};

    mpt_barrier();
    for (size_t i = 0; i < N; i++) {
        int status = nixl_atomic_x(conf.next, segment.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD,
                                   &one, NULL, &fetched[i], &reqs[i]);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        desired[i] = i + 1;
        status = nixl_atomic_compare_swap_x(conf.next, segment.region, 64 + 8 * i, NIXL_TYPE_UINT64,
                                            &zero, &desired[i], NULL, NULL, &reqs[N + i]);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    }
    for (size_t i = 0; i < 2 * N; i++) {
        MPT_OK(i % 3 == 0 ? nixl_req_detach(&reqs[i]) : nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    for (size_t i = 0; i < N; i++) {
        MPT_LT(fetched[i], N);
        MPT_TRUE(!is_seen[fetched[i]]);
        is_seen[fetched[i]] = true;
    }
    mpt_barrier();
    MPT_EQ(atomic_load((_Atomic uint64_t *)(void *)segment.bytes), N);
    for (size_t i = 0; i < N; i++) {
        MPT_EQ(atomic_load((_Atomic uint64_t *)(void *)(segment.bytes + 64 + 8 * i)), i + 1);
    }
    conf_end(&segment);
}

static void a_word_lies_inside_and_is_aligned(void)
{
    struct segment segment = conf_segment("limits", 60);
    struct nixl_region *odd = NULL;
    static unsigned char memory[64] __attribute__((aligned(64)));
    uint64_t word = 1, fetched = 42;

    MPT_OK(nixl_region_register("odd", memory + 4, 32, NULL, &odd));
    mpt_barrier();
    for (int rank = 0; rank < conf.size; rank++) {
        const uint64_t outside[] = {56, 64, UINT64_MAX - 7};

        for (size_t i = 0; i < 3; i++) {
            MPT_STATUS(nixl_atomic(rank, segment.region, outside[i], NIXL_TYPE_UINT64,
                                   NIXL_ATOMIC_ADD, &word, &fetched),
                       NIXL_E_RANGE);
        }
        MPT_OK(
            nixl_atomic(rank, segment.region, 56, NIXL_TYPE_UINT32, NIXL_ATOMIC_ADD, &word, NULL));
        for (uint64_t offset = 1; offset < 8; offset++) {
            MPT_STATUS(nixl_atomic(rank, segment.region, offset, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD,
                                   &word, &fetched),
                       NIXL_E_INVALID_ARG);
        }
        /* What counts is the address in the owner's memory. */
        MPT_STATUS(nixl_atomic(rank, odd, 0, NIXL_TYPE_DOUBLE, NIXL_ATOMIC_SET, &word, &fetched),
                   NIXL_E_INVALID_ARG);
        MPT_OK(nixl_atomic(rank, odd, 4, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word, NULL));
        MPT_OK(nixl_atomic(rank, odd, 0, NIXL_TYPE_UINT32, NIXL_ATOMIC_ADD, &word, NULL));
    }
    MPT_EQ(fetched, 42);
    mpt_barrier();
    /* The service thread has changed them: its owner's threads read with atomics, too. */
    MPT_EQ(atomic_load((_Atomic uint32_t *)(void *)(memory + 4)), conf.size);
    MPT_EQ(atomic_load((_Atomic uint64_t *)(void *)(memory + 8)), conf.size);
    MPT_EQ(atomic_load((_Atomic uint32_t *)(void *)(segment.bytes + 56)), conf.size);
    mpt_barrier();
    MPT_OK(nixl_region_close(odd, MPT_PATIENCE));
    conf_drop(&segment);
}

/* Rank 0 closes while all others hammer: they get STALE, and its memory changes no more. */
static void a_closed_word_is_left_alone(void)
{
    static uint64_t memory[8];
    const uint64_t one = 1;
    struct nixl_region *region = NULL;
    int status = NIXL_OK;

    memset(memory, 0, sizeof(memory));
    MPT_OK(conf.rank == 0 ? nixl_region_register("closing", memory, sizeof(memory), NULL, &region)
                          : nixl_region_open("closing", &region));
    mpt_barrier();
    if (conf.rank == 0) {
        uint64_t last;

        conf_tell(conf.next, TAG_READ);
        conf_hear(conf.prev, TAG_READ); /* all are at it */
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
        last = memory[0];
        mpt_barrier();
        MPT_EQ(memory[0], last);
        MPT_GE(last, conf.size - 1);
        return;
    }
    MPT_OK(nixl_atomic(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL));
    conf_hear(conf.prev, TAG_READ);
    conf_tell(conf.next, TAG_READ);
    while (status == NIXL_OK) {
        status = nixl_atomic(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL);
    }
    MPT_STATUS(status, NIXL_E_STALE);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

const struct guarantee conf_atomic[] = {
    {"atomic", NULL, 0},
    {"every_atomic_does_what_it_says", every_atomic_does_what_it_says, 0},
    {"posted_changes_are_done_at_a_flush", posted_changes_are_done_at_a_flush, 0},
    {"posted_changes_of_all_make_one_sum", posted_changes_of_all_make_one_sum, 0},
    {"compare_swap_replaces_equal_bits_only", compare_swap_replaces_equal_bits_only, 0},
    {"atomics_of_all_ranks_make_one_sum", atomics_of_all_ranks_make_one_sum, 0},
    {"no_ticket_is_drawn_twice", no_ticket_is_drawn_twice, 0},
    {"an_atomic_comes_after_earlier_puts", an_atomic_comes_after_earlier_puts, 0},
    {"atomics_under_way_at_once_are_all_done", atomics_under_way_at_once_are_all_done, 0},
    {"a_word_lies_inside_and_is_aligned", a_word_lies_inside_and_is_aligned, 0},
    {"a_closed_word_is_left_alone", a_closed_word_is_left_alone, CONF_PEERS},
    {0},
};
