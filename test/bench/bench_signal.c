/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: alone and with data, as ping-pongs beside a bare flag; and a wait that finds its signal
 * there. No locks.
 */
#include "config.h"

#include "bench.h"
#include "test/op_form.h"

#include <string.h>

#define ONE_WAY_GOAL 1.15 /* of the flag ping-pong, 8 bytes */

/* The signal is behind the data, on lines of its own. */
#define SIGNAL_OFFSET(_bench) (((_bench)->nbytes + 4 * BENCH_LINE) / BENCH_LINE * BENCH_LINE)

static uint64_t n_signals; /* received so far, of the current case */

static void await_signal(struct bench *bench)
{
    const void *word = bench->mine + SIGNAL_OFFSET(bench);

    n_signals++; /* in a ping-pong it is exactly this one, or a turn was lost */
    bench_check(nixl_signal_wait(word, NIXL_COMPARE_EQ, n_signals, BENCH_TIMEOUT_NS, NULL),
                "nixl_signal_wait");
}

enum data_way { DATA_ADD, DATA_SET, DATA_NB };

static void put_and_leave(struct bench *bench, uint64_t signal_offset, enum nixl_signal_op op,
                          uint64_t value)
{
    struct nixl_req *req = NULL;
    int status =
        nixl_put_x(bench->peer, bench->region, bench->alignment.dst, bench->src, bench->nbytes,
                   (struct nixl_op[]){op_signal(bench->region, signal_offset, op, value)}, &req);

    bench_check(status == NIXL_INPROGRESS ? nixl_req_detach(&req) : status, "nixl_put_x");
}

static void put_signal(struct bench *bench, long n, int way)
{
    uint64_t signal_offset = SIGNAL_OFFSET(bench);

    for (long i = 0; i < n; i++) {
        enum nixl_signal_op op = way == DATA_ADD ? NIXL_SIGNAL_ADD : NIXL_SIGNAL_SET;
        uint64_t value;

        if (bench->rank == 1) {
            await_signal(bench);
        }
        value = way == DATA_ADD ? 1 : n_signals + (bench->rank == 0);
        if (way == DATA_NB) {
            put_and_leave(bench, signal_offset, op, value);
        } else {
            bench_check(nixl_put_signal(bench->peer, bench->region, bench->alignment.dst,
                                        bench->src, bench->nbytes, bench->region, signal_offset, op,
                                        value),
                        "nixl_put_signal");
        }
        if (bench->rank == 0) {
            await_signal(bench);
        }
    }
}

static void begin_signals(struct bench *bench)
{
    n_signals = 0;
    memset(bench->mine + SIGNAL_OFFSET(bench), 0, sizeof(uint64_t));
    stage_barrier(bench);
}

static void put_signal_row(struct bench *bench, uint64_t nbytes, enum data_way way, double goal)
{
    static const char *const names[] = {"put_signal one way", "put_signal that sets one way",
                                        "put_signal_nb one way"};
    static const struct bench_alignment aligned = {0, 0};
    struct bench_lane lanes[2] = {{"nixlrun", put_signal, (int)way, ACTOR_PAIR, 2}};
    struct bench_stats stats[2];

    stage_data_open(bench, bench->options.is_registered, nbytes);
    stage_case(bench, nbytes, &aligned);
    begin_signals(bench);
    lanes[1] = bare_one_way_lane(bench, false);
    sample_lanes(bench, lanes, 2, stats);
    report_lanes(bench, "put_signal", names[way], lanes, 2, stats,
                 bench->theirs != NULL ? goal : 0);
    stage_data_close(bench);
}

/* Until the own signal is there. */
static void get_signal(struct bench *bench, long n, int arg)
{
    static uint64_t signal;

    (void)arg;
    for (long i = 0; i < n; i++) {
        uint64_t wanted = signal + 1;
        struct nixl_req *req = NULL;
        int status =
            nixl_get_x(bench->peer, bench->region, bench->alignment.dst, bench->src, bench->nbytes,
                       (struct nixl_op[]){op_own_signal(&signal, NIXL_SIGNAL_ADD, 1)}, &req);

        bench_check(status == NIXL_INPROGRESS ? NIXL_OK : status, "nixl_get_x");
        bench_check(nixl_signal_wait(&signal, NIXL_COMPARE_EQ, wanted, BENCH_TIMEOUT_NS, NULL),
                    "nixl_signal_wait");
        bench_check(nixl_req_wait(&req, BENCH_TIMEOUT_NS), "nixl_req_wait");
    }
}

static void get_signal_row(struct bench *bench, uint64_t nbytes)
{
    static const struct bench_alignment aligned = {0, 0};
    const struct bench_lane lane = {"nixlrun", get_signal, 0, ACTOR_FIRST, 1};
    struct bench_stats stats;

    stage_data_open(bench, bench->options.is_registered, nbytes);
    stage_case(bench, nbytes, &aligned);
    sample_lanes(bench, &lane, 1, &stats);
    report_lanes(bench, "put_signal", "get_signal_nb, until its signal", &lane, 1, &stats, 0);
    stage_data_close(bench);
}

void test_put_signal(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 64, 512, 4096, 65536, 1 << 20};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 6, &sizes);

    for (int i = 0; i < n_sizes; i++) {
        put_signal_row(bench, sizes[i], DATA_ADD, sizes[i] == 8 ? ONE_WAY_GOAL : 0);
    }
    put_signal_row(bench, sizes[0], DATA_SET, 0);
    put_signal_row(bench, sizes[0], DATA_NB, 0);
    get_signal_row(bench, sizes[0]);
}

/* ---- without data ---- */

enum signal_way { WAY_SET, WAY_ADD, WAY_NB, WAY_WORDS, N_WAYS };
#define N_WORDS 8 /* that WAY_WORDS looks at */

static uint64_t n_received[N_WAYS]; /* of the current case */

static void await(struct bench *bench, int way)
{
    const void *word = bench->mine + (size_t)way * BENCH_LINE;

    n_received[way]++;
    if (way == WAY_WORDS) {
        bench_check(nixl_word_wait_any(word, 4, N_WORDS, NIXL_TYPE_INT32, NIXL_COMPARE_EQ,
                                       &(int32_t){(int32_t)n_received[way]}, BENCH_TIMEOUT_NS, NULL,
                                       NULL),
                    "nixl_word_wait_any");
        return;
    }
    bench_check(nixl_signal_wait(word, NIXL_COMPARE_EQ, n_received[way], BENCH_TIMEOUT_NS, NULL),
                "nixl_signal_wait");
}

static int signal_and_leave(struct bench *bench, uint64_t offset, uint64_t number)
{
    struct nixl_req *req = NULL;
    int status =
        nixl_signal_x(bench->peer, bench->region, offset, NIXL_SIGNAL_SET, number, NULL, &req);

    return status == NIXL_INPROGRESS ? nixl_req_detach(&req) : status;
}

/* Both have received as many: the next is the number of what is sent. */
static void send_signal(struct bench *bench, int way, uint64_t number)
{
    uint64_t offset = (uint64_t)way * BENCH_LINE;

    bench_check(way == WAY_SET   ? nixl_signal_set(bench->peer, bench->region, offset, number)
                : way == WAY_ADD ? nixl_signal_add(bench->peer, bench->region, offset, 1)
                : way == WAY_NB  ? signal_and_leave(bench, offset, number)
                                 : nixl_atomic(bench->peer, bench->region, offset, NIXL_TYPE_INT32,
                                               NIXL_ATOMIC_SET, &(int32_t){(int32_t)number}, NULL),
                "raising a signal");
}

static void signal_only(struct bench *bench, long n, int way)
{
    for (long i = 0; i < n; i++) {
        if (bench->rank == 1) {
            await(bench, way);
            send_signal(bench, way, n_received[way]);
        } else {
            send_signal(bench, way, n_received[way] + 1);
            await(bench, way);
        }
    }
}

/* Of the own word, which has been 0 since the case began. */
static void wait_for_nothing(struct bench *bench, long n, int arg)
{
    const void *word = bench->mine + (size_t)N_WAYS * BENCH_LINE;

    (void)arg;
    for (long i = 0; i < n; i++) {
        bench_check(nixl_signal_wait(word, NIXL_COMPARE_EQ, 0, BENCH_TIMEOUT_NS, NULL),
                    "nixl_signal_wait");
    }
}

void test_signal(struct bench *bench)
{
    static const char *const names[] = {"signal_set one way", "signal_add one way",
                                        "signal_nb one way",
                                        "atomic one way, wait for 8 words of 32 bits"};
    static const struct bench_alignment aligned = {0, 0};
    const struct bench_lane wait = {"nixlrun", wait_for_nothing, 0, ACTOR_FIRST, 1};
    struct bench_stats stats[2];

    stage_data_open(bench, bench->options.is_registered, 4096);
    stage_case(bench, 8, &aligned);
    memset(n_received, 0, sizeof(n_received));
    memset(bench->mine, 0, (size_t)(N_WAYS + 1) * BENCH_LINE);
    stage_barrier(bench);
    for (int way = 0; way < N_WAYS; way++) {
        const struct bench_lane lanes[] = {{"nixlrun", signal_only, way, ACTOR_PAIR, 2},
                                           bare_one_way_lane(bench, true)};

        sample_lanes(bench, lanes, 2, stats);
        report_lanes(bench, "signal", names[way], lanes, 2, stats, 0);
    }
    sample_lanes(bench, &wait, 1, stats);
    report_lanes(bench, "signal", "signal_wait that is true", &wait, 1, stats, 0);
    stage_data_close(bench);
}
