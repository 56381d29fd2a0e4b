/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions on GPU memory beside the same ones on host memory: every type, operation and kind of
 * reduction, in every kind of CUDA memory, in place and not, aligned and not, must give the same
 * bytes, and touch no others.
 *
 *     gpu_reduce [SEED]
 *     gpu_reduce kill [SEED]    a rank shoots itself in the midst of allreduces: the others hear of
 *                               it, their buffers are theirs again, and they go on without it
 */
#include "test/gpu/gpu.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BORDER  ((size_t)64)
#define NBYTES  ((size_t)3 << 20)
#define LARGE   ((size_t)8 << 20)
#define WARM_UP 16 /* calls until all members reduce by kernels */

enum { ALLREDUCE, REDUCE, REDUCE_SCATTER, SCAN, N_KINDS };

static const enum gpu_way ways[] = {GPU_CUDA, GPU_MALLOC, GPU_VMM, GPU_POOL, GPU_MANAGED};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

static const size_t type_nbytes[] = {4, 4, 8, 8, 4, 8, 1, 1, 2, 2, 2, 2};
#define N_TYPES 12

static struct nixl_team *world;
static uint64_t seed; /* the same on all ranks */

/* ---- operands -------------------------------------------------------------------------------- */

/* Between 0.5 and 2, of either sign, so that no sum or product of a few is infinite. */
static void put_floating(unsigned type, unsigned char *at, uint64_t bits)
{
    double wide = (0.5 + (double)(bits % 1000) / 700) * (bits >> 40 & 1 ? -1 : 1);
    float narrow = (float)wide;
    uint16_t half = (uint16_t)(bits >> 16 & 0x83ff);
    uint32_t brain;

    half |= bits & 1 ? 0x3c00 : 0x3800;
    switch (type) {
    case NIXL_TYPE_DOUBLE:
        memcpy(at, &wide, sizeof(wide));
        break;
    case NIXL_TYPE_FLOAT:
        memcpy(at, &narrow, sizeof(narrow));
        break;
    case NIXL_TYPE_FLOAT16:
        memcpy(at, &half, sizeof(half));
        break;
    default:
        memcpy(&brain, &narrow, sizeof(brain));
        half = (uint16_t)(brain >> 16);
        memcpy(at, &half, sizeof(half));
    }
}

static void fill(unsigned type, unsigned char *bytes, size_t count, uint64_t *state)
{
    bool is_floating =
        type == NIXL_TYPE_FLOAT || type == NIXL_TYPE_DOUBLE || type >= NIXL_TYPE_FLOAT16;

    if (is_floating) {
        for (size_t i = 0; i < count; i++) {
            put_floating(type, bytes + i * type_nbytes[type], mpt_random(state));
        }
        return;
    }
    for (size_t i = 0, nbytes = count * type_nbytes[type]; i < nbytes; i += sizeof(uint64_t)) {
        uint64_t bits = mpt_random(state);

        memcpy(bytes + i, &bits, nbytes - i < sizeof(bits) ? nbytes - i : sizeof(bits));
    }
}

/* ---- one reduction on both kinds of memory --------------------------------------------------- */

struct drawn {
    unsigned kind, type, op;
    int root;
    size_t count;          /* of src */
    size_t src_at, dst_at; /* in the regions; multiples of the element, or of 16 */
    bool in_place;
};

/* A region, and what should be in it. */
struct both {
    struct gpu_region gpu;
    unsigned char *host;
};

static struct both src, dst;
static unsigned char *seen;

static int call(const struct drawn *drawn, const void *from, void *to)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    args.src = from;
    args.dst = to;
    args.count = drawn->kind == REDUCE_SCATTER ? drawn->count / (size_t)nixl_size() : drawn->count;
    args.type = (enum nixl_type)drawn->type;
    args.op = (enum nixl_reduce_op)drawn->op;
    switch (drawn->kind) {
    case ALLREDUCE:
        return nixl_allreduce(world, &args, MPT_PATIENCE);
    case REDUCE:
        return nixl_reduce(world, drawn->root, &args, MPT_PATIENCE);
    case REDUCE_SCATTER:
        return nixl_reduce_scatter(world, &args, MPT_PATIENCE);
    default:
        return nixl_scan(world, &args, MPT_PATIENCE);
    }
}

static void compare(const struct both *both, size_t nbytes, const struct drawn *drawn)
{
    gpu_read(seen, both->gpu.addr, nbytes);
    if (memcmp(seen, both->host, nbytes) == 0) {
        return;
    }
    for (size_t i = 0; i < nbytes; i++) {
        if (seen[i] != both->host[i]) {
            mpt_fail(__FILE__, __LINE__,
                     "kind %u type %u op %u root %d count %zu at %zu and %zu%s: byte %zu of %s is "
                     "%#x and not %#x",
                     drawn->kind, drawn->type, drawn->op, drawn->root, drawn->count, drawn->src_at,
                     drawn->dst_at, drawn->in_place ? " in place" : "", i,
                     both == &src ? "src" : "dst", seen[i], both->host[i]);
        }
    }
}

static void reduce_once(const struct drawn *drawn)
{
    struct both *result = drawn->in_place ? &src : &dst;
    size_t nbytes = drawn->count * type_nbytes[drawn->type];
    size_t to = drawn->in_place ? drawn->src_at : drawn->dst_at;
    size_t src_end = drawn->src_at + nbytes + BORDER, dst_end = drawn->dst_at + nbytes + BORDER;
    uint64_t state = seed * 131 + (uint64_t)nixl_rank();

    memset(src.host, 0xa5, src_end);
    memset(dst.host, 0x5a, dst_end);
    fill(drawn->type, src.host + drawn->src_at, drawn->count, &state);
    gpu_write(src.gpu.addr, src.host, src_end);
    gpu_write(dst.gpu.addr, dst.host, dst_end);
    MPT_OK(call(drawn, (void *)(src.gpu.addr + drawn->src_at), (void *)(result->gpu.addr + to)));
    MPT_OK(call(drawn, src.host + drawn->src_at, result->host + to));
    compare(&src, src_end, drawn);
    compare(&dst, dst_end, drawn);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static size_t draw_count(size_t element)
{
    static const size_t nbytes[] = {64, 1000, 5000, 20000, 300000, NBYTES - 4096};
    size_t most = nbytes[mpt_random(&seed) % 6] / element, n = (size_t)nixl_size();

    return (1 + mpt_random(&seed) % most + n - 1) / n * n;
}

static size_t draw_place(size_t element)
{
    return BORDER + (mpt_random(&seed) % 2 == 0 ? 0 : mpt_random(&seed) % 16 * element);
}

static void draw_and_reduce(unsigned kind, unsigned type, unsigned op)
{
    struct drawn drawn = {.kind = kind, .type = type, .op = op};

    drawn.root = (int)(mpt_random(&seed) % (unsigned)nixl_size());
    drawn.count = draw_count(type_nbytes[type]);
    drawn.src_at = draw_place(type_nbytes[type]);
    drawn.dst_at = draw_place(type_nbytes[type]);
    if (mpt_random(&seed) % 8 == 0) {
        drawn.dst_at++; /* no kernel takes it, but for bytes */
    }
    drawn.in_place = mpt_random(&seed) % 3 == 0;
    reduce_once(&drawn);
}

static void check_way(enum gpu_way way, bool is_long)
{
    if (!gpu_region_make("reduce.src", way, NBYTES, &src.gpu)) {
        return;
    }
    MPT_TRUE(gpu_region_make("reduce.dst", way, NBYTES, &dst.gpu));
    printf("# %s\n", gpu_way_names[way]);
    for (int i = 0; i < WARM_UP; i++) {
        draw_and_reduce(ALLREDUCE, NIXL_TYPE_INT32, NIXL_REDUCE_SUM);
    }
    for (unsigned type = 0; type < N_TYPES; type++) {
        bool is_floating =
            type == NIXL_TYPE_FLOAT || type == NIXL_TYPE_DOUBLE || type >= NIXL_TYPE_FLOAT16;

        for (unsigned op = NIXL_REDUCE_SUM; op <= (is_floating ? NIXL_REDUCE_MAX : NIXL_REDUCE_XOR);
             op++) {
            for (unsigned i = 0; i < (is_long ? N_KINDS : 1u); i++) {
                draw_and_reduce(is_long ? i : (type + op) % N_KINDS, type, op);
            }
        }
    }
    mpt_barrier();
    gpu_region_end(&src.gpu);
    gpu_region_end(&dst.gpu);
}

static void check_all(void)
{
    src.host = malloc(NBYTES);
    dst.host = malloc(NBYTES);
    seen = malloc(NBYTES);
    MPT_TRUE(src.host != NULL && dst.host != NULL && seen != NULL);
    printf("# seed %llu\n", (unsigned long long)seed);
    for (unsigned i = 0; i < N_WAYS; i++) {
        check_way(ways[i], i == 0);
    }
    free(src.host);
    free(dst.host);
    free(seen);
}

/* ---- a death --------------------------------------------------------------------------------- */

static void *shoot(void *arg)
{
    const struct timespec *delay = arg;

    nanosleep(delay, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

static int sum_floats(struct nixl_team *team, const struct gpu_region *from,
                      const struct gpu_region *to, size_t nbytes)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    args.src = (void *)from->addr;
    args.dst = (void *)to->addr;
    args.count = nbytes / sizeof(uint32_t);
    args.type = NIXL_TYPE_UINT32;
    args.op = NIXL_REDUCE_SUM;
    return nixl_allreduce(team, &args, MPT_PATIENCE);
}

/* Every word is one more than the rank. */
static void fill_words(const struct gpu_region *region, uint32_t word)
{
    uint32_t *words = malloc(LARGE);

    MPT_TRUE(words != NULL);
    for (size_t i = 0; i < LARGE / sizeof(words[0]); i++) {
        words[i] = word;
    }
    gpu_write(region->addr, words, LARGE);
    free(words);
}

static void check_words(const struct gpu_region *region, uint32_t word)
{
    uint32_t *words = malloc(LARGE);

    MPT_TRUE(words != NULL);
    gpu_read(words, region->addr, LARGE);
    for (size_t i = 0; i < LARGE / sizeof(words[0]); i++) {
        if (words[i] != word) {
            mpt_fail(__FILE__, __LINE__, "word %zu is %u and not %u", i, words[i], word);
        }
    }
    free(words);
}

static void die_in_the_midst(void)
{
    struct timespec delay = {0, (long)(mpt_random(&seed) % 30000000)};
    struct nixl_team *smaller = NULL;
    uint32_t left = 0;
    pthread_t thread;
    int status = NIXL_OK;

    MPT_TRUE(gpu_region_make("reduce.src", GPU_CUDA, LARGE, &src.gpu));
    MPT_TRUE(gpu_region_make("reduce.dst", GPU_CUDA, LARGE, &dst.gpu));
    fill_words(&src.gpu, (uint32_t)nixl_rank() + 1);
    for (int i = 0; i < WARM_UP; i++) {
        MPT_OK(sum_floats(world, &src.gpu, &dst.gpu, 4096));
    }
    mpt_barrier(); /* all have warmed up */
    if (nixl_rank() == 1) {
        MPT_EQ(pthread_create(&thread, NULL, shoot, &delay), 0);
    }
    for (unsigned i = 0; status == NIXL_OK; i++) {
        status = sum_floats(world, &src.gpu, &dst.gpu, i % 2 == 0 ? LARGE : 8192);
    }
    MPT_EQ(status, NIXL_E_PEER_LOST);
    fill_words(&dst.gpu, 77); /* nobody else writes there any more */
    MPT_OK(nixl_team_shrink(world, MPT_PATIENCE, &smaller));
    MPT_EQ(nixl_team_size(smaller), nixl_size() - 1);
    check_words(&dst.gpu, 77);
    for (int i = 0; i < nixl_size(); i++) {
        left += i != 1 ? (uint32_t)i + 1 : 0;
    }
    for (int i = 0; i < WARM_UP; i++) {
        MPT_OK(sum_floats(smaller, &src.gpu, &dst.gpu, LARGE));
        check_words(&dst.gpu, left);
    }
    MPT_OK(nixl_team_free(smaller));
    gpu_region_end(&src.gpu);
    gpu_region_end(&dst.gpu);
}

int main(int argc, char **argv)
{
    bool is_kill = argc > 1 && strcmp(argv[1], "kill") == 0;
    const char *wish = argc > 1 + is_kill ? argv[1 + is_kill] : "1";

    mpt_start();
    MPT_OK(nixl_init(NULL));
    gpu_start();
    seed = strtoull(wish, NULL, 0);
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    if (is_kill) {
        die_in_the_midst();
    } else {
        check_all();
    }
    MPT_OK(nixl_team_free(world));
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
