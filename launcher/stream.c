/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a pipe from each rank's stdout and stderr, or a pseudo-terminal from its stdout. Only
 * whole lines enter a sink, so lines of ranks never mix; a line longer than STREAM_LINE_NBYTES is
 * passed on in pieces, and the others wait until it ends. When the sink is full the pipe is not
 * read: the rank blocks in write(), nothing else does. Without tags and timestamps a file of
 * --output-dir is handed to the rank itself.
 */
#include "config.h"

#include "launcher/stream.h"
#include "launcher/guardian.h"
#include "launcher/line.h"
#include "launcher/pty.h"
#include "launcher/server.h"
#include "launcher/sink.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM_READ_NBYTES (64 * 1024)
#define STREAM_LINE_NBYTES (1024 * 1024)
#define STREAM_IDLE_NS     (50 * NXR_MS)
#define STREAM_MOST_NBYTES (1024 * 1024) /* that a pipe holds; what is more is written meanwhile */

static void add_prefix(struct stream *stream)
{
    char prefix[LINE_PREFIX_NBYTES];
    const struct rank *rank = stream->rank;

    sink_add(stream->sink, stream, prefix,
             line_prefix(session.job, rank->space->number, rank->rank, prefix));
}

/* Give the first `nbytes` of the buffer to the sink. */
static void emit(struct stream *stream, size_t nbytes)
{
    const char *at = stream->line, *end = stream->line + nbytes;

    while (line_is_decorated(session.job) && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline != NULL ? newline + 1 : end;

        if (!stream->sink->is_midline || stream->sink->midline_owner != stream) {
            add_prefix(stream);
        }
        sink_add(stream->sink, stream, at, (size_t)(next - at));
        at = next;
    }
    sink_add(stream->sink, stream, at, (size_t)(end - at));
    stream->used -= nbytes;
    memmove(stream->line, stream->line + nbytes, stream->used);
}

static void stream_close(struct stream *stream)
{
    if (stream->watch.fd < 0) {
        return;
    }
    loop_timer_clear(&stream->idle);
    loop_watch(&stream->watch, 0);
    sink_forget(stream->sink, &stream->waiter);
    sink_release(stream->sink, stream);
    close(stream->watch.fd);
    stream->watch.fd = -1;
    free(stream->line);
    stream->line = NULL;
    stream->used = stream->room = 0;
}

/* Read once and pass on what is complete. Returns what read() returned. */
static ssize_t stream_read(struct stream *stream)
{
    const char *newline;
    ssize_t n;

    if (stream->room < stream->used + STREAM_READ_NBYTES) {
        char *grown = realloc(stream->line, stream->used + STREAM_READ_NBYTES);

        if (grown == NULL) {
            errno = ENOMEM;
            return -1;
        }
        stream->line = grown;
        stream->room = stream->used + STREAM_READ_NBYTES;
    }
    n = read(stream->watch.fd, stream->line + stream->used, STREAM_READ_NBYTES);
    if (n <= 0) {
        return n;
    }
    iof_deliver(stream->rank, stream->which, stream->line + stream->used, (size_t)n);
    newline = memrchr(stream->line + stream->used, '\n', (size_t)n);
    stream->used += (size_t)n;
    if (newline != NULL) {
        emit(stream, (size_t)(newline + 1 - stream->line));
        sink_release(stream->sink, stream);
    } else if (stream->used >= STREAM_LINE_NBYTES || stream->sink->holder == stream) {
        emit(stream, stream->used);
        sink_hold(stream->sink, stream);
    }
    return n;
}

/* Show an unfinished line on our terminal soon, even one that keeps growing. */
static void stream_await_end(struct stream *stream)
{
    if (stream->sink->is_tty && stream->used > 0 && !stream->idle.is_set) {
        loop_timer_set(&stream->idle, nxr_now_ns() + STREAM_IDLE_NS);
    }
}

/* The sink has room again. */
static void stream_resume(struct sink_waiter *waiter)
{
    struct stream *stream = LOOP_OWNER(waiter, struct stream, waiter);

    stream->is_stopped = false;
    loop_watch(&stream->watch, EPOLLIN);
    stream_await_end(stream);
}

static void stream_stop(struct stream *stream)
{
    loop_watch(&stream->watch, 0);
    stream->is_stopped = true;
    sink_wait(stream->sink, &stream->waiter);
}

/*
 * The reader is gone. A pipe would send its writers SIGPIPE, while a terminal returns an error that
 * they complain about. So send the rank the signal, and close the terminal a moment later.
 */
static bool say_goodbye(struct stream *stream)
{
    if (!stream->is_pty || stream->is_ending) {
        return false;
    }
    stream->is_ending = true;
    guardian_signal(stream->rank->id, SIGPIPE);
    loop_watch(&stream->watch, 0);
    loop_timer_set(&stream->idle, nxr_now_ns() + STREAM_IDLE_NS);
    return true;
}

/*
 * Read once, and close or stop the stream if need be. Returns the bytes; 0: there is no more now.
 */
static size_t stream_serve(struct stream *stream)
{
    struct sink *sink = stream->sink;
    ssize_t n;

    if (sink->is_broken && say_goodbye(stream)) {
        return 0;
    }
    if (!sink_takes(sink, stream)) {
        stream_stop(stream);
        return 0;
    }
    n = sink->is_broken ? 0 : stream_read(stream);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        if (stream->used > 0) {
            emit(stream, stream->used);
        }
        stream_close(stream);
        sink_flush(sink);
        return 0;
    }
    stream_await_end(stream);
    sink_flush(sink);
    if (sink_is_full(sink)) {
        stream_stop(stream);
    }
    return n > 0 && !stream->is_stopped ? (size_t)n : 0;
}

static void stream_ready(struct loop_fd *watch, uint32_t events)
{
    (void)events;
    stream_serve(LOOP_OWNER(watch, struct stream, watch));
}

void stream_drain(struct stream *stream)
{
    size_t left = STREAM_MOST_NBYTES, n = 1;

    while (stream->watch.fd >= 0 && !stream->is_stopped && n > 0 && left > 0) {
        n = stream_serve(stream);
        left -= n < left ? n : left;
    }
}

static void stream_idle(struct loop_timer *timer)
{
    struct stream *stream = LOOP_OWNER(timer, struct stream, idle);

    if (stream->is_ending) {
        stream_close(stream);
    } else if (stream->is_stopped || stream->used == 0) {
        return;
    } else if (sink_takes(stream->sink, stream)) {
        emit(stream, stream->used);
        sink_flush(stream->sink);
    } else {
        stream_await_end(stream);
    }
}

void stream_finish(struct stream *stream)
{
    stream_drain(stream);
    if (stream->watch.fd >= 0 && !stream->is_stopped && sink_takes(stream->sink, stream)) {
        emit(stream, stream->used);
        stream_close(stream);
    }
}

bool stream_is_open(const struct stream *stream)
{
    return stream->watch.fd >= 0;
}

void stream_resize(const struct stream *stream, const struct winsize *size)
{
    if (stream->is_pty && stream->watch.fd >= 0) {
        ioctl(stream->watch.fd, TIOCSWINSZ, size);
    }
}

/* A pseudo-terminal if one is wanted and available, else a pipe. Returns 0 or -errno. */
static int open_ends(struct stream *stream, int fds[2])
{
    static bool is_told;

    if (stream->which == 0 && line_has_pty(session.job)) {
        struct winsize size = pty_own_size();
        int rc = pty_open(&size, fds);

        stream->is_pty = rc == 0;
        if (rc == 0) {
            return 0;
        }
        if (!is_told) {
            is_told = true;
            sink_say("cannot create a pseudo-terminal for %s: %s; using a pipe",
                     rank_name(stream->rank), strerror(-rc));
        }
    }
    return pipe2(fds, O_CLOEXEC) == 0 ? 0 : -errno;
}

int stream_open(struct stream *stream, struct rank *rank, int which)
{
    struct sink *former = rank->n_restarts > 0 ? stream->sink : NULL;
    int fds[2], rc;

    *stream = (struct stream){.watch = {.fd = -1, .ready = stream_ready},
                              .rank = rank,
                              .which = which,
                              .waiter = {.resume = stream_resume, .owner = stream},
                              .idle = {.fire = stream_idle}};
    if (session.job->output_dir == NULL) {
        stream->sink = sink_standard(which);
    } else if (former != NULL) {
        stream->sink = former;
    } else {
        int file = line_open_file(session.job, rank->space->number, rank->rank, which,
                                  rank->n_restarts > 0);

        if (file < 0 || !(line_is_decorated(session.job) || session.job->pty == PTY_YES)) {
            return file;
        }
        stream->sink = sink_open(file);
    }
    rc = stream->sink == NULL ? -ENOMEM : open_ends(stream, fds);
    if (rc != 0) {
        sink_say("cannot create a pipe for %s: %s", rank_name(rank), strerror(-rc));
        return -1;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    stream->watch.fd = fds[0];
    loop_watch(&stream->watch, EPOLLIN);
    return fds[1];
}
