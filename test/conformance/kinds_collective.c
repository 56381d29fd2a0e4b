/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives on memory of any kind: each member draws for each of its buffers whether it is host
 * memory or of the kind that is walked, so that kinds meet in every way. Sizes, offsets and roots
 * are random, from a seed that is printed. No byte is touched by the processor.
 */
#include "exchange.h"
#include "local.h"

#include <stdlib.h>
#include <string.h>

#define BORDER    64 /* bytes around a buffer that nobody may write */
#define LARGEST   ((size_t)5 << 20)
#define MAX_RANKS 64

/* A buffer of a kind that was drawn, with a copy on the host. */
struct buffer_of_kind {
    struct local local;
    char *addr;
    unsigned char *host;
    size_t nbytes;
};

static uint64_t own_seed; /* differs between ranks */

static void need_world(void)
{
    conf_need_world();
    own_seed = conf_seed + (uint64_t)conf.rank * 7919;
}

static enum nixl_mem_kind draw_kind(void)
{
    enum nixl_mem_kind kind =
        conf.local_kind != NIXL_MEM_HOST ? conf.local_kind : conf.segment_kind;

    return mpt_random(&own_seed) % 3 == 0 ? NIXL_MEM_HOST : kind;
}

static struct buffer_of_kind make(const char *name, size_t nbytes)
{
    size_t shift = mpt_random(&own_seed) % 2 == 0 ? 0 : mpt_random(&own_seed) % 64;
    struct buffer_of_kind buffer = {.nbytes = nbytes};

    buffer.local = conf_local(name, draw_kind(), nbytes + shift + 2 * (size_t)BORDER);
    memset(buffer.local.host, 0xa5, buffer.local.nbytes);
    buffer.addr = buffer.local.addr + BORDER + shift;
    buffer.host = buffer.local.host + BORDER + shift;
    return buffer;
}

static void push(struct buffer_of_kind *buffer)
{
    conf_push(&buffer->local, 0, buffer->local.nbytes);
}

static void pull(struct buffer_of_kind *buffer)
{
    conf_pull(&buffer->local, 0, buffer->local.nbytes);
    MPT_CHECK_BYTES(buffer->host - BORDER, BORDER, 0xa5);
    MPT_CHECK_BYTES(buffer->host + buffer->nbytes, BORDER, 0xa5);
}

/* ---- data that moves ------------------------------------------------------------------------- */

static void a_broadcast_reaches_memory_of_every_kind(void)
{
    need_world();
    for (unsigned round = 0; round < conf_rounds(200); round++) {
        int root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
        size_t nbytes = conf_random_nbytes(LARGEST);
        struct buffer_of_kind buffer = make("kinds.broadcast", nbytes);

        if (conf.rank == root) {
            mpt_fill(buffer.host, nbytes, round);
        }
        push(&buffer);
        MPT_OK(nixl_broadcast(conf_world, root, buffer.addr, nbytes, MPT_PATIENCE));
        pull(&buffer);
        MPT_CHECK(buffer.host, nbytes, round);
        conf_drop_local(&buffer.local);
    }
}

static bool is_private(int kind)
{
    return kind == SCATTER || kind == ALLTOALL;
}

/* Where src is in dst when the call is in place; a scatter is not drawn in place. */
static size_t place_of_src(int kind, size_t nbytes)
{
    return kind == ALLTOALL ? 0 : (size_t)conf.rank * nbytes;
}

static void move_once(unsigned round, int kind, size_t nbytes, bool in_place)
{
    int root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
    size_t all = nbytes * (size_t)conf.size, at = place_of_src(kind, nbytes);
    struct buffer_of_kind dst = make("kinds.dst", all), src = make("kinds.src", all);
    unsigned char *from = in_place ? dst.host + at : src.host;

    for (int i = 0; i < (is_private(kind) ? conf.size : 1); i++) {
        mpt_fill(from + (size_t)i * nbytes, nbytes,
                 conf_piece_seed(round, conf.rank, is_private(kind) ? i : 0));
    }
    push(&dst);
    push(&src);
    MPT_OK(conf_move(kind, root, in_place ? dst.addr + at : src.addr, dst.addr, nbytes));
    pull(&dst);
    pull(&src);
    if (kind == SCATTER) {
        MPT_CHECK(dst.host, nbytes, conf_piece_seed(round, root, conf.rank));
    }
    for (int i = 0; i < conf.size; i++) {
        if (kind == ALLGATHER || kind == ALLTOALL || (kind == GATHER && conf.rank == root)) {
            MPT_CHECK(dst.host + (size_t)i * nbytes, nbytes,
                      conf_piece_seed(round, i, is_private(kind) ? conf.rank : 0));
        }
    }
    conf_drop_local(&dst.local);
    conf_drop_local(&src.local);
}

static void data_of_one_size_goes_between_all_kinds(void)
{
    need_world();
    for (unsigned round = 0; round < conf_rounds(300); round++) {
        int kind = (int)(mpt_random(&conf_seed) % N_MOVES);
        size_t nbytes = conf_random_nbytes(LARGEST / (unsigned)conf.size);
        bool in_place = mpt_random(&conf_seed) % 2 == 0 && kind != SCATTER;

        move_once(round, kind, nbytes, in_place);
    }
}

/* An alltoallv with holes between the pieces, which stay as they were. */
static void move_pieces_once(unsigned round)
{
    size_t src_nbytes[MAX_RANKS], dst_nbytes[MAX_RANKS], offsets[MAX_RANKS];
    size_t largest = conf_random_nbytes(LARGEST / (unsigned)conf.size), stride = largest + 5;
    struct nixl_vector_args args = NIXL_VECTOR_ARGS_INIT;
    struct buffer_of_kind src = make("kinds.src", stride * (size_t)conf.size);
    struct buffer_of_kind dst = make("kinds.dst", stride * (size_t)conf.size);

    memset(dst.host, 0xa5, dst.nbytes);
    for (int i = 0; i < conf.size; i++) {
        src_nbytes[i] = largest / (size_t)(1 + (conf.rank + i) % 3);
        dst_nbytes[i] = largest / (size_t)(1 + (i + conf.rank) % 3);
        offsets[i] = (size_t)i * stride;
        mpt_fill(src.host + offsets[i], src_nbytes[i], conf_piece_seed(round, conf.rank, i));
    }
    push(&src);
    push(&dst);
    args.src = src.addr;
    args.dst = dst.addr;
    args.src_nbytes = src_nbytes;
    args.dst_nbytes = dst_nbytes;
    args.src_offsets = args.dst_offsets = offsets;
    MPT_OK(nixl_alltoallv(conf_world, &args, MPT_PATIENCE));
    pull(&dst);
    for (int i = 0; i < conf.size; i++) {
        MPT_CHECK(dst.host + offsets[i], dst_nbytes[i], conf_piece_seed(round, i, conf.rank));
        MPT_CHECK_BYTES(dst.host + offsets[i] + dst_nbytes[i], stride - dst_nbytes[i], 0xa5);
    }
    conf_drop_local(&src.local);
    conf_drop_local(&dst.local);
}

static void data_of_different_sizes_goes_between_all_kinds(void)
{
    need_world();
    MPT_TRUE(conf.size <= MAX_RANKS);
    for (unsigned round = 0; round < conf_rounds(100); round++) {
        move_pieces_once(round);
    }
}

/* ---- reductions ------------------------------------------------------------------------------ */

enum { ALLREDUCE, REDUCE, REDUCE_SCATTER, SCAN, N_REDUCTIONS };

static uint32_t operand(int rank, size_t index)
{
    return (uint32_t)(index * 2654435761u) ^ (uint32_t)(rank * 40503);
}

/* An operation of the caller's own, which gets host memory. */
static void add(void *left, const void *right, size_t count, void *arg)
{
    MPT_TRUE(arg == &conf_world);
    for (size_t i = 0; i < count; i++) {
        uint32_t a, b;

        memcpy(&a, (char *)left + i * sizeof(a), sizeof(a));
        memcpy(&b, (const char *)right + i * sizeof(b), sizeof(b));
        a += b;
        memcpy((char *)left + i * sizeof(a), &a, sizeof(a));
    }
}

static int call_reduction(int kind, int root, const struct nixl_reduce_args *args)
{
    switch (kind) {
    case ALLREDUCE:
        return nixl_allreduce(conf_world, args, MPT_PATIENCE);
    case REDUCE:
        return nixl_reduce(conf_world, root, args, MPT_PATIENCE);
    case REDUCE_SCATTER:
        return nixl_reduce_scatter(conf_world, args, MPT_PATIENCE);
    default:
        return nixl_scan(conf_world, args, MPT_PATIENCE);
    }
}

static void check_sums(const unsigned char *bytes, size_t first, size_t count, int n_ranks)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 0, seen;

        for (int rank = 0; rank < n_ranks; rank++) {
            sum += operand(rank, first + i);
        }
        memcpy(&seen, bytes + i * sizeof(seen), sizeof(seen));
        MPT_EQ(seen, sum);
    }
}

static void reduce_once(int kind, size_t count, bool in_place, bool is_own)
{
    int root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
    size_t n_segments = kind == REDUCE_SCATTER ? (size_t)conf.size : 1;
    size_t nbytes = count * n_segments * sizeof(uint32_t);
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct buffer_of_kind src = make("kinds.src", nbytes), dst = make("kinds.dst", nbytes);
    struct buffer_of_kind *result = in_place ? &src : &dst;

    for (size_t i = 0; i < count * n_segments; i++) {
        uint32_t value = operand(conf.rank, i);

        memcpy(src.host + i * sizeof(value), &value, sizeof(value));
    }
    push(&src);
    push(&dst);
    args.src = src.addr;
    args.dst = result->addr;
    args.count = count;
    args.type = NIXL_TYPE_UINT32;
    args.op = is_own ? NIXL_REDUCE_USER : NIXL_REDUCE_SUM;
    args.combine = is_own ? add : NULL;
    args.combine_arg = &conf_world;
    MPT_OK(call_reduction(kind, root, &args));
    pull(&src);
    pull(&dst);
    if (kind != REDUCE || conf.rank == root) {
        check_sums(result->host, kind == REDUCE_SCATTER ? (size_t)conf.rank * count : 0, count,
                   kind == SCAN ? conf.rank + 1 : conf.size);
    }
    conf_drop_local(&src.local);
    conf_drop_local(&dst.local);
}

static void reductions_take_memory_of_every_kind(void)
{
    need_world();
    for (unsigned round = 0; round < conf_rounds(300); round++) {
        int kind = (int)(mpt_random(&conf_seed) % N_REDUCTIONS);
        size_t n_segments = kind == REDUCE_SCATTER ? (size_t)conf.size : 1;
        size_t count = conf_random_nbytes(LARGEST) / sizeof(uint32_t) / n_segments;
        bool in_place = mpt_random(&conf_seed) % 2 == 0, is_own = mpt_random(&conf_seed) % 4 == 0;

        reduce_once(kind, count, in_place, is_own);
    }
}

/* ---- by themselves --------------------------------------------------------------------------- */

static void collectives_on_all_kinds_go_on_by_themselves(void)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    size_t count = ((size_t)2 << 20) / sizeof(uint32_t) + 3, nbytes = count * sizeof(uint32_t);

    need_world();
    for (unsigned round = 0; round < conf_rounds(40); round++) {
        struct buffer_of_kind sums = make("kinds.sums", nbytes), all = make("kinds.all", nbytes);
        struct nixl_req *reqs[2] = {NULL, NULL};
        int root = (int)(round % (unsigned)conf.size), status;

        for (size_t i = 0; i < count; i++) {
            uint32_t value = operand(conf.rank, i);

            memcpy(sums.host + i * sizeof(value), &value, sizeof(value));
        }
        if (conf.rank == root) {
            mpt_fill(all.host, nbytes, round);
        }
        push(&sums);
        push(&all);
        args.src = args.dst = sums.addr;
        args.count = count;
        args.type = NIXL_TYPE_UINT32;
        status = nixl_allreduce_x(conf_world, &args, NULL, &reqs[0]);
        MPT_OK(status == NIXL_INPROGRESS ? NIXL_OK : status);
        status = nixl_broadcast_x(conf_world, root, all.addr, nbytes, NULL, &reqs[1]);
        MPT_OK(status == NIXL_INPROGRESS ? NIXL_OK : status);
        for (int i = 0; i < 2; i++) {
            MPT_OK(reqs[i] != NULL ? nixl_req_wait(&reqs[i], MPT_PATIENCE) : NIXL_OK);
        }
        pull(&sums);
        pull(&all);
        check_sums(sums.host, 0, count, conf.size);
        MPT_CHECK(all.host, nbytes, round);
        conf_drop_local(&sums.local);
        conf_drop_local(&all.local);
    }
}

const struct guarantee conf_kinds_collective[] = {
    {"collective", NULL, 0},
    {"a_broadcast_reaches_memory_of_every_kind", a_broadcast_reaches_memory_of_every_kind, 0},
    {"data_of_one_size_goes_between_all_kinds", data_of_one_size_goes_between_all_kinds, 0},
    {"data_of_different_sizes_goes_between_all_kinds",
     data_of_different_sizes_goes_between_all_kinds, 0},
    {"reductions_take_memory_of_every_kind", reductions_take_memory_of_every_kind, 0},
    {"collectives_on_all_kinds_go_on_by_themselves", collectives_on_all_kinds_go_on_by_themselves,
     0},
    {0},
};
