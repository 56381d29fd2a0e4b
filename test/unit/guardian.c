/* SPDX-License-Identifier: Apache-2.0 */
/* What the guardian receives of nixlrun. */
#include "config.h"

#include "launcher/guardian.h"

#include "test/unit/unit.h"
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HALF_NBYTES = 64 * 1024 };

TestSuite(guardian, .timeout = 60);

static void guardian_takes_both_halves(int fd)
{
    static char bytes[2 * HALF_NBYTES];
    bool is_whole = guardian_receive(fd, bytes, sizeof(bytes));

    _exit(is_whole && bytes[0] == 1 && bytes[HALF_NBYTES] == 2 ? 0 : 1);
}

static void wait_until_taken(int fd)
{
    int left;

    do {
        cr_assert(eq(int, ioctl(fd, FIONREAD, &left), 0));
    } while (left > 0);
}

Test(guardian, a_stop_amid_an_order_loses_nothing)
{
    static const char halves[2][HALF_NBYTES] = {{1}, {2}};
    int ends[2], status;
    pid_t pid;

    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0));
    pid = fork();
    cr_assert(ge(int, pid, 0));
    if (pid == 0) {
        guardian_takes_both_halves(ends[1]);
    }
    cr_assert(eq(sz, (size_t)send(ends[0], halves[0], HALF_NBYTES, 0), HALF_NBYTES));
    wait_until_taken(ends[1]);
    kill(pid, SIGSTOP);
    cr_assert(eq(int, waitpid(pid, &status, WUNTRACED), pid));
    cr_assert(ne(int, WIFSTOPPED(status), 0));
    kill(pid, SIGCONT);
    cr_assert(eq(sz, (size_t)send(ends[0], halves[1], HALF_NBYTES, MSG_NOSIGNAL), HALF_NBYTES));
    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    cr_expect(eq(int, status, 0));
}
