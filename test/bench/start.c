/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long two launchers take to run one program on N ranks, from the start of the launcher to its
 * end. They run in turn, A B A B, so that a change of the machine hits both; the medians and their
 * ratio are printed. A run that lasts 60 s is killed, counted as hung and left out of the median.
 *
 *     start [-r ROUNDS] [-n 2,8,32] [-a "nixlrun -np"] [-b "mpirun -np"] PROGRAM [ARG...]
 *
 * The number of ranks follows the launcher's words, then PROGRAM. Without -b only A is measured.
 * Ends with 1 if a run of A hung or failed.
 */
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS    60000
#define MAX_ROUNDS 1000
#define MAX_WORDS  64

struct contender {
    const char *command; /* NULL: not measured */
    int64_t ns[MAX_ROUNDS];
    int n_good, n_hung, n_failed;
};

/* Split at spaces into words; returns their number. */
static int split(char *text, char **words)
{
    int n = 0;

    for (char *word = strtok(text, " "); word != NULL && n < MAX_WORDS / 2;
         word = strtok(NULL, " ")) {
        words[n++] = word;
    }
    return n;
}

static void become(const char *command, int n_ranks, char **program)
{
    char text[1024], number[16], *words[MAX_WORDS];
    int n, quiet = open("/dev/null", O_RDWR);

    snprintf(text, sizeof(text), "%s", command);
    snprintf(number, sizeof(number), "%d", n_ranks);
    n = split(text, words);
    words[n++] = number;
    while (*program != NULL && n < MAX_WORDS - 1) {
        words[n++] = *program++;
    }
    words[n] = NULL;
    setpgid(0, 0);
    dup2(quiet, STDIN_FILENO);
    dup2(quiet, STDOUT_FILENO);
    execvp(words[0], words);
    fprintf(stderr, "start: cannot run '%s': %s\n", words[0], strerror(errno));
    _exit(127);
}

/* Kill a launcher that hangs with all that it has started: they fall to us as their subreaper. */
static void kill_all(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

static void run_once(struct contender *contender, int n_ranks, char **program)
{
    struct pollfd polled = {.events = POLLIN};
    int64_t begin = nxr_now_ns();
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        become(contender->command, n_ranks, program);
    }
    polled.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid < 0 || polled.fd < 0) {
        perror("start");
        exit(1);
    }
    if (poll(&polled, 1, HANG_MS) == 0) {
        contender->n_hung++;
        kill_all(pid);
    } else {
        int64_t ns = nxr_now_ns() - begin;

        waitpid(pid, &status, 0);
        if (status == 0) {
            contender->ns[contender->n_good++] = ns;
        } else {
            contender->n_failed++;
        }
    }
    close(polled.fd);
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static double median_ms(struct contender *contender)
{
    qsort(contender->ns, (size_t)contender->n_good, sizeof(contender->ns[0]), compare);
    return contender->n_good > 0 ? (double)contender->ns[contender->n_good / 2] / (double)NXR_MS
                                 : 0;
}

/* Measure one size and print its line. Returns false if A hung or failed. */
static bool measure(const char *a, const char *b, int n_ranks, int n_rounds, char **program)
{
    static struct contender left, right;
    double left_ms, right_ms;

    left = (struct contender){.command = a};
    right = (struct contender){.command = b};
    for (int i = 0; i < n_rounds; i++) {
        run_once(&left, n_ranks, program);
        if (b != NULL) {
            run_once(&right, n_ranks, program);
        }
    }
    left_ms = median_ms(&left);
    right_ms = median_ms(&right);
    printf("%6d %10.1f %6d %6d", n_ranks, left_ms, left.n_hung, left.n_failed);
    if (b != NULL) {
        printf(" %10.1f %6d %6d %7.2f", right_ms, right.n_hung, right.n_failed,
               right_ms > 0 ? left_ms / right_ms : 0);
    }
    printf("\n");
    fflush(stdout);
    return left.n_hung == 0 && left.n_failed == 0;
}

int main(int argc, char **argv)
{
    char sizes[128] = "2,8,32,128,256";
    const char *a = "nixlrun --oversubscribe -np", *b = NULL;
    int option, n_rounds = 11;
    bool is_good = true;

    while ((option = getopt(argc, argv, "+r:n:a:b:")) != -1) {
        switch (option) {
        case 'r':
            n_rounds = atoi(optarg);
            break;
        case 'n':
            snprintf(sizes, sizeof(sizes), "%s", optarg);
            break;
        case 'a':
            a = optarg;
            break;
        case 'b':
            b = optarg;
            break;
        default:
            return 2;
        }
    }
    if (optind == argc || n_rounds < 1 || n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: start [-r ROUNDS] [-n 2,8] [-a LAUNCHER] [-b LAUNCHER] PROGRAM\n");
        return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    printf("A: %s\nB: %s\n ranks  A median   hung failed%s\n", a, b != NULL ? b : "none",
           b != NULL ? "  B median   hung failed     A/B" : "");
    for (char *size = strtok(sizes, ","); size != NULL; size = strtok(NULL, ",")) {
        is_good = measure(a, b, atoi(size), n_rounds, argv + optind) && is_good;
    }
    return is_good ? 0 : 1;
}
