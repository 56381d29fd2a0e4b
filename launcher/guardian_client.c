/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the guardian in nixlrun (guardian.h): makes the process, sends orders, turns its
 * reports into calls from the event loop. Main thread only. Sending may block for a moment; it
 * cannot deadlock, since the guardian always reads and queues its own reports, and goes on if it
 * was stopped.
 */
#include "config.h"

#include "launcher/guardian.h"
#include "launcher/descendants.h"
#include "launcher/loop.h"
#include "launcher/sink.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM_MS 100 /* between two looks whether the guardian was stopped */

static struct loop_fd client_watch = {.fd = -1};
static const struct guardian_reports *client_reports;
static pid_t client_pid;
static bool has_polite; /* something was started that has an end signal */

int guardian_open(const sigset_t *mask)
{
    int fds[2], child_fd;
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK); /* of whoever reads it */
    if (child_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        return -errno;
    }
    client_pid = fork();
    if (client_pid < 0) {
        return -errno;
    }
    if (client_pid == 0) {
        close(fds[0]);
        guardian_main(fds[1], child_fd, mask);
    }
    close(fds[1]);
    close(child_fd);
    client_watch.fd = fds[0];
    return 0;
}

/* One report of the guardian. */
static void client_take(const struct guardian_message *message)
{
    switch (message->kind) {
    case GUARDIAN_STARTED:
        client_reports->started(message->id, message->value);
        break;
    case GUARDIAN_FAILED:
        client_reports->failed(message->id, message->step, message->value);
        break;
    case GUARDIAN_ENDED:
        client_reports->ended(message->id, message->value);
        break;
    case GUARDIAN_REFUSED:
        if (client_reports->refused != NULL) {
            client_reports->refused(message->id, message->value, message->step);
        }
        break;
    }
}

static void client_ready(struct loop_fd *watch, uint32_t events)
{
    struct guardian_message message;
    ssize_t n;

    (void)events;
    while ((n = recv(watch->fd, &message, sizeof(message), MSG_DONTWAIT)) ==
           (ssize_t)sizeof(message)) {
        client_take(&message);
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        loop_watch(watch, 0);
        client_reports->lost();
    }
}

int guardian_listen(const struct guardian_reports *reports)
{
    client_reports = reports;
    client_watch.ready = client_ready;
    return loop_watch(&client_watch, EPOLLIN);
}

/* Was it stopped? Then it goes on. */
static bool client_continue(void)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)client_pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0 &&
           kill(client_pid, SIGCONT) == 0;
}

void guardian_continue(void)
{
    static bool is_told;

    if (client_continue() && !is_told) {
        is_told = true;
        sink_say("the guardian process was stopped, perhaps by a rank that stops its parent; "
                 "continuing it");
    }
}

/* May the call that has failed with errno be made again? When there is room, if that was it. */
static bool client_may_repeat(void)
{
    struct pollfd polled = {.fd = client_watch.fd, .events = POLLOUT};

    if (errno == EAGAIN) {
        while (poll(&polled, 1, ROOM_MS) == 0) {
            guardian_continue();
        }
        return true;
    }
    return errno == EINTR;
}

static int client_send(const void *data, size_t nbytes)
{
    const char *at = data;

    while (nbytes > 0) {
        ssize_t n = send(client_watch.fd, at, nbytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && !client_may_repeat()) {
            return -errno;
        }
        at += n > 0 ? n : 0;
        nbytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Send a header with three descriptors. */
static int client_send_with_fds(const struct guardian_message *message, const int fds[3])
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control = {.space = {0}};
    struct iovec iov = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control.space,
                            .msg_controllen = sizeof(control.space)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    ssize_t n;

    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, 3 * sizeof(int));
    do {
        n = sendmsg(client_watch.fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && client_may_repeat());
    if (n < 0) {
        return -errno;
    }
    return client_send((const char *)message + n, sizeof(*message) - (size_t)n);
}

/* Append the strings of a vector; returns the end. With `at` NULL only their size is counted. */
static size_t pack_strings(char *at, char *const *strings, uint32_t *n_p)
{
    size_t nbytes = 0;

    *n_p = 0;
    for (; *strings != NULL; strings++, (*n_p)++) {
        size_t n = strlen(*strings) + 1;

        if (at != NULL) {
            memcpy(at + nbytes, *strings, n);
        }
        nbytes += n;
    }
    return nbytes;
}

int guardian_start(const struct guardian_start *start)
{
    char *names[] = {(char *)start->path, (char *)(start->wdir != NULL ? start->wdir : ""), NULL};
    struct guardian_message message = {.kind = GUARDIAN_DO_START, .id = start->id};
    struct guardian_payload *payload;
    uint32_t n;
    char *at;
    int rc;

    message.nbytes = sizeof(*payload) + pack_strings(NULL, names, &n) +
                     pack_strings(NULL, start->argv, &n) + pack_strings(NULL, start->env, &n);
    payload = calloc(1, message.nbytes);
    if (payload == NULL) {
        return -ENOMEM;
    }
    if (start->cpus != NULL) {
        payload->cpus = *start->cpus;
        payload->is_bound = 1;
    }
    payload->end_signal = start->end_signal;
    payload->ends_group = start->ends_group;
    has_polite |= start->end_signal != 0;
    at = (char *)(payload + 1);
    at += pack_strings(at, names, &n);
    at += pack_strings(at, start->argv, &payload->n_argv);
    pack_strings(at, start->env, &payload->n_env);
    rc = client_send_with_fds(&message, start->fds);
    if (rc == 0) {
        rc = client_send(payload, message.nbytes);
    }
    free(payload);
    return rc;
}

void guardian_signal(int id, int signal)
{
    struct guardian_message message = {.kind = GUARDIAN_DO_SIGNAL, .id = id, .value = signal};

    client_send(&message, sizeof(message));
}

void guardian_kill_all(void)
{
    struct guardian_message message = {.kind = GUARDIAN_DO_KILL_ALL};

    client_send(&message, sizeof(message));
}

static void client_say_left(pid_t pid)
{
    char path[32];
    struct stat info;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &info) == 0) {
        sink_say("pid %d cannot be killed, as it runs as another user (uid %u): it is left running",
                 (int)pid, (unsigned)info.st_uid);
        sink_flush_all();
    }
}

/* Take the guardian's last reports, until it ends: which ranks it leaves, and could not signal. */
static void client_hear_out(void)
{
    struct guardian_message message;

    while (guardian_receive(client_watch.fd, &message, sizeof(message))) {
        if (message.kind == GUARDIAN_LEFT) {
            client_say_left(message.value);
        } else if (message.kind == GUARDIAN_REFUSED) {
            client_take(&message);
        }
    }
}

void guardian_close(void)
{
    int status = 0;

    shutdown(client_watch.fd, SHUT_WR);
    client_continue();
    client_hear_out();
    close(client_watch.fd);
    if (client_pid > 0 && waitpid(client_pid, &status, 0) == client_pid && status != 0) {
        /* It was killed, so we have adopted its orphans; an engine has received its end signal. */
        descendants_await(has_polite ? GUARDIAN_POLITE_NS : 0);
        descendants_kill(client_say_left);
    }
}
