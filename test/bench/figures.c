/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with results in JSON: comparing two of them, and pictures. A program in Python does
 * it, nixl_bench-figures, which lies beside this one or among the installed helpers.
 */
#include "config.h"

#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIGURES    "nixl_bench-figures"
#define EXIT_USAGE 2

static void find_figures(char path[PATH_MAX])
{
    static const char *const places[] = {"/" FIGURES, "/../" FIGURES,
                                         "/../libexec/nixlrun/" FIGURES};
    char self[PATH_MAX - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/') != NULL) {
        *strrchr(self, '/') = '\0';
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, PATH_MAX, "%s%s", self, places[i]);
        if (access(path, R_OK) == 0) {
            return;
        }
    }
    snprintf(path, PATH_MAX, "%s/" FIGURES, BENCH_LIBEXECDIR);
}

void figures_main(char **argv)
{
    char *words[64] = {(char *)"python3"}, path[PATH_MAX];
    size_t n = 2;

    find_figures(path);
    words[1] = path;
    for (; *argv != NULL && n + 1 < sizeof(words) / sizeof(words[0]); argv++) {
        words[n++] = *argv;
    }
    execvp(words[0], words);
    fprintf(stderr, "nixl_bench: %s: %s (Debian: python3)\n", words[0], strerror(errno));
    exit(EXIT_USAGE);
}

FILE *figures_begin(void)
{
    FILE *file = tmpfile();

    if (file == NULL) {
        bench_die("no temporary file for the rows of the picture: %s", strerror(errno));
    }
    return file;
}

/* Run "plot - PICTURE" on the file. Returns an error number; *status_p: as waitpid() has it. */
static int run_plot(FILE *rows, const char *picture, int *status_p)
{
    char path[PATH_MAX];
    char *words[] = {(char *)"python3", path, (char *)"plot", (char *)"-", (char *)picture, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int error;

    find_figures(path);
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    error = posix_spawn_file_actions_adddup2(&actions, fileno(rows), STDIN_FILENO);
    if (error == 0) {
        error = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0 && waitpid(pid, status_p, 0) != pid) {
        error = errno;
    }
    return error;
}

void figures_draw(FILE *rows, const char *picture)
{
    int status = 0, error = 0;

    if (fflush(rows) != 0 || ferror(rows) != 0 || lseek(fileno(rows), 0, SEEK_SET) != 0) {
        bench_die("cannot write the rows of the picture to a temporary file: %s", strerror(errno));
    }
    error = run_plot(rows, picture, &status);
    fclose(rows);
    if (error != 0) {
        bench_die("python3, which draws the picture: %s (Debian: python3)", strerror(error));
    }
    if (status != 0) {
        bench_die("there is no picture '%s'; the rows above are complete", picture);
    }
}
