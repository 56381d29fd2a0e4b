/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: put_notify and notify as a ping-pong, a barrier made of them, and their rate. */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define TAG_DATA 1
#define TAG_END  2

#define ONE_WAY_GOAL  1.5  /* of the flag ping-pong, 8 bytes */
#define MEBIBYTE_GOAL 1.05 /* of memcpy and a flag, 1 MiB */
#define CROWD_GOAL    0.5  /* of one sender's rate, with all of them */
#define STREAM_GOAL   2e6  /* per second between hosts, one sender: 0.5 us each */
#define CHECK_STOP    64   /* messages between two looks at the stop word */

/* ---- ping-pong ---- */

static void receive(int rank, uint64_t tag, struct nixl_note *note)
{
    bench_check(nixl_notify_recv(rank, tag, UINT64_MAX, BENCH_TIMEOUT_NS, note),
                "nixl_notify_recv");
}

static void put_notify(struct bench *bench, long n, int arg)
{
    struct nixl_note note;

    (void)arg;
    nixl_note_init(&note);
    for (long i = 0; i < n; i++) {
        if (bench->rank == 1) {
            receive(bench->peer, TAG_DATA, &note);
            fresh_read(bench, bench->mine + bench->alignment.dst, bench->nbytes);
        }
        fresh_write(bench, bench->src, bench->nbytes);
        bench_check(nixl_put_notify(bench->peer, bench->region, bench->alignment.dst, bench->src,
                                    bench->nbytes, TAG_DATA, NULL, 0, BENCH_TIMEOUT_NS),
                    "nixl_put_notify");
        if (bench->rank == 0) {
            receive(bench->peer, TAG_DATA, &note);
            fresh_read(bench, bench->mine + bench->alignment.dst, bench->nbytes);
        }
    }
}

/* The bytes are the notification's own payload. */
static void notify(struct bench *bench, long n, int arg)
{
    struct nixl_note note;

    (void)arg;
    nixl_note_init(&note);
    for (long i = 0; i < n; i++) {
        if (bench->rank == 1) {
            receive(bench->peer, TAG_DATA, &note);
        }
        bench_check(nixl_notify(bench->peer, TAG_DATA, bench->src, bench->nbytes, BENCH_TIMEOUT_NS),
                    "nixl_notify");
        if (bench->rank == 0) {
            receive(bench->peer, TAG_DATA, &note);
        }
    }
}

void test_put_notify(struct bench *bench)
{
    static const uint64_t defaults[] = {8, 64, 512, 4096, 65536, 1 << 20, 16 << 20, 64 << 20};
    char label[96] = "put_notify one way";
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 8, &sizes);

    stage_data_open(bench, bench->options.is_registered, bench_largest(sizes, n_sizes));
    if (device_is_used(bench)) {
        snprintf(label, sizeof(label), "put_notify by %s", bench->method);
    }
    for (int i = 0; i < n_sizes; i++) {
        for (int j = 0; j < bench->options.n_alignments; j++) {
            struct bench_lane lanes[2] = {{"nixlrun", put_notify, 0, ACTOR_PAIR, 2}};
            struct bench_stats stats[2];
            double goal = 0;
            int n_lanes = 1;

            stage_case(bench, sizes[i], &bench->options.alignments[j]);
            if (!device_is_used(bench)) {
                lanes[n_lanes++] = bare_one_way_lane(bench, false);
            } else if (bench->wire != NULL) {
                lanes[n_lanes++] = device_beside_lane(bench, &lanes[0]);
                goal = device_goal(bench);
            }
            if (bench->theirs != NULL) {
                goal = sizes[i] == 8 ? ONE_WAY_GOAL : sizes[i] == 1 << 20 ? MEBIBYTE_GOAL : 0;
            }
            sample_lanes(bench, lanes, n_lanes, stats);
            report_lanes(bench, "put_notify", label, lanes, n_lanes, stats, goal);
        }
    }
    stage_data_close(bench);
}

void test_notify(struct bench *bench)
{
    static const uint64_t defaults[] = {0, 8, 64, 512, 4096};
    static const struct bench_alignment aligned = {0, 0};
    struct bench_lane lanes[2] = {{"nixlrun", notify, 0, ACTOR_PAIR, 2}};
    const uint64_t *sizes;
    int n_sizes = bench_sizes(bench, defaults, 5, &sizes);
    struct bench_stats stats[2];

    stage_data_open(bench, false, NIXL_NOTE_MAX);
    for (int i = 0; i < n_sizes; i++) {
        if (sizes[i] > NIXL_NOTE_MAX) {
            continue;
        }
        stage_case(bench, sizes[i], &aligned);
        lanes[1] = bare_one_way_lane(bench, sizes[i] == 0 || bench->wire == NULL);
        sample_lanes(bench, lanes, 2, stats);
        report_lanes(bench, "notify", "notify one way", lanes, 2, stats,
                     sizes[i] == 8 && bench->wire == NULL ? ONE_WAY_GOAL : 0);
    }
    stage_data_close(bench);
}

/* ---- barrier ---- */

/* Dissemination: in round k tell the rank 2^k ahead, hear from the one 2^k behind. */
static void barrier(struct bench *bench, long n, int arg)
{
    struct nixl_note note;

    (void)arg;
    nixl_note_init(&note);
    for (long i = 0; i < n; i++) {
        for (int distance = 1; distance < bench->size; distance *= 2) {
            int to = (bench->rank + distance) % bench->size;
            int from = (bench->rank - distance + bench->size) % bench->size;

            bench_check(nixl_notify(to, (uint64_t)distance, NULL, 0, BENCH_TIMEOUT_NS),
                        "nixl_notify");
            receive(from, (uint64_t)distance, &note);
        }
    }
}

void test_notify_barrier(struct bench *bench)
{
    struct bench_lane lanes[2] = {{"nixlrun", barrier, 0, ACTOR_ALL, 1}};
    static const struct bench_alignment aligned = {0, 0};
    struct bench_stats stats[2];
    int n_lanes = bench->size == 2 ? 2 : 1; /* one way between two is no limit for more */

    stage_case(bench, 0, &aligned);
    lanes[1] = bare_one_way_lane(bench, true);
    sample_lanes(bench, lanes, n_lanes, stats);
    report_lanes(bench, "notify_barrier", "barrier by notify", lanes, n_lanes, stats, 0);
}

/* ---- rate ---- */

struct counts {
    uint64_t received[BENCH_MAX_RANKS]; /* per sender, in order, up to the stop */
    uint64_t total[BENCH_MAX_RANKS];    /* until each sender's end */
    uint64_t seen[BENCH_MAX_RANKS];     /* total, at the last look for silence */
    int64_t heard_at[BENCH_MAX_RANKS];  /* the last look that found something new */
    int64_t longest_silence_ns;         /* of any sender */
};

/* Send numbered messages until told to stop, then say how many there were. */
static void send_stream(struct bench *bench, uint64_t phase)
{
    uint64_t n_sent = 0;

    while (n_sent % CHECK_STOP != 0 || !stage_is_told(bench, phase)) {
        bench_check(nixl_notify(0, TAG_DATA, &n_sent, sizeof(n_sent), BENCH_TIMEOUT_NS),
                    "nixl_notify");
        n_sent++;
    }
    bench_check(nixl_notify(0, TAG_END, &n_sent, sizeof(n_sent), BENCH_TIMEOUT_NS), "nixl_notify");
}

/* Take one message and check that it is the next of its sender. Returns true at a sender's end. */
static bool take(struct counts *counts, struct nixl_note *note)
{
    uint64_t number;

    bench_check(nixl_notify_recv(NIXL_ANY_RANK, 0, 0, BENCH_TIMEOUT_NS, note), "nixl_notify_recv");
    number = *(const uint64_t *)(const void *)note->payload;
    if (note->nbytes != sizeof(number) || number != counts->total[note->rank]) {
        bench_die("nixl_bench: message %llu of rank %d arrived, expected %llu",
                  (unsigned long long)number, note->rank,
                  (unsigned long long)counts->total[note->rank]);
    }
    if (note->tag == TAG_END) {
        return true;
    }
    counts->total[note->rank]++;
    return false;
}

/* Receive until every sender was heard: all are connected and under way. */
static void warm_up(struct counts *counts, int n_senders, struct nixl_note *note)
{
    int n_heard = 0;

    while (n_heard < n_senders) {
        take(counts, note);
        n_heard += counts->total[note->rank] == 1;
    }
}

/* Note which ranks were heard since the last check, and for how long the others were silent. */
static void look_for_silence(struct counts *counts, int n_senders, int64_t now)
{
    for (int rank = 1; rank <= n_senders; rank++) {
        if (counts->total[rank] != counts->seen[rank]) {
            counts->seen[rank] = counts->total[rank];
            counts->heard_at[rank] = now;
        } else if (now - counts->heard_at[rank] > counts->longest_silence_ns) {
            counts->longest_silence_ns = now - counts->heard_at[rank];
        }
    }
}

/* Receive for the budget, then stop the senders and take the rest. Returns messages per second. */
static double receive_stream(struct bench *bench, int n_senders, uint64_t phase,
                             struct counts *counts)
{
    struct nixl_note note;
    uint64_t n_received = 0;
    int64_t start, now;
    int n_ended = 0;

    nixl_note_init(&note);
    warm_up(counts, n_senders, &note);
    start = nxr_now_ns();
    for (int rank = 1; rank <= n_senders; rank++) {
        counts->received[rank] = counts->total[rank];
        counts->heard_at[rank] = start;
    }
    do {
        for (int i = 0; i < CHECK_STOP; i++) {
            take(counts, &note);
        }
        n_received += CHECK_STOP;
        now = nxr_now_ns();
        look_for_silence(counts, n_senders, now);
    } while (now - start < bench->options.budget_ns);
    stage_tell(bench, n_senders, phase);
    for (int rank = 1; rank <= n_senders; rank++) {
        counts->received[rank] = counts->total[rank] - counts->received[rank];
    }
    while (n_ended < n_senders) {
        n_ended += take(counts, &note);
    }
    return (double)n_received * 1e9 / (double)(now - start);
}

/* Messages per second of the ranks 1 .. n_senders, on rank 0; how fair it was into `fairness`. */
static double run_rate(struct bench *bench, int n_senders, uint64_t phase, char *fairness,
                       size_t fairness_nbytes)
{
    struct counts *counts = calloc(1, sizeof(*counts));
    double rate = 0, poorest = 1;

    if (counts == NULL) {
        bench_die("no memory for counters");
    }
    stage_barrier(bench);
    if (bench->rank == 0) {
        rate = receive_stream(bench, n_senders, phase, counts);
        for (int rank = 1; rank <= n_senders; rank++) {
            double share = (double)counts->received[rank] * n_senders * 1e9 /
                           (rate * (double)bench->options.budget_ns);

            poorest = share < poorest ? share : poorest;
        }
        snprintf(
            fairness, fairness_nbytes,
            "none lost; the slowest sender has %.2f of an equal share; longest silence %.1f ms",
            poorest, (double)counts->longest_silence_ns / 1e6);
    } else if (bench->rank <= n_senders) {
        send_stream(bench, phase);
    }
    stage_barrier(bench);
    free(counts);
    return rate;
}

void test_rate(struct bench *bench)
{
    char note[128] = "", what[48] = "notify from 1 sender";
    struct bench_row row = {.test = "rate",
                            .what = what,
                            .unit = "1/s",
                            .flag_ns = sample_flag_ns(bench),
                            .nbytes = 8,
                            .has_nbytes = true};

    row.value = run_rate(bench, 1, 1, note, sizeof(note));
    row.goal = bench->wire != NULL ? STREAM_GOAL : 0;
    row.is_goal_floor = true;
    report_row(bench, &row);
    if (bench->size > 2) {
        row.limit_name = "1 sender";
        row.limit = row.value;
        row.goal = CROWD_GOAL;
        row.note = note;
        snprintf(what, sizeof(what), "notify from %d senders", bench->size - 1);
        row.value = run_rate(bench, bench->size - 1, 2, note, sizeof(note));
        report_row(bench, &row);
    }
}
