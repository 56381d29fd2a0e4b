/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on collectives that move data, with random sizes, alignments and offsets from a seed
 * that is printed, and on the arguments of all collectives.
 */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 64

/* ---- barrier, broadcast ---------------------------------------------------------------------- */

static void nobody_leaves_a_barrier_before_all_have_come(void)
{
    struct segment segment = conf_segment("barrier", 64);
    uint64_t *word = (uint64_t *)(void *)segment.bytes;
    unsigned n = conf_rounds(300);

    conf_need_world();
    for (uint64_t round = 1; round <= n; round++) {
        uint64_t one = 1;

        MPT_OK(nixl_atomic(0, segment.region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL));
        MPT_OK(nixl_barrier(conf_world, MPT_PATIENCE));
        if (conf.rank == 0) {
            MPT_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), round * (uint64_t)conf.size);
        }
        MPT_OK(nixl_barrier(conf_world, MPT_PATIENCE));
    }
    conf_drop(&segment);
}

static void a_broadcast_gives_all_the_same(void)
{
    conf_need_world();
    for (unsigned round = 0; round < conf_rounds(200); round++) {
        int root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
        size_t nbytes = conf_random_nbytes(3 << 20);
        bool in_region = mpt_random(&conf_seed) % 2 == 0;
        struct buffer buffer = conf_buffer("broadcast", nbytes, conf_random_shift(), in_region);

        if (conf.rank == root) {
            mpt_fill(buffer.bytes, nbytes, round);
        }
        MPT_OK(nixl_broadcast(conf_world, root, buffer.bytes, nbytes, MPT_PATIENCE));
        MPT_CHECK(buffer.bytes, nbytes, round);
        conf_drop_buffer(&buffer);
    }
}

/* ---- data that moves ------------------------------------------------------------------------- */

/* Where the own data is when the call is in place. */
static size_t place_of_own(int kind, size_t nbytes)
{
    return kind == GATHER || kind == ALLGATHER ? (size_t)conf.rank * nbytes : 0;
}

static void move_once(unsigned round, int kind, size_t nbytes, bool in_region, bool in_place)
{
    int root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
    size_t all = nbytes * (size_t)conf.size;
    bool is_private = kind == SCATTER || kind == ALLTOALL;
    bool wants_all = kind != SCATTER;
    struct buffer src = conf_buffer("move src", all, conf_random_shift(), in_region);
    struct buffer dst = conf_buffer("move dst", all, conf_random_shift(), in_region);
    unsigned char *from = src.bytes, *to = dst.bytes;

    /*
     * In place: the own segment of one is in the other; a scatter's root takes its segment from
     * src.
     */
    if (in_place && kind == SCATTER) {
        to = conf.rank == root ? from + (size_t)root * nbytes : to;
    } else if (in_place && (kind != GATHER || conf.rank == root)) {
        from = to + place_of_own(kind, nbytes);
    }
    for (int i = 0; i < (is_private ? conf.size : 1); i++) {
        mpt_fill(from + (size_t)i * nbytes, nbytes,
                 conf_piece_seed(round, conf.rank, is_private ? i : 0));
    }
    MPT_OK(conf_move(kind, root, from, to, nbytes));
    if (kind == SCATTER) {
        MPT_CHECK(to, nbytes, conf_piece_seed(round, root, conf.rank));
    }
    for (int i = 0; wants_all && (kind != GATHER || conf.rank == root) && i < conf.size; i++) {
        MPT_CHECK(to + (size_t)i * nbytes, nbytes,
                  conf_piece_seed(round, i, is_private ? conf.rank : 0));
    }
    conf_drop_buffer(&src);
    conf_drop_buffer(&dst);
}

static void data_of_one_size_goes_where_it_belongs(void)
{
    conf_need_world();
    for (unsigned round = 0; round < conf_rounds(300); round++) {
        size_t nbytes = conf_random_nbytes((4ul << 20) / (unsigned)conf.size);
        bool in_region = mpt_random(&conf_seed) % 2 == 0,
             in_place = mpt_random(&conf_seed) % 2 == 0;

        move_once(round, (int)(mpt_random(&conf_seed) % N_MOVES), nbytes, in_region, in_place);
    }
}

/* Sizes at which as much as fits is on its way at once, and one byte more. */
static void data_that_fills_shared_memory_goes_where_it_belongs(void)
{
    unsigned size, round = 0;

    conf_need_world();
    size = (unsigned)conf.size;
    for (unsigned n_pieces = size > 2 ? size - 2 : 1; n_pieces <= size; n_pieces++) {
        for (int kind = 0; kind < N_MOVES; kind++) {
            move_once(round++, kind, (1ul << 20) / n_pieces / 64 * 64, false, false);
            move_once(round++, kind, (1ul << 20) / n_pieces / 64 * 64 + 1, false, false);
        }
    }
}

/* The first calls take turns between the paths of large data, then one is chosen. */
static void data_goes_where_it_belongs_by_every_path(void)
{
    static const size_t sizes[] = {20000, 300000};
    unsigned round = 0;

    conf_need_world();
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int kind = 0; kind < N_MOVES; kind++) {
            for (int call = 0; call < 10; call++) {
                move_once(round++, kind, sizes[s], call == 5, false);
            }
        }
    }
}

/* Sizes of all pieces, known to all here so that each can check: pieces[from][to]. */
static size_t pieces[MAX_RANKS][MAX_RANKS];

static void draw_pieces(int kind, size_t largest)
{
    for (int from = 0; from < conf.size; from++) {
        for (int to = 0; to < conf.size; to++) {
            pieces[from][to] = mpt_random(&conf_seed) % 4 == 0 ? 0 : conf_random_nbytes(largest);
            if (kind == GATHER || kind == ALLGATHER) {
                pieces[from][to] = pieces[from][0]; /* the same for all */
            }
        }
    }
}

static int call_vector(int kind, int root, const struct nixl_vector_args *args)
{
    switch (kind) {
    case GATHER:
        return nixl_gatherv(conf_world, root, args, MPT_PATIENCE);
    case SCATTER:
        return nixl_scatterv(conf_world, root, args, MPT_PATIENCE);
    case ALLGATHER:
        return nixl_allgatherv(conf_world, args, MPT_PATIENCE);
    default:
        return nixl_alltoallv(conf_world, args, MPT_PATIENCE);
    }
}

/* Offsets of pieces with gaps between them; how many bytes they span. */
static size_t lay_out(const size_t *nbytes, size_t *offsets)
{
    size_t at = 0;

    for (int i = 0; i < conf.size; i++) {
        at += (size_t)i % 3;
        offsets[i] = at;
        at += nbytes[i];
    }
    return at;
}

/*
 * In place: a gather's own piece is where it goes; the root of a scatter leaves its own where it
 * is.
 */
static void put_in_place(struct nixl_vector_args *args, int kind, int root)
{
    if (kind == ALLGATHER || (kind == GATHER && conf.rank == root)) {
        args->src = (unsigned char *)args->dst + args->dst_offsets[conf.rank];
    } else if (kind == SCATTER && conf.rank == root) {
        args->dst = (unsigned char *)args->src + args->src_offsets[root];
    }
}

static void move_vector(unsigned round, int kind, bool in_region, bool in_place)
{
    int root = (int)(mpt_random(&conf_seed) % (unsigned)conf.size);
    bool is_private = kind == SCATTER || kind == ALLTOALL;
    size_t src_nbytes[MAX_RANKS], src_offsets[MAX_RANKS], dst_nbytes[MAX_RANKS],
        dst_offsets[MAX_RANKS];
    struct nixl_vector_args args = NIXL_VECTOR_ARGS_INIT;
    struct buffer src, dst;

    for (int i = 0; i < conf.size; i++) {
        src_nbytes[i] = pieces[conf.rank][i];
        dst_nbytes[i] = pieces[kind == SCATTER ? root : i][conf.rank];
    }
    src =
        conf_buffer("vector src", lay_out(src_nbytes, src_offsets), conf_random_shift(), in_region);
    dst =
        conf_buffer("vector dst", lay_out(dst_nbytes, dst_offsets), conf_random_shift(), in_region);
    args.src = src.bytes;
    args.dst = dst.bytes;
    args.nbytes = kind == SCATTER ? pieces[root][conf.rank] : src_nbytes[0];
    args.src_nbytes = src_nbytes;
    args.src_offsets = src_offsets;
    args.dst_nbytes = dst_nbytes;
    args.dst_offsets = dst_offsets;
    if (in_place) {
        put_in_place(&args, kind, root);
    }
    for (int i = 0; i < (is_private ? conf.size : 1); i++) {
        mpt_fill((unsigned char *)args.src + (is_private ? src_offsets[i] : 0), src_nbytes[i],
                 conf_piece_seed(round, conf.rank, is_private ? i : 0));
    }
    MPT_OK(call_vector(kind, root, &args));
    if (kind == SCATTER) {
        MPT_CHECK(args.dst, args.nbytes, conf_piece_seed(round, root, conf.rank));
    }
    for (int i = 0; kind != SCATTER && (kind != GATHER || conf.rank == root) && i < conf.size;
         i++) {
        MPT_CHECK(dst.bytes + dst_offsets[i], dst_nbytes[i],
                  conf_piece_seed(round, i, is_private ? conf.rank : 0));
    }
    conf_drop_buffer(&src);
    conf_drop_buffer(&dst);
}

static void data_of_different_sizes_goes_where_it_belongs(void)
{
    conf_need_world();
    for (unsigned round = 0; round < conf_rounds(200); round++) {
        int kind = (int)(mpt_random(&conf_seed) % N_MOVES);
        bool in_region = mpt_random(&conf_seed) % 2 == 0,
             in_place = mpt_random(&conf_seed) % 2 == 0;

        draw_pieces(kind, (2ul << 20) / (unsigned)conf.size);
        move_vector(round, kind, in_region, in_place);
    }
}

/* Drawn alike by all; the strides are each member's own. */
struct strides {
    size_t block_nbytes, nblocks, src, dst;
};

static void fill_strided(struct buffer *buffer, const struct strides *how, uint64_t round)
{
    for (int to = 0; to < conf.size; to++) {
        for (size_t k = 0; k < how->nblocks; k++) {
            mpt_fill(buffer->bytes + ((size_t)to * how->nblocks + k) * how->src, how->block_nbytes,
                     conf_piece_seed(round, conf.rank, to) + k);
        }
    }
}

static void check_strided(const struct buffer *buffer, const struct strides *how, uint64_t round,
                          bool is_blank_between)
{
    for (int from = 0; from < conf.size; from++) {
        for (size_t k = 0; k < how->nblocks; k++) {
            unsigned char *block = buffer->bytes + ((size_t)from * how->nblocks + k) * how->dst;

            MPT_CHECK(block, how->block_nbytes, conf_piece_seed(round, from, conf.rank) + k);
            if (is_blank_between) {
                MPT_CHECK_BYTES(block + how->block_nbytes, how->dst - how->block_nbytes, 0x5a);
            }
        }
    }
}

static void move_strided(const struct strides *how, uint64_t round)
{
    size_t n = (size_t)conf.size * how->nblocks;
    bool in_place = how->src == how->dst;
    struct buffer src = conf_buffer("strided src", n * how->src, 0, false);
    struct buffer dst = conf_buffer("strided dst", n * how->dst, 0, round % 2 == 0);
    struct nixl_strided_args args = NIXL_STRIDED_ARGS_INIT;
    struct nixl_req *req = NULL;
    int status;

    args.src = src.bytes;
    args.dst = in_place ? src.bytes : dst.bytes;
    args.block_nbytes = how->block_nbytes;
    args.nblocks = how->nblocks;
    args.src_stride = how->src;
    args.dst_stride = how->dst;
    fill_strided(&src, how, round);
    memset(dst.bytes, 0x5a, n * how->dst);
    if (round % 3 != 0) {
        MPT_OK(nixl_alltoall_strided(conf_world, &args, MPT_PATIENCE));
    } else {
        status = nixl_alltoall_strided_x(conf_world, &args, NULL, &req);
        MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
    }
    check_strided(in_place ? &src : &dst, how, round, !in_place);
    conf_drop_buffer(&src);
    conf_drop_buffer(&dst);
}

static void blocks_with_strides_go_where_they_belong(void)
{
    struct nixl_strided_args wrong = NIXL_STRIDED_ARGS_INIT;
    char byte = 0;

    conf_need_world();
    for (unsigned round = 0; round < conf_rounds(40); round++) {
        struct strides how = {.block_nbytes = 1 + mpt_random(&conf_seed) % 500,
                              .nblocks = mpt_random(&conf_seed) % 50};

        how.src = how.block_nbytes + (size_t)conf.rank % 3 + round % 11;
        how.dst = round % 4 == 0 ? how.src : how.block_nbytes + (size_t)conf.rank % 5;
        move_strided(&how, round);
    }
    move_strided(&(struct strides){100000, 24, 100000 + 8 * (size_t)conf.rank, 100003}, 40);
    MPT_STATUS(nixl_alltoall_strided(conf_world, NULL, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    wrong.src = wrong.dst = &byte;
    wrong.nblocks = 1;
    MPT_STATUS(nixl_alltoall_strided(conf_world, &wrong, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    wrong.block_nbytes = 2;
    wrong.dst_stride = 1;
    MPT_STATUS(nixl_alltoall_strided(conf_world, &wrong, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    wrong.dst_stride = 2;
    wrong.src_stride = 2;
    wrong.nblocks = SIZE_MAX / 2 + 1;
    MPT_STATUS(nixl_alltoall_strided(conf_world, &wrong, MPT_PATIENCE), NIXL_E_INVALID_ARG);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void wrong_arguments_break_nothing(void)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_vector_args vector = NIXL_VECTOR_ARGS_INIT;
    size_t offset = SIZE_MAX, nbytes = 2;
    float value = 1, sum = 0;

    conf_need_world();
    MPT_STATUS(nixl_barrier(NULL, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_barrier(conf_world, -1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_broadcast(conf_world, conf.size, &value, 4, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_broadcast(conf_world, -1, &value, 4, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_broadcast(conf_world, 0, NULL, 4, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    if (conf.size > 1) {
        MPT_STATUS(nixl_allgather(conf_world, &value, &sum, SIZE_MAX, MPT_PATIENCE),
                   NIXL_E_INVALID_ARG);
    }
    MPT_STATUS(nixl_allreduce(conf_world, NULL, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    args.src = &value;
    args.dst = &sum;
    args.count = 1;
    args.type = (enum nixl_type)12;
    MPT_STATUS(nixl_allreduce(conf_world, &args, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    args.type = NIXL_TYPE_FLOAT;
    args.op = NIXL_REDUCE_XOR;
    MPT_STATUS(nixl_allreduce(conf_world, &args, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    args.op = NIXL_REDUCE_USER;
    MPT_STATUS(nixl_scan(conf_world, &args, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    args.op = (enum nixl_reduce_op)8;
    MPT_STATUS(nixl_scan(conf_world, &args, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    args.op = NIXL_REDUCE_SUM;
    args.is_exclusive = 1;
    MPT_STATUS(nixl_allreduce(conf_world, &args, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    args.is_exclusive = 2;
    MPT_STATUS(nixl_scan(conf_world, &args, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    args.is_exclusive = 0;
    args.count = SIZE_MAX / 2;
    MPT_STATUS(nixl_reduce(conf_world, 0, &args, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    vector.src = &value;
    vector.dst = &sum;
    vector.nbytes = 2;
    MPT_STATUS(nixl_allgatherv(conf_world, &vector, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    if (conf.size == 1) {
        vector.dst_nbytes = &nbytes;
        vector.dst_offsets = &offset;
        MPT_STATUS(nixl_allgatherv(conf_world, &vector, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    }
    /* A start that would block: nothing has happened. */
    MPT_STATUS(nixl_barrier(conf_world, 0), conf.size > 1 ? NIXL_E_AGAIN : NIXL_OK);
    args.count = 1;
    MPT_OK(nixl_allreduce(conf_world, &args, MPT_PATIENCE));
    MPT_EQ((int)sum, conf.size);
    MPT_OK(nixl_broadcast(conf_world, 0, NULL, 0, MPT_PATIENCE));
    args.count = 0;
    args.src = args.dst = NULL;
    MPT_OK(nixl_allreduce(conf_world, &args, MPT_PATIENCE));
    MPT_OK(nixl_barrier(conf_world, MPT_PATIENCE));
}

static void a_team_that_was_given_back_is_refused(void)
{
    conf_need_world();
    MPT_OK(nixl_team_free(conf_world));
    MPT_STATUS(nixl_barrier(conf_world, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_team_free(conf_world), NIXL_E_INVALID_ARG);
    conf_world = NULL;
}

const struct guarantee conf_collective[] = {
    {"collective", NULL, 0},
    {"nobody_leaves_a_barrier_before_all_have_come", nobody_leaves_a_barrier_before_all_have_come,
     CONF_HOST},
    {"a_broadcast_gives_all_the_same", a_broadcast_gives_all_the_same, 0},
    {"data_of_one_size_goes_where_it_belongs", data_of_one_size_goes_where_it_belongs, 0},
    {"data_goes_where_it_belongs_by_every_path", data_goes_where_it_belongs_by_every_path, 0},
    {"data_that_fills_shared_memory_goes_where_it_belongs",
     data_that_fills_shared_memory_goes_where_it_belongs, 0},
    {"data_of_different_sizes_goes_where_it_belongs", data_of_different_sizes_goes_where_it_belongs,
     0},
    {"blocks_with_strides_go_where_they_belong", blocks_with_strides_go_where_they_belong, 0},
    {"wrong_arguments_break_nothing", wrong_arguments_break_nothing, 0},
    {"a_team_that_was_given_back_is_refused", a_team_that_was_given_back_is_refused, 0},
    {0},
};
