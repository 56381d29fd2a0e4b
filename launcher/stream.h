/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: what a rank writes, one per rank and descriptor, cut into lines for a sink. */
#ifndef NIXLRUN_LAUNCHER_STREAM_H
#define NIXLRUN_LAUNCHER_STREAM_H

#include "launcher/loop.h"
#include "launcher/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct rank;

struct stream {
    struct loop_fd watch; /* fd -1: closed, or the rank writes into a file itself */
    struct rank *rank;
    int which; /* 0 stdout, 1 stderr */
    struct sink *sink;
    char *line; /* text after the last newline */
    size_t used, room;
    bool is_pty;     /* a terminal for the rank, not a pipe */
    bool is_stopped; /* waits for the sink */
    bool is_ending;  /* a terminal whose reader is gone: closes soon */
    struct sink_waiter waiter;
    struct loop_timer
        idle; /* our terminal sees an unfinished line after a moment; or `is_ending` */
};

/*
 * Prepare one stream of a rank. Returns the descriptor that the rank gets (the caller closes it),
 * or -1 after a line on stderr.
 */
int stream_open(struct stream *stream, struct rank *rank, int which);

/* Our terminal has a new size: pass it on to the rank's terminal, if it has one. */
void stream_resize(const struct stream *stream, const struct winsize *size);

/*
 * Read what was written, as far as the sink has room. A process that the rank has left may go on
 * writing: bytes that arrive meanwhile may stay unread.
 */
void stream_drain(struct stream *stream);

/* Stop waiting: read what is there and close, unless the sink has no room for it. */
void stream_finish(struct stream *stream);

bool stream_is_open(const struct stream *stream);

#endif
