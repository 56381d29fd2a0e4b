/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of an engine: what nixlrun knows of their ranks from reports, from the engine's lines and
 * from silence, and how it ends a job.
 */
#include "config.h"

#include "test/unit/foreign_case.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

TestSuite(foreign, .timeout = 60);

/* ---- jobs that continue ---------------------------------------------------------------------- */

Test(foreign, the_others_continue_after_a_death)
{
    case_continue(&engine_openmpi, 3);
    case_end(1, SIGKILL);
    case_pass(NXR_S);
    case_end(0, 0);
    case_end(2, 0);
    case_ends(
        0, 137,
        "nixlrun: rank 1 on host h1 (pid 101) was killed by signal 9 (Killed); the other ranks "
        "continue\n");
}

/* A rank may fail because another one has died, and be heard of first. */
Test(foreign, the_death_is_told_before_what_it_causes)
{
    case_continue(&engine_openmpi, 3);
    case_end(0, CASE_CODE(5));
    case_pass(100 * NXR_MS);
    cr_expect_str_eq(case_text(1), "");
    case_end(1, SIGSEGV);
    case_end(2, 0);
    case_ends(
        0, 139,
        "nixlrun: rank 1 on host h1 (pid 101) was killed by signal 11 (Segmentation fault); the "
        "other ranks continue\n"
        "nixlrun: rank 0 on host h0 (pid 100) exited with code 5; the other ranks continue\n");
}

Test(foreign, a_failure_is_told_when_no_death_follows)
{
    case_continue(&engine_openmpi, 2);
    case_end(0, SIGABRT);
    case_pass(300 * NXR_MS);
    cr_expect_str_eq(case_text(1),
                     "nixlrun: rank 0 on host h0 (pid 100) was killed by signal 6 (Aborted); the "
                     "other ranks continue\n");
}

Test(foreign, a_silent_rank_is_told_and_so_is_its_return)
{
    case_continue(&engine_openmpi, 2);
    case_report(0, RANK_REPORT_ALIVE, 0);
    for (int i = 0; i < 3; i++) {
        case_pass(5 * NXR_S);
        case_report(0, RANK_REPORT_ALIVE, 0);
    }
    cr_expect_str_eq(case_text(1), "");
    case_pass(5 * NXR_S);
    case_report(1, RANK_REPORT_ALIVE, 0);
    cr_expect_str_eq(
        case_text(1),
        "nixlrun: rank 1 on host h1 (pid 101) has been silent for 15 s; the other ranks continue\n"
        "nixlrun: rank 1 on host h1 (pid 101) is responding again\n");
    cr_expect_str_eq(case_signals(), "");
}

Test(foreign, a_job_of_silent_ranks_only_is_over)
{
    case_continue(&engine_openmpi, 2);
    case_end(0, 0);
    case_pass(19 * NXR_S);
    cr_expect_str_eq(case_signals(), "");
    case_pass(2 * NXR_S);
    cr_expect_str_eq(case_signals(), "15 18 ");
    cr_expect_eq(case_judge(SIGKILL), 1);
}

/* ---- a slow reader --------------------------------------------------------------------------- */

static int slow_reader; /* the other end of our stdout */

/* Nobody reads our stdout any more, a pipe that replaces it: what a rank writes fills us. */
static void stop_reading(void)
{
    const char *tag = case_engine.id == ENGINE_SLURM ? "0: " : "[1,0]<stdout>:";
    char line[16 * 1024];
    int out[2];

    cr_assert_eq(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    cr_assert_geq(dup2(out[1], STDOUT_FILENO), 0);
    slow_reader = out[0];
    snprintf(line, sizeof(line), "%s%0*d\n", tag, (int)(sizeof(line) - strlen(tag) - 2), 0);
    while (!sink_is_full(sink_standard(0))) {
        case_write(0, line);
    }
}

static void read_all(void)
{
    static char buffer[64 * 1024];

    while (read(slow_reader, buffer, sizeof(buffer)) > 0) {
        case_pass(0);
    }
}

Test(foreign, no_rank_is_silent_while_we_do_not_read)
{
    case_continue(&engine_openmpi, 2);
    stop_reading();
    case_pass(60 * NXR_S);
    cr_expect_str_eq(case_signals(), "");
    read_all();
    case_pass(24 * NXR_S); /* the beat in which we went on reading does not count either */
    cr_expect_str_eq(case_signals(), "");
    case_pass(2 * NXR_S);
    cr_expect_str_eq(case_signals(), "15 18 ");
}

/* What is left of the engine's output waits for the reader, and the engine for that. */
Test(foreign, an_engine_that_nobody_reads_may_outlive_its_ranks)
{
    case_run(&engine_openmpi, 2);
    case_end(0, 0);
    case_end(1, 0);
    stop_reading();
    case_pass(60 * NXR_S);
    cr_expect_str_eq(case_signals(), "");
    read_all();
    case_pass(9 * NXR_S);
    cr_expect_str_eq(case_signals(), "");
    case_pass(2 * NXR_S);
    cr_expect_str_eq(case_signals(), "15 18 ");
    case_ends(SIGTERM, 0, "");
}

/* The engine says that a rank has ended; the rank's report comes behind output that is not read. */
Test(foreign, the_last_words_of_a_rank_wait_for_the_reader)
{
    case_run(&engine_slurm, 2);
    case_end(0, 0);
    case_write(1, "srun: error: h1: task 1: Exited with exit code 5\n");
    stop_reading();
    case_pass(60 * NXR_S);
    read_all();
    case_end(1, CASE_CODE(5));
    case_ends(CASE_CODE(5), 5,
              "srun: error: h1: task 1: Exited with exit code 5\n"
              "nixlrun: rank 1 on host h1 (pid 101) exited with code 5\n");
}

/* The report of the death that has caused a failure waits for the reader. */
Test(foreign, a_death_behind_unread_output_is_told_first)
{
    case_continue(&engine_openmpi, 2);
    case_end(0, CASE_CODE(5));
    stop_reading();
    case_pass(NXR_S);
    read_all();
    case_end(1, SIGSEGV);
    case_ends(
        0, 139,
        "nixlrun: rank 1 on host h1 (pid 101) was killed by signal 11 (Segmentation fault); the "
        "other ranks continue\n"
        "nixlrun: rank 0 on host h0 (pid 100) exited with code 5; the other ranks continue\n");
}

/* ---- ends ------------------------------------------------------------------------------------ */

Test(foreign, a_rank_that_does_not_start_is_told)
{
    case_prepare(&engine_openmpi, 2);
    case_job.on_failure = ON_FAILURE_CONTINUE;
    case_open();
    case_start(0);
    for (int i = 0; i < 6; i++) {
        case_pass(5 * NXR_S);
        case_report(0, RANK_REPORT_ALIVE, 0);
    }
    cr_expect(strstr(case_text(1), "within 30 s") == NULL);
    case_pass(5 * NXR_S);
    cr_expect(strstr(case_text(1), "nixlrun: rank 1 on host h1 has not started within 30 s of the "
                                   "first one; the other ranks continue; is /opt/nixlrun-rank on "
                                   "that host?\n") != NULL);
    case_start(1);
    cr_expect(strstr(case_text(1), "rank 1 on host h1 (pid 101) is responding now\n") != NULL);
}

/* Once a rank has died, Open MPI 4 never ends by itself, even after all others have. */
Test(foreign, an_engine_that_does_not_leave_is_asked_to)
{
    case_continue(&engine_openmpi, 2);
    case_end(1, SIGKILL);
    case_end(0, 0);
    case_report(0, RANK_REPORT_OUT_ENDED, 0);
    case_report(0, RANK_REPORT_OUT_ENDED, 0);
    cr_expect_str_eq(case_signals(), "");
    case_report(1, RANK_REPORT_OUT_ENDED, 0);
    cr_expect_str_eq(case_signals(), "15 18 ");
}

Test(foreign, an_engine_that_leaves_by_itself_is_not_asked)
{
    case_prepare(&engine_openmpi, 1);
    case_engine.leaves_since = 4;
    case_job.on_failure = ON_FAILURE_CONTINUE;
    case_open();
    case_start(0);
    case_end(0, SIGKILL);
    case_report(0, RANK_REPORT_OUT_ENDED, 0);
    cr_expect_str_eq(case_signals(), "");
}

/* ---- the start and the end ------------------------------------------------------------------- */

Test(foreign, a_slow_start_is_told_once)
{
    case_prepare(&engine_slurm, 2);
    case_open();
    case_start(1);
    case_pass(9 * NXR_S);
    cr_expect_str_eq(case_text(1), "");
    case_pass(60 * NXR_S);
    cr_expect_str_eq(
        case_text(1),
        "nixlrun: 1 of 2 ranks have started; engine is waiting for rank 0 on host h0: check with "
        "squeue and sinfo whether the job is waiting for resources\n"
        "nixlrun: this wait has no limit: press Ctrl-C to end it, or start the job with "
        "--timeout\n");
}

Test(foreign, a_slow_start_tells_the_limit)
{
    case_prepare(&engine_slurm, 1);
    case_job.timeout_ns = 90 * NXR_S;
    case_open();
    case_pass(11 * NXR_S);
    cr_expect(strstr(case_text(1), "--timeout kills the job 90 s after its start\n") != NULL);
}

Test(foreign, a_start_in_time_is_not_told)
{
    case_run(&engine_slurm, 2);
    case_pass(60 * NXR_S);
    cr_expect_str_eq(case_text(1), "");
}

Test(foreign, an_engine_that_starts_nothing)
{
    case_prepare(&engine_slurm, 2);
    case_open();
    case_ends(CASE_CODE(4), 1, "nixlrun: engine exited with code 4 before any rank started\n");
}

Test(foreign, a_host_without_nixlrun_rank_is_asked_for)
{
    case_prepare(&engine_flux, 2);
    case_open();
    case_start(0);
    case_ends(CASE_CODE(127), 127,
              "nixlrun: engine exited with code 127; how 2 ranks ended is unknown\n"
              "nixlrun: rank 1 on host h1 has not started: is /opt/nixlrun-rank on that host?\n");
}

Test(foreign, an_engine_names_a_rank_that_could_not_start)
{
    case_prepare(&engine_slurm, 2);
    case_open();
    case_start(0);
    case_write(1, "srun: error: h1: task 1: Exited with exit code 127\n");
    case_pass(3 * NXR_S);
    cr_expect(strstr(case_text(1), "nixlrun: rank 1 on host h1 did not start (code 127): is "
                                   "/opt/nixlrun-rank on that host?") != NULL);
    cr_expect_eq(case_judge(CASE_CODE(127)), 127);
}

/* A rank of Slurm that fails: nixlrun asks all to end, then the engine, then kills it. */
Test(foreign, an_end_has_three_steps)
{
    case_run(&engine_openmpi, 2);
    foreign_end_by_signal(SIGTERM);
    cr_expect_str_eq(case_signals(), "23 ");
    case_pass(4 * NXR_S);
    cr_expect_str_eq(case_signals(), "23 ");
    case_pass(2 * NXR_S);
    cr_expect_str_eq(case_signals(), "23 15 18 ");
    case_pass(6 * NXR_S);
    cr_expect_str_eq(case_signals(), "23 15 18 ");
    case_pass(2 * NXR_S);
    cr_expect_str_eq(case_signals(), "23 15 18 kill all 9 ");
    case_ends(SIGKILL, 143, "nixlrun: engine did not end; killing it\n");
}

Test(foreign, an_end_without_grace_asks_at_once)
{
    case_prepare(&engine_openmpi, 1);
    case_job.grace_ns = 0;
    case_open();
    case_start(0);
    foreign_end_by_signal(SIGINT);
    cr_expect_str_eq(case_signals(), "15 18 ");
    case_ends(SIGTERM, 130, "");
}

Test(foreign, an_engine_that_wants_two_requests_gets_them)
{
    case_prepare(&engine_openmpi, 1);
    case_engine.end_signal = SIGINT;
    case_job.grace_ns = 0;
    case_open();
    foreign_end_by_signal(SIGINT);
    case_pass(2 * NXR_S);
    cr_expect_str_eq(case_signals(), "2 18 2 ");
}

Test(foreign, a_rank_ends_the_job_with_its_code)
{
    case_run(&engine_openmpi, 2);
    case_report(1, RANK_REPORT_ENDS_JOB, 5);
    case_report(0, RANK_REPORT_ENDS_JOB, 6);
    case_end(0, SIGTERM);
    case_end(1, SIGTERM);
    case_ends(CASE_CODE(143), 5, "");
    cr_expect_str_eq(case_signals(), "23 ");
}

Test(foreign, the_step_of_slurm_needs_both_numbers)
{
    case_run(&engine_slurm, 1);
    cr_expect(foreign_ranks_step() == NULL);
    case_report(0, RANK_REPORT_JOB, 0);
    cr_expect(foreign_ranks_step() == NULL);
    case_report(0, RANK_REPORT_STEP, 0);
    cr_expect_str_eq(foreign_ranks_step(), "0.0");
    case_report(0, RANK_REPORT_JOB, 12);
    cr_expect_str_eq(foreign_ranks_step(), "12.0");
}

Test(foreign, the_state_of_each_rank)
{
    case_prepare(&engine_slurm, 3);
    case_open();
    case_start(0);
    case_start(1);
    case_end(1, CASE_CODE(0));
    foreign_ranks_say();
    cr_expect_str_eq(
        case_text(1),
        "nixlrun:   rank 0 on host h0 (pid 100): running\n"
        "nixlrun:   rank 1 on host h1 (pid 101): exited with code 0\n"
        "nixlrun:   rank 2 on host h2: has not started\n"
        "nixlrun: 2 of 3 ranks have started; engine is waiting for rank 2 on host h2: check with "
        "squeue and sinfo whether the job is waiting for resources\n");
}

Test(foreign, verbose_tells_each_step)
{
    case_prepare(&engine_slurm, 2);
    case_job.verbose = 1;
    case_open();
    case_start(0);
    case_start(1);
    case_end(0, 0);
    case_end(1, SIGKILL);
    cr_expect_str_eq(case_text(1), "nixlrun: rank 0 started as pid 100 on host h0\n"
                                   "nixlrun: rank 1 started as pid 101 on host h1\n"
                                   "nixlrun: rank 0 ended with code 0\n"
                                   "nixlrun: rank 1 ended with signal 9\n");
}

Test(foreign, failures_are_told_in_their_order)
{
    case_continue(&engine_openmpi, 2);
    case_end(1, CASE_CODE(5));
    case_end(0, CASE_CODE(6));
    case_ends(
        0, 5,
        "nixlrun: rank 1 on host h1 (pid 101) exited with code 5; the other ranks continue\n"
        "nixlrun: rank 0 on host h0 (pid 100) exited with code 6; the other ranks continue\n");
}

Test(foreign, an_engine_that_outlives_its_ranks_is_ended)
{
    case_run(&engine_openmpi, 2);
    case_end(0, 0);
    case_end(1, 0);
    case_pass(9 * NXR_S);
    cr_expect_str_eq(case_signals(), "");
    case_pass(2 * NXR_S);
    cr_expect_str_eq(case_signals(), "15 18 ");
    case_ends(SIGTERM, 0, "");
}

Test(foreign, an_engine_that_outlives_a_rank_without_finalize_is_ended)
{
    case_continue(&engine_openmpi, 1);
    case_report(0, RANK_REPORT_NOT_LEFT, 0);
    case_pass(11 * NXR_S);
    cr_expect_str_eq(case_signals(), "15 18 ");
}

Test(foreign, a_sign_of_life_is_no_start)
{
    case_prepare(&engine_openmpi, 2);
    case_open();
    case_report(0, RANK_REPORT_ALIVE, 0);
    cr_expect_eq(foreign_ranks_missing(), 0);
    case_start(0);
    cr_expect_eq(foreign_ranks_missing(), 1);
    case_start(1);
    cr_expect_eq(foreign_ranks_missing(), -1);
    cr_expect_eq(foreign_ranks.n_ended, 0);
}

Test(foreign, what_comes_after_the_end_of_a_rank_counts_for_nothing)
{
    case_prepare(&engine_openmpi, 3);
    case_open();
    case_report(0, RANK_REPORT_NOT_EXEC, ENOENT);
    case_report(0, RANK_REPORT_NOT_EXEC, ENOENT);
    case_report(1, RANK_REPORT_NOT_CHDIR, ENOENT);
    case_end(1, CASE_CODE(2));
    cr_expect_eq(foreign_ranks.n_ended, 2);
    cr_expect_eq(foreign_ranks_missing(), 2);
    case_write(1, "mpirun noticed that process rank 0 with PID 7 exited\n");
    cr_expect_eq(foreign_ranks.members[0].is_gone, false);
}

static void does_not_start(int code, const char *why)
{
    char line[128];

    case_prepare(&engine_slurm, 2);
    case_open();
    case_start(0);
    snprintf(line, sizeof(line), "srun: error: h1: task 1: Exited with exit code %d\n", code);
    case_write(1, line);
    case_pass(1900 * NXR_MS);
    cr_expect(strstr(case_text(1), "nixlrun:") == NULL);
    case_pass(200 * NXR_MS);
    cr_expect(strstr(case_text(1), why) != NULL, "%s", case_text(1));
}

Test(foreign, a_rank_program_that_cannot_be_run)
{
    does_not_start(126, "rank 1 on host h1 did not start (code 126): is /opt/nixlrun-rank on");
}

Test(foreign, a_rank_program_that_is_not_there)
{
    does_not_start(2, "rank 1 on host h1 did not start (code 2): is /opt/nixlrun-rank on");
}

Test(foreign, a_rank_program_that_fails)
{
    does_not_start(5, "rank 1 on host h1 did not start: its nixlrun-rank exited with code 5\n");
}

Test(foreign, ranks_of_slurm_are_signalled_by_its_program)
{
    case_run(&engine_slurm, 2);
    case_engine.signal_program = "sh"; /* one that there is */
    case_report(0, RANK_REPORT_JOB, 7);
    case_report(0, RANK_REPORT_STEP, 3);
    case_end(1, CASE_CODE(4));
    case_pass(300 * NXR_MS);
    cr_expect_str_eq(case_signals(), "scancel --signal=15 7.3 ");
    case_end(0, SIGTERM);
    case_ends(CASE_CODE(4), 4, "nixlrun: rank 1 on host h1 (pid 101) exited with code 4\n");
}
