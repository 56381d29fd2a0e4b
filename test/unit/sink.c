/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks and the waiters for their room: whichever flush makes room must resume them. */
#include "config.h"

#include "launcher/sink.h"

#include "test/unit/unit.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { MORE_THAN_FITS = 3 * 1024 * 1024 };

TestSuite(sink, .timeout = 60);

/* A full sink in front of a pipe, and the waiter for room in it. */
struct bench {
    struct sink *sink;
    struct sink_waiter waiter;
    bool is_stopped;
    int reader;
};

static struct bench make_bench(void)
{
    struct bench bench = {0};
    int out[2];
    char *text = calloc(1, MORE_THAN_FITS);

    cr_assert(eq(int, loop_open(), 0));
    cr_assert(eq(int, pipe2(out, O_CLOEXEC), 0));
    bench.sink = sink_open(out[1]);
    bench.reader = out[0];
    sink_add(bench.sink, &bench, text, MORE_THAN_FITS);
    free(text);
    cr_expect(not(sink_flush(bench.sink)));
    cr_expect(sink_is_full(bench.sink));
    return bench;
}

static void resume(struct sink_waiter *waiter)
{
    struct bench *bench = LOOP_OWNER(waiter, struct bench, waiter);

    bench->is_stopped = false;
}

static void wait_for_room(struct bench *bench)
{
    bench->is_stopped = true;
    bench->waiter = (struct sink_waiter){.resume = resume, .owner = bench};
    sink_wait(bench->sink, &bench->waiter);
}

/* Read all that the pipe has; nothing is flushed meanwhile. */
static void drain(const struct bench *bench)
{
    static char buffer[64 * 1024];

    fcntl(bench->reader, F_SETFL, O_NONBLOCK);
    while (read(bench->reader, buffer, sizeof(buffer)) > 0) {
    }
}

/* Flush by `flush` until nothing is left, and see that the waiter goes on. */
static void empties(bool (*flush)(struct sink *sink))
{
    struct bench bench = make_bench();

    wait_for_room(&bench);
    while (!flush(bench.sink)) {
        drain(&bench);
    }
    cr_expect(not(bench.is_stopped), "it waits for a sink that is empty");
}

static bool flush_all(struct sink *sink)
{
    (void)sink;
    return sink_flush_all();
}

Test(sink, a_flush_of_this_sink_resumes_its_waiter)
{
    empties(sink_flush);
}

Test(sink, a_flush_of_all_sinks_resumes_the_waiter)
{
    empties(flush_all);
}

Test(sink, a_forgotten_waiter_is_not_resumed)
{
    struct bench bench = make_bench();

    wait_for_room(&bench);
    sink_forget(bench.sink, &bench.waiter);
    while (!sink_flush(bench.sink)) {
        drain(&bench);
    }
    cr_expect(bench.is_stopped);
}

Test(sink, a_broken_sink_resumes_its_waiter)
{
    struct bench bench = make_bench();

    wait_for_room(&bench);
    signal(SIGPIPE, SIG_IGN);
    close(bench.reader);
    cr_expect(sink_flush(bench.sink));
    cr_expect(bench.sink->is_broken);
    cr_expect(not(bench.is_stopped));
}

Test(sink, a_sink_that_is_still_full_resumes_none)
{
    struct bench bench = make_bench();

    wait_for_room(&bench);
    cr_expect(not(sink_flush(bench.sink)));
    cr_expect(bench.is_stopped);
}

/* Long lines. */
Test(sink, who_holds_the_sink_keeps_others_out)
{
    struct bench bench = make_bench();
    const int owner = 0;

    sink_hold(bench.sink, &owner);
    cr_expect(sink_takes(bench.sink, &owner));
    cr_expect(not(sink_takes(bench.sink, &bench)));
    wait_for_room(&bench);
    while (!sink_flush(bench.sink)) {
        drain(&bench);
    }
    cr_expect(bench.is_stopped, "there is room, but not for this one");
    sink_release(bench.sink, &bench);
    cr_expect(bench.is_stopped, "it was released by a caller that did not hold it");
    sink_release(bench.sink, &owner);
    cr_expect(not(bench.is_stopped));
}

Test(sink, who_is_silent_loses_the_sink)
{
    struct bench bench = make_bench();
    const int owner = 0;

    sink_hold(bench.sink, &owner);
    wait_for_room(&bench);
    while (!sink_flush(bench.sink)) {
        drain(&bench);
    }
    loop_step(); /* the timer, or the case has a limit */
    cr_expect(not(bench.is_stopped));
    cr_expect(sink_takes(bench.sink, &bench));
}

/* A reader that is always behind: the sink is never empty, and takes as much as is read. */
Test(sink, a_slow_reader_does_not_make_it_grow)
{
    enum { PIECE_NBYTES = 64 * 1024, PIECES = 1000 };
    static char text[PIECE_NBYTES];
    struct bench bench = make_bench();
    size_t n_written = 0, room = bench.sink->room;

    for (int i = 0; i < PIECES; i++) {
        drain(&bench);
        cr_assert(not(sink_flush(bench.sink)));
        while (!sink_is_full(bench.sink)) {
            sink_add(bench.sink, &bench, text, sizeof(text));
            n_written++;
        }
    }
    cr_expect(gt(sz, n_written, PIECES / 2));
    cr_expect(eq(sz, bench.sink->room, room));
}
