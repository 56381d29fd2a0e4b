/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a bare TCP connection between ranks 0 and 1 can do: between hosts the limit that the library
 * is held against. Data lands where a put would, and all waiting spins, but where it says asleep.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#define WAKE_TURNS 200
#define DROWSY_NS  100000 /* time for the other end to fall asleep */

static void send_data(struct bench *bench)
{
    wire_send(bench, bench_other(bench), bench->src, bench->nbytes);
}

/* To where a put would land. */
static void receive_data(struct bench *bench)
{
    wire_receive(bench, bench_other(bench), bench->mine + bench->alignment.dst, bench->nbytes,
                 false);
}

static void one_way(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        if (bench->rank == 1) {
            receive_data(bench);
            fresh_read(bench, bench->mine + bench->alignment.dst, bench->nbytes);
        }
        fresh_write(bench, bench->src, bench->nbytes);
        send_data(bench);
        if (bench->rank == 0) {
            receive_data(bench);
            fresh_read(bench, bench->mine + bench->alignment.dst, bench->nbytes);
        }
    }
}

/* A window of puts, and the answer that all have landed. */
static void put_answered(struct bench *bench, long n, int window)
{
    unsigned char answer = 0;

    for (long i = 0; i < n; i++) {
        for (long j = 0; j < window; j++) {
            if (bench->rank == 0) {
                send_data(bench);
            } else {
                receive_data(bench);
            }
        }
        if (bench->rank == 0) {
            wire_receive(bench, 1, &answer, sizeof(answer), false);
        } else {
            wire_send(bench, 0, &answer, sizeof(answer));
        }
    }
}

/* Only until the memory may be used again, as the library's put. */
static void put_sent(struct bench *bench, long n, int arg)
{
    (void)arg;
    for (long i = 0; i < n; i++) {
        if (bench->rank == 0) {
            send_data(bench);
        } else {
            receive_data(bench);
        }
    }
}

/* A request of 8 bytes, and a window of data. */
static void get_asked(struct bench *bench, long n, int window)
{
    unsigned char *theirs = bench->mine + bench->alignment.dst;
    uint64_t request = 0;

    for (long i = 0; i < n; i++) {
        if (bench->rank == 0) {
            wire_send(bench, 1, &request, sizeof(request));
        } else {
            wire_receive(bench, 0, &request, sizeof(request), false);
        }
        for (long j = 0; j < window; j++) {
            if (bench->rank == 0) {
                wire_receive(bench, 1, bench->src, bench->nbytes, false);
            } else {
                wire_send(bench, 0, theirs, bench->nbytes);
            }
        }
    }
}

void bare_tcp_round_trip(struct bench *bench, long n, int is_asleep)
{
    uint64_t word = 0;

    for (long i = 0; i < n; i++) {
        if (bench->rank == 0) {
            wire_send(bench, 1, &word, sizeof(word));
            wire_receive(bench, 1, &word, sizeof(word), false);
        } else {
            wire_receive(bench, 0, &word, sizeof(word), is_asleep);
            wire_send(bench, 0, &word, sizeof(word));
        }
    }
}

double bare_tcp_wake_ns(struct bench *bench)
{
    static double samples[2][WAKE_TURNS];
    struct bench_stats stats[2];

    stage_barrier(bench);
    for (int i = 0; i < 2 * WAKE_TURNS; i++) {
        int64_t start = nxr_now_ns();

        while (bench->rank == 0 && nxr_now_ns() - start < DROWSY_NS) {
        }
        start = nxr_now_ns();
        bare_tcp_round_trip(bench, 1, i % 2);
        samples[i % 2][i / 2] = (double)(nxr_now_ns() - start);
    }
    stage_barrier(bench);
    for (int i = 0; i < 2; i++) {
        sample_stats(samples[i], WAKE_TURNS, &stats[i]);
    }
    return stats[1].median_ns - stats[0].median_ns;
}

struct bench_lane bare_tcp_lane(const struct bench *bench, enum tcp_work work)
{
    int window = (int)bench->options.window;

    switch (work) {
    case TCP_PUT_SENT:
        return (struct bench_lane){"raw TCP sent", put_sent, 0, ACTOR_PAIR, 1};
    case TCP_PUT:
        return (struct bench_lane){"raw TCP", put_answered, 1, ACTOR_PAIR, 1};
    case TCP_PUT_WINDOW:
        return (struct bench_lane){"raw TCP", put_answered, window, ACTOR_PAIR, window};
    case TCP_GET:
        return (struct bench_lane){"raw TCP", get_asked, 1, ACTOR_PAIR, 1};
    case TCP_GET_WINDOW:
        return (struct bench_lane){"raw TCP", get_asked, window, ACTOR_PAIR, window};
    case TCP_ONE_WAY:
        return (struct bench_lane){"raw TCP", one_way, 0, ACTOR_PAIR, 2};
    case TCP_WORD_ONE_WAY:
        return (struct bench_lane){"raw TCP", bare_tcp_round_trip, 0, ACTOR_PAIR, 2};
    case TCP_ROUND_TRIP:
        return (struct bench_lane){"raw TCP", bare_tcp_round_trip, 0, ACTOR_PAIR, 1};
    }
    bench_die("nixl_bench: a bare connection cannot do this work");
}
