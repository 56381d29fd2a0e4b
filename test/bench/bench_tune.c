/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl_bench tune: finds the limits between the algorithms of collectives for a job of so many
 * ranks on this machine. It is no job itself: it starts one for each value of each limit, as the
 * caller starts his, with NIXLRUN_COLL_TABLE in the environment, and reads the rows. Values take
 * turns (A B C A B C), and a limit is changed only where that is clearly faster, and again when the
 * best value and the default are measured once more. Then it measures each transport between the
 * first two ranks, for nixlrun --explain: as comments, which the library skips. What is found goes
 * to stdout or behind what a file has, as the library reads it.
 */
#include "config.h"

#include "bench.h"
#include "tune.h"
#include "util/clock.h"
#include "util/coll_table.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_VALUES     6
#define MAX_ROWS       64
#define MAX_WORDS      256
#define LINE_NBYTES    512
#define TABLE_NBYTES   512
#define JOB_TIMEOUT_NS (120 * NXR_S)
#define CLEARLY        0.98 /* of the time with the default */
#define NEARLY_ALL     0.9

/* Which rows show a limit, and which values are tried; what is 0 is none. */
struct trial {
    const char *limit, *tests, *sizes;
    size_t values[MAX_VALUES];
    const char *way; /* in the names of the rows that it is about; NULL: all */
};

static const struct trial trials[] = {
    {"cells_up_to", "allreduce", "64,512,4K,16K,64K", {2048, 8192, 32768, 131072, 524288}, NULL},
    {"flat_up_to", "barrier,allreduce,broadcast", "8", {2, 1024}, NULL},
    {"direct_from",
     "allreduce,broadcast,alltoall",
     "1K,8K,32K,128K",
     {512, 4096, 16384, 65536, 262144},
     NULL},
    {"exchange_up_to",
     "broadcast,allgather,alltoall",
     "8K,24K,64K",
     {4032, 16384, 32768, 65536},
     " any buffers"},
    {"process_vm_piece",
     "allreduce,reduce",
     "256K,1M",
     {16384, 65536, 131072, 262144},
     " any buffers"},
    {"reduce_piece", "allreduce,reduce", "256K,1M", {16384, 65536, 262144}, NULL},
    {"ring_from", "allreduce", "8K,32K,128K,512K", {4096, 16384, 65536, 262144, 1048576}, NULL},
    {"copy_piece", "broadcast,alltoall", "256K,1M", {16384, 65536, 131072, 262144}, NULL},
    {"chain_from",
     "allreduce,reduce",
     "128K,256K,512K,1M",
     {131072, 262144, 1048576, 1073741824},
     " any buffers"},
};
#define N_TRIALS (sizeof(trials) / sizeof(trials[0]))

static const struct {
    const char *name;
    size_t initial, lowest, highest;
} limits[NXR_COLL_N_LIMITS] = {
#define TUNE_LIMIT(_name, _default, _lowest, _highest, _text)                                      \
    {#_name, (_default), (_lowest), (_highest)},
    NXR_COLL_TABLE(TUNE_LIMIT)
#undef TUNE_LIMIT
};

/* What shows the latency and the bandwidth of a transport: the two rows of such a job. */
#define ROUTE_NBYTES (16 << 20)
static const struct trial route_trial = {"", "put_notify", "8,16M", {0}, "put_notify one way"};
static const char *const route_names[] = {"shm", "ucx", "ofi", "tcp"};

struct tune {
    char **command; /* how a job is started */
    int n_words;
    char program[LINE_NBYTES]; /* this one */
    long n_rounds;
    const char *output;       /* or NULL */
    const char *storage;      /* a directory whose files are measured, or NULL */
    int n_ranks;              /* of the job, as its rows tell */
    char table[TABLE_NBYTES]; /* limits that are found already */
};

/* The rows of one value: the median of each row's times in all rounds. */
struct rows {
    int n;
    int n_rounds;
    double ns[MAX_ROWS][TUNE_MAX_ROUNDS];
};

void tune_fail(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "nixl_bench tune: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(code);
}

/* ---- a job ----------------------------------------------------------------------------------- */

/*
 * In the child: the caller's command, this program, the tests of the trial; by that transport only,
 * unless it is NULL. If there is one, the job may fail: its messages are dropped.
 */
static void start_job(const struct tune *tune, const struct trial *trial, const char *table,
                      const char *transport)
{
    int nowhere = transport != NULL ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    char *words[MAX_WORDS], tests[LINE_NBYTES], *rest = tests, *word, allowed[64];
    int n = 0;

    for (int i = 0; i < tune->n_words; i++) {
        words[n++] = tune->command[i];
    }
    words[n++] = (char *)tune->program;
    snprintf(tests, sizeof(tests), "%s", trial->tests);
    while ((word = strsep(&rest, ",")) != NULL) {
        words[n++] = word;
    }
    words[n++] = (char *)"--csv";
    words[n++] = (char *)"--budget";
    words[n++] = (char *)"20ms";
    words[n++] = (char *)"--fresh"; /* programs do not send what they sent before */
    words[n++] = (char *)"--sizes";
    words[n++] = (char *)trial->sizes;
    words[n] = NULL;
    if (transport != NULL) {
        snprintf(allowed, sizeof(allowed), "self,%s", transport);
        setenv("NIXLRUN_TRANSPORTS", allowed, 1);
    }
    if (nowhere >= 0) {
        dup2(nowhere, STDERR_FILENO);
    }
    setenv("NIXLRUN_COLL_TABLE", table, 1);
    unsetenv("NIXLRUN_COLL_TABLE_FILE");
    execvp(words[0], words);
    fprintf(stderr, "nixl_bench tune: cannot start '%s': %s\n", words[0], strerror(errno));
    _exit(EXIT_USAGE);
}

/*
 * A row's ranks and median; false for other lines, for rows of calls that only start, and of
 * another way than that of the trial.
 */
static bool read_row(char *line, const char *way, int *n_ranks_p, double *ns_p)
{
    char *fields[8], *rest = line;

    for (int i = 0; i < 8; i++) {
        fields[i] = strsep(&rest, ",");
        if (fields[i] == NULL) {
            return false;
        }
    }
    *n_ranks_p = atoi(fields[2]);
    *ns_p = strtod(fields[7], NULL);
    return strstr(fields[1], "_nb") == NULL && strstr(fields[1], " prepared") == NULL &&
           (way == NULL || strstr(fields[1], way) != NULL) && *n_ranks_p > 0 && *ns_p > 0;
}

/* The next piece of what the job prints; 0 at its end, -1 if it takes too long. */
static ssize_t read_some(int fd, char *text, size_t room, int64_t deadline)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    for (;;) {
        int64_t left = deadline - nxr_now_ns();
        int n = left > 0 ? poll(&poll_fd, 1, (int)(left / NXR_MS) + 1) : 0;
        ssize_t got = n > 0 ? read(fd, text, room) : -1;

        if (n == 0 || got >= 0 || errno != EINTR) {
            return n == 0 ? -1 : got;
        }
    }
}

/* Take the rows of a job that prints to `fd`; false if it takes too long. */
static bool read_rows(struct tune *tune, int fd, const char *way, struct rows *rows)
{
    int64_t deadline = nxr_now_ns() + JOB_TIMEOUT_NS;
    char text[LINE_NBYTES + 1];
    size_t nbytes = 0;
    ssize_t got;

    rows->n = 0;
    while ((got = read_some(fd, text + nbytes, LINE_NBYTES - nbytes, deadline)) > 0) {
        char *newline;

        nbytes += (size_t)got;
        text[nbytes] = '\0';
        while ((newline = strchr(text, '\n')) != NULL) {
            double ns;

            *newline = '\0';
            if (rows->n < MAX_ROWS && read_row(text, way, &tune->n_ranks, &ns)) {
                rows->ns[rows->n++][rows->n_rounds] = ns;
            }
            nbytes -= (size_t)(newline + 1 - text);
            memmove(text, newline + 1, nbytes + 1);
        }
        nbytes = nbytes < LINE_NBYTES ? nbytes : 0; /* a line that is no row of ours */
    }
    return got == 0;
}

/* Start a job and take its rows. *is_late_p: it was killed since it took too long. */
static bool try_job(struct tune *tune, const struct trial *trial, const char *table,
                    const char *transport, struct rows *rows, bool *is_late_p)
{
    int fds[2], status;
    bool is_done;
    pid_t child;

    if (pipe2(fds, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        tune_fail(EXIT_FAILED, "cannot start a job: %s", strerror(errno));
    }
    if (child == 0) {
        dup2(fds[1], STDOUT_FILENO);
        start_job(tune, trial, table, transport);
    }
    close(fds[1]);
    is_done = read_rows(tune, fds[0], trial->way, rows);
    close(fds[0]);
    if (!is_done) {
        kill(child, SIGTERM);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    *is_late_p = !is_done;
    return is_done && WIFEXITED(status) && WEXITSTATUS(status) == 0 && rows->n > 0;
}

static void run_job(struct tune *tune, const struct trial *trial, size_t value, struct rows *rows)
{
    char table[TABLE_NBYTES + 64];
    int n_before = rows->n;
    bool is_good, is_late;

    snprintf(table, sizeof(table), "%s%s%s=%zu", tune->table, tune->table[0] != '\0' ? "," : "",
             trial->limit, value);
    is_good = try_job(tune, trial, table, NULL, rows, &is_late);
    if (is_late) {
        tune_fail(EXIT_FAILED, "a job with %s took more than 120 s", table);
    }
    if (!is_good || (rows->n_rounds > 0 && rows->n != n_before)) {
        tune_fail(EXIT_FAILED, "a job with %s failed; check the command given", table);
    }
    rows->n_rounds++;
}

/* ---- a limit --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* How long the rows take: the mean of the logarithms of their medians. */
static double cost(struct rows *rows)
{
    double sum = 0;

    for (int i = 0; i < rows->n; i++) {
        qsort(rows->ns[i], (size_t)rows->n_rounds, sizeof(double), compare);
        sum += log(rows->ns[i][rows->n_rounds / 2]);
    }
    return sum / rows->n;
}

/* The same of one round; before cost(), which puts the times of a row in order. */
static double cost_of_round(const struct rows *rows, int round)
{
    double sum = 0;

    for (int i = 0; i < rows->n; i++) {
        sum += log(rows->ns[i][round]);
    }
    return sum / rows->n;
}

/* The values of a trial that are allowed, the default first; returns how many. */
static int choose_values(const struct trial *trial, int limit, size_t *values)
{
    int n = 0;

    values[n++] = limits[limit].initial;
    for (int i = 0; i < MAX_VALUES && trial->values[i] != 0; i++) {
        size_t value = trial->values[i];

        if (value != values[0] && value >= limits[limit].lowest && value <= limits[limit].highest) {
            values[n++] = value;
        }
    }
    return n;
}

/* Jobs with each of some values, in turns. */
static void measure_values(struct tune *tune, const struct trial *trial, const size_t *values,
                           struct rows *rows, int n)
{
    memset(rows, 0, (size_t)n * sizeof(*rows));
    for (long round = 0; round < tune->n_rounds; round++) {
        for (int i = 0; i < n; i++) {
            run_job(tune, trial, values[i], &rows[i]);
        }
    }
}

/* The fraction of pairs of rounds, one of each, in which `rows' are faster. */
static double wins(const struct rows *rows, const struct rows *than)
{
    int n = 0;

    for (int i = 0; i < rows->n_rounds; i++) {
        for (int k = 0; k < than->n_rounds; k++) {
            n += cost_of_round(rows, i) < cost_of_round(than, k);
        }
    }
    return (double)n / (rows->n_rounds * than->n_rounds);
}

/*
 * Is the chosen value faster? The least of several times is often a lucky one, also where the limit
 * is without effect: so both are measured once more, and it has to win in nearly all pairs
 * of a job with it and one without.
 */
static bool is_confirmed(struct tune *tune, const struct trial *trial, size_t initial, size_t value)
{
    static struct rows rows[2];
    const size_t values[] = {initial, value};
    bool is_faster;
    double ratio;

    measure_values(tune, trial, values, rows, 2);
    is_faster = wins(&rows[1], &rows[0]) >= NEARLY_ALL;
    ratio = exp(cost(&rows[1]) - cost(&rows[0]));
    is_faster &= ratio <= CLEARLY;
    fprintf(stderr, "%s: %zu once more %.2f, %s\n", trial->limit, value, ratio,
            is_faster ? "taken" : "not taken");
    return is_faster;
}

/* The best value of a limit; the default if no other is clearly faster. */
static size_t measure_limit(struct tune *tune, const struct trial *trial, int limit)
{
    static struct rows rows[MAX_VALUES + 1];
    size_t values[MAX_VALUES + 1];
    int n = choose_values(trial, limit, values), best = 0;
    double least = CLEARLY;

    measure_values(tune, trial, values, rows, n);
    fprintf(stderr, "%s:", trial->limit);
    for (int i = 0; i < n; i++) {
        double ratio = i == 0 ? 1 : exp(cost(&rows[i]) - cost(&rows[0]));

        fprintf(stderr, " %zu %.2f%s", values[i], ratio, i < n - 1 ? "," : "\n");
        if (ratio <= least) {
            least = ratio;
            best = i;
        }
    }
    return best != 0 && is_confirmed(tune, trial, values[0], values[best]) ? values[best]
                                                                           : values[0];
}

static const struct trial *trial_of(const char *name)
{
    for (size_t i = 0; i < N_TRIALS; i++) {
        if (strcmp(trials[i].limit, name) == 0) {
            return &trials[i];
        }
    }
    return NULL;
}

/* All limits in turn, each with those before it. Lines as the library reads them into `text`. */
static void measure_all(struct tune *tune, FILE *text)
{
    for (int i = 0; i < NXR_COLL_N_LIMITS; i++) {
        const struct trial *trial = trial_of(limits[i].name);
        size_t value;

        if (trial == NULL) {
            fprintf(text, "# %s is not measured\n", limits[i].name);
            continue;
        }
        value = measure_limit(tune, trial, i);
        if (value == limits[i].initial) {
            fprintf(text, "# %s: no value is faster than the default, %zu\n", limits[i].name,
                    value);
            continue;
        }
        fprintf(text, "%s=%zu\n", limits[i].name, value);
        snprintf(tune->table + strlen(tune->table), sizeof(tune->table) - strlen(tune->table),
                 "%s%s=%zu", tune->table[0] != '\0' ? "," : "", limits[i].name, value);
    }
}

/* ---- routes ---------------------------------------------------------------------------------- */

/*
 * Each transport that serves the job alone, as comments. If shared memory does, all ranks are on
 * one host.
 */
static void measure_routes(struct tune *tune, FILE *text)
{
    static struct rows rows;
    const int n_ranks = tune->n_ranks; /* those rows have two */
    bool is_same_host = false, is_late;

    for (size_t i = 0; i < sizeof(route_names) / sizeof(route_names[0]); i++) {
        rows = (struct rows){.n = 0};
        if (!try_job(tune, &route_trial, tune->table, route_names[i], &rows, &is_late) ||
            rows.n != 2) {
            fprintf(stderr, "route by %s: not measured: no job runs by it alone\n", route_names[i]);
            continue;
        }
        is_same_host |= strcmp(route_names[i], "shm") == 0;
        fprintf(stderr, "route by %s: %.0f ns, %.0f MB/s\n", route_names[i], rows.ns[0][0],
                1e3 * ROUTE_NBYTES / rows.ns[1][0]);
        fprintf(text, "# route %s %s %.0f %.0f\n", is_same_host ? "same" : "other", route_names[i],
                rows.ns[0][0], 1e3 * ROUTE_NBYTES / rows.ns[1][0]);
    }
    tune->n_ranks = n_ranks;
}

/* ---- the command line ------------------------------------------------------------------------ */

static void print_help(void)
{
    printf("Usage: nixl_bench tune [OPTION...] COMMAND...\n"
           "Measure the limits between the algorithms of collectives for the jobs that COMMAND\n"
           "starts, such as `nixlrun -np 4', and print them for NIXLRUN_COLL_TABLE_FILE, with the\n"
           "latency and bandwidth of each transport, which nixlrun --explain shows.\n"
           "With --storage also how fast files are read and written, which nixlrun --info and\n"
           "--explain show; without COMMAND nothing else is measured.\n\n"
           "  -o, --output FILE     append them to FILE instead of writing to stdout\n"
           "      --rounds N        jobs for each value, in turns (default 3, at most %d)\n"
           "      --storage DIR     measure io_uring and threads by files of 256 MiB in DIR\n"
           "  -h, --help            this text\n",
           TUNE_MAX_ROUNDS);
}

static void parse(struct tune *tune, int argc, char **argv)
{
    static const struct option names[] = {{"output", required_argument, NULL, 'o'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"storage", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    tune->n_rounds = 3;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:o:h", names, NULL)) != -1) {
        char *end;

        switch (option) {
        case 'o':
            tune->output = optarg;
            break;
        case 's':
            tune->storage = optarg;
            break;
        case 'r':
            tune->n_rounds = strtol(optarg, &end, 10);
            if (*end != '\0' || tune->n_rounds < 1 || tune->n_rounds > TUNE_MAX_ROUNDS) {
                tune_fail(EXIT_USAGE, "--rounds is '%s'; allowed: a number from 1 to %d", optarg,
                          TUNE_MAX_ROUNDS);
            }
            break;
        case 'h':
            print_help();
            exit(EXIT_SUCCESS);
        case ':':
            tune_fail(EXIT_USAGE, "option '%s' needs a value", argv[optind - 1]);
        default:
            tune_fail(EXIT_USAGE, "unknown option '%s'; see nixl_bench tune --help",
                      argv[optind - 1]);
        }
    }
    tune->command = argv + optind;
    tune->n_words = argc - optind;
    if ((tune->n_words == 0 && tune->storage == NULL) || tune->n_words > MAX_WORDS - 16) {
        tune_fail(EXIT_USAGE, "missing launch command, e.g. nixlrun -np 4, or --storage DIR");
    }
}

/* Lines of all jobs of that many ranks, if any was started; how they came about. */
static void write_lines(const struct tune *tune, FILE *file, const char *text)
{
    fprintf(file, "# by nixl_bench tune:%s%s", tune->storage != NULL ? " --storage " : "",
            tune->storage != NULL ? tune->storage : "");
    for (int i = 0; i < tune->n_words; i++) {
        fprintf(file, " %s", tune->command[i]);
    }
    fprintf(file, "\n");
    if (tune->n_words > 0) {
        fprintf(file, "ranks %d\n", tune->n_ranks);
    }
    fprintf(file, "%s", text);
}

int tune_main(int argc, char **argv)
{
    struct tune tune = {0};
    char *text = NULL;
    size_t text_nbytes;
    ssize_t nbytes;
    FILE *lines, *file = stdout;

    parse(&tune, argc, argv);
    if (getenv("PMIX_RANK") != NULL) {
        tune_fail(EXIT_USAGE, "starts jobs itself; it is: nixl_bench tune nixlrun -np 4");
    }
    nbytes = readlink("/proc/self/exe", tune.program, sizeof(tune.program) - 1);
    lines = open_memstream(&text, &text_nbytes);
    if (nbytes <= 0 || nbytes == sizeof(tune.program) - 1 || lines == NULL) {
        tune_fail(EXIT_FAILED, "cannot find its own program");
    }
    if (tune.output != NULL && (file = fopen(tune.output, "ae")) == NULL) {
        tune_fail(EXIT_FAILED, "cannot write '%s': %s", tune.output, strerror(errno));
    }
    if (tune.storage != NULL) {
        tune_storage(tune.storage, tune.n_rounds, lines);
    }
    if (tune.n_words > 0) {
        measure_all(&tune, lines);
        measure_routes(&tune, lines);
    }
    fclose(lines);
    write_lines(&tune, file, text);
    free(text);
    if (fflush(file) != 0 || (tune.output != NULL && fclose(file) != 0)) {
        tune_fail(EXIT_FAILED, "cannot write '%s': %s",
                  tune.output != NULL ? tune.output : "stdout", strerror(errno));
    }
    return EXIT_SUCCESS;
}
