/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of an engine that have ended: which exit code and which words follow from the reports of the
 * ranks, their order, their loss, and the code of the engine.
 */
#include "config.h"

#include "test/unit/foreign_case.h"

#include "util/clock.h"

#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>

TestSuite(verdict, .timeout = 60);

/* ---- one cause ------------------------------------------------------------------------------- */

Test(verdict, all_end_with_0)
{
    case_run(&engine_openmpi, 3);
    for (int i = 0; i < 3; i++) {
        case_end(i, 0);
    }
    case_ends(0, 0, "");
    cr_expect_str_eq(case_signals(), "");
}

Test(verdict, the_engine_fails_although_all_have_ended)
{
    case_run(&engine_openmpi, 2);
    case_end(0, 0);
    case_end(1, 0);
    case_ends(CASE_CODE(5), 1,
              "nixlrun: engine exited with code 5, although all ranks have ended with 0\n");
}

Test(verdict, the_code_of_the_first_rank_that_fails)
{
    case_run(&engine_openmpi, 3);
    case_end(1, CASE_CODE(3));
    case_end(0, CASE_CODE(4));
    case_end(2, SIGTERM);
    case_ends(CASE_CODE(3), 3, "nixlrun: rank 1 on host h1 (pid 101) exited with code 3\n");
}

Test(verdict, what_is_read_after_the_end_of_the_engine_blames_one_rank)
{
    case_run(&engine_slurm, 2);
    foreign.is_running = false;
    case_end(0, CASE_CODE(7));
    case_end(1, CASE_CODE(5));
    case_ends(CASE_CODE(7), 7, "nixlrun: rank 0 on host h0 (pid 100) exited with code 7\n");
}

Test(verdict, a_rank_that_exits_without_finalize_has_failed)
{
    case_run(&engine_openmpi, 2);
    case_end(0, 0);
    case_report(1, RANK_REPORT_NOT_LEFT, 0);
    case_ends(
        0, 1,
        "nixlrun: rank 1 on host h1 (pid 101) exited with code 0 but without nixl_finalize\n");
}

Test(verdict, those_that_the_engine_kills_are_not_blamed)
{
    case_run(&engine_openmpi, 3);
    case_end(0, SIGTERM);
    case_end(2, SIGKILL);
    case_end(1, CASE_CODE(3));
    case_ends(CASE_CODE(3), 3, "nixlrun: rank 1 on host h1 (pid 101) exited with code 3\n");
}

Test(verdict, a_rank_that_a_third_party_kills_is_told)
{
    case_run(&engine_openmpi, 2);
    case_end(1, SIGKILL);
    case_end(0, SIGTERM);
    case_ends(CASE_CODE(137), 137,
              "nixlrun: rank 1 on host h1 (pid 101) was killed by signal 9 (Killed)\n");
}

Test(verdict, a_kill_is_told_when_the_others_have_reported_theirs_before)
{
    case_run(&engine_openmpi, 3);
    case_end(0, SIGTERM);
    case_end(1, SIGTERM);
    case_end(2, SIGKILL);
    case_ends(CASE_CODE(137), 137,
              "nixlrun: rank 2 on host h2 (pid 102) was killed by signal 9 (Killed)\n");
}

Test(verdict, an_engine_that_names_the_killed_rank_is_believed)
{
    case_run(&engine_openmpi, 2);
    case_end(0, SIGTERM);
    case_write(1, "mpirun noticed that process rank 1 with PID 7 on node h1 exited on signal 9\n");
    cr_expect_eq(case_judge(CASE_CODE(137)), 137);
    cr_assert(strstr(case_text(1), "nixlrun: rank 1 on host h1 (pid 101) was lost: its "
                                   "nixlrun-rank was killed\n") != NULL);
}

Test(verdict, a_rank_without_its_last_report_is_lost)
{
    case_run(&engine_openmpi, 2);
    case_end(0, SIGTERM);
    case_ends(CASE_CODE(137), 137,
              "nixlrun: rank 1 on host h1 (pid 101) was lost: how it ended is unknown\n");
}

Test(verdict, a_program_that_is_not_there)
{
    case_run(&engine_openmpi, 2);
    case_report(1, RANK_REPORT_NOT_EXEC, ENOENT);
    case_ends(CASE_CODE(1), 127,
              "nixlrun: cannot run './app' on host h1: No such file or directory\n");
}

Test(verdict, a_program_that_cannot_be_run)
{
    case_run(&engine_openmpi, 2);
    case_report(1, RANK_REPORT_NOT_EXEC, EACCES);
    case_report(0, RANK_REPORT_NOT_EXEC, EACCES);
    case_ends(CASE_CODE(1), 126, "nixlrun: cannot run './app' on host h1: Permission denied\n");
}

Test(verdict, a_program_that_is_not_in_PATH)
{
    static char name[] = "app", *argv[] = {name, NULL};

    case_prepare(&engine_openmpi, 2);
    case_job.apps[0].argv = argv;
    case_open();
    case_report(1, RANK_REPORT_NOT_EXEC, ENOENT);
    case_ends(CASE_CODE(1), 127, "nixlrun: cannot run 'app' on host h1: not found in PATH\n");
}

Test(verdict, a_directory_that_one_host_lacks)
{
    case_prepare(&engine_openmpi, 2);
    case_job.apps[0].wdir = "/data";
    case_open();
    case_report(0, RANK_REPORT_NOT_CHDIR, ENOENT);
    case_report(1, RANK_REPORT_NOT_CHDIR, ENOENT);
    case_ends(
        CASE_CODE(1), 1,
        "nixlrun: cannot change to directory '/data' on host h0: No such file or directory\n");
}

/* The second program has the last rank. */
Test(verdict, the_program_of_a_rank_is_that_of_its_number)
{
    static char first[] = "/a", second[] = "/b", *argvs[2][2] = {{first, NULL}, {second, NULL}};
    static struct launch_app apps[2] = {{.np = 2}, {.np = 1}};

    case_prepare(&engine_openmpi, 3);
    apps[0].argv = argvs[0];
    apps[1].argv = argvs[1];
    case_job.apps = apps;
    case_job.n_apps = 2;
    case_open();
    case_report(2, RANK_REPORT_NOT_EXEC, ENOENT);
    case_ends(CASE_CODE(1), 127,
              "nixlrun: cannot run '/b' on host h2: No such file or directory\n");
}

/* ---- PMIx_Abort ------------------------------------------------------------------------------ */

/*
 * What arrives of each rank: no report, only the first, its end by a signal, the engine's word that
 * it was killed, or that word alone.
 */
enum heard { HEARD_NOTHING, HEARD_START, HEARD_TERM, HEARD_KILL, HEARD_GONE, HEARD_LOST, N_HEARD };

static void hear(int rank, enum heard what)
{
    char line[128];

    if (what != HEARD_NOTHING && what != HEARD_LOST) {
        case_start(rank);
    }
    if (what == HEARD_TERM || what == HEARD_KILL) {
        case_end(rank, what == HEARD_TERM ? SIGTERM : SIGKILL);
    } else if (what == HEARD_GONE || what == HEARD_LOST) {
        if (case_engine.id == ENGINE_SLURM) {
            snprintf(line, sizeof(line), "srun: error: h: task %d: Killed\n", rank);
        } else {
            snprintf(line, sizeof(line), "mpirun noticed that process rank %d with PID 7\n", rank);
        }
        case_write(1, line);
    }
}

/* Whatever is lost when the engine kills the ranks, its code is the abort's, and no rank's. */
static void abort_blames_nobody(const struct engine *engine, const enum heard heard[3], int64_t ns)
{
    case_prepare(engine, 3);
    case_engine.signal_program = "sh"; /* anything that there is */
    case_open();
    case_report(0, RANK_REPORT_JOB, 1);
    case_report(0, RANK_REPORT_STEP, 0);
    for (int i = 0; i < 3; i++) {
        hear(i, heard[i]);
    }
    case_pass(ns);
    cr_expect_eq(case_judge(CASE_CODE(7)), 7, "heard %d %d %d", heard[0], heard[1], heard[2]);
    cr_expect(strstr(case_text(1), "nixlrun: rank") == NULL, "heard %d %d %d: %s", heard[0],
              heard[1], heard[2], case_text(1));
}

/* All that may be heard of three ranks, but for nothing at all: then none may have run. */
#define N_ALL (N_HEARD * N_HEARD * N_HEARD - 1)

struct hearing {
    bool is_of_slurm; /* each test is a process of its own: no pointer */
    enum heard heard[3];
};

ParameterizedTestParameters(verdict, an_abort_blames_no_rank)
{
    static struct hearing all[2 * N_ALL];

    for (int i = 0; i < 2 * N_ALL; i++) {
        int which = i % N_ALL + 1;

        all[i].is_of_slurm = i >= N_ALL;
        for (int rank = 0; rank < 3; rank++, which /= N_HEARD) {
            all[i].heard[rank] = which % N_HEARD;
        }
    }
    return cr_make_param_array(struct hearing, all, 2 * N_ALL);
}

ParameterizedTest(struct hearing *hearing, verdict, an_abort_blames_no_rank)
{
    abort_blames_nobody(hearing->is_of_slurm ? &engine_slurm : &engine_openmpi, hearing->heard, 0);
}

/* An engine that needs long to end has been asked to. */
Test(verdict, a_slow_abort_blames_no_rank)
{
    abort_blames_nobody(&engine_openmpi, (enum heard[]){HEARD_TERM, HEARD_START, HEARD_NOTHING},
                        60 * NXR_S);
    cr_expect_str_eq(case_signals(), "15 18 kill all 9 ");
}

/* It was asked when the first of the killed ranks had reported that. */
Test(verdict, an_abort_that_slurm_is_slow_to_end_blames_no_rank)
{
    abort_blames_nobody(&engine_slurm, (enum heard[]){HEARD_KILL, HEARD_KILL, HEARD_GONE},
                        60 * NXR_S);
}

/* ---- no rank explains the end ---------------------------------------------------------------- */

Test(verdict, a_host_without_address_is_told)
{
    case_prepare(&engine_openmpi, 3);
    case_open();
    case_ends(CASE_CODE(1), 1,
              "nixlrun: engine exited with code 1 before any rank started\n"
              "nixlrun: cannot resolve host 'h1'; check --host and --hostfile\n");
}

Test(verdict, names_are_left_to_an_engine_with_daemons)
{
    case_prepare(&engine_slurm, 2);
    case_open();
    case_ends(CASE_CODE(1), 1, "nixlrun: engine exited with code 1 before any rank started\n");
}

Test(verdict, one_rank_may_be_missed_or_more)
{
    case_run(&engine_openmpi, 2);
    case_end(0, 0);
    case_ends(0, 1, "nixlrun: engine exited with code 0; how 1 rank ended is unknown\n");
}

/* ---- ranks that are started again ------------------------------------------------------------ */

static void run_restarts(int np, int most)
{
    case_prepare(&engine_openmpi, np);
    case_job.on_failure = ON_FAILURE_RESTART;
    case_job.most_restarts = most;
    case_open();
    for (int i = 0; i < np; i++) {
        case_start(i);
    }
}

Test(verdict, a_failure_after_which_the_rank_was_started_again_does_not_count)
{
    run_restarts(2, 3);
    case_report(1, RANK_REPORT_AGAIN, SIGKILL);
    case_start(1);
    case_report(1, RANK_REPORT_AGAIN_NOT_LEFT, 0);
    case_start(1);
    case_end(0, 0);
    case_end(1, 0);
    foreign_ranks_say_restarts();
    case_ends(0, 0,
              "nixlrun: rank 1 on host h1 (pid 101) was killed by signal 9 (Killed); it is started "
              "again (1 of 3)\n"
              "nixlrun: rank 1 on host h1 (pid 101) exited with code 0 but without nixl_finalize; "
              "it is started again (2 of 3)\n"
              "nixlrun: rank 1 was started again 2 times\n");
}

Test(verdict, a_failure_beyond_the_number_counts)
{
    run_restarts(2, 1);
    case_report(1, RANK_REPORT_AGAIN, CASE_CODE(3));
    case_start(1);
    case_end(1, CASE_CODE(4));
    case_end(0, SIGTERM);
    case_ends(CASE_CODE(4), 4,
              "nixlrun: rank 1 on host h1 (pid 101) exited with code 3; it is started again (1 of "
              "1)\n"
              "nixlrun: rank 1 on host h1 (pid 101) exited with code 4; it was started again 1 "
              "times, as often as --on-failure restart=1 allows: the job ends\n");
}

Test(verdict, a_lost_nixlrun_rank_ends_a_job_with_restarts)
{
    run_restarts(2, 3);
    case_end(0, SIGTERM); /* as the engine ends the others */
    case_ends(CASE_CODE(137), 137,
              "nixlrun: rank 1 on host h1 (pid 101) was lost: how it ended is unknown\n");
}
