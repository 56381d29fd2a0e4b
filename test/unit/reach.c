/* SPDX-License-Identifier: Apache-2.0 */
/* Why no rank can be started on a host, from what a nixlrun has written that tried. */
#include "launcher/reach.h"

#include "test/unit/unit.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define FAILED  W_EXITCODE(1, 0)
#define TIMEOUT W_EXITCODE(LAUNCH_EXIT_TIMEOUT, 0)

static void fails(int wait_status, const char *text, const char *wanted)
{
    char why[REACH_WHY_NBYTES] = "untouched";

    cr_expect(reach_has_failed(wait_status, text, why), "%s", text);
    cr_expect_str_eq(why, wanted, "%s", text);
}

static void works(int wait_status, const char *text)
{
    char why[REACH_WHY_NBYTES];

    cr_expect_not(reach_has_failed(wait_status, text, why), "%s", text);
}

Test(reach, a_host_that_starts_a_rank_is_reached)
{
    works(0, "");
    works(0, "a warning of the engine\n");
}

Test(reach, the_first_paragraph_of_an_engine_is_the_reason)
{
    fails(W_EXITCODE(255, 0),
          "ssh: connect to host h2 port 22: No route to host\n"
          "--------------------------------------------------\n"
          "ORTE was unable to reliably start one or more daemons.\n"
          "nixlrun: mpirun exited with code 255 before any rank started\n",
          "ssh: connect to host h2 port 22: No route to host");
    fails(FAILED,
          "------------------------------------------------------------\n"
          "A process or daemon was unable to complete a TCP connection\n"
          "to another process:\n"
          "  Local host:    h2\n"
          "  Remote host:   h0\n"
          "This is usually caused by a firewall on the remote host. Please\n"
          "check that any firewall (e.g., iptables) has been disabled\n"
          "nixlrun: mpirun exited with code 1 before any rank started\n",
          "A process or daemon was unable to complete a TCP connection to another process: "
          "Local host: h2 Remote host: h0");
}

Test(reach, what_nixlrun_knows_goes_first)
{
    fails(
        FAILED,
        "An attempt has been made to run a program that is not there\n"
        "nixlrun: rank 0 on host h1 did not start (code 127): is /usr/nixlrun-rank on that host?\n"
        "nixlrun: mpirun exited with code 1 before any rank started\n",
        "rank 0 on host h1 did not start (code 127): is /usr/nixlrun-rank on that host?");
    fails(FAILED, "nixlrun: cannot resolve host 'nowhere'; check --host and --hostfile\n",
          "cannot resolve host 'nowhere'; check --host and --hostfile");
}

Test(reach, a_rank_that_fails_says_why)
{
    fails(FAILED,
          "nixlrun-inspect: error while loading shared libraries: libnixlrun.so.0\n"
          "nixlrun: rank 0 on host h1 (pid 7) exited with code 1\n",
          "nixlrun-inspect: error while loading shared libraries: libnixlrun.so.0");
    fails(FAILED,
          "srun: error: Task launch for StepId=1.3 failed on node h2: Communication failure\n"
          "nixlrun: 0 of 1 ranks have started; srun is waiting for rank 0 on host h2: check\n",
          "srun: error: Task launch for StepId=1.3 failed on node h2: Communication failure");
    fails(FAILED, "nixlrun: rank 0 on host h1 (pid 7) exited with code 1\n",
          "rank 0 on host h1 (pid 7) exited with code 1");
}

Test(reach, silence_has_a_limit)
{
    static const char silence[] = "nothing has been started there within 15 s";

    fails(TIMEOUT, "nixlrun: the timeout of 15 s has expired; killing the job\n", silence);
    fails(SIGKILL, "", silence);
    fails(
        TIMEOUT,
        "[h0:14108] plm:rsh: Warning: setpgid(14132,14132) failed in parent with errno=Permission "
        "denied(13)\n\n",
        silence);
    fails(TIMEOUT, "Warning: the host does not answer\nnixlrun: the timeout of 15 s has expired\n",
          "Warning: the host does not answer");
}

Test(reach, a_queue_is_waited_for_but_not_for_a_lost_host)
{
    works(TIMEOUT, "srun: job 7 queued and waiting for resources\n"
                   "nixlrun: the timeout of 15 s has expired; killing the job\n");
    fails(TIMEOUT,
          "srun: Required node not available (down, drained or reserved)\n"
          "srun: job 5 queued and waiting for resources\n",
          "srun: Required node not available (down, drained or reserved)");
}

Test(reach, no_text_is_too_long_or_too_short)
{
    char text[1000], why[REACH_WHY_NBYTES];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    cr_expect(reach_has_failed(FAILED, text, why));
    cr_expect_eq(strlen(why), sizeof(why) - 1);
    cr_expect_str_eq(why + sizeof(why) - sizeof("..."), "...");
    fails(FAILED, "", "the engine has failed and says nothing");
    fails(FAILED, "\n\n-----\n  \n", "the engine has failed and says nothing");
    fails(FAILED, "nixlrun: ", "the engine has failed and says nothing");
}
