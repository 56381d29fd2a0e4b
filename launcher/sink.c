/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sinks: bounded buffers before our stdout, our stderr and the files of --output-dir. Writing never
 * blocks the loop: a terminal or pipe is opened a second time for a non-blocking description of our
 * own (the one we inherited is shared with the shell), a socket is written with MSG_DONTWAIT, and
 * if neither works we write only when poll says that it fits. When the reader is gone (EPIPE) the
 * sink is broken and its streams close, so that ranks see what they would see without us.
 */
#include "config.h"

#include "launcher/sink.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SINK_LIMIT_NBYTES (1024 * 1024) /* more than this and streams wait */
#define SINK_TTY_NBYTES   256           /* what a terminal that polls as writable surely takes */
#define SINK_GIVE_UP_NS   (500 * NXR_MS)
#define SINK_HOLD_NS      (5 * NXR_S)

static struct sink *sinks;
static struct sink *standard[2];
static bool sink_do_has_failed;
static struct loop_timer give_up_timer;

static void sink_ready(struct loop_fd *watch, uint32_t events);

struct sink *sink_open(int fd)
{
    struct sink *sink = calloc(1, sizeof(*sink));
    char path[64];
    struct stat st;

    if (sink == NULL || fstat(fd, &st) != 0) {
        free(sink);
        return NULL;
    }
    sink->watch = (struct loop_fd){.fd = fd, .ready = sink_ready};
    sink->nonblocking_fd = -1;
    sink->is_socket = S_ISSOCK(st.st_mode);
    sink->is_regular = S_ISREG(st.st_mode) || S_ISBLK(st.st_mode);
    sink->is_tty = isatty(fd);
    if (sink->is_tty || S_ISFIFO(st.st_mode)) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        sink->nonblocking_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (sink->nonblocking_fd >= 0) {
            sink->watch.fd = sink->nonblocking_fd;
        }
    }
    sink->next = sinks;
    sinks = sink;
    return sink;
}

/* The next file that we open would get the number of a closed standard file: use /dev/null. */
void sink_fill_standard_files(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        close(fd);
    }
}

/*
 * Are both descriptors one open file description? Containers may forbid kcmp(): then a flag that
 * means nothing to a regular file, and that descriptions do not share, tells it.
 */
static bool is_one_description(int a, int b)
{
    long order = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b);
    int flags_a = fcntl(a, F_GETFL), flags_b = fcntl(b, F_GETFL);
    bool is_one;

    if (order >= 0 || flags_a != flags_b) {
        return order == 0;
    }
    fcntl(a, F_SETFL, flags_a ^ O_NONBLOCK);
    is_one = fcntl(b, F_GETFL) != flags_b;
    fcntl(a, F_SETFL, flags_a);
    return is_one;
}

/*
 * Do stdout and stderr need one sink, since they lead to one file? A regular file that was opened
 * twice, as by "> log 2> log", is two to its writers: each has an offset of its own.
 */
static bool is_one_sink(const struct stat *file)
{
    return !S_ISREG(file->st_mode) || is_one_description(STDOUT_FILENO, STDERR_FILENO);
}

int sink_open_standard(void)
{
    struct stat out, err;
    bool is_one_file = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
                       out.st_dev == err.st_dev && out.st_ino == err.st_ino && is_one_sink(&out);

    standard[0] = sink_open(STDOUT_FILENO);
    if (standard[0] != NULL) {
        standard[1] = is_one_file ? standard[0] : sink_open(STDERR_FILENO);
    }
    return standard[1] != NULL ? 0 : -errno;
}

struct sink *sink_standard(int which)
{
    return standard[which];
}

bool sink_is_full(const struct sink *sink)
{
    return sink->used - sink->head >= SINK_LIMIT_NBYTES;
}

void sink_fail(void)
{
    sink_do_has_failed = true;
}

bool sink_has_failed(void)
{
    return sink_do_has_failed;
}

static void sink_append(struct sink *sink, const char *text, size_t nbytes)
{
    if (sink->head == sink->used) {
        sink->head = sink->used = 0;
    }
    /* Move only what is as short as the gap before it: then a byte is moved once or less. */
    if (sink->head > 0 && sink->used + nbytes > sink->room &&
        sink->head >= sink->used - sink->head) {
        sink->used -= sink->head;
        memcpy(sink->data, sink->data + sink->head, sink->used);
        sink->head = 0;
    }
    if (sink->used + nbytes > sink->room) {
        size_t room = (sink->used + nbytes) * 2;
        char *grown = realloc(sink->data, room);

        if (grown == NULL) {
            if (!sink_do_has_failed) { /* by no sink, which would need memory */
                fputs("nixlrun: no memory for output, of which a part is lost\n", stderr);
            }
            sink_do_has_failed = true;
            return;
        }
        sink->data = grown;
        sink->room = room;
    }
    memcpy(sink->data + sink->used, text, nbytes);
    sink->used += nbytes;
}

void sink_add(struct sink *sink, const void *owner, const char *text, size_t nbytes)
{
    if (sink->is_broken || nbytes == 0) {
        return;
    }
    if (sink->is_midline && sink->midline_owner != owner) {
        sink_append(sink, "\n", 1);
    }
    sink_append(sink, text, nbytes);
    sink->is_midline = text[nbytes - 1] != '\n';
    sink->midline_owner = owner;
}

void sink_wait(struct sink *sink, struct sink_waiter *waiter)
{
    struct sink_waiter **link = &sink->waiting;

    while (*link != NULL) {
        link = &(*link)->next;
    }
    waiter->next = NULL;
    *link = waiter;
}

void sink_forget(struct sink *sink, const struct sink_waiter *waiter)
{
    for (struct sink_waiter **link = &sink->waiting; *link != NULL; link = &(*link)->next) {
        if (*link == waiter) {
            *link = waiter->next;
            return;
        }
    }
}

/* Write once. Returns bytes, 0 when it would block, -1 with errno. */
static ssize_t sink_write_once(struct sink *sink)
{
    const char *data = sink->data + sink->head;
    size_t nbytes = sink->used - sink->head;
    ssize_t n;

    if (sink->is_socket) {
        n = send(sink->watch.fd, data, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else if (sink->is_regular || sink->nonblocking_fd >= 0) {
        n = write(sink->watch.fd, data, nbytes);
    } else {
        struct pollfd polled = {.fd = sink->watch.fd, .events = POLLOUT};
        size_t surely = sink->is_tty ? SINK_TTY_NBYTES : PIPE_BUF;

        if (poll(&polled, 1, 0) == 0) {
            return 0;
        }
        n = write(sink->watch.fd, data, nbytes < surely ? nbytes : surely);
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

/*
 * Resume the waiters whose text has room again, or all if the sink is broken. Each flush ends with
 * this: it may be the last one, and nothing else would resume them.
 */
static void sink_resume(struct sink *sink)
{
    struct sink_waiter **link = &sink->waiting, *waiter;

    while ((sink->is_broken || !sink_is_full(sink)) && (waiter = *link) != NULL) {
        if (sink_takes(sink, waiter->owner)) {
            *link = waiter->next;
            waiter->resume(waiter);
        } else {
            link = &waiter->next;
        }
    }
}

/* ---- long lines ------------------------------------------------------------------------------ */

bool sink_takes(const struct sink *sink, const void *owner)
{
    return sink->is_broken || sink->holder == NULL || sink->holder == owner;
}

void sink_release(struct sink *sink, const void *owner)
{
    if (sink->holder == owner) {
        sink->holder = NULL;
        loop_timer_clear(&sink->hold_timer);
        sink_resume(sink);
    }
}

static void sink_hold_is_over(struct loop_timer *timer)
{
    struct sink *sink = LOOP_OWNER(timer, struct sink, hold_timer);

    if (sink_is_full(sink)) { /* the holder cannot continue */
        loop_timer_set(timer, nxr_now_ns() + SINK_HOLD_NS);
    } else {
        sink_release(sink, sink->holder);
    }
}

void sink_hold(struct sink *sink, const void *owner)
{
    sink->holder = owner;
    sink->hold_timer.fire = sink_hold_is_over;
    loop_timer_set(&sink->hold_timer, nxr_now_ns() + SINK_HOLD_NS);
}

void sink_hold_on(struct sink *sink)
{
    if (sink->holder != NULL) {
        loop_timer_set(&sink->hold_timer, nxr_now_ns() + SINK_HOLD_NS);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The file is named if it is one. */
static void sink_say_lost(const struct sink *sink, int error)
{
    char link[64], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", sink->watch.fd);
    n = sink->is_regular ? readlink(link, path, sizeof(path)) : -1;
    if (n > 0) {
        sink_say("cannot write output to '%.*s': %s", (int)n, path, strerror(error));
    } else {
        sink_say("cannot write output: %s", strerror(error));
    }
}

/* A terminal that is gone gives EIO; from a file it is a bad disk. */
static void sink_break(struct sink *sink)
{
    int error = errno;
    bool is_gone = error == EPIPE || error == ECONNRESET || (error == EIO && !sink->is_regular);

    sink->is_broken = true;
    sink->head = sink->used = 0;
    if (!is_gone) {
        sink_do_has_failed = true;
        sink_say_lost(sink, error);
    }
}

/* Write until nothing is left or the reader takes no more. True if nothing is left. */
static bool sink_write(struct sink *sink)
{
    while (sink->head < sink->used) {
        ssize_t n = sink_write_once(sink);

        if (n < 0) {
            sink_break(sink);
            break;
        }
        if (n == 0) {
            return false;
        }
        sink->head += (size_t)n;
    }
    return true;
}

bool sink_flush(struct sink *sink)
{
    bool is_empty = sink_write(sink);

    loop_watch(&sink->watch, is_empty ? 0 : EPOLLOUT);
    sink_resume(sink);
    return is_empty;
}

static void sink_ready(struct loop_fd *watch, uint32_t events)
{
    (void)events;
    sink_flush(LOOP_OWNER(watch, struct sink, watch));
}

bool sink_flush_all(void)
{
    bool is_empty = true;

    for (struct sink *sink = sinks; sink != NULL; sink = sink->next) {
        if (!sink_flush(sink)) {
            is_empty = false;
        }
    }
    return is_empty;
}

/* Each close of a descriptor reports, not only the last one: the sink stays open. */
static void sink_check(struct sink *sink)
{
    int copy =
        sink->is_regular && !sink->is_broken ? fcntl(sink->watch.fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (copy >= 0 && close(copy) != 0) {
        sink_break(sink);
    }
}

void sink_flush_and_check(void)
{
    (void)sink_flush_all();
    for (struct sink *sink = sinks; sink != NULL; sink = sink->next) {
        sink_check(sink);
    }
}

/* Drop the text in the sink, and all later text. */
static void sink_drop(struct sink *sink)
{
    size_t nbytes = sink->used - sink->head;

    sink->is_broken = true;
    sink->head = sink->used = 0;
    sink_flush(sink);
    sink_say("no process reads the output: dropped its last %zu bytes", nbytes);
}

static void sink_give_up(struct loop_timer *timer)
{
    for (struct sink *sink = sinks; sink != NULL; sink = sink->next) {
        if (!sink_flush(sink)) {
            sink_drop(sink);
        }
    }
    loop_timer_set(timer, nxr_now_ns() + SINK_GIVE_UP_NS);
}

void sink_give_up_at(int64_t at_ns)
{
    give_up_timer.fire = sink_give_up;
    loop_timer_set(&give_up_timer, at_ns);
}

void sink_say(const char *format, ...)
{
    char line[2048] = "nixlrun: ";
    size_t used = strlen(line);
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    used = n < (int)(sizeof(line) - used - 1) ? used + (size_t)n : sizeof(line) - 2;
    line[used++] = '\n';
    if (standard[1] == NULL) {
        if (write(STDERR_FILENO, line, used) < 0) {
            return; /* there is no way to report this */
        }
        return;
    }
    sink_add(standard[1], NULL, line, used);
    sink_flush(standard[1]);
}
