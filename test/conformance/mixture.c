/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of all kinds, sizes and roots that follow each other without a barrier between them,
 * on members that come early and late: what one call leaves in memory that the members share must
 * not be overwritten, or taken for its own, by the next ones.
 */
#include "exchange.h"

#include <stdlib.h>

enum {
    BROADCAST = N_MOVES,
    REDUCE,
    ALLREDUCE,
    REDUCE_SCATTER,
    SCAN,
    EXCLUSIVE_SCAN,
    BARRIER,
    N_KINDS
};

#define MAX_NBYTES  (512ul << 10) /* of a piece */
#define MAX_LATE_NS (200 * 1000)

/* One call, the same on all members. */
struct mixed {
    int kind;
    int root;
    size_t nbytes; /* of a piece: what a member has for another, or an operand, or a part */
    uint64_t round;
};

/* From cells to several windows of a slot; whole words. */
static size_t mixed_nbytes(void)
{
    static const size_t limits[] = {8, 512, 4096, 20000, 70000, MAX_NBYTES};
    uint64_t drawn = mpt_random(&conf_seed);

    return 8 + drawn / 8 % (limits[drawn % 6] / 8) * 8;
}

static void come_late(uint64_t round)
{
    uint64_t own = round * 7919 + (uint64_t)conf.rank + 1;
    int64_t until = mpt_now_ns() + (int64_t)(mpt_random(&own) % MAX_LATE_NS);

    while (mpt_random(&own) % 2 == 0 && mpt_now_ns() < until) {
    }
}

/* ---- data that moves ---- */

static void mix_move(const struct mixed *call, unsigned char *src, unsigned char *dst)
{
    bool is_private = call->kind == SCATTER || call->kind == ALLTOALL;
    bool sends = call->kind != SCATTER || conf.rank == call->root;
    bool receives = call->kind != GATHER || conf.rank == call->root;
    int first = call->kind == SCATTER ? call->root : 0;
    int last = call->kind == SCATTER ? call->root : conf.size - 1;

    for (int to = 0; sends && to < (is_private ? conf.size : 1); to++) {
        mpt_fill(src + (size_t)to * call->nbytes, call->nbytes,
                 conf_piece_seed(call->round, conf.rank, to));
    }
    MPT_OK(conf_move(call->kind, call->root, src, dst, call->nbytes));
    for (int from = first; receives && from <= last; from++) {
        MPT_CHECK(dst + (size_t)(from - first) * call->nbytes, call->nbytes,
                  conf_piece_seed(call->round, from, is_private ? conf.rank : 0));
    }
}

static void mix_broadcast(const struct mixed *call, unsigned char *buf)
{
    uint64_t seed = conf_piece_seed(call->round, call->root, 0);

    if (conf.rank == call->root) {
        mpt_fill(buf, call->nbytes, seed);
    }
    MPT_OK(nixl_broadcast(conf_world, call->root, buf, call->nbytes, MPT_PATIENCE));
    MPT_CHECK(buf, call->nbytes, seed);
}

/* ---- sums ---- */

static uint64_t operand_of(const struct mixed *call, int member, size_t i)
{
    return (call->round + 1) * 0x9e3779b97f4a7c15ull * (uint64_t)(member + 1) + i;
}

static int call_mixed_reduction(const struct mixed *call, struct nixl_reduce_args *args)
{
    switch (call->kind) {
    case REDUCE:
        return nixl_reduce(conf_world, call->root, args, MPT_PATIENCE);
    case ALLREDUCE:
        return nixl_allreduce(conf_world, args, MPT_PATIENCE);
    case REDUCE_SCATTER:
        return nixl_reduce_scatter(conf_world, args, MPT_PATIENCE);
    default:
        args->is_exclusive = call->kind == EXCLUSIVE_SCAN;
        return nixl_scan(conf_world, args, MPT_PATIENCE);
    }
}

/* How many operands, from the first member's on, are in this member's result. */
static int n_summed(const struct mixed *call)
{
    switch (call->kind) {
    case REDUCE:
        return conf.rank == call->root ? conf.size : 0;
    case SCAN:
        return conf.rank + 1;
    case EXCLUSIVE_SCAN:
        return conf.rank;
    default:
        return conf.size;
    }
}

static void mix_reduction(const struct mixed *call, uint64_t *src, uint64_t *dst)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    size_t count = call->nbytes / sizeof(*src), first = 0;

    if (call->kind == REDUCE_SCATTER) {
        first = count * (size_t)conf.rank;
    }
    for (size_t i = 0; i < count * (call->kind == REDUCE_SCATTER ? (size_t)conf.size : 1); i++) {
        src[i] = operand_of(call, conf.rank, i);
    }
    args.src = src;
    args.dst = dst;
    args.count = count;
    args.type = NIXL_TYPE_UINT64;
    args.op = NIXL_REDUCE_SUM;
    MPT_OK(call_mixed_reduction(call, &args));
    for (size_t i = 0; n_summed(call) > 0 && i < count; i++) {
        uint64_t sum = 0;

        for (int member = 0; member < n_summed(call); member++) {
            sum += operand_of(call, member, first + i);
        }
        if (dst[i] != sum) {
            mpt_fail(__FILE__, __LINE__, "round %" PRIu64 ", kind %d, root %d, %zu bytes: word %zu",
                     call->round, call->kind, call->root, call->nbytes, i);
        }
    }
}

/* ---- all of them ---- */

static void mix(const struct mixed *call, struct buffer *src, struct buffer *dst)
{
    if (call->kind < N_MOVES) {
        mix_move(call, src->bytes, dst->bytes);
    } else if (call->kind == BROADCAST) {
        mix_broadcast(call, src->bytes);
    } else if (call->kind == BARRIER) {
        MPT_OK(nixl_barrier(conf_world, MPT_PATIENCE));
    } else {
        mix_reduction(call, (void *)src->bytes, (void *)dst->bytes);
    }
}

/* A kind that is drawn is called a few times in a row, with the same root or in turns. */
static void collectives_follow_each_other_in_any_order(void)
{
    size_t all = (size_t)conf.size * MAX_NBYTES;
    struct buffer src, dst;

    conf_need_world();
    for (unsigned in_region = 0; in_region < 2; in_region++) {
        src = conf_buffer("mixed src", all, 0, in_region);
        dst = conf_buffer("mixed dst", all, 0, in_region);
        for (unsigned i = 0; i < conf_rounds(200); i++) {
            struct mixed call = {.kind = (int)(mpt_random(&conf_seed) % N_KINDS),
                                 .root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size),
                                 .nbytes = mixed_nbytes()};
            unsigned n = 1 + (unsigned)(mpt_random(&conf_seed) % 4);
            bool goes_round = mpt_random(&conf_seed) % 2 == 0;

            for (unsigned k = 0; k < n; k++) {
                call.round = ((uint64_t)in_region << 32) + 4 * i + k;
                come_late(call.round);
                mix(&call, &src, &dst);
                call.root = (call.root + goes_round) % conf.size;
            }
        }
        conf_drop_buffer(&src);
        conf_drop_buffer(&dst);
    }
}

const struct guarantee conf_mixture[] = {
    {"collective", NULL, 0},
    {"collectives_follow_each_other_in_any_order", collectives_follow_each_other_in_any_order, 0},
    {0},
};
