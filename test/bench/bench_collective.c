/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of all ranks: with buffers of any memory, in regions, and there also started and
 * waited for, and prepared. The root goes round, so that no rank runs ahead of the others. The
 * limit is a copy of what a rank receives, by all ranks at once; for few bytes between two ranks a
 * flag. No locks.
 */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <string.h>

#define PAGE_NBYTES    4096
#define DEFAULT_NBYTES (1ull << 30) /* of all ranks; larger cases run if --sizes asks for them */
#define N_WAYS         4

/* How often `nbytes` of the case a rank gives or gets. */
enum blocks { BLOCKS_NONE, BLOCKS_ONE, BLOCKS_ALL };

/* What only the root does. */
enum root_part { ROOT_NONE, ROOT_GIVES, ROOT_RECEIVES };

/* One call. Of the blocking one `req_p` and `op` are NULL; `op` prepares it. */
struct call {
    int root;
    unsigned char *src, *dst;
    size_t nbytes;
    struct nixl_req **req_p;
    const struct nixl_op *op;
};

struct collective {
    const char *name;
    int (*run)(const struct call *call);
    enum blocks given, received;
    enum root_part root_part;
    bool is_reduction;
    bool is_in_place; /* what the root gives is received in the same buffer */
};

static struct nixl_team *team;
static const struct collective *current;
static struct nixl_coll *prepared[BENCH_MAX_RANKS]; /* by root, of the case that is measured */
static size_t pieces[2][BENCH_MAX_RANKS];           /* sizes and offsets of the calls with a v */

/* ---- the calls ---- */

static bool is_extended(const struct call *call)
{
    return call->req_p != NULL || call->op != NULL;
}

static int run_barrier(const struct call *call)
{
    return is_extended(call) ? nixl_barrier_x(team, call->op, call->req_p)
                             : nixl_barrier(team, BENCH_TIMEOUT_NS);
}

static int run_broadcast(const struct call *call)
{
    return is_extended(call)
               ? nixl_broadcast_x(team, call->root, call->src, call->nbytes, call->op, call->req_p)
               : nixl_broadcast(team, call->root, call->src, call->nbytes, BENCH_TIMEOUT_NS);
}

/* The sum of floats. */
static struct nixl_reduce_args sum_of(const struct call *call)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    args.src = call->src;
    args.dst = call->dst;
    args.count = call->nbytes / sizeof(float);
    args.type = NIXL_TYPE_FLOAT;
    args.op = NIXL_REDUCE_SUM;
    return args;
}

static int run_reduce(const struct call *call)
{
    struct nixl_reduce_args args = sum_of(call);

    return is_extended(call) ? nixl_reduce_x(team, call->root, &args, call->op, call->req_p)
                             : nixl_reduce(team, call->root, &args, BENCH_TIMEOUT_NS);
}

static int run_allreduce(const struct call *call)
{
    struct nixl_reduce_args args = sum_of(call);

    return is_extended(call) ? nixl_allreduce_x(team, &args, call->op, call->req_p)
                             : nixl_allreduce(team, &args, BENCH_TIMEOUT_NS);
}

static int run_reduce_scatter(const struct call *call)
{
    struct nixl_reduce_args args = sum_of(call);

    return is_extended(call) ? nixl_reduce_scatter_x(team, &args, call->op, call->req_p)
                             : nixl_reduce_scatter(team, &args, BENCH_TIMEOUT_NS);
}

static int run_scan(const struct call *call)
{
    struct nixl_reduce_args args = sum_of(call);

    return is_extended(call) ? nixl_scan_x(team, &args, call->op, call->req_p)
                             : nixl_scan(team, &args, BENCH_TIMEOUT_NS);
}

static int run_gather(const struct call *call)
{
    return is_extended(call) ? nixl_gather_x(team, call->root, call->src, call->dst, call->nbytes,
                                             call->op, call->req_p)
                             : nixl_gather(team, call->root, call->src, call->dst, call->nbytes,
                                           BENCH_TIMEOUT_NS);
}

static int run_scatter(const struct call *call)
{
    return is_extended(call) ? nixl_scatter_x(team, call->root, call->src, call->dst, call->nbytes,
                                              call->op, call->req_p)
                             : nixl_scatter(team, call->root, call->src, call->dst, call->nbytes,
                                            BENCH_TIMEOUT_NS);
}

static int run_allgather(const struct call *call)
{
    return is_extended(call)
               ? nixl_allgather_x(team, call->src, call->dst, call->nbytes, call->op, call->req_p)
               : nixl_allgather(team, call->src, call->dst, call->nbytes, BENCH_TIMEOUT_NS);
}

static int run_alltoall(const struct call *call)
{
    return is_extended(call)
               ? nixl_alltoall_x(team, call->src, call->dst, call->nbytes, call->op, call->req_p)
               : nixl_alltoall(team, call->src, call->dst, call->nbytes, BENCH_TIMEOUT_NS);
}

/* Every other four bytes of what there is for each member. */
static int run_alltoall_strided(const struct call *call)
{
    struct nixl_strided_args args = NIXL_STRIDED_ARGS_INIT;

    args.src = call->src;
    args.dst = call->dst;
    args.block_nbytes = 4;
    args.src_stride = args.dst_stride = 8;
    args.nblocks = call->nbytes / 8;
    return is_extended(call) ? nixl_alltoall_strided_x(team, &args, call->op, call->req_p)
                             : nixl_alltoall_strided(team, &args, BENCH_TIMEOUT_NS);
}

/* Equal pieces, one after the other. */
static struct nixl_vector_args pieces_of(const struct call *call)
{
    struct nixl_vector_args args = NIXL_VECTOR_ARGS_INIT;

    args.src = call->src;
    args.dst = call->dst;
    args.nbytes = call->nbytes;
    args.src_nbytes = args.dst_nbytes = pieces[0];
    args.src_offsets = args.dst_offsets = pieces[1];
    return args;
}

static int run_gatherv(const struct call *call)
{
    struct nixl_vector_args args = pieces_of(call);

    return is_extended(call) ? nixl_gatherv_x(team, call->root, &args, call->op, call->req_p)
                             : nixl_gatherv(team, call->root, &args, BENCH_TIMEOUT_NS);
}

static int run_scatterv(const struct call *call)
{
    struct nixl_vector_args args = pieces_of(call);

    return is_extended(call) ? nixl_scatterv_x(team, call->root, &args, call->op, call->req_p)
                             : nixl_scatterv(team, call->root, &args, BENCH_TIMEOUT_NS);
}

static int run_allgatherv(const struct call *call)
{
    struct nixl_vector_args args = pieces_of(call);

    return is_extended(call) ? nixl_allgatherv_x(team, &args, call->op, call->req_p)
                             : nixl_allgatherv(team, &args, BENCH_TIMEOUT_NS);
}

static int run_alltoallv(const struct call *call)
{
    struct nixl_vector_args args = pieces_of(call);

    return is_extended(call) ? nixl_alltoallv_x(team, &args, call->op, call->req_p)
                             : nixl_alltoallv(team, &args, BENCH_TIMEOUT_NS);
}

/* ---- lanes ---- */

/* The variants of a lane, by its arg. */
static const struct {
    const char *suffix; /* of the row's name */
    const char *bare;   /* ... without data */
    bool is_in_region, is_started, is_prepared;
} ways[N_WAYS] = {{" any buffers", "", false, false, false},
                  {" in regions", "", true, false, false},
                  {"_nb in regions", "_nb", true, true, false},
                  {" prepared in regions", " prepared", true, false, true}};

/* Bytes of a buffer that is given or received, up to the next page. */
static uint64_t buffer_nbytes(const struct bench *bench, uint64_t nbytes)
{
    uint64_t n =
        current->given == BLOCKS_ALL || current->received == BLOCKS_ALL ? (uint64_t)bench->size : 1;

    return (n * nbytes + PAGE_NBYTES - 1) / PAGE_NBYTES * PAGE_NBYTES;
}

static uint64_t n_blocks_of(const struct bench *bench, enum blocks blocks)
{
    return blocks == BLOCKS_ALL ? (uint64_t)bench->size : blocks == BLOCKS_ONE ? 1 : 0;
}

/* With --fresh: what this rank gives, before. */
static void write_given(const struct bench *bench, const struct call *call)
{
    if (current->root_part != ROOT_GIVES || call->root == bench->rank) {
        fresh_write(bench, call->src, n_blocks_of(bench, current->given) * call->nbytes);
    }
}

/* And after, what it has received. */
static void read_received(const struct bench *bench, const struct call *call)
{
    bool is_root = call->root == bench->rank;

    if (current->is_in_place ? is_root : current->root_part == ROOT_RECEIVES && !is_root) {
        return;
    }
    fresh_read(bench, current->is_in_place ? call->src : call->dst,
               n_blocks_of(bench, current->received) * call->nbytes);
}

/* A call of a lane, but for its root. */
static struct call call_of(const struct bench *bench, int way)
{
    unsigned char *memory = ways[way].is_in_region ? bench->mine : bench->local;

    return (struct call){.src = memory + bench->alignment.src,
                         .dst = memory + buffer_nbytes(bench, bench->nbytes) + PAGE_NBYTES +
                                bench->alignment.dst,
                         .nbytes = bench->nbytes};
}

/* One handle for each root of the case. */
static void prepare(const struct bench *bench, int way)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct call call = call_of(bench, way);

    op.flags = NIXL_OP_PREPARE;
    call.op = &op;
    for (call.root = 0; call.root < bench->size; call.root++) {
        op.coll_p = &prepared[call.root];
        bench_check(current->run(&call), "preparing a collective");
    }
}

static void free_prepared(const struct bench *bench)
{
    for (int i = 0; i < bench->size; i++) {
        bench_check(nixl_coll_free(prepared[i]), "nixl_coll_free");
    }
}

static void collect(struct bench *bench, long n, int way)
{
    struct nixl_req *req = NULL;
    struct call call = call_of(bench, way);

    call.req_p = ways[way].is_started ? &req : NULL;
    for (long i = 0; i < n; i++) {
        int status;

        call.root = (int)(i % bench->size);
        write_given(bench, &call);
        status = ways[way].is_prepared ? nixl_coll_start(prepared[call.root], BENCH_TIMEOUT_NS)
                                       : current->run(&call);
        if (status == NIXL_INPROGRESS) {
            status = nixl_req_wait(&req, BENCH_TIMEOUT_NS);
        }
        bench_check(status, current->name);
        read_received(bench, &call);
    }
}

/* What this rank receives, out of its own memory. */
static void copy_received(struct bench *bench, long n, int arg)
{
    uint64_t n_blocks = n_blocks_of(bench, current->received);
    struct call call = {.src = bench->src,
                        .dst = bench->local + buffer_nbytes(bench, bench->nbytes) + PAGE_NBYTES +
                               bench->alignment.dst,
                        .nbytes = bench->nbytes};

    (void)arg;
    for (long i = 0; i < n; i++) {
        call.root = (int)(i % bench->size);
        write_given(bench, &call);
        memcpy(call.dst, call.src, n_blocks * bench->nbytes);
        __asm__ volatile("" : : : "memory");
        read_received(bench, &call);
    }
}

/* The same in GPU memory, by the rank's own put. */
static void copy_in_part(struct bench *bench, long n, int arg)
{
    uint64_t n_blocks = n_blocks_of(bench, current->received);
    uint64_t offset = buffer_nbytes(bench, bench->nbytes) + PAGE_NBYTES + bench->alignment.dst;

    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(nixl_put(bench->rank, bench->region, offset, bench->mine + bench->alignment.src,
                             n_blocks * bench->nbytes),
                    "copying within the own part");
    }
}

/*
 * Sets the limit of the current case; false if there is none: what takes as long as its messages,
 * and not as long as its bytes, has a limit only between two.
 */
static bool limit_lane(const struct bench *bench, struct bench_lane *lane_p)
{
    bool is_small = current->received == BLOCKS_NONE || bench->nbytes < PAGE_NBYTES;

    if (device_is_used(bench)) {
        *lane_p = (struct bench_lane){"copy in own part", copy_in_part, 0, ACTOR_ALL, 1};
        return true;
    }
    if (bench->wire == NULL && !is_small) {
        *lane_p = (struct bench_lane){"memcpy of result", copy_received, 0, ACTOR_ALL, 1};
        return true;
    }
    if (bench->size != 2) {
        return false;
    }
    *lane_p = bare_one_way_lane(bench, bench->wire == NULL || current->received == BLOCKS_NONE);
    return true;
}

static void measure(struct bench *bench)
{
    struct bench_lane lanes[N_WAYS + 1];
    struct bench_stats stats[N_WAYS + 1];
    bool has_buffers = current->received != BLOCKS_NONE;
    int n_ways = 0, n_lanes;

    /* GPU memory is in regions, always. */
    for (int way = has_buffers && !device_is_used(bench) ? 0 : 1; way < N_WAYS; way++) {
        lanes[n_ways++] = (struct bench_lane){ways[way].suffix, collect, way, ACTOR_ALL, 1};
    }
    n_lanes = n_ways + limit_lane(bench, &lanes[n_ways]);
    prepare(bench, N_WAYS - 1);
    sample_lanes(bench, lanes, n_lanes, stats);
    free_prepared(bench);
    for (int i = 0; i < n_ways; i++) {
        const struct bench_lane pair[2] = {lanes[i], lanes[n_lanes - 1]};
        const struct bench_stats pair_stats[2] = {stats[i], stats[n_lanes - 1]};
        char what[48];

        snprintf(what, sizeof(what), "%s%s", current->name,
                 has_buffers ? ways[lanes[i].arg].suffix : ways[lanes[i].arg].bare);
        report_lanes(bench, current->name, what, pair, n_lanes > n_ways ? 2 : 1, pair_stats, 0);
    }
}

/* ---- tests ---- */

/* Ones, as floats: sums of other bits may be slow numbers. */
static void fill(unsigned char *memory, uint64_t nbytes)
{
    const float one = 1;

    for (uint64_t i = 0; i + sizeof(one) <= nbytes; i += sizeof(one)) {
        memcpy(memory + i, &one, sizeof(one));
    }
}

/* The processor does not touch GPU memory. */
static void fill_part(struct bench *bench, uint64_t nbytes)
{
    static unsigned char ones[1 << 20];

    if (bench->options.there == NIXL_MEM_HOST) {
        fill(bench->mine, nbytes);
        return;
    }
    fill(ones, sizeof(ones));
    for (uint64_t at = 0; at < nbytes; at += sizeof(ones)) {
        uint64_t left = nbytes - at;

        bench_check(nixl_put(bench->rank, bench->region, at, ones,
                             left < sizeof(ones) ? left : sizeof(ones)),
                    "filling memory");
    }
}

static void measure_case(struct bench *bench, uint64_t nbytes,
                         const struct bench_alignment *alignment)
{
    uint64_t total = 2 * buffer_nbytes(bench, nbytes) + 2 * PAGE_NBYTES;

    for (int i = 0; i < bench->size; i++) {
        pieces[0][i] = nbytes;
        pieces[1][i] = (size_t)i * nbytes;
    }
    stage_data_open(bench, bench->options.is_registered, total);
    fill_part(bench, total);
    if (bench->options.here == NIXL_MEM_HOST) {
        fill(bench->local, total);
    }
    stage_case(bench, nbytes, alignment);
    measure(bench);
    stage_data_close(bench);
}

static void test_collective(struct bench *bench, const struct collective *collective)
{
    static const uint64_t defaults[] = {8, 4096, 65536, 1 << 20};
    static const struct bench_alignment aligned = {0, 0};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 4, &sizes);

    current = collective;
    if (apart_is_asked(&bench->options)) {
        team = apart_team(bench);
    } else {
        bench_check(nixl_team_world(BENCH_TIMEOUT_NS, &team), "nixl_team_world");
    }
    if (collective->received == BLOCKS_NONE) {
        stage_case(bench, 0, &aligned);
        measure(bench);
        n_sizes = 0;
    }
    for (int i = 0; i < n_sizes; i++) {
        /* In private memory and in regions, given and received. */
        uint64_t all = 4 * buffer_nbytes(bench, sizes[i]) * (uint64_t)bench->size;

        if ((collective->is_reduction && sizes[i] % sizeof(float) != 0) ||
            (bench->options.n_sizes == 0 && all > DEFAULT_NBYTES)) {
            continue;
        }
        for (int j = 0; j < bench->options.n_alignments; j++) {
            measure_case(bench, sizes[i], &bench->options.alignments[j]);
        }
    }
    bench_check(nixl_team_free(team), "nixl_team_free");
}

#define COLLECTIVE_TEST(_name, _given, _received, ...)                                             \
    void test_##_name(struct bench *bench)                                                         \
    {                                                                                              \
        static const struct collective collective = {.name = #_name,                               \
                                                     .run = run_##_name,                           \
                                                     .given = BLOCKS_##_given,                     \
                                                     .received = BLOCKS_##_received,               \
                                                     __VA_ARGS__};                                 \
                                                                                                   \
        test_collective(bench, &collective);                                                       \
    }

COLLECTIVE_TEST(barrier, NONE, NONE, .root_part = ROOT_NONE)
COLLECTIVE_TEST(broadcast, ONE, ONE, .root_part = ROOT_GIVES, .is_in_place = true)
COLLECTIVE_TEST(reduce, ONE, ONE, .root_part = ROOT_RECEIVES, .is_reduction = true)
COLLECTIVE_TEST(allreduce, ONE, ONE, .is_reduction = true)
COLLECTIVE_TEST(reduce_scatter, ALL, ONE, .is_reduction = true)
COLLECTIVE_TEST(scan, ONE, ONE, .is_reduction = true)
COLLECTIVE_TEST(gather, ONE, ALL, .root_part = ROOT_RECEIVES)
COLLECTIVE_TEST(scatter, ALL, ONE, .root_part = ROOT_GIVES)
COLLECTIVE_TEST(allgather, ONE, ALL, .root_part = ROOT_NONE)
COLLECTIVE_TEST(alltoall, ALL, ALL, .root_part = ROOT_NONE)
COLLECTIVE_TEST(alltoall_strided, ALL, ALL, .root_part = ROOT_NONE)
COLLECTIVE_TEST(gatherv, ONE, ALL, .root_part = ROOT_RECEIVES)
COLLECTIVE_TEST(scatterv, ALL, ONE, .root_part = ROOT_GIVES)
COLLECTIVE_TEST(allgatherv, ONE, ALL, .root_part = ROOT_NONE)
COLLECTIVE_TEST(alltoallv, ALL, ALL, .root_part = ROOT_NONE)
