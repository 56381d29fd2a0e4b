/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdin: read once, copied into the pipe of each rank that gets it. It is read only while every
 * such rank has room, so memory is bounded and, with --stdin all, the slowest reader sets the pace.
 * A terminal is read only while we are in its foreground: otherwise the read would stop us
 * (SIGTTIN). Files cannot be polled; they are read whenever there is room.
 *
 * Another process may share our stdin, and take what epoll has reported. So that a read does not
 * wait then, a terminal or pipe is opened a second time for a non-blocking description of our own,
 * and a socket is read with MSG_DONTWAIT.
 */
#include "config.h"

#include "launcher/input.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_READ_NBYTES  (64 * 1024)
#define INLET_LIMIT_NBYTES (1024 * 1024)

static struct inlet *fed; /* the inlets that stdin goes to */
static struct loop_fd source = {.fd = -1};
static int source_nonblocking_fd = -1; /* only to read: it does not see the end of a named pipe */
static bool source_is_file;
static bool source_is_open;

/* `fg` sends no signal to a running job: while we are in the background, poll now and then. */
static struct loop_timer foreground_timer;
#define FOREGROUND_LOOK_NS (300 * NXR_MS)

/* ---- inlets ---------------------------------------------------------------------------------- */

void inlet_close(struct inlet *inlet)
{
    if (inlet->watch.fd < 0) {
        return;
    }
    for (struct inlet **link = &fed; *link != NULL; link = &(*link)->next) {
        if (*link == inlet) {
            *link = inlet->next;
            break;
        }
    }
    loop_watch(&inlet->watch, 0);
    close(inlet->watch.fd);
    inlet->watch.fd = -1;
    free(inlet->data);
    inlet->data = NULL;
    inlet->head = inlet->used = inlet->room = 0;
}

/* Write as much as the pipe takes; watch it for the rest. */
static void inlet_flush(struct inlet *inlet)
{
    while (inlet->head < inlet->used) {
        ssize_t n = write(inlet->watch.fd, inlet->data + inlet->head, inlet->used - inlet->head);

        if (n < 0 && errno == EAGAIN) {
            loop_watch(&inlet->watch, EPOLLOUT);
            return;
        }
        if (n < 0 && errno != EINTR) {
            inlet_close(inlet); /* the rank has stopped reading */
            return;
        }
        inlet->head += n > 0 ? (size_t)n : 0;
    }
    inlet->head = inlet->used = 0;
    loop_watch(&inlet->watch, 0);
    if (inlet->ends) {
        inlet_close(inlet);
    }
}

static void inlet_ready(struct loop_fd *watch, uint32_t events)
{
    struct inlet *inlet = LOOP_OWNER(watch, struct inlet, watch);

    (void)events;
    inlet_flush(inlet);
    input_continue();
}

int inlet_open(struct inlet *inlet, bool is_fed)
{
    int fds[2];

    *inlet = (struct inlet){.watch = {.fd = -1, .ready = inlet_ready}};
    if (!is_fed) {
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    inlet->watch.fd = fds[1];
    inlet->next = fed;
    fed = inlet;
    return fds[0];
}

bool inlet_add(struct inlet *inlet, const char *data, size_t nbytes)
{
    if (inlet->watch.fd < 0 || inlet->ends || inlet->used + nbytes > INLET_LIMIT_NBYTES) {
        return false;
    }
    if (inlet->used + nbytes > inlet->room) {
        char *grown = realloc(inlet->data, inlet->used + nbytes);

        if (grown == NULL) {
            return false;
        }
        inlet->data = grown;
        inlet->room = inlet->used + nbytes;
    }
    memcpy(inlet->data + inlet->used, data, nbytes);
    inlet->used += nbytes;
    inlet_flush(inlet);
    return true;
}

void inlet_end(struct inlet *inlet)
{
    if (inlet->watch.fd >= 0) {
        inlet->ends = true;
        inlet_flush(inlet);
    }
}

/* ---- the source ------------------------------------------------------------------------------ */

static bool input_has_room(void)
{
    for (const struct inlet *inlet = fed; inlet != NULL; inlet = inlet->next) {
        if (inlet->used > 0) {
            return false;
        }
    }
    return fed != NULL;
}

/* Are we in the background of our terminal? */
static bool is_in_background(void)
{
    pid_t foreground = tcgetpgrp(source.fd);

    return foreground >= 0 && foreground != getpgrp();
}

static void source_end(void)
{
    struct inlet *inlet = fed, *next;

    source_is_open = false;
    loop_watch(&source, 0);
    for (; inlet != NULL; inlet = next) {
        next = inlet->next;
        inlet_end(inlet);
    }
}

static ssize_t source_read_once(char *buffer, size_t nbytes)
{
    ssize_t n = recv(source.fd, buffer, nbytes, MSG_DONTWAIT);

    if (n < 0 && errno == ENOTSOCK) {
        n = read(source_nonblocking_fd >= 0 ? source_nonblocking_fd : source.fd, buffer, nbytes);
    }
    return n;
}

/* Read once and hand it to all. Returns false when there is nothing to read now. */
static bool source_read(void)
{
    static char buffer[INPUT_READ_NBYTES];
    struct inlet *inlet = fed, *next;
    ssize_t n = source_read_once(buffer, sizeof(buffer));

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        source_end();
        return false;
    }
    for (; inlet != NULL; inlet = next) {
        next = inlet->next;
        inlet_add(inlet, buffer, (size_t)n);
    }
    return true;
}

static void source_ready(struct loop_fd *watch, uint32_t events)
{
    (void)watch;
    (void)events;
    if (!is_in_background()) {
        source_read();
    }
    input_continue();
}

void input_continue(void)
{
    if (!source_is_open) {
        return;
    }
    while (source_is_file && input_has_room() && source_read()) {
    }
    if (source_is_open && !source_is_file) {
        bool is_waiting = is_in_background();

        loop_watch(&source, input_has_room() && !is_waiting ? EPOLLIN : 0);
        if (is_waiting) {
            loop_timer_set(&foreground_timer, nxr_now_ns() + FOREGROUND_LOOK_NS);
        }
    }
}

static void look_again(struct loop_timer *timer)
{
    (void)timer;
    input_continue();
}

void input_join(struct inlet *inlet)
{
    if (source_is_open) {
        input_continue();
    } else {
        inlet_end(inlet);
    }
}

int input_open(void)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL), rc;
    struct stat st;

    if (fed == NULL || flags < 0) {
        source_end();
        return 0;
    }
    source = (struct loop_fd){.fd = STDIN_FILENO, .ready = source_ready};
    /* A descriptor that is open for writing alone stays unreadable. */
    if ((flags & O_ACCMODE) != O_WRONLY && fstat(STDIN_FILENO, &st) == 0 &&
        (S_ISFIFO(st.st_mode) || isatty(STDIN_FILENO))) {
        source_nonblocking_fd =
            open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    }
    source_is_open = true;
    foreground_timer.fire = look_again;
    rc = loop_watch(&source, EPOLLIN);
    source_is_file = rc == -EPERM;
    input_continue();
    return source_is_file ? 0 : rc;
}
