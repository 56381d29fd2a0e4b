/* SPDX-License-Identifier: Apache-2.0 */
/* The output of an engine: lines of ranks, reports between them, and the engine's own lines. */
#include "config.h"

#include "test/unit/foreign_case.h"

#include "launcher/frame.h"
#include "util/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(foreign_output, .timeout = 60);

/* A line is written in parts of more than 1 MiB. */
enum { PART_NBYTES = 1024 * 1024 + 1, LONG_NBYTES = PART_NBYTES + 100 };

/* nixlrun-rank writes a text in frames, each of which mpirun tags. */
static void frames(enum frame_kind kind, int rank, int which, const char *text, size_t nbytes)
{
    char frame[FRAME_MOST_NBYTES], tagged[FRAME_MOST_NBYTES + 64];
    size_t taken;

    do {
        size_t used = frame_write(kind, text, nbytes, frame, &taken);

        snprintf(tagged, sizeof(tagged), "[1,%d]<%s>:%.*s", rank, which == 0 ? "stdout" : "stderr",
                 (int)used, frame);
        case_write(which, tagged);
        text += taken;
        nbytes -= taken;
    } while (nbytes > 0);
}

static void says(int rank, int which, const char *text)
{
    frames(FRAME_OUTPUT, rank, which, text, strlen(text));
}

static void reports(int rank, int which, const char *text)
{
    frames(FRAME_REPORT, rank, which, text, strlen(text));
}

/* Part of a line that is too long to wait for its end. */
static void says_long(int rank, char c)
{
    char *text = malloc(LONG_NBYTES);

    memset(text, c, LONG_NBYTES);
    frames(FRAME_OUTPUT, rank, 0, text, LONG_NBYTES);
    free(text);
}

static void open_job(int np)
{
    case_prepare(&engine_openmpi, np);
    case_open();
}

Test(foreign_output, lines_are_written_whole)
{
    open_job(2);
    says(0, 0, "a");
    says(1, 0, "b");
    cr_expect_str_eq(case_text(0), "");
    says(1, 0, "c\nd\n");
    says(0, 0, "e [1,1]<stdout>: f\020\n");
    cr_expect_str_eq(case_text(0), "bc\nd\nae [1,1]<stdout>: f\020\n");
    cr_expect_str_eq(case_text(1), "");
}

Test(foreign_output, the_streams_are_apart)
{
    open_job(2);
    says(1, 0, "out ");
    says(1, 1, "err\n");
    says(1, 0, "out\n");
    cr_expect_str_eq(case_text(0), "out out\n");
    cr_expect_str_eq(case_text(1), "err\n");
}

Test(foreign_output, each_line_has_its_tag)
{
    case_prepare(&engine_openmpi, 3);
    case_job.tag_output = true;
    case_open();
    says(2, 0, "a\nb\n");
    says(0, 0, "c");
    says(1, 0, "\n");
    says(0, 0, "d\n");
    cr_expect_str_eq(case_text(0), "[2] a\n[2] b\n[1] \n[0] cd\n");
}

Test(foreign_output, a_last_line_needs_no_newline)
{
    open_job(2);
    says(0, 0, "a");
    says(1, 0, "b");
    reports(0, 0, "0 h0 7 o 0");
    cr_expect_str_eq(case_text(0), "a");
    case_judge(0);
    cr_expect_str_eq(case_text(0), "a\nb");
}

Test(foreign_output, a_last_byte_of_the_engine_is_written)
{
    open_job(2);
    case_write(1, "!");
    cr_expect(strchr(case_text(1), '!') == NULL);
    case_judge(0);
    cr_expect(strchr(case_text(1), '!') != NULL);
}

/* ---- reports --------------------------------------------------------------------------------- */

Test(foreign_output, reports_are_passed_on)
{
    open_job(2);
    reports(1, 1, "1 here 77 s 0");
    cr_expect_eq(foreign_ranks.members[1].state, MEMBER_STARTED);
    cr_expect_eq(foreign_ranks.members[1].pid, 77);
    cr_expect_str_eq(foreign_ranks.members[1].host, "here");
    reports(1, 1, "1 here 77 e 768");
    cr_expect_eq(foreign_ranks.members[1].wait_status, 768);
    cr_expect_eq(foreign_ranks.n_ended, 1);
    cr_expect_eq(foreign_ranks.n_started, 1);
    cr_expect_str_eq(case_text(0), "");
}

Test(foreign_output, an_end_comes_after_the_last_words)
{
    open_job(1);
    reports(0, 1, "0 h0 7 s 0");
    says(0, 1, "no newline");
    reports(0, 1, "0 h0 7 e 256");
    cr_expect_str_eq(case_text(1),
                     "no newline\nnixlrun: rank 0 on host h0 (pid 7) exited with code 1\n");
}

Test(foreign_output, reports_on_the_wrong_stream_are_dropped)
{
    open_job(1);
    reports(0, 0, "0 h0 7 s 0");
    reports(0, 1, "0 h0 7 j 5");
    reports(0, 1, "0 h0 7 p 5");
    cr_expect_eq(foreign_ranks.n_started, 0);
    cr_expect(foreign_ranks_step() == NULL);
    reports(0, 0, "0 h0 7 j 5");
    reports(0, 0, "0 h0 7 p 6");
    cr_expect_str_eq(foreign_ranks_step(), "5.6");
}

Test(foreign_output, reports_in_another_form_are_dropped)
{
    open_job(1);
    reports(0, 1, "");
    reports(0, 1, "0 h0 7 s");
    reports(0, 1, "nothing of it");
    cr_expect_eq(foreign_ranks.n_started, 0);
    reports(0, 1, "0 h0 7 s 0");
    cr_expect_eq(foreign_ranks.n_started, 1);
}

/* ---- the engine's own lines ------------------------------------------------------------------ */

Test(foreign_output, lines_of_the_engine_are_held_for_a_moment)
{
    open_job(1);
    case_write(1, "a warning\n");
    case_write(0, "another one\n");
    case_pass(200 * NXR_MS);
    cr_expect_str_eq(case_text(1), "");
    case_pass(100 * NXR_MS);
    cr_expect_str_eq(case_text(1), "a warning\nanother one\n");
    cr_expect_str_eq(case_text(0), "");
}

Test(foreign_output, many_lines_of_the_engine_are_not_held)
{
    char line[101];

    open_job(1);
    memset(line, 'x', sizeof(line) - 2);
    line[99] = '\n';
    line[100] = '\0';
    for (int i = 0; i < 656; i++) {
        case_write(1, line);
    }
    cr_expect_eq(strlen(case_text(1)), 65600);
}

Test(foreign_output, what_the_engine_says_of_a_failure_is_dropped)
{
    open_job(1);
    reports(0, 1, "0 h0 7 s 0");
    case_write(1, "mpirun detected that ...\n");
    reports(0, 1, "0 h0 7 e 256");
    case_write(1, "Primary job terminated\n");
    case_pass(NXR_S);
    cr_expect_str_eq(case_text(1), "nixlrun: rank 0 on host h0 (pid 7) exited with code 1\n");
}

Test(foreign_output, a_process_that_cannot_be_killed_is_told)
{
    open_job(1);
    reports(0, 1, "0 h0 7 s 0");
    reports(0, 1, "0 h0 8 l 65534");
    reports(0, 1, "0 h0 7 e 0");
    case_pass(NXR_S);
    cr_expect(strstr(case_text(1), "nixlrun: pid 8 on host h0 cannot be killed, as it runs as "
                                   "another user (uid 65534): it is left running\n") != NULL);
}

Test(foreign_output, verbose_keeps_what_the_engine_says)
{
    case_prepare(&engine_openmpi, 1);
    case_job.verbose = 1;
    case_open();
    case_write(1, "mpirun detected\n");
    foreign_output_silence_engine();
    case_write(1, "Primary job\n");
    case_pass(NXR_S);
    cr_expect_str_eq(case_text(1), "mpirun detected\nPrimary job\n");
}

Test(foreign_output, the_rest_is_written_at_the_end)
{
    open_job(1);
    case_write(1, "without newline");
    case_judge(0);
    cr_expect(strstr(case_text(1), "without newline") != NULL);
}

Test(foreign_output, lines_of_slurmstepd_are_the_engines)
{
    case_prepare(&engine_slurm, 2);
    case_open();
    case_write(1, "1: slurmstepd-h1: task killed\n");
    case_write(1, "1: slurmstepd\n");
    cr_expect_str_eq(case_text(1), "slurmstepd\n");
    case_pass(NXR_S);
    cr_expect_str_eq(case_text(1), "slurmstepd\nslurmstepd-h1: task killed\n");
}

static const char lack[] = "srun: cluster configuration lacks support for cpu binding\n";

Test(foreign_output, needless_lines_are_left_out)
{
    case_prepare(&engine_slurm, 1);
    case_open();
    case_write(1, lack);
    case_write(1, "srun: something else\n");
    case_pass(NXR_S);
    cr_expect_str_eq(case_text(1), "srun: something else\n");
}

/* As mpirun 4.1 writes it, on a busy machine. */
Test(foreign_output, mpirun_is_late_for_a_process_that_starts_a_daemon)
{
    case_prepare(&engine_openmpi, 1);
    case_open();
    case_write(1, "[h0:299] plm:rsh: Warning: setpgid(303,303) failed in parent with "
                  "errno=Permission denied(13)\n");
    case_write(1, "[h0:299] plm:rsh: Error: setpgid(0,0) failed in child with errno=none(1)\n");
    case_pass(NXR_S);
    cr_expect_str_eq(case_text(1), "[h0:299] plm:rsh: Error: setpgid(0,0) failed in child with "
                                   "errno=none(1)\n");
}

Test(foreign_output, a_line_about_what_was_asked_for_is_not_needless)
{
    case_prepare(&engine_slurm, 1);
    case_job.bind = BIND_CORE;
    case_open();
    case_write(1, lack);
    case_pass(NXR_S);
    cr_expect_str_eq(case_text(1), lack);
}

/* ---- long lines ------------------------------------------------------------------------------ */

/* The text has nbytes times c, then the rest. */
static void is_long(const char *text, char c, size_t nbytes, const char *rest)
{
    size_t n = 0;

    while (text[n] == c) {
        n++;
    }
    cr_expect_eq(n, nbytes);
    cr_expect_str_eq(text + n, rest);
}

Test(foreign_output, others_wait_for_the_end_of_a_long_line)
{
    case_prepare(&engine_openmpi, 3);
    case_open();
    says_long(1, 'x');
    says(0, 0, "zero\nmore\n");
    says(2, 0, "two\n");
    is_long(case_text(0), 'x', PART_NBYTES, "");
    says(1, 0, "end\n");
    case_pass(0);
    is_long(case_text(0), 'x', LONG_NBYTES, "end\nzero\nmore\ntwo\n");
}

/* One pipe carries all: the rest of the line may be behind what others have written. */
Test(foreign_output, a_long_line_has_time_while_others_are_read)
{
    open_job(2);
    says_long(1, 'x');
    case_pass(3 * NXR_S);
    says(0, 0, "zero\n");
    case_pass(4 * NXR_S);
    is_long(case_text(0), 'x', PART_NBYTES, "");
    case_pass(2 * NXR_S);
    is_long(case_text(0), 'x', PART_NBYTES, "\nzero\n");
}

Test(foreign_output, a_long_line_may_end_without_newline)
{
    case_prepare(&engine_openmpi, 2);
    case_job.tag_output = true;
    case_open();
    says_long(1, 'x');
    says(0, 0, "zero\n");
    reports(1, 0, "1 h1 7 o 0");
    case_pass(0);
    cr_assert_eq(strncmp(case_text(0), "[1] xx", 6), 0);
    is_long(case_text(0) + 4, 'x', LONG_NBYTES, "\n[0] zero\n");
}

/* ---- files ----------------------------------------------------------------------------------- */

static void file_has(const char *dir, const char *name, const char *wanted)
{
    char path[128], text[128];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_RDONLY);
    cr_assert_geq(fd, 0, "%s", path);
    n = read(fd, text, sizeof(text) - 1);
    cr_assert_geq(n, 0);
    text[n] = '\0';
    close(fd);
    unlink(path);
    cr_expect_str_eq(text, wanted, "%s", name);
}

Test(foreign_output, files_of_each_rank)
{
    char dir[] = "/tmp/foreign.XXXXXX";

    cr_assert(mkdtemp(dir) != NULL);
    case_prepare(&engine_openmpi, 2);
    case_job.output_dir = dir;
    case_open();
    says(0, 0, "a\n");
    says(1, 1, "b\nc");
    says(0, 0, "d\n");
    case_judge(0);
    sink_flush_all();
    file_has(dir, "rank.0.out", "a\nd\n");
    file_has(dir, "rank.1.err", "b\nc");
    cr_expect_eq(rmdir(dir), 0, "files that nobody has written to");
    cr_expect_str_eq(case_text(0), "");
}

/* ---- the end --------------------------------------------------------------------------------- */

Test(foreign_output, what_is_left_of_the_engine_is_read)
{
    open_job(1);
    says(0, 0, "first\n");
    cr_expect(foreign_output_is_open());
    case_leave(0, "[1,0]<stdout>:last\n");
    case_leave(1, "[1,0]<stderr>:word\n");
    foreign_output_finish();
    cr_expect_eq(foreign_output_is_open(), false);
    cr_expect_str_eq(case_text(0), "first\nlast\n");
    cr_expect_str_eq(case_text(1), "word\n");
    foreign_output_finish();
}

/* mpirun 4.1 drops what a write has not taken, if its job has just ended. */
enum { WRITES = 200, WRITE_NBYTES = 4236, SIGNALS_PER_READ = 50 };
static atomic_bool has_written;

static void *write_whole(void *unused)
{
    char text[WRITE_NBYTES + 1];
    intptr_t n_short = 0;

    (void)unused;
    memset(text, '\n', WRITE_NBYTES);
    text[WRITE_NBYTES] = '\0';
    for (int i = 0; i < WRITES; i++) {
        n_short += !case_leaves_all(0, text);
    }
    has_written = true;
    return (void *)n_short;
}

static void foreign_output_note(int number)
{
    (void)number;
}

Test(foreign_output, a_signal_cuts_no_write_short)
{
    struct sigaction action = {.sa_handler = foreign_output_note, .sa_flags = SA_RESTART};
    pthread_t writer;
    void *n_short;

    open_job(1);
    sigaction(SIGUSR1, &action, NULL);
    cr_assert_eq(pthread_create(&writer, NULL, write_whole, NULL), 0);
    while (!has_written) {
        for (int i = 0; i < SIGNALS_PER_READ; i++) {
            pthread_kill(writer, SIGUSR1);
            sched_yield();
        }
        case_pass(0);
    }
    pthread_join(writer, &n_short);
    cr_expect_eq((intptr_t)n_short, 0, "%d writes cut short", (int)(intptr_t)n_short);
}

Test(foreign_output, one_stream_that_is_open_counts)
{
    open_job(1);
    case_close(0);
    cr_expect(foreign_output_is_open());
    case_close(1);
    cr_expect_eq(foreign_output_is_open(), false);
}
