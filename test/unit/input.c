/* SPDX-License-Identifier: Apache-2.0 */
/* stdin that other processes share: they may take what nixlrun was told of, before it reads. */
#include "config.h"

#include "launcher/input.h"
#include "util/clock.h"

#include "test/unit/loop_case.h"
#include "test/unit/unit.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(input, .timeout = 30);

static struct inlet inlet;
static int rank_stdin, writer;

/* The other process: it reads all that is there. */
static void steal(struct loop_fd *watch, uint32_t events)
{
    struct pollfd polled = {.fd = watch->fd, .events = POLLIN};
    char buffer[16];

    (void)events;
    while (poll(&polled, 1, 0) > 0 && read(watch->fd, buffer, sizeof(buffer)) > 0) {
    }
}

static void becomes_stdin(const int ends[2])
{
    cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    writer = ends[1];
    cr_assert_eq(loop_open(), 0);
    rank_stdin = inlet_open(&inlet, true);
    cr_assert_geq(rank_stdin, 0);
    fcntl(rank_stdin, F_SETFL, O_NONBLOCK);
}

static void writes(const char *text)
{
    ssize_t n = write(writer, text, strlen(text));

    cr_assert_eq(n, (ssize_t)strlen(text));
}

static void rank_gets(const char *wanted)
{
    char text[64];
    ssize_t n;

    serve();
    n = read(rank_stdin, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    cr_expect_str_eq(text, wanted);
}

static void rank_sees_the_end(void)
{
    char byte;

    serve();
    cr_expect_eq(read(rank_stdin, &byte, 1), 0);
}

/* The loop serves one of the thieves before nixlrun, whichever the order is. */
static void does_not_wait(const int ends[2])
{
    struct loop_fd thieves[2];

    becomes_stdin(ends);
    for (int i = 0; i < 2; i++) {
        thieves[i] = (struct loop_fd){.fd = dup(STDIN_FILENO), .ready = steal};
    }
    cr_assert_eq(loop_watch(&thieves[0], EPOLLIN), 0);
    cr_assert_eq(input_open(), 0);
    cr_assert_eq(loop_watch(&thieves[1], EPOLLIN), 0);
    writes("stolen\n");
    rank_gets("");
    for (int i = 0; i < 2; i++) {
        loop_watch(&thieves[i], 0);
    }
    writes("left\n");
    rank_gets("left\n");
    cr_expect_eq(fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK, 0, "others share it");
    close(writer);
    rank_sees_the_end();
}

Test(input, of_a_pipe_that_another_has_read_is_not_waited_for)
{
    int ends[2];

    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    does_not_wait(ends);
}

Test(input, of_a_socket_that_another_has_read_is_not_waited_for)
{
    int ends[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    does_not_wait(ends);
}

Test(input, of_a_terminal_that_another_has_read_is_not_waited_for)
{
    int ends[2] = {-1, posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};

    cr_assert_geq(ends[1], 0);
    cr_assert_eq(grantpt(ends[1]), 0);
    cr_assert_eq(unlockpt(ends[1]), 0);
    ends[0] = open(ptsname(ends[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert_geq(ends[0], 0);
    does_not_wait(ends);
}

/* All writers of a named pipe may have gone before nixlrun opens it for itself. */
Test(input, of_a_named_pipe_ends_where_its_writer_has_ended)
{
    char dir[] = "/tmp/input.XXXXXX", path[64];
    int ends[2];

    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/pipe", dir);
    cr_assert_eq(mkfifo(path, 0600), 0);
    ends[1] = open(path, O_RDWR | O_CLOEXEC); /* does not wait for a reader */
    ends[0] = open(path, O_RDONLY | O_CLOEXEC);
    becomes_stdin(ends);
    unlink(path);
    rmdir(dir);
    writes("all");
    close(writer);
    cr_assert_eq(input_open(), 0);
    rank_gets("all");
    rank_sees_the_end();
}
