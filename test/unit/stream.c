/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of ranks: what becomes of them when a process goes on writing, or the sink is slow. */
#include "config.h"

#include "launcher/local.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <fcntl.h>
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
