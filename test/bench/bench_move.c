/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving bytes: put, get, put_nb, flush, and those that the receiver then reads. Rank 0 acts, rank
 * 1 waits in the bench's barrier and calls nothing, except where it reads.
 */
#include "config.h"

#include "bench.h"
#include "util/copy.h"

#include <stdio.h>
#include <string.h>

/* Allowed: the time of the best copy over 0.97, from where the copy and not the call is measured.
 */
#define COPY_GOAL       (1 / 0.97)
#define COPY_GOAL_FROM  4096
#define PROCESS_VM_GOAL 1.05
#define READ_GOAL       1.03 /* as memcpy, but for the noise of two medians */
#define TCP_GOAL        (1 / 0.95)
#define TCP_GOAL_FROM   (1 << 20)

static const uint64_t move_sizes[] = {8,       64,       512,      4096,     65536,
                                      1 << 20, 16 << 20, 64 << 20, 256 << 20};
#define N_MOVE_SIZES (int)(sizeof(move_sizes) / sizeof(move_sizes[0]))

static void put(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(
            nixl_put(bench->peer, bench->region, bench->alignment.dst, bench->src, bench->nbytes),
            "nixl_put");
    }
}

static void put_flush(struct bench *bench, long n, int arg)
{
    for (long i = 0; i < n; i++) {
        put(bench, 1, arg);
        bench_check(nixl_flush(bench->peer, BENCH_TIMEOUT_NS), "nixl_flush");
    }
}

static void get(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(
            nixl_get(bench->peer, bench->region, bench->alignment.dst, bench->src, bench->nbytes),
            "nixl_get");
    }
}

/* One operation is one of a window, which waits once for all; arg 1: gets, 0: puts and a flush. */
static void in_window(struct bench *bench, long n, int is_get)
{
    struct nixl_req *reqs[1024];
    long window = bench->options.window;
    uint64_t offset = bench->alignment.dst;

    for (long i = 0; i < n; i++) {
        long n_reqs = 0;

        for (long j = 0; j < window; j++) {
            int status = is_get ? nixl_get_x(bench->peer, bench->region, offset, bench->src,
                                             bench->nbytes, NULL, &reqs[n_reqs])
                                : nixl_put_x(bench->peer, bench->region, offset, bench->src,
                                             bench->nbytes, NULL, &reqs[n_reqs]);

            if (status == NIXL_INPROGRESS) {
                n_reqs++;
            } else {
                bench_check(status, is_get ? "nixl_get_x" : "nixl_put_x");
            }
        }
        while (n_reqs > 0) {
            bench_check(nixl_req_wait(&reqs[--n_reqs], BENCH_TIMEOUT_NS), "nixl_req_wait");
        }
        if (!is_get) {
            bench_check(nixl_flush(bench->peer, BENCH_TIMEOUT_NS), "nixl_flush");
        }
    }
}

static void flush(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(nixl_flush(bench->peer, BENCH_TIMEOUT_NS), "nixl_flush");
    }
}

/* What a row of this file measures. */
struct move {
    const char *test, *what;
    struct bench_lane lane;
    bool is_get;
    bool is_single; /* has a goal on one host, where a window or a flush has none */
    enum tcp_work tcp;
};

/* None where the call and not the copy is measured. */
static double goal_of(const struct bench *bench, const struct move *move)
{
    if (device_is_used(bench)) {
        return device_goal(bench);
    }
    if (bench->wire != NULL) {
        return bench->nbytes >= TCP_GOAL_FROM && move->tcp != TCP_PUT_SENT ? TCP_GOAL : 0;
    }
    if (!move->is_single) {
        return 0;
    }
    if (bench->options.is_registered) {
        return bench->nbytes == 1 << 20 && strcmp(bench->method, "bounce") != 0 ? PROCESS_VM_GOAL
                                                                                : 0;
    }
    return bench->nbytes >= COPY_GOAL_FROM ? COPY_GOAL : 0;
}

/* The best that the machine can do for the same work; returns how many lanes that are. */
static int bare_lanes(struct bench *bench, const struct move *move, struct bench_lane *lanes)
{
    if (device_is_used(bench)) {
        lanes[0] = device_beside_lane(bench, &move->lane);
        return 1;
    }
    if (bench->wire != NULL) {
        lanes[0] = bare_tcp_lane(bench, move->tcp);
        return 1;
    }
    if (!bench->options.is_registered) {
        return bare_copy_lanes(lanes, move->is_get);
    }
    if (!stage_decide(bench, bench->rank != 0 || bare_process_vm_works(bench))) {
        return 0;
    }
    lanes[0] = (struct bench_lane){move->is_get ? "process_vm_readv" : "process_vm_writev",
                                   bare_process_vm, move->is_get, ACTOR_FIRST, 1};
    return 1;
}

/* Rows of one operation over all sizes and alignments, beside the best that the machine can do. */
static void move_rows(struct bench *bench, const struct move *move)
{
    bool is_method_shown =
        bench->options.is_registered || bench->wire != NULL || device_is_used(bench);
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, move_sizes, N_MOVE_SIZES, &sizes);
    char label[96];

    stage_data_open(bench, bench->options.is_registered, bench_largest(sizes, n_sizes));
    snprintf(label, sizeof(label), "%s%s%s", move->what, is_method_shown ? " by " : "",
             is_method_shown ? bench->method : "");
    for (int i = 0; i < n_sizes; i++) {
        for (int j = 0; j < bench->options.n_alignments; j++) {
            struct bench_lane lanes[BENCH_MAX_LANES] = {move->lane};
            struct bench_stats stats[BENCH_MAX_LANES];
            int n_lanes;

            stage_case(bench, sizes[i], &bench->options.alignments[j]);
            n_lanes = 1 + bare_lanes(bench, move, lanes + 1);
            sample_lanes(bench, lanes, n_lanes, stats);
            report_lanes(bench, move->test, label, lanes, n_lanes, stats, goal_of(bench, move));
        }
    }
    stage_data_close(bench);
}

void test_put(struct bench *bench)
{
    const struct move move = {.test = "put",
                              .what = "put",
                              .lane = {"nixlrun", put, 0, ACTOR_FIRST, 1},
                              .is_single = true,
                              .tcp = TCP_PUT_SENT};

    move_rows(bench, &move);
}

void test_put_flush(struct bench *bench)
{
    const struct move move = {.test = "put_flush",
                              .what = "put + flush",
                              .lane = {"nixlrun", put_flush, 0, ACTOR_FIRST, 1},
                              .tcp = TCP_PUT};

    move_rows(bench, &move);
}

void test_get(struct bench *bench)
{
    const struct move move = {.test = "get",
                              .what = "get",
                              .lane = {"nixlrun", get, 0, ACTOR_FIRST, 1},
                              .is_get = true,
                              .is_single = true,
                              .tcp = TCP_GET};

    move_rows(bench, &move);
}

static void window_rows(struct bench *bench, const char *test, const char *what, bool is_get,
                        enum tcp_work tcp)
{
    const struct move move = {
        .test = test,
        .what = what,
        .lane = {"nixlrun", in_window, is_get, ACTOR_FIRST, (double)bench->options.window},
        .is_get = is_get,
        .tcp = tcp};

    move_rows(bench, &move);
}

void test_put_nb(struct bench *bench)
{
    window_rows(bench, "put_nb", "put_nb in a window", false, TCP_PUT_WINDOW);
}

void test_get_nb(struct bench *bench)
{
    window_rows(bench, "get_nb", "get_nb in a window", true, TCP_GET_WINDOW);
}

void test_flush(struct bench *bench)
{
    static const struct bench_lane lane = {"nixlrun", flush, 0, ACTOR_FIRST, 1};
    static const struct bench_alignment aligned = {0, 0};
    struct bench_stats stats;

    stage_data_open(bench, bench->options.is_registered, 4096);
    stage_case(bench, 0, &aligned);
    sample_lanes(bench, &lane, 1, &stats);
    report_lanes(bench, "flush", "flush of nothing", &lane, 1, &stats, 0);
    stage_data_close(bench);
}

/* ---- with strides ---- */

#define N_BLOCKS 64 /* in one call, each as far from the next as it is long; fewer large ones */

static uint64_t n_strided(uint64_t nbytes)
{
    return bench_fitting(N_BLOCKS, 2 * nbytes);
}

/* One operation is one block; arg 1: each by a put of its own. */
static void put_strided(struct bench *bench, long n, int is_single)
{
    uint64_t stride = 2 * bench->nbytes, n_blocks = n_strided(bench->nbytes);

    for (long i = 0; i < n; i++) {
        for (uint64_t k = 0; k < n_blocks && is_single != 0; k++) {
            bench_check(nixl_put(bench->peer, bench->region, k * stride, bench->src + k * stride,
                                 bench->nbytes),
                        "nixl_put");
        }
        if (is_single == 0) {
            bench_check(nixl_put_strided(bench->peer, bench->region, 0, stride, bench->src, stride,
                                         bench->nbytes, n_blocks),
                        "nixl_put_strided");
        }
    }
}

void test_put_strided(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 64, 512, 4096, 65536};
    static const struct bench_alignment aligned = {0, 0};
    struct bench_stats stats[2];
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 5, &sizes);

    for (int i = 0; i < n_sizes; i++) {
        uint64_t n_blocks = n_strided(sizes[i]);
        const struct bench_lane lanes[] = {{"nixlrun", put_strided, 0, ACTOR_FIRST, n_blocks},
                                           {"single puts", put_strided, 1, ACTOR_FIRST, n_blocks}};

        stage_data_open(bench, bench->options.is_registered, 2 * n_blocks * sizes[i]);
        stage_case(bench, sizes[i], &aligned);
        sample_lanes(bench, lanes, 2, stats);
        report_lanes(bench, "put_strided", "put of a block with strides", lanes, 2, stats, 0);
        stage_data_close(bench);
    }
}

/* ---- put or get, then who has received reads all of it ---- */

enum copy_way { COPY_PUT, COPY_MEMCPY, COPY_PUT_NB };

static void put_nb_wait(struct bench *bench)
{
    struct nixl_req *req = NULL;
    int status = nixl_put_x(bench->peer, bench->region, bench->alignment.dst, bench->src,
                            bench->nbytes, NULL, &req);

    if (status == NIXL_INPROGRESS) {
        status = nixl_req_wait(&req, BENCH_TIMEOUT_NS);
    }
    bench_check(status, "nixl_put_x");
}

static void wait_flag_of(const struct bench *bench, _Atomic uint64_t *flag)
{
    while (atomic_load_explicit(flag, memory_order_acquire) != bench->flag_seq) {
    }
}

/* One turn: rank 0 copies and says so, rank 1 reads and answers. */
static void copy_read(struct bench *bench, long n, int way)
{
    struct bench_page *page = bench->page;

    for (long i = 0; i < n; i++) {
        bench->flag_seq++;
        if (bench->rank == 0) {
            fresh_write(bench, bench->src, bench->nbytes);
            if (way == COPY_PUT) {
                put_flush(bench, 1, 0);
            } else if (way == COPY_PUT_NB) {
                put_nb_wait(bench);
            } else {
                memcpy(bench->raw_dst, bench->src, bench->nbytes);
            }
            atomic_store_explicit(&page->flag_a, bench->flag_seq, memory_order_release);
            wait_flag_of(bench, &page->flag_b);
        } else {
            wait_flag_of(bench, &page->flag_a);
            fresh_read_all(bench->mine + bench->alignment.dst, bench->nbytes);
            atomic_store_explicit(&page->flag_b, bench->flag_seq, memory_order_release);
        }
    }
}

/* One turn: rank 1 says that its memory may be read, rank 0 gets and reads it. */
static void get_read(struct bench *bench, long n, int way)
{
    struct bench_page *page = bench->page;

    for (long i = 0; i < n; i++) {
        bench->flag_seq++;
        if (bench->rank == 1) {
            fresh_write(bench, bench->mine + bench->alignment.dst, bench->nbytes);
            atomic_store_explicit(&page->flag_b, bench->flag_seq, memory_order_release);
            wait_flag_of(bench, &page->flag_a);
            continue;
        }
        wait_flag_of(bench, &page->flag_b);
        if (way == COPY_MEMCPY) {
            memcpy(bench->src, bench->raw_dst, bench->nbytes);
        } else {
            get(bench, 1, 0);
        }
        fresh_read_all(bench->src, bench->nbytes);
        atomic_store_explicit(&page->flag_a, bench->flag_seq, memory_order_release);
    }
}

static void read_rows(struct bench *bench, const char *test, const char *what,
                      const struct bench_lane *lanes)
{
    static const uint64_t defaults[] = {65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    struct bench_stats stats[2];
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 5, &sizes);

    stage_data_open(bench, false, bench_largest(sizes, n_sizes));
    for (int i = 0; i < n_sizes; i++) {
        for (int j = 0; j < bench->options.n_alignments; j++) {
            stage_case(bench, sizes[i], &bench->options.alignments[j]);
            sample_lanes(bench, lanes, 2, stats);
            report_lanes(bench, test, what, lanes, 2, stats, sizes[i] >= 1 << 20 ? READ_GOAL : 0);
        }
    }
    stage_data_close(bench);
}

void test_copy_read(struct bench *bench)
{
    static const struct bench_lane lanes[] = {
        {"nixlrun", copy_read, COPY_PUT, ACTOR_PAIR, 1},
        {"memcpy and read", copy_read, COPY_MEMCPY, ACTOR_PAIR, 1}};

    read_rows(bench, "copy_read", "put then target reads", lanes);
}

void test_nb_read(struct bench *bench)
{
    static const struct bench_lane lanes[] = {{"nixlrun", copy_read, COPY_PUT_NB, ACTOR_PAIR, 1},
                                              {"put and read", copy_read, COPY_PUT, ACTOR_PAIR, 1}};

    read_rows(bench, "nb_read", "put_nb and wait then target reads", lanes);
}

void test_get_read(struct bench *bench)
{
    static const struct bench_lane lanes[] = {
        {"nixlrun", get_read, COPY_PUT, ACTOR_PAIR, 1},
        {"memcpy and read", get_read, COPY_MEMCPY, ACTOR_PAIR, 1}};

    read_rows(bench, "get_read", "get then caller reads", lanes);
}
