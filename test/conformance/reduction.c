/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on reductions: each against what a plain loop computes, with random sizes, alignments
 * and offsets from a seed that is printed. Values are small whole numbers, whose sums and products
 * every type holds exactly, so that the order of the operands does not matter.
 */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

static const size_t type_nbytes[] = {4, 4, 8, 8, 4, 8, 1, 1, 2, 2, 2, 2};
#define N_TYPES 12
#define N_OPS   7

static bool is_floating(int type)
{
    return type == NIXL_TYPE_FLOAT || type == NIXL_TYPE_DOUBLE || type >= NIXL_TYPE_FLOAT16;
}

/* Small whole numbers as 16-bit floats: exact, so that bits can be made by hand. */
static uint16_t half_of(int type, int value)
{
    float wide = (float)value;
    uint32_t bits;

    memcpy(&bits, &wide, sizeof(bits));
    if (type == NIXL_TYPE_BFLOAT16) {
        return (uint16_t)(bits >> 16);
    }
    if (value == 0) {
        return 0;
    }
    return (uint16_t)((bits >> 16 & 0x8000u) | ((bits & 0x7fffffffu) - (112u << 23)) >> 13);
}

static void put_value(int type, void *at, int64_t value)
{
    float narrow = (float)value;
    double wide = (double)value;
    uint16_t half = half_of(type, (int)value);

    if (type == NIXL_TYPE_FLOAT) {
        memcpy(at, &narrow, sizeof(narrow));
    } else if (type == NIXL_TYPE_DOUBLE) {
        memcpy(at, &wide, sizeof(wide));
    } else if (is_floating(type)) {
        memcpy(at, &half, sizeof(half));
    } else {
        memcpy(at, &value, type_nbytes[type]); /* the lowest bytes */
    }
}

/* What a rank has at an index: signed where the type is, small enough for every sum and product. */
static int64_t operand(int rank, size_t index, int type, int op)
{
    uint64_t mixed = (uint64_t)rank * 2654435761u + index * 40503u;
    bool is_signed = is_floating(type) || type == NIXL_TYPE_INT8 || type == NIXL_TYPE_INT16 ||
                     type == NIXL_TYPE_INT32 || type == NIXL_TYPE_INT64;

    mixed ^= mixed >> 7;
    if (op == NIXL_REDUCE_PROD) { /* 16-bit floats hold 2 to the 6th, and its negative */
        return (rank + (int)(index % 5)) % 3 == 0 && rank < 6 ? (is_signed ? -2 : 2) : 1;
    }
    if (op == NIXL_REDUCE_SUM) {
        return (int64_t)(mixed % 4) - (is_signed ? 2 : 0);
    }
    return (int64_t)(mixed % 100) - (is_signed ? 50 : 0);
}

static int64_t combine(int op, int64_t a, int64_t b)
{
    switch (op) {
    case NIXL_REDUCE_SUM:
        return a + b;
    case NIXL_REDUCE_PROD:
        return a * b;
    case NIXL_REDUCE_MIN:
        return b < a ? b : a;
    case NIXL_REDUCE_MAX:
        return b > a ? b : a;
    case NIXL_REDUCE_AND:
        return a & b;
    case NIXL_REDUCE_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* An operation of the caller's own: a pair of the largest value and its rank. */
struct place {
    int32_t value;
    int32_t rank;
};

static void keep_larger(void *left, const void *right, size_t count, void *arg)
{
    MPT_TRUE(arg == &conf_world);
    for (size_t i = 0; i < count; i++) {
        struct place a, b;

        memcpy(&a, (char *)left + i * sizeof(a), sizeof(a));
        memcpy(&b, (const char *)right + i * sizeof(b), sizeof(b));
        if (b.value > a.value || (b.value == a.value && b.rank < a.rank)) {
            memcpy((char *)left + i * sizeof(b), &b, sizeof(b));
        }
    }
}

/* One reduction as it was drawn. */
struct drawn {
    int kind; /* 0 allreduce, 1 reduce, 2 reduce_scatter, 3 scan */
    int root;
    int type;
    int op;
    size_t count; /* of src */
    bool in_place;
    bool in_region;
};

static void fill_operands(const struct drawn *drawn, unsigned char *bytes, int rank)
{
    for (size_t i = 0; i < drawn->count; i++) {
        put_value(drawn->type, bytes + i * type_nbytes[drawn->type],
                  operand(rank, i, drawn->type, drawn->op));
    }
}

/* What members 0 to `last` make of index i, as bytes of the type. */
static void expect(const struct drawn *drawn, int last, size_t i, unsigned char *value)
{
    int64_t result = operand(0, i, drawn->type, drawn->op);

    for (int rank = 1; rank <= last; rank++) {
        result = combine(drawn->op, result, operand(rank, i, drawn->type, drawn->op));
    }
    put_value(drawn->type, value, result);
}

static void check_result(const struct drawn *drawn, const unsigned char *dst, size_t first,
                         size_t count)
{
    size_t nbytes = type_nbytes[drawn->type];
    int last = drawn->kind == 3 ? conf.rank : conf.size - 1;

    for (size_t i = 0; i < count; i++) {
        unsigned char value[8];

        expect(drawn, last, first + i, value);
        if (memcmp(dst + i * nbytes, value, nbytes) != 0) {
            mpt_fail(__FILE__, __LINE__,
                     "kind %d, type %d, op %d, %zu elements%s%s: element %zu is wrong", drawn->kind,
                     drawn->type, drawn->op, drawn->count, drawn->in_place ? ", in place" : "",
                     drawn->in_region ? ", in regions" : "", i);
        }
    }
}

static int call_reduction(const struct drawn *drawn, const struct nixl_reduce_args *args)
{
    switch (drawn->kind) {
    case 0:
        return nixl_allreduce(conf_world, args, MPT_PATIENCE);
    case 1:
        return nixl_reduce(conf_world, drawn->root, args, MPT_PATIENCE);
    case 2:
        return nixl_reduce_scatter(conf_world, args, MPT_PATIENCE);
    default:
        return nixl_scan(conf_world, args, MPT_PATIENCE);
    }
}

static void run_reduction(const struct drawn *drawn)
{
    size_t nbytes = drawn->count * type_nbytes[drawn->type];
    size_t n_results = drawn->kind == 2 ? drawn->count / (size_t)conf.size : drawn->count;
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct buffer src = conf_buffer("reduce src", nbytes, conf_random_shift(), drawn->in_region);
    struct buffer dst = conf_buffer("reduce dst", nbytes, conf_random_shift(), drawn->in_region);
    unsigned char *result = drawn->in_place ? src.bytes : dst.bytes;

    fill_operands(drawn, src.bytes, conf.rank);
    args.src = src.bytes;
    args.dst = result;
    args.count = n_results;
    args.type = (enum nixl_type)drawn->type;
    args.op = (enum nixl_reduce_op)drawn->op;
    MPT_OK(call_reduction(drawn, &args));
    if (drawn->kind != 1 || drawn->root == conf.rank) {
        check_result(drawn, result, drawn->kind == 2 ? n_results * (size_t)conf.rank : 0,
                     n_results);
    }
    conf_drop_buffer(&src);
    conf_drop_buffer(&dst);
}

static void every_type_and_operation_is_as_in_a_plain_loop(void)
{
    conf_need_world();
    for (int type = 0; type < N_TYPES; type++) {
        for (int op = 0; op < (is_floating(type) ? NIXL_REDUCE_MAX + 1 : N_OPS); op++) {
            for (int kind = 0; kind < 4; kind++) {
                struct drawn drawn = {.kind = kind, .type = type, .op = op};

                drawn.count = (size_t)(mpt_random(&conf_seed) % 300 + 1) * (size_t)conf.size;
                drawn.root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
                drawn.in_place = mpt_random(&conf_seed) % 2 == 0;
                run_reduction(&drawn);
            }
        }
    }
}

static void reductions_of_any_size_are_right(void)
{
    conf_need_world();
    for (unsigned round = 0; round < conf_rounds(200); round++) {
        struct drawn drawn = {.kind = (int)(mpt_random(&conf_seed) % 4),
                              .type = (int)(mpt_random(&conf_seed) % N_TYPES)};
        size_t nbytes = conf_random_nbytes(2 << 20);

        drawn.op =
            (int)(mpt_random(&conf_seed) % (is_floating(drawn.type) ? NIXL_REDUCE_MAX + 1 : N_OPS));
        drawn.root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
        drawn.count = nbytes / type_nbytes[drawn.type] / (size_t)conf.size * (size_t)conf.size;
        drawn.in_place = mpt_random(&conf_seed) % 2 == 0;
        drawn.in_region = mpt_random(&conf_seed) % 2 == 0;
        run_reduction(&drawn);
    }
}

/* As many operands as fit at once, and an element more for each member. */
static void reductions_that_fill_shared_memory_are_right(void)
{
    conf_need_world();
    for (int i = 0; i < 16; i++) {
        struct drawn drawn = {.kind = i / 4, .type = NIXL_TYPE_UINT32, .in_place = i % 2 == 0};
        size_t fits = (1ul << 20) / sizeof(uint32_t) / (size_t)conf.size;

        drawn.count = (fits + (i % 4 < 2 ? 0 : 1)) * (size_t)conf.size;
        drawn.root = i % conf.size;
        run_reduction(&drawn);
    }
}

static void callers_combine_in_their_own_way(void)
{
    conf_need_world();
    for (size_t count = 1; count < 200000; count = count * 5 + 3) {
        struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
        struct place *places = calloc(count, sizeof(*places));

        MPT_TRUE(places != NULL);
        for (size_t i = 0; i < count; i++) {
            places[i] = (struct place){(int32_t)(((size_t)conf.rank * 7 + i) % 13), conf.rank};
        }
        args.src = args.dst = places;
        args.count = count;
        args.op = NIXL_REDUCE_USER;
        args.combine = keep_larger;
        args.combine_arg = &conf_world;
        args.element_nbytes = sizeof(*places);
        MPT_OK(nixl_allreduce(conf_world, &args, MPT_PATIENCE));
        for (size_t i = 0; i < count; i++) {
            struct place best = {-1, -1};

            for (int rank = 0; rank < conf.size; rank++) {
                int32_t value = (int32_t)(((size_t)rank * 7 + i) % 13);

                best = value > best.value ? (struct place){value, rank} : best;
            }
            MPT_EQ(places[i].value, best.value);
            MPT_EQ(places[i].rank, best.rank);
        }
        free(places);
    }
}

/* Elements of the caller's own, of `width` bytes: byte by byte their sum. */
static size_t width;

static void add_bytes(void *left, const void *right, size_t count, void *arg)
{
    unsigned char *sums = left;
    const unsigned char *bytes = right;
    size_t nbytes = count * width;

    MPT_TRUE(arg == &width);
    for (size_t i = 0; i < nbytes; i++) {
        sums[i] = (unsigned char)(sums[i] + bytes[i]);
    }
}

/*
 * The pattern to which each rank adds a number of its own. No power of two is its period. It is
 * made once, because a division for each of many millions of bytes dominates these tests.
 */
static const unsigned char *pattern(size_t nbytes)
{
    static unsigned char *bytes;
    static size_t n_bytes;

    if (nbytes > n_bytes) {
        bytes = realloc(bytes, nbytes);
        MPT_TRUE(bytes != NULL);
        for (; n_bytes < nbytes; n_bytes++) {
            bytes[n_bytes] = (unsigned char)(n_bytes * 7 + n_bytes / 251);
        }
    }
    return bytes;
}

static void fill_own(unsigned char *bytes, size_t nbytes)
{
    const unsigned char *from = pattern(nbytes);
    unsigned own = (unsigned)conf.rank * 31;

    for (size_t i = 0; i < nbytes; i++) {
        bytes[i] = (unsigned char)(from[i] + own);
    }
}

/* The index of the first byte that is not the sum of n ranks' bytes from `first` on; nbytes if all
 * are. */
static size_t first_wrong(const unsigned char *bytes, size_t nbytes, size_t first, size_t n,
                          size_t sum_of_ranks)
{
    const unsigned char *from = pattern(first + nbytes) + first;
    unsigned times = (unsigned)n, own = (unsigned)sum_of_ranks * 31;
    size_t i = 0;

    while (i < nbytes && bytes[i] == (unsigned char)(from[i] * times + own)) {
        i++;
    }
    return i;
}

/* The kinds are those of call_reduction(), and 4, an exclusive scan. */
static void reduce_elements(int kind, size_t count, bool in_place)
{
    bool is_exclusive = kind == 4;
    int last = is_exclusive ? conf.rank - 1 : kind == 3 ? conf.rank : conf.size - 1;
    struct drawn drawn = {.kind = is_exclusive ? 3 : kind,
                          .root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size)};
    size_t n_segments = kind == 2 ? (size_t)conf.size : 1, first,
           nbytes = count / n_segments * width;
    size_t n = (size_t)(last + 1), sum_of_ranks = last < 0 ? 0 : n * (n - 1) / 2, wrong;
    struct buffer src = conf_buffer("own src", count * width, 0, false);
    struct buffer dst = conf_buffer("own dst", count * width, 0, false);
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    const unsigned char *result = in_place ? src.bytes : dst.bytes;

    fill_own(src.bytes, count * width);
    memcpy(dst.bytes, src.bytes, count * width);
    args.src = src.bytes;
    args.dst = in_place ? src.bytes : dst.bytes;
    args.is_exclusive = is_exclusive;
    args.count = count / n_segments;
    args.op = NIXL_REDUCE_USER;
    args.combine = add_bytes;
    args.combine_arg = &width;
    args.element_nbytes = width;
    MPT_OK(call_reduction(&drawn, &args));
    first = kind == 2 ? (size_t)conf.rank * nbytes : 0;
    nbytes = kind != 1 || drawn.root == conf.rank ? nbytes : 0; /* of the result */
    if (n == 0) {
        n = 1; /* left as it was: rank 0's own */
    }
    wrong = first_wrong(result, nbytes, first, n, sum_of_ranks);
    if (wrong < nbytes) {
        mpt_fail(__FILE__, __LINE__, "kind %d, %zu elements of %zu bytes: byte %zu is wrong", kind,
                 count, width, wrong);
    }
    conf_drop_buffer(&src);
    conf_drop_buffer(&dst);
}

/*
 * Also of sizes that no buffer of the library is a multiple of. Each with a few elements for each
 * member, of the largest with two if rounds are few, for their bytes dominate then; with just below
 * 2 MiB of them by all kinds, or by one that is drawn if rounds are few.
 */
static void elements_of_any_size_are_combined(void)
{
    static const size_t widths[] = {1, 3, 24, 100, 255, 256, 257, 5000, 400000};

    conf_need_world();
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        int drawn = (int)(mpt_random(&conf_seed) % 5);
        size_t n_each = widths[i] < 100000 || conf.scale >= 5 ? 5 : 2;

        width = widths[i];
        for (int kind = 0; kind < 5; kind++) {
            reduce_elements(kind, (size_t)conf.size * n_each, i % 2 == 0);
            if (kind == drawn || conf.scale >= 5) {
                reduce_elements(kind, (2ul << 20) / width, i % 2 != 0);
            }
        }
    }
}

/* A segment for each member of a team, some in place. */
static void scatter_elements(struct nixl_team *team, const int *ranks, size_t count, bool in_region)
{
    size_t n = (size_t)nixl_team_size(team), me = (size_t)nixl_team_rank(team);
    size_t nbytes = count * width;
    struct buffer src = conf_buffer("segments", n * nbytes, 0, in_region);
    struct buffer dst = conf_buffer("own segment", nbytes, 0, in_region);
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    size_t sum_of_ranks = 0, wrong;

    for (size_t k = 0; k < n; k++) {
        sum_of_ranks += (size_t)ranks[k];
    }
    fill_own(src.bytes, n * nbytes);
    args.src = src.bytes;
    args.dst = ((size_t)conf.rank + count) % 2 == 0 ? src.bytes : dst.bytes;
    args.count = count;
    args.op = NIXL_REDUCE_USER;
    args.combine = add_bytes;
    args.combine_arg = &width;
    args.element_nbytes = width;
    MPT_OK(nixl_reduce_scatter(team, &args, MPT_PATIENCE));
    wrong = first_wrong(args.dst, nbytes, me * nbytes, n, sum_of_ranks);
    if (wrong < nbytes) {
        mpt_fail(__FILE__, __LINE__, "segment %zu of %zu, %zu elements of %zu bytes: byte %zu", me,
                 n, count, width, wrong);
    }
    conf_drop_buffer(&src);
    conf_drop_buffer(&dst);
}

/* Hosts have other numbers of members then, which are not adjacent. */
static void segments_go_to_teams_in_any_order(void)
{
    int ranks[64];

    MPT_TRUE(conf.size <= (int)(sizeof(ranks) / sizeof(ranks[0])));
    for (unsigned round = 0; round < conf_rounds(60); round++) {
        int n = 1 + (int)(mpt_random(&conf_seed) % (unsigned)conf.size), me = -1;
        struct nixl_team *team;
        size_t nbytes;

        for (int i = 0; i < conf.size; i++) {
            int other = (int)(mpt_random(&conf_seed) % (unsigned)(i + 1));

            ranks[i] = ranks[other];
            ranks[other] = i;
        }
        for (int i = 0; i < n; i++) {
            me = ranks[i] == conf.rank ? i : me;
        }
        width = 1 + mpt_random(&conf_seed) % 256;
        nbytes = mpt_random(&conf_seed) % 4 == 0 ? 3ul << 20 : conf_random_nbytes(1 << 20);
        if (me >= 0) {
            MPT_OK(nixl_team_create(ranks, (size_t)n, MPT_PATIENCE, &team));
            scatter_elements(team, ranks, 1 + round % 5, false);
            scatter_elements(team, ranks, nbytes / width, round % 2 == 0);
            MPT_OK(nixl_team_free(team));
        }
    }
}

/* Sums that depend on their order: the same bits on all members, and in every run. */
static void results_are_the_same_on_all_and_again(void)
{
    static const size_t counts[] = {1, 100, 5000, 300000};

    conf_need_world();
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        size_t nbytes = counts[k] * sizeof(float);
        float *src = malloc(nbytes), *first = malloc(nbytes), *again = malloc(nbytes);
        struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

        MPT_TRUE(src != NULL && first != NULL && again != NULL);
        for (size_t i = 0; i < counts[k]; i++) {
            uint64_t own = (uint64_t)conf.rank * 1000003 + i;

            src[i] = (float)mpt_random(&own) * 0x1p-40f;
        }
        args.src = src;
        args.count = counts[k];
        args.type = NIXL_TYPE_FLOAT;
        args.dst = first;
        MPT_OK(nixl_allreduce(conf_world, &args, MPT_PATIENCE));
        args.dst = again;
        MPT_OK(nixl_allreduce(conf_world, &args, MPT_PATIENCE));
        MPT_EQ(memcmp(first, again, nbytes), 0);
        MPT_OK(nixl_broadcast(conf_world, 0, again, nbytes, MPT_PATIENCE));
        MPT_EQ(memcmp(first, again, nbytes), 0);
        free(src);
        free(first);
        free(again);
    }
}

const struct guarantee conf_reduction[] = {
    {"collective", NULL, 0},
    {"every_type_and_operation_is_as_in_a_plain_loop",
     every_type_and_operation_is_as_in_a_plain_loop, 0},
    {"reductions_of_any_size_are_right", reductions_of_any_size_are_right, 0},
    {"reductions_that_fill_shared_memory_are_right", reductions_that_fill_shared_memory_are_right,
     0},
    {"callers_combine_in_their_own_way", callers_combine_in_their_own_way, 0},
    {"elements_of_any_size_are_combined", elements_of_any_size_are_combined, 0},
    {"segments_go_to_teams_in_any_order", segments_go_to_teams_in_any_order, 0},
    {"results_are_the_same_on_all_and_again", results_are_the_same_on_all_and_again, 0},
    {0},
};
