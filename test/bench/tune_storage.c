/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl_bench tune --storage: how fast the engines read and write files of a directory, in turns,
 * past the page cache. Each turn is a process of its own, since a process has one engine. What is
 * found is for nixlrun --info and --explain: comments in the file, which the library skips. No
 * state.
 */
#include "config.h"

#include "bench.h"
#include "storage_load.h"
#include "tune.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_ENGINES     2
#define N_CASES       4
#define TURN_NS       (300 * NXR_MS)
#define IN_ORDER      8  /* requests under way, of 1 MiB */
#define AT_RANDOM     32 /* and of 4 KiB */
#define RANDOM_NBYTES 4096
#define WHY_NBYTES    256

static const char *const engines[N_ENGINES] = {"io_uring", "threads"};

/* In the order of the words of a line, see launcher/explain_measured.h. */
static const struct {
    uint64_t nbytes;
    bool is_random, is_put;
    int depth;
} cases[N_CASES] = {
    {STORAGE_MAX_NBYTES, false, false, IN_ORDER},
    {STORAGE_MAX_NBYTES, false, true, IN_ORDER},
    {RANDOM_NBYTES, true, false, AT_RANDOM},
    {RANDOM_NBYTES, true, true, AT_RANDOM},
};

/* What a process says of one turn. */
struct answer {
    double op_ns[N_CASES];
    bool is_missing;      /* the engine, not the file */
    char why[WHY_NBYTES]; /* "": all went well */
};

/* ---- a turn ---------------------------------------------------------------------------------- */

static void keep_why(struct answer *answer)
{
    answer->is_missing = nixl_last_error()->status == NIXL_E_NO_DEVICE;
    snprintf(answer->why, sizeof(answer->why), "%.255s", nixl_last_error()->text);
}

/* In a process of its own. The file has no name from when it is open. */
static void measure_engine(const char *engine, const char *dir, struct answer *answer)
{
    struct storage_load load = {.turn_ns = TURN_NS};
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/nixl_bench.tune.%d", dir, (int)getpid());
    setenv("NIXLRUN_STORAGE", engine, 1);
    unsetenv("NIXLRUN_COLL_TABLE_FILE");
    if (nixl_init(NULL) != NIXL_OK || storage_load_open(&load, NULL, path) != NIXL_OK) {
        keep_why(answer);
        return;
    }
    (void)unlink(path);
    for (int i = 0; i < N_CASES; i++) {
        load.nbytes = cases[i].nbytes;
        load.is_random = cases[i].is_random;
        load.is_put = cases[i].is_put;
        load.depth = cases[i].depth;
        answer->op_ns[i] = storage_load_turn(&load).op_ns;
    }
    storage_load_close(&load);
    bench_check(nixl_finalize(), "nixl_finalize");
}

/* False: the process has failed, and said why. */
static bool ask_process(const char *engine, const char *dir, struct answer *answer)
{
    int fds[2], status = -1;
    pid_t child;
    ssize_t nbytes;

    fflush(NULL);
    if (pipe2(fds, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        tune_fail(EXIT_FAILED, "cannot start a process: %s", strerror(errno));
    }
    if (child == 0) {
        struct answer own = {.why = ""};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        measure_engine(engine, dir, &own);
        _exit(write(fds[1], &own, sizeof(own)) == (ssize_t)sizeof(own) ? 0 : EXIT_FAILED);
    }
    close(fds[1]);
    do {
        nbytes = read(fds[0], answer, sizeof(*answer));
    } while (nbytes < 0 && errno == EINTR);
    close(fds[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return nbytes == (ssize_t)sizeof(*answer) && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- all turns ------------------------------------------------------------------------------- */

static int compare_ns(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of a case's turns, in the unit of its column: MB/s, or requests per second. */
static double figure_of(struct answer *answers, long n, int index)
{
    double ns[TUNE_MAX_ROUNDS], median;

    for (long i = 0; i < n; i++) {
        ns[i] = answers[i].op_ns[index];
    }
    qsort(ns, (size_t)n, sizeof(ns[0]), compare_ns);
    median = ns[n / 2];
    return cases[index].is_random ? 1e9 / median : 1e3 * (double)cases[index].nbytes / median;
}

static void tell_engine(const char *engine, const char *dir, struct answer *answers, long n_rounds,
                        FILE *text)
{
    double figures[N_CASES];

    for (int i = 0; i < N_CASES; i++) {
        figures[i] = figure_of(answers, n_rounds, i);
    }
    fprintf(stderr, "%s: by %s: in order %.0f and %.0f MB/s, at random %.0f and %.0f a second\n",
            dir, engine, figures[0], figures[1], figures[2], figures[3]);
    fprintf(text, "# storage %s %.0f %.0f %.0f %.0f %s\n", engine, figures[0], figures[1],
            figures[2], figures[3], dir);
}

void tune_storage(const char *directory, long n_rounds, FILE *text)
{
    static struct answer answers[N_ENGINES][TUNE_MAX_ROUNDS];
    bool is_measured[N_ENGINES] = {true, true};
    char dir[PATH_MAX];

    if (realpath(directory, dir) == NULL || access(dir, W_OK | X_OK) != 0) {
        tune_fail(EXIT_USAGE, "--storage is '%s': %s; allowed: a directory for a file of 256 MiB",
                  directory, strerror(errno));
    }
    if (strpbrk(dir, "\t\n") != NULL || strlen(dir) > TUNE_PATH_NBYTES) {
        tune_fail(EXIT_USAGE, "--storage is '%s': a line of the file cannot name it", directory);
    }
    for (long round = 0; round < n_rounds; round++) {
        for (int i = 0; i < N_ENGINES; i++) {
            struct answer *answer = &answers[i][round];

            if (!is_measured[i]) {
                continue;
            }
            if (!ask_process(engines[i], dir, answer)) {
                tune_fail(EXIT_FAILED, "%s: measuring by %s failed", dir, engines[i]);
            }
            if (answer->why[0] != '\0' && !answer->is_missing) {
                tune_fail(EXIT_FAILED, "%s", answer->why);
            }
            if (answer->why[0] != '\0') {
                fprintf(stderr, "%s: by %s: not measured: %s\n", dir, engines[i], answer->why);
                is_measured[i] = false;
            }
        }
    }
    for (int i = 0; i < N_ENGINES; i++) {
        if (is_measured[i]) {
            tell_engine(engines[i], dir, answers[i], n_rounds, text);
        }
    }
}
