/* SPDX-License-Identifier: Apache-2.0 */
/* The log: levels per subsystem, the file, the user's function. */
#include "util/log.h"
#include "util/clock.h"
#include "util/log_limit.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char why[256];

static int level_of(enum nxr_log_subsystem subsystem)
{
    return nxr_log_levels[subsystem];
}

TestSuite(log, .timeout = 120);

Test(log, warn_is_the_default)
{
    cr_expect(eq(int, level_of(NXR_LOG_SHM), NIXL_LOG_WARN));
    cr_expect(eq(int, level_of(NXR_LOG_CORE), NIXL_LOG_WARN));
}

Test(log, a_level_holds_for_all_and_one_for_its_subsystem)
{
    cr_assert(eq(int, nxr_log_configure("info,shm:trace,BOOT:Error", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(int, level_of(NXR_LOG_CORE), NIXL_LOG_INFO));
    cr_expect(eq(int, level_of(NXR_LOG_SHM), NIXL_LOG_TRACE));
    cr_expect(eq(int, level_of(NXR_LOG_BOOT), NIXL_LOG_ERROR));
    cr_assert(eq(int, nxr_log_configure("trace,", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(int, level_of(NXR_LOG_SHM), NIXL_LOG_TRACE));
    cr_assert(eq(int, nxr_log_configure("", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(int, level_of(NXR_LOG_SHM), NIXL_LOG_WARN));
}

Test(log, bad_levels_are_refused_and_change_nothing)
{
    static const char *const cases[] = {
        "loud", "shm:loud",       "ship:info",     ",info", ":info",
        "shm:", "shm:info:debug", "warn;shm:info", "in",
    };

    cr_assert(eq(int, nxr_log_configure("debug", why, sizeof(why)), NIXL_OK));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = nxr_log_configure(cases[i], why, sizeof(why));

        cr_expect(eq(int, status, NIXL_E_INVALID_ARG), "'%s'", cases[i]);
        cr_expect(strstr(why, "NIXLRUN_LOG has") != NULL, "'%s'", why);
        cr_expect(strstr(why, "error, warn, info, debug or trace") != NULL, "'%s'", why);
        cr_expect(eq(int, level_of(NXR_LOG_SHM), NIXL_LOG_DEBUG), "'%s'", cases[i]);
    }
}

/* ---- the user's function --------------------------------------------------------------------- */

struct heard {
    int n;
    enum nixl_log_level level;
    char subsystem[16];
    char text[2048];
};

static void hear(enum nixl_log_level level, const char *subsystem, const char *text, void *arg)
{
    struct heard *heard = arg;

    heard->n++;
    heard->level = level;
    snprintf(heard->subsystem, sizeof(heard->subsystem), "%s", subsystem);
    snprintf(heard->text, sizeof(heard->text), "%s", text);
}

Test(log, the_users_function_gets_level_subsystem_and_text)
{
    struct heard heard = {0};

    nixl_log_set_fn(hear, &heard);
    errno = EBADF;
    nxr_warn(SHM, "peer %d is %s", 3, "late");
    cr_expect(eq(int, errno, EBADF), "errno is kept");
    cr_expect(eq(int, heard.n, 1));
    cr_expect(eq(int, heard.level, NIXL_LOG_WARN));
    cr_expect_str_eq(heard.subsystem, "shm");
    cr_expect_str_eq(heard.text, "peer 3 is late");
    nxr_info(SHM, "not written at this level");
    cr_expect(eq(int, heard.n, 1));
    nxr_warn(SHM, "region '%s'", "of two\r\nlines\n");
    cr_expect_str_eq(heard.text, "region 'of two  lines '");
    nixl_log_set_fn(NULL, NULL);
}

/* ---- the limit ------------------------------------------------------------------------------- */

static void flood(int n)
{
    for (int i = 0; i < n; i++) {
        nxr_warn(HOST, "stranger %d", i);
    }
}

Test(log, a_flood_is_cut_and_what_was_left_out_is_counted)
{
    struct heard heard = {0};
    int64_t now = nxr_now_ns();

    nixl_log_set_fn(hear, &heard);
    flood(1000);
    cr_expect(ge(int, heard.n, NXR_LOG_BURST));
    cr_expect(le(int, heard.n, NXR_LOG_BURST + 10), "one a second more, on a slow machine");
    nxr_error(SHM, "something else");
    cr_expect_str_eq(heard.text, "something else");
    cr_expect(eq(i64, nxr_log_tick(now + 3600 * NXR_S), INT64_MAX));
    cr_expect_str_eq(heard.subsystem, "host");
    cr_expect(eq(int, heard.level, NIXL_LOG_WARN));
    cr_expect(eq(int, strncmp(heard.text, "... 9", 5), 0), "%s", heard.text);
    cr_expect(strstr(heard.text, " more like this: stranger ") != NULL, "%s", heard.text);
    cr_expect(eq(i64, nxr_log_tick(now + 7200 * NXR_S), INT64_MAX), "told once");
    nixl_log_set_fn(NULL, NULL);
}

Test(log, what_was_left_out_is_told_before_the_log_ends)
{
    struct heard heard = {0};

    nixl_log_set_fn(hear, &heard);
    flood(100);
    nxr_log_open(NULL);
    cr_expect(strstr(heard.text, " more like this: stranger ") != NULL, "%s", heard.text);
    nixl_log_set_fn(NULL, NULL);
}

Test(log, a_kind_of_line_has_one_a_second_again_and_a_burst_after_a_rest)
{
    static const char format[] = "some format";
    struct nxr_log_limit *limit = calloc(1, sizeof(*limit));
    int64_t due;

    for (int i = 0; i < 2 * NXR_LOG_BURST; i++) {
        cr_expect(eq(int, nxr_log_limit_take(limit, format, NXR_S) != NULL, i < NXR_LOG_BURST));
    }
    cr_expect(nxr_log_limit_take(limit, format, 2 * NXR_S - 1) == NULL);
    cr_expect(nxr_log_limit_due(limit, 2 * NXR_S - 1, &due) == NULL);
    cr_expect(eq(i64, due, 2 * NXR_S));
    cr_expect(nxr_log_limit_take(limit, format, 2 * NXR_S) != NULL);
    cr_expect(nxr_log_limit_take(limit, format, 2 * NXR_S) == NULL);
    for (int i = 0; i < 2 * NXR_LOG_BURST; i++) {
        cr_expect(
            eq(int, nxr_log_limit_take(limit, format, 1000 * NXR_S) != NULL, i < NXR_LOG_BURST));
    }
    free(limit);
}

Test(log, more_kinds_than_are_known_are_still_limited_each)
{
    static const char formats[2 * NXR_LOG_KINDS][8];
    struct nxr_log_limit *limit = calloc(1, sizeof(*limit));

    for (int i = 0; i < 2 * NXR_LOG_KINDS; i++) {
        for (int j = 0; j < NXR_LOG_BURST; j++) {
            cr_expect(nxr_log_limit_take(limit, formats[i], NXR_S + i) != NULL);
        }
        cr_expect(nxr_log_limit_take(limit, formats[i], NXR_S + i) == NULL);
    }
    free(limit);
}

static int n_evaluated;

static int evaluate(void)
{
    return ++n_evaluated;
}

Test(log, arguments_are_evaluated_only_when_the_line_is_written)
{
    struct heard heard = {0};

    nixl_log_set_fn(hear, &heard);
    nxr_debug(CORE, "%d", evaluate());
    cr_expect(eq(int, n_evaluated, 0));
    nxr_error(CORE, "%d", evaluate());
    cr_expect(eq(int, n_evaluated, 1));
    nixl_log_set_fn(NULL, NULL);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    static char text[16384];
    FILE *file = fopen(path, "r");
    size_t nbytes;

    cr_assert(file != NULL, "%s", path);
    nbytes = fread(text, 1, sizeof(text) - 1, file);
    text[nbytes] = '\0';
    fclose(file);
    return text;
}

Test(log, a_file_is_named_by_rank_and_host)
{
    char dir[] = "/tmp/nixlrun-log-XXXXXX", pattern[64], path[64];

    cr_assert(mkdtemp(dir) != NULL);
    snprintf(pattern, sizeof(pattern), "%s/%%r-%%h.log", dir);
    snprintf(path, sizeof(path), "%s/3-here.log", dir);
    nxr_log_identity("", 3, 8, "here");
    cr_assert(eq(int, nxr_log_open(pattern), NIXL_OK));
    nxr_warn(HOST, "first");
    nxr_error(ENV, "second");
    cr_expect_str_eq(read_file(path), "[3/8 here] host: first\n[3/8 here] env: second\n");
    cr_assert(eq(int, nxr_log_open(NULL), NIXL_OK));
    unlink(path);
    rmdir(dir);
}

Test(log, a_file_that_cannot_be_made_is_an_error)
{
    cr_expect(eq(int, nxr_log_open("/nowhere/at/all"), NIXL_E_INVALID_ARG));
    cr_expect(eq(int, nxr_log_open(""), NIXL_OK));
}

Test(log, a_long_line_is_cut_and_ends_with_a_newline)
{
    char dir[] = "/tmp/nixlrun-log-XXXXXX", path[64], *text;
    char *words = malloc(8001);

    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/log", dir);
    memset(words, 'w', 8000);
    words[8000] = '\0';
    cr_assert(eq(int, nxr_log_open(path), NIXL_OK));
    nxr_warn(CORE, "%s", words);
    nxr_warn(CORE, "next");
    text = read_file(path);
    cr_expect(lt(sz, strlen(text), 1400));
    cr_expect(strstr(text, "w\nnixlrun core: next\n") != NULL);
    nxr_log_open(NULL);
    unlink(path);
    rmdir(dir);
    free(words);
}

#define N_THREADS 4
#define N_LINES   500

static void *write_lines(void *arg)
{
    for (int i = 0; i < N_LINES; i++) {
        nxr_info(CORE, "thread %ld line %d end", (long)(intptr_t)arg, i);
    }
    return NULL;
}

Test(log, lines_of_threads_do_not_mix)
{
    char dir[] = "/tmp/nixlrun-log-XXXXXX", path[64], line[256];
    pthread_t threads[N_THREADS];
    int n_lines = 0;
    FILE *file;

    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/log", dir);
    cr_assert(eq(int, nxr_log_open(path), NIXL_OK));
    cr_assert(eq(int, nxr_log_configure("info", why, sizeof(why)), NIXL_OK));
    for (intptr_t i = 0; i < N_THREADS; i++) {
        pthread_create(&threads[i], NULL, write_lines, (void *)i);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    nxr_log_open(NULL);
    file = fopen(path, "r");
    while (fgets(line, sizeof(line), file) != NULL) {
        int thread, number, nbytes = 0;

        n_lines++;
        cr_expect(
            eq(int,
               sscanf(line, "nixlrun core: thread %d line %d end%n", &thread, &number, &nbytes), 2),
            "%s", line);
        cr_expect(eq(chr, line[nbytes], '\n'), "%s", line);
    }
    cr_expect(eq(int, n_lines, N_THREADS *N_LINES));
    fclose(file);
    unlink(path);
    rmdir(dir);
}

Test(log, a_line_that_nobody_reads_ends_no_program)
{
    int fds[2];

    signal(SIGPIPE, SIG_DFL);
    cr_assert(eq(int, pipe(fds), 0));
    close(fds[0]);
    cr_assert(eq(int, dup2(fds[1], STDERR_FILENO), STDERR_FILENO));
    errno = ENOENT;
    nxr_warn(CORE, "never read");
    cr_expect(eq(int, errno, ENOENT));
}
