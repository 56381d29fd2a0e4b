/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks: the destinations of lines, our stdout, our stderr and the files of --output-dir. */
#ifndef NIXLRUN_LAUNCHER_SINK_H
#define NIXLRUN_LAUNCHER_SINK_H

#include "launcher/loop.h"

#include <stdbool.h>
#include <stddef.h>

/* Waits until a sink has room and accepts its text: then the loop calls resume(), once. */
struct sink_waiter {
    void (*resume)(struct sink_waiter *waiter);
    const void *owner; /* of its text */
    struct sink_waiter *next;
};

/*
 * A bounded buffer before a descriptor. Whole lines go in, and are written as fast as the reader
 * takes them. A full sink accepts nothing more, and resumes the waiters when there is room again.
 */
struct sink {
    struct loop_fd watch;
    int nonblocking_fd; /* a description of our own for watch.fd, or -1 */
    bool is_socket, is_tty, is_regular;
    bool is_broken;  /* the reader is gone */
    bool is_midline; /* the last text written has no newline at its end */
    const void *midline_owner;
    char *data;
    size_t head, used, room;
    struct sink_waiter *waiting; /* for room, or for the line's end */
    const void *holder;          /* the owner of an unfinished long line, which no other may cut */
    struct loop_timer hold_timer;
    struct sink *next;
};

/* Before anything is opened: a standard file that is closed becomes /dev/null. */
void sink_fill_standard_files(void);

/* Open the sinks of our own stdout (0) and stderr (1): a single one if both are the same file. */
int sink_open_standard(void);
struct sink *sink_standard(int which);

/* A sink for a file; owns `fd`. NULL: no memory. */
struct sink *sink_open(int fd);

bool sink_is_full(const struct sink *sink);

/* Add text of `owner`. A line that another owner left open is closed first. */
void sink_add(struct sink *sink, const void *owner, const char *text, size_t nbytes);

/*
 * `owner` has added a part of a line that is too long to be kept until its end. Until it releases
 * the sink no other owner should add, so that the line comes out whole. Call it for each part. An
 * owner that adds nothing for five seconds although there is room loses the sink, so that ranks
 * that wait for each other do not deadlock.
 */
void sink_hold(struct sink *sink, const void *owner);
void sink_release(struct sink *sink, const void *owner);

/* More of the line may be behind what was read just now: the holder's time begins anew. */
void sink_hold_on(struct sink *sink);
bool sink_takes(const struct sink *sink, const void *owner);

/* Resume the waiter when the sink has room and accepts its text. */
void sink_wait(struct sink *sink, struct sink_waiter *waiter);

/* Take a waiter off the list, if it is there. */
void sink_forget(struct sink *sink, const struct sink_waiter *waiter);

/*
 * Write what can be written without blocking, and resume those that wait for room. True if the sink
 * is empty, or all are.
 */
bool sink_flush(struct sink *sink);
bool sink_flush_all(void);

/*
 * At the end: flush all, and ask for what their file systems could not write. NFS, FUSE and some
 * quotas report that when a file is closed. A failure is said, and the job counts as failed.
 */
void sink_flush_and_check(void);

/*
 * From `at_ns` on stop waiting for readers: a sink that is not empty then, or at the following
 * checks every half second, is broken after a line that says how much is dropped.
 */
void sink_give_up_at(int64_t at_ns);

/* One line of nixlrun's own for stderr, after "nixlrun: ". */
void sink_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A file could not be opened or written (disk full): the line is on stderr, the job counts as
 * failed. sink_fail() is for those that have no sink.
 */
void sink_fail(void);
bool sink_has_failed(void);

#endif
