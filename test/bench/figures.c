/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scripts do for nixl_bench, which lie beside it or among the installed helpers: comparing
 * results in JSON, and pictures of them (nixl_bench-figures, in Python); measuring beside peers
 * (nixl_bench-peers, in bash).
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
#define PEERS      "nixl_bench-peers"
#define EXIT_USAGE 2

static void find_script(const char *name, char path[PATH_MAX])
{
    static const char *const places[] = {"/", "/../", "/../libexec/nixlrun/"};
    char self[PATH_MAX - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/') != NULL) {
        *strrchr(self, '/') = '\0';
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, PATH_MAX, "%s%s%s", self, places[i], name);
        if (access(path, R_OK) == 0) {
            return;
        }
    }
    snprintf(path, PATH_MAX, "%s/%s", BENCH_LIBEXECDIR, name);
}

/* Become that script, with these arguments behind its name. */
static void NIXL_NORETURN become_script(const char *interpreter, const char *name, char **argv)
{
    char *words[64], path[PATH_MAX];
    size_t n = 2;

    find_script(name, path);
    words[0] = strdup(interpreter);
    words[1] = path;
    for (; *argv != NULL && n + 1 < sizeof(words) / sizeof(words[0]); argv++) {
        words[n++] = *argv;
    }
    words[n] = NULL;
    if (*argv != NULL) {
        fprintf(stderr, "nixl_bench: more than %zu arguments\n", n - 2);
        exit(EXIT_USAGE);
    }
    execvp(interpreter, words);
    fprintf(stderr, "nixl_bench: %s: %s (Debian: %s)\n", interpreter, strerror(errno), interpreter);
    exit(EXIT_USAGE);
}

void figures_main(char **argv)
{
    become_script("python3", FIGURES, argv);
}

void peers_main(char **argv)
{
    become_script("bash", PEERS, argv);
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

    find_script(FIGURES, path);
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
