/* SPDX-License-Identifier: Apache-2.0 */
/* What nixlrun top says that a rank does. */
#include "launcher/stats.h"
#include "util/observe.h"

#include "test/unit/unit.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(top, .timeout = 60);

static void is_said(pid_t pid, uint32_t life, char letter, const char *wanted)
{
    const struct stats_rank rank = {.pid = pid, .life = life, .letter = letter};

    cr_expect_str_eq(top_state(&rank), wanted, "life %u, letter %d", life, letter);
}

Test(top, a_process_of_this_host)
{
    pid_t pid = fork();
    siginfo_t info;

    if (pid == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    cr_assert(eq(int, waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0));
    is_said(pid, NXR_OBSERVE_RUNNING, 0, "stopped");
    is_said(pid, NXR_OBSERVE_LEFT, 0, "left");
    kill(pid, SIGKILL);
    cr_assert(eq(int, waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0));
    is_said(pid, NXR_OBSERVE_RUNNING, 0, "ended");
    waitpid(pid, NULL, 0);
    is_said(pid, NXR_OBSERVE_RUNNING, 0, "ended");
    is_said(getpid(), NXR_OBSERVE_RUNNING, 0, "runs");
    is_said(getpid(), NXR_OBSERVE_JOINING, 0, "joining");
    is_said(getpid(), NXR_OBSERVE_LEAVING, 0, "leaving");
}

/* Its pid is one of another host: here it may be nobody's, or that of a stranger. */
Test(top, a_process_of_another_host)
{
    is_said(INT32_MAX, NXR_OBSERVE_RUNNING, 'S', "runs");
    is_said(INT32_MAX, NXR_OBSERVE_RUNNING, 'T', "stopped");
    is_said(getpid(), NXR_OBSERVE_RUNNING, 'X', "ended");
    is_said(getpid(), NXR_OBSERVE_LEFT, 'X', "left");
}
