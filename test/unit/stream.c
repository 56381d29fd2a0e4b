/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of ranks: what becomes of them when a process goes on writing, or the sink is slow. */
#include "config.h"

#include "launcher/local.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(stream, .timeout = 30);

static const struct launch_job job = {.tag_output = true};
static struct space space;
static struct rank ranks[1];
static struct stream *const stream = &ranks[0].streams[0];

/* Our stdout becomes this file; the rank gets a pipe. Returns what it writes to. */
static int begin(int out)
{
    int writer;

    cr_assert_eq(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
    cr_assert_eq(loop_open(), 0);
    cr_assert_eq(sink_open_standard(), 0);
    session.job = &job;
    ranks[0].space = &space;
    writer = stream_open(stream, &ranks[0], 0);
    cr_assert_geq(writer, 0);
    return writer;
}

/* ---- a process that goes on writing ---------------------------------------------------------- */

/* There is always more to read from it. */
static void begin_endless(void)
{
    begin(open("/dev/null", O_WRONLY | O_CLOEXEC));
    cr_assert_geq(dup2(open("/dev/zero", O_RDONLY | O_CLOEXEC), stream->watch.fd), 0);
}

Test(stream, what_is_written_meanwhile_is_not_waited_for)
{
    begin_endless();
    stream_drain(stream);
    cr_expect(stream_is_open(stream));
}

Test(stream, what_is_written_meanwhile_does_not_keep_it_open)
{
    begin_endless();
    stream_finish(stream);
    cr_expect(not(stream_is_open(stream)));
}

/* ---- a terminal ------------------------------------------------------------------------------ */

static int reader; /* of what our terminal gets: a pipe that is taken for one */

static int begin_terminal(void)
{
    int out[2], writer;

    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    reader = out[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
    writer = begin(out[1]);
    sink_standard(0)->is_tty = true;
    return writer;
}

static void rank_asks(int writer)
{
    cr_assert_eq(write(writer, "answer? ", 8), 8);
    while (stream->used == 0) {
        loop_step();
    }
}

static void moment_passes(void)
{
    while (stream->idle.is_set) {
        loop_step();
    }
}

/* Within 10 s. */
static bool terminal_shows_question(void)
{
    static char text[64 * 1024];
    int64_t end_ns = nxr_now_ns() + 10 * NXR_S;
    struct loop_timer tick = {.fire = loop_timer_clear};
    bool is_shown = false;

    while (!is_shown && nxr_now_ns() < end_ns) {
        ssize_t n = read(reader, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = '\0';
        is_shown = strstr(text, "answer? ") != NULL;
        loop_timer_set(&tick, nxr_now_ns() + NXR_MS);
        loop_step();
    }
    loop_timer_clear(&tick);
    return is_shown;
}

Test(stream, a_question_is_shown_when_a_slow_terminal_has_room)
{
    enum { MORE_THAN_FITS = 3 * 1024 * 1024 };
    int writer = begin_terminal();
    char *text = malloc(MORE_THAN_FITS);

    cr_assert_not_null(text);
    memset(text, '\n', MORE_THAN_FITS);
    sink_add(stream->sink, text, text, MORE_THAN_FITS);
    free(text);
    rank_asks(writer);
    cr_assert(stream->is_stopped);
    moment_passes();
    cr_expect(terminal_shows_question());
}

Test(stream, a_question_is_shown_when_a_long_line_has_ended)
{
    int writer = begin_terminal();
    const int other = 0;

    rank_asks(writer);
    sink_hold(stream->sink, &other);
    loop_step(); /* the moment is over */
    loop_step();
    sink_release(stream->sink, &other);
    cr_expect(terminal_shows_question());
}
