/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on the bytes themselves: all of them arrive, nothing beside them, ranges are checked.
 */
#include "conformance.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define TAG_DONE 0xda01
#define TAG_NEXT 0xda02

#define SEGMENT_NBYTES ((2u << 20) + 4096)
#define GUARD          64
#define BLANK          0xee

static const size_t sizes[] = {
    1,    2,     3,     4,     5,      7,       8,
    9,    15,    16,    17,    31,     32,      33,
    63,   64,    65,    127,   255,    256,     1000,
    1024, 2047,  2048,  4095,  4096,   4097,    8192,
    9999, 65535, 65536, 65537, 262157, 1048576, (2u << 20) - 1,
};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Places in the segment and skews of the local memory that copies like and dislike. */
static const size_t places[] = {GUARD, GUARD + 1, GUARD + 7, 256, 1024 + 13, 4096 - 8};
#define N_PLACES (sizeof(places) / sizeof(places[0]))

static unsigned char *local_memory(void)
{
    unsigned char *memory = NULL;

    MPT_EQ(posix_memalign((void **)&memory, 4096, SEGMENT_NBYTES), 0);
    return memory;
}

/* Put to `target` while `source` puts here; both check what came and the bytes beside it. */
static void put_and_check(struct segment *segment, int target, int source, size_t place,
                          size_t nbytes, unsigned char *src)
{
    mpt_fill(src, nbytes, (uint64_t)conf.rank + nbytes + place);
    MPT_OK(nixl_put(target, segment->region, place, src, nbytes));
    conf_tell(target, TAG_DONE);
    conf_hear(source, TAG_DONE);
    MPT_CHECK(segment->bytes + place, nbytes, (uint64_t)source + nbytes + place);
    MPT_CHECK_BYTES(segment->bytes + place - GUARD, GUARD, BLANK);
    MPT_CHECK_BYTES(segment->bytes + place + nbytes, GUARD, BLANK);
    memset(segment->bytes + place, BLANK, nbytes);
    conf_tell(source, TAG_NEXT);
    conf_hear(target, TAG_NEXT);
}

static void put_everywhere(const char *name, int target, int source)
{
    struct segment segment = conf_segment(name, SEGMENT_NBYTES);
    unsigned char *memory = local_memory();

    memset(segment.bytes, BLANK, segment.nbytes);
    mpt_barrier();
    for (size_t i = 0; i < N_SIZES; i++) {
        size_t n_places = sizes[i] > 100000 ? 2 : N_PLACES;

        for (size_t j = 0; j < n_places; j++) {
            put_and_check(&segment, target, source, places[j], sizes[i], memory + (i + 3 * j) % 67);
        }
    }
    conf_end(&segment);
    free(memory);
}

static void put_moves_every_byte(void)
{
    put_everywhere("put.bytes", conf.next, conf.prev);
}

static void put_to_oneself_moves_every_byte(void)
{
    put_everywhere("put.self", conf.rank, conf.rank);
}

static void get_everywhere(const char *name, int target)
{
    struct segment segment = conf_segment(name, SEGMENT_NBYTES);
    unsigned char *expected = local_memory(), *memory = local_memory();

    mpt_fill(segment.bytes, segment.nbytes, (uint64_t)conf.rank);
    mpt_fill(expected, segment.nbytes, (uint64_t)target);
    mpt_barrier();
    for (size_t i = 0; i < N_SIZES; i++) {
        for (size_t j = 0; j < (sizes[i] > 100000 ? 2 : N_PLACES); j++) {
            unsigned char *dst = memory + GUARD + (i + 5 * j) % 61;

            memset(dst - GUARD, BLANK, sizes[i] + 2 * GUARD);
            MPT_OK(nixl_get(target, segment.region, places[j], dst, sizes[i]));
            MPT_EQ(memcmp(dst, expected + places[j], sizes[i]), 0);
            MPT_CHECK_BYTES(dst - GUARD, GUARD, BLANK);
            MPT_CHECK_BYTES(dst + sizes[i], GUARD, BLANK);
        }
    }
    conf_end(&segment);
    free(expected);
    free(memory);
}

static void get_reads_every_byte(void)
{
    get_everywhere("get.bytes", conf.next);
}

static void get_from_oneself_reads_every_byte(void)
{
    get_everywhere("get.self", conf.rank);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void zero_bytes_are_allowed(void)
{
    struct segment segment = conf_segment("zero", 4096);
    struct nixl_req *req = NULL;
    char byte = 1;

    mpt_barrier();
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_OK(nixl_put(rank, segment.region, 0, NULL, 0));
        MPT_OK(nixl_put(rank, segment.region, 4096, &byte, 0));
        MPT_OK(nixl_get(rank, segment.region, 4096, NULL, 0));
        MPT_OK(nixl_put_x(rank, segment.region, 17, NULL, 0, NULL, &req));
        MPT_TRUE(req == NULL);
        MPT_STATUS(nixl_put(rank, segment.region, 4097, NULL, 0), NIXL_E_RANGE);
        MPT_STATUS(nixl_get(rank, segment.region, UINT64_MAX, NULL, 0), NIXL_E_RANGE);
    }
    MPT_STATUS(nixl_put(conf.size, segment.region, 0, NULL, 0), NIXL_E_INVALID_ARG);
    mpt_barrier();
    MPT_CHECK_BYTES(segment.bytes, segment.nbytes, 0);
    conf_drop(&segment);
}

static const struct {
    uint64_t offset;
    size_t nbytes;
} outside[] = {
    {4096, 1},
    {4089, 8},
    {0, 4097},
    {4095, 2},
    {1, SIZE_MAX},
    {4096, SIZE_MAX},
    {UINT64_MAX, 1},
    {UINT64_MAX - 7, 8},
    {UINT64_MAX, SIZE_MAX},
    {1ull << 63, 8},
    {UINT64_MAX - 4095, 4096 + 64},
};

/* M24 */
static void ranges_are_checked_before_a_byte_moves(void)
{
    struct nixl_req *const canary = (struct nixl_req *)&conf;
    struct segment segment = conf_segment("range", 4096);
    static struct nixl_note note;
    unsigned char memory[128];

    memset(segment.bytes, BLANK, segment.nbytes);
    memset(memory, 0x55, sizeof(memory));
    mpt_barrier();
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        uint64_t offset = outside[i].offset;
        size_t nbytes = outside[i].nbytes;
        struct nixl_req *req = canary;

        for (int rank = 0; rank < conf.size; rank++) {
            struct nixl_region *region = segment.region;

            MPT_STATUS(nixl_put(rank, region, offset, memory, nbytes), NIXL_E_RANGE);
            MPT_STATUS(nixl_get(rank, region, offset, memory, nbytes), NIXL_E_RANGE);
            MPT_STATUS(nixl_put_x(rank, region, offset, memory, nbytes, NULL, &req), NIXL_E_RANGE);
            MPT_STATUS(nixl_get_x(rank, region, offset, memory, nbytes, NULL, &req), NIXL_E_RANGE);
            MPT_STATUS(nixl_put_notify(rank, region, offset, memory, nbytes, 1, NULL, 0, MPT_S),
                       NIXL_E_RANGE);
            MPT_STATUS(nixl_get_notify(rank, region, offset, memory, nbytes, 1, NULL, 0, MPT_S),
                       NIXL_E_RANGE);
            MPT_TRUE(req == canary);
        }
    }
    mpt_barrier();
    MPT_CHECK_BYTES(segment.bytes, segment.nbytes, BLANK);
    MPT_CHECK_BYTES(memory, sizeof(memory), 0x55);
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, 1, UINT64_MAX, 0, &note), NIXL_INPROGRESS);
    conf_end(&segment);
}

static void the_last_byte_is_inside(void)
{
    struct segment segment = conf_segment("last", 4099);
    unsigned char memory[4099] = {0};

    mpt_fill(memory, sizeof(memory), 5);
    mpt_barrier();
    MPT_OK(nixl_put(conf.next, segment.region, 0, memory, 4099));
    MPT_OK(nixl_put(conf.next, segment.region, 4098, memory + 4098, 1));
    conf_tell(conf.next, TAG_DONE);
    conf_hear(conf.prev, TAG_DONE);
    MPT_CHECK(segment.bytes, 4099, 5);
    MPT_OK(nixl_fence(conf.next)); /* a get may overtake a put */
    MPT_OK(nixl_get(conf.next, segment.region, 4098, memory, 1));
    MPT_EQ(memory[0], memory[4098]);
    conf_end(&segment);
}

/* Rank r has 100 * r bytes: rank 0 has no segment at all. */
static void segments_may_differ_or_be_absent(void)
{
    struct segment segment = {0};
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    unsigned char byte = (unsigned char)(conf.rank + 1);

    if (conf.rank == 0) {
        MPT_OK(nixl_region_open("unequal", &segment.region));
        MPT_TRUE(nixl_region_addr(segment.region) == NULL);
        MPT_EQ(nixl_region_nbytes(segment.region), 0);
    } else {
        segment = conf_segment("unequal", 100 * (size_t)conf.rank);
    }
    mpt_barrier();
    for (int rank = 1; rank < conf.size; rank++) {
        uint64_t end = 100 * (uint64_t)rank;

        MPT_OK(nixl_put(rank, segment.region, end - 1 - (uint64_t)conf.rank, &byte, 1));
        MPT_STATUS(nixl_put(rank, segment.region, end, &byte, 1), NIXL_E_RANGE);
    }
    MPT_STATUS(nixl_region_query(0, segment.region, 0, &info), NIXL_INPROGRESS);
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE)); /* the barrier goes by way of rank 0 */
    mpt_barrier();
    for (int rank = 0; conf.rank > 0 && rank < conf.size; rank++) {
        MPT_EQ(segment.bytes[segment.nbytes - 1 - (size_t)rank], rank + 1);
    }
    conf_drop(&segment);
}

/* ---- small puts ------------------------------------------------------------------------------ */

#define LAST_WORD 0x7171717171717171ull

static void write_words(struct segment *segment, size_t nbytes, uint64_t offset)
{
    static const uint64_t values[] = {0, UINT64_MAX, LAST_WORD};

    for (unsigned i = 0; i < conf_rounds(2000); i++) {
        MPT_OK(nixl_put(conf.partner, segment->region, offset, &values[i % 2], nbytes));
    }
    MPT_OK(nixl_put(conf.partner, segment->region, offset, &values[2], nbytes));
}

static void read_words(const struct segment *segment, size_t nbytes, uint64_t offset)
{
    const unsigned char *place = segment->bytes + offset;
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    uint64_t ones = UINT64_MAX >> (64 - 8 * nbytes), word;
    unsigned n = 0;

    do {
        if (++n % 64 == 0) {
            sched_yield(); /* the writer, or a thread that it needs here, may want this core */
        }
        word = nbytes == 1   ? __atomic_load_n(place, __ATOMIC_RELAXED)
               : nbytes == 2 ? __atomic_load_n((const uint16_t *)place, __ATOMIC_RELAXED)
               : nbytes == 4 ? __atomic_load_n((const uint32_t *)place, __ATOMIC_RELAXED)
                             : __atomic_load_n((const uint64_t *)place, __ATOMIC_RELAXED);
        if (word != 0 && word != ones && word != (LAST_WORD & ones)) {
            mpt_fail(__FILE__, __LINE__, "%zu bytes are torn: 0x%" PRIx64, nbytes, word);
        }
        if (mpt_now_ns() > end_ns) {
            mpt_fail(__FILE__, __LINE__, "the last word did not come");
        }
    } while (word != (LAST_WORD & ones));
}

static void an_aligned_put_of_a_word_is_not_torn(void)
{
    struct segment segment = conf_segment("word", 4096);

    mpt_barrier();
    for (size_t nbytes = 1; nbytes <= 8 && conf.partner >= 0; nbytes *= 2) {
        if (conf.rank % 2 == 0) {
            write_words(&segment, nbytes, 64 * nbytes + nbytes);
            read_words(&segment, nbytes, 64 * nbytes + nbytes);
        } else {
            read_words(&segment, nbytes, 64 * nbytes + nbytes);
            write_words(&segment, nbytes, 64 * nbytes + nbytes);
        }
    }
    conf_end(&segment);
}

/* ---- with strides ---------------------------------------------------------------------------- */

struct strides {
    size_t block_nbytes, nblocks, there, here;
};

static void check_blocks(const unsigned char *bytes, size_t stride, const struct strides *how,
                         uint64_t seed)
{
    for (size_t k = 0; k < how->nblocks; k++) {
        MPT_CHECK(bytes + k * stride, how->block_nbytes, seed + k);
        MPT_CHECK_BYTES(bytes + k * stride + how->block_nbytes, stride - how->block_nbytes, BLANK);
    }
}

static void put_strided(struct segment *segment, const struct strides *how, unsigned char *local,
                        uint64_t seed)
{
    memset(local, BLANK, SEGMENT_NBYTES);
    for (size_t k = 0; k < how->nblocks; k++) {
        mpt_fill(local + k * how->here, how->block_nbytes, seed + (uint64_t)conf.rank + k);
    }
    MPT_OK(nixl_put_strided(conf.next, segment->region, GUARD, how->there, local, how->here,
                            how->block_nbytes, how->nblocks));
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    memset(local, BLANK, SEGMENT_NBYTES);
    MPT_OK(nixl_get_strided(conf.next, segment->region, GUARD, how->there, local, how->here,
                            how->block_nbytes, how->nblocks));
    check_blocks(local, how->here, how, seed + (uint64_t)conf.rank);
    mpt_barrier();
    check_blocks(segment->bytes + GUARD, how->there, how, seed + (uint64_t)conf.prev);
    memset(segment->bytes, BLANK, segment->nbytes);
    mpt_barrier();
}

static void blocks_with_strides_arrive(void)
{
    static const struct strides cases[] = {
        {1, 500, 3, 2},
        {8, 1, 8, 8},
        {8, 130, 64, 8},
        {8, 64, 8, 100},
        {100, 65, 101, 128},
        {4096, 200, 8192, 4099},
        {70000, 20, 90000, 70000},
        {300000, 3, 400000, 300001},
    };
    struct segment segment = conf_segment("strided", SEGMENT_NBYTES);
    unsigned char *local = local_memory();

    memset(segment.bytes, BLANK, segment.nbytes);
    mpt_barrier();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_strided(&segment, &cases[i], local, 1000 * i);
    }
    MPT_OK(nixl_put_strided(conf.next, segment.region, SEGMENT_NBYTES, 1, local, 1, 0, 5));
    MPT_OK(nixl_get_strided(conf.next, segment.region, 0, 1, local, 1, 5, 0));
    MPT_OK(nixl_put_strided(conf.next, segment.region, SEGMENT_NBYTES - 9, 8, local, 8, 1, 2));
    MPT_STATUS(nixl_put_strided(conf.next, segment.region, SEGMENT_NBYTES - 8, 8, local, 8, 1, 2),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_get_strided(conf.next, segment.region, 0, SEGMENT_NBYTES, local, 8, 8, 2),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_get_strided(conf.next, segment.region, 0, SIZE_MAX, local, 8, 8, 3),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_put_strided(conf.next, segment.region, 0, 8, local, SIZE_MAX, 8, 3),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_put_strided(conf.next, segment.region, 0, 8, NULL, 8, 8, 1),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_strided(conf.size, segment.region, 0, 8, local, 8, 8, 1),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_strided(conf.next, NULL, 0, 8, local, 8, 8, 1), NIXL_E_INVALID_ARG);
    free(local);
    conf_end(&segment);
}

const struct guarantee conf_data[] = {
    {"put", NULL, 0},
    {"put_moves_every_byte", put_moves_every_byte, CONF_PEERS},
    {"put_to_oneself_moves_every_byte", put_to_oneself_moves_every_byte, 0},
    {"zero_bytes_are_allowed", zero_bytes_are_allowed, 0},
    {"ranges_are_checked_before_a_byte_moves", ranges_are_checked_before_a_byte_moves, 0},
    {"the_last_byte_is_inside", the_last_byte_is_inside, 0},
    {"segments_may_differ_or_be_absent", segments_may_differ_or_be_absent, CONF_PEERS},
    {"an_aligned_put_of_a_word_is_not_torn", an_aligned_put_of_a_word_is_not_torn, CONF_PEERS},
    {"blocks_with_strides_arrive", blocks_with_strides_arrive, 0},
    {"get", NULL, 0},
    {"get_reads_every_byte", get_reads_every_byte, CONF_PEERS},
    {"get_from_oneself_reads_every_byte", get_from_oneself_reads_every_byte, 0},
    {0},
};
