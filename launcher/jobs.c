/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun ps, nixlrun kill, nixlrun top and nixlrun --explain=JOB. A job is named by the pid of its
 * nixlrun, which has a guardian; the guardian's children are the ranks, unless an engine of the
 * site starts them. All of it is read from /proc: nothing is kept in files that could be out of
 * date. Names that processes publish in a folder are told by their files, and who holds the lock of
 * one has published it (nixl_attach(3)); those in etcd by the library, which nixlrun-inspect asks.
 */
#include "config.h"

#include "launcher/jobs.h"
#include "launcher/environ.h"
#include "launcher/help.h"
#include "launcher/helper.h"
#include "launcher/inspect.h"
#include "launcher/jobs_attached.h"
#include "launcher/processes.h"
#include "launcher/stats.h"
#include "launcher/table.h"
#include "launcher/values.h"
#include "launcher/waits.h"
#include "launcher/xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NIXLRUN_NAME  "nixlrun"
#define GUARDIAN_NAME "nixlrun-guard"
#define RANK_VARIABLE "PMIX_RANK"
#define ENTRY_SUFFIX  ".entry"
#define WHERE_SCHEME  "file:"
#define ETCD_SCHEME   "etcd" /* or etcds:// */

/* ---- jobs ------------------------------------------------------------------------------------ */

static const struct process *guardian_of(const struct processes *processes,
                                         const struct process *job)
{
    for (size_t i = 0; i < processes->n; i++) {
        const struct process *process = &processes->all[i];

        if (process->parent == job->pid && strcmp(process->name, GUARDIAN_NAME) == 0) {
            return process;
        }
    }
    return NULL;
}

/* Is it a nixlrun that has begun a job? *guardian_p then. */
static bool is_job(const struct processes *processes, const struct process *process,
                   const struct process **guardian_p)
{
    if (strcmp(process->name, NIXLRUN_NAME) != 0 || process->state == 'Z') {
        return false;
    }
    *guardian_p = guardian_of(processes, process);
    return *guardian_p != NULL;
}

/* The rank that a process is, as text that the caller frees; NULL: none of that guardian's. */
static char *rank_of(const struct process *process, const struct process *guardian)
{
    return process->parent == guardian->pid && process->state != 'Z'
               ? process_variable(process, RANK_VARIABLE)
               : NULL;
}

static size_t count_ranks(const struct processes *processes, const struct process *guardian)
{
    size_t n = 0;

    for (size_t i = 0; i < processes->n; i++) {
        char *rank = rank_of(&processes->all[i], guardian);

        n += rank != NULL;
        free(rank);
    }
    return n;
}

static const struct process *job_find(const struct processes *processes, pid_t pid)
{
    const struct process *guardian;

    for (size_t i = 0; i < processes->n; i++) {
        if (processes->all[i].pid == pid && is_job(processes, &processes->all[i], &guardian)) {
            return &processes->all[i];
        }
    }
    return NULL;
}

/* The pid that a word is; 0: none. */
static pid_t pid_named(const char *word)
{
    char *end;
    long pid = strtol(word, &end, 10);

    return *end == '\0' && pid > 1 && pid <= INT_MAX ? (pid_t)pid : 0;
}

static bool job_is_pid(const struct processes *processes, const char *word)
{
    return job_find(processes, (pid_t)strtol(word, NULL, 10)) != NULL;
}

/* A word of the command line that should name a job. NULL after one line on stderr. */
static const struct process *job_named(const struct processes *processes, const char *command,
                                       const char *word)
{
    char shown[VALUE_SHOWN_NBYTES];
    pid_t pid = pid_named(word);
    const struct process *job = pid != 0 ? job_find(processes, pid) : NULL;
    const struct process *guardian;
    int n = 0;

    if (job != NULL) {
        return job;
    }
    fprintf(stderr, "nixlrun: %s: %s is no job of this user on this host; allowed:", command,
            value_show(word, shown));
    for (size_t i = 0; i < processes->n; i++) {
        if (is_job(processes, &processes->all[i], &guardian)) {
            fprintf(stderr, "%s %d", n++ > 0 ? "," : "", (int)processes->all[i].pid);
        }
    }
    fputs(n > 0 ? "\n" : " none, no job runs here\n", stderr);
    return NULL;
}

/* ---- ps -------------------------------------------------------------------------------------- */

static void print_jobs(const struct processes *processes)
{
    const struct process *guardian;

    printf("%-9s %5s  %11s  %s\n", "JOB", "RANKS", "AGE", "COMMAND");
    for (size_t i = 0; i < processes->n; i++) {
        const struct process *job = &processes->all[i];

        if (is_job(processes, job, &guardian)) {
            size_t n_ranks = count_ranks(processes, guardian);
            char *command = process_command(job), ranks[24] = "-";

            if (n_ranks > 0) {
                snprintf(ranks, sizeof(ranks), "%zu", n_ranks);
            }
            printf("%-9d %5s  %11s  %s\n", (int)job->pid, ranks, process_age(job).text, command);
            free(command);
        }
    }
}

static const char *state_word(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'T':
    case 't':
        return "stopped";
    case 'D':
        return "disk";
    default:
        return "sleeping";
    }
}

static void print_ranks(const struct processes *processes, const struct process *job)
{
    const struct process *guardian = guardian_of(processes, job);
    size_t n = 0;

    printf("%-5s %-9s %-8s  %11s  %s\n", "RANK", "PID", "STATE", "AGE", "COMMAND");
    for (size_t i = 0; guardian != NULL && i < processes->n; i++) {
        const struct process *process = &processes->all[i];
        char *rank = rank_of(process, guardian);

        if (rank != NULL) {
            char *command = process_command(process);

            n++;
            printf("%-5s %-9d %-8s  %11s  %s\n", rank, (int)process->pid,
                   state_word(process->state), process_age(process).text, command);
            free(command);
        }
        free(rank);
    }
    if (n == 0) {
        fputs("nixlrun: ps: no rank is a process of this nixlrun: all have ended, or an engine of "
              "the site has started them\n",
              stderr);
    }
}

/* The processes of other jobs that are attached to ranks of this one, as far as they run here. */
static void take_attached(const struct processes *processes, const struct process *job,
                          attached_fn *each, void *arg)
{
    const struct process *guardian = guardian_of(processes, job);

    for (size_t i = 0; guardian != NULL && i < processes->n; i++) {
        char *rank = rank_of(&processes->all[i], guardian);

        if (rank != NULL) {
            (void)attached_take(processes->all[i].pid, each, arg);
        }
        free(rank);
    }
}

/* Is it the pid of a process that was started by other means, and has joined? It is shown then. */
static bool print_other(const char *word)
{
    pid_t pid = pid_named(word);

    return pid != 0 && attached_show_process(pid) == 0;
}

/* Who holds the lock of a name's secret, as text; "dead": nobody. */
static const char *publisher_of(const char *dir, const char *name, char text[24])
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char path[PATH_MAX];
    int fd, status;

    snprintf(path, sizeof(path), "%s/%s.secret", dir, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT ? "dead" : "?";
    }
    lock.l_type = F_WRLCK;
    status = fcntl(fd, F_GETLK, &lock);
    close(fd);
    if (status != 0) {
        return "?";
    }
    if (lock.l_type == F_UNLCK) {
        return "dead";
    }
    snprintf(text, 24, "%d", (int)lock.l_pid);
    return lock.l_pid > 0 ? text : "alive"; /* in another PID namespace */
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_entry(const struct dirent *file)
{
    size_t nbytes = strlen(file->d_name), suffix = strlen(ENTRY_SUFFIX);

    return nbytes > suffix && strcmp(file->d_name + nbytes - suffix, ENTRY_SUFFIX) == 0;
}

static int print_names(const char *dir)
{
    char shown[VALUE_SHOWN_NBYTES];
    struct dirent **files;
    int n = scandir(dir, &files, is_entry, compare_entries);

    if (n < 0) {
        fprintf(stderr, "nixlrun: ps: cannot read the folder %s: %s\n", value_show(dir, shown),
                strerror(errno));
        return LAUNCH_EXIT_USAGE;
    }
    printf("%-32s  %s\n", "NAME", "PUBLISHER");
    for (int i = 0; i < n; i++) {
        char text[24];

        files[i]->d_name[strlen(files[i]->d_name) - strlen(ENTRY_SUFFIX)] = '\0';
        printf("%-32s  %s\n", files[i]->d_name, publisher_of(dir, files[i]->d_name, text));
        free(files[i]);
    }
    free(files);
    return 0;
}

static bool is_waits_option(const char *word)
{
    return strcmp(word, "-w") == 0 || strcmp(word, "--waits") == 0;
}

static void print_line(const char *line)
{
    puts(line);
}

/* Who waits for whom in a job. */
static int jobs_ps_waits(int argc, char **argv)
{
    struct processes processes;
    const struct process *job;
    struct waits waits;

    if (argc != 1) {
        fputs("nixlrun: ps: -w needs one job; 'nixlrun ps' lists them\n", stderr);
        return LAUNCH_EXIT_USAGE;
    }
    processes = processes_read();
    job = job_named(&processes, "ps", argv[0]);
    if (job != NULL) {
        waits = waits_of(job->pid, &processes);
        waits_show(&waits, print_line);
        if (waits.n == 0) {
            fputs("nixlrun: ps: no rank of this job has called nixl_init on this host\n", stderr);
        }
        waits_free(&waits);
    }
    processes_free(&processes);
    return job != NULL ? 0 : LAUNCH_EXIT_USAGE;
}

/* nixlrun-inspect asks the library, and prints; it takes the place of this process. */
static int print_names_in_etcd(const char *where)
{
    char path[PATH_MAX], *argv[] = {path, (char *)"--names", (char *)where, NULL};

    environ_leave_outer_job();
    if (helper_find(INSPECT_PROGRAM, path)) {
        execv(path, argv);
    }
    fprintf(stderr, "nixlrun: ps: cannot run %s: %s\n", path, strerror(errno));
    return LAUNCH_EXIT_FAILED;
}

static int jobs_ps(int argc, char **argv)
{
    struct processes processes;
    const struct process *job;
    bool has_head = false;
    int code = 0;

    if (argc > 0 && is_waits_option(argv[0])) {
        return jobs_ps_waits(argc - 1, argv + 1);
    }
    if (argc > 1) {
        fprintf(stderr,
                "nixlrun: ps: one job or one folder at most, not %d; see 'nixlrun --help "
                "jobs'\n",
                argc);
        return LAUNCH_EXIT_USAGE;
    }
    if (argc == 1 && strncmp(argv[0], WHERE_SCHEME, strlen(WHERE_SCHEME)) == 0) {
        return print_names(argv[0] + strlen(WHERE_SCHEME));
    }
    if (argc == 1 && strncmp(argv[0], ETCD_SCHEME, strlen(ETCD_SCHEME)) == 0) {
        return print_names_in_etcd(argv[0]);
    }
    processes = processes_read();
    if (argc == 0) {
        print_jobs(&processes);
    } else if (job_is_pid(&processes, argv[0]) || !print_other(argv[0])) {
        job = job_named(&processes, "ps", argv[0]);
        code = job != NULL ? 0 : LAUNCH_EXIT_USAGE;
        if (job != NULL) {
            print_ranks(&processes, job);
            take_attached(&processes, job, attached_show, &has_head);
        }
    }
    processes_free(&processes);
    return code;
}

/* ---- explain --------------------------------------------------------------------------------- */

int jobs_explain(const char *word, bool is_json)
{
    struct processes processes = processes_read();
    struct table table = attached_table();
    const struct process *job = NULL;
    pid_t pid = pid_named(word);
    int code = 0;

    if (pid != 0 && !job_is_pid(&processes, word) &&
        attached_take(pid, attached_tabulate, &table)) {
        /* a process that was started by other means */
    } else if ((job = job_named(&processes, "--explain", word)) != NULL) {
        take_attached(&processes, job, attached_tabulate, &table);
    } else {
        code = LAUNCH_EXIT_USAGE;
    }
    if (code == 0) {
        attached_write(&table, is_json);
    }
    table_free(&table);
    processes_free(&processes);
    return code;
}

/* ---- kill ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int number;
} signal_names[] = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},
                    {"QUIT", SIGQUIT}, {"KILL", SIGKILL}, {"USR1", SIGUSR1},
                    {"USR2", SIGUSR2}, {"TSTP", SIGTSTP}, {"CONT", SIGCONT}};

/* 0: not known. */
static int signal_number(const char *word)
{
    const char *name = strncmp(word, "SIG", 3) == 0 ? word + 3 : word;

    for (size_t i = 0; i < sizeof(signal_names) / sizeof(signal_names[0]); i++) {
        char *end;
        long number = strtol(word, &end, 10);

        if (strcmp(name, signal_names[i].name) == 0 ||
            (*end == '\0' && number == signal_names[i].number)) {
            return signal_names[i].number;
        }
    }
    return 0;
}

/* To that very process, even if its pid is given to another one meanwhile. */
static int job_signal(const struct process *job, int number)
{
    int pidfd = (int)syscall(SYS_pidfd_open, job->pid, 0), rc;

    if (pidfd < 0 && errno == ESRCH) {
        return 0; /* it has ended meanwhile */
    }
    if (!process_lives(job)) {
        rc = 0;
    } else if (pidfd >= 0) {
        rc = (int)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
    } else {
        rc = kill(job->pid, number);
    }
    if (pidfd >= 0) {
        close(pidfd);
    }
    return rc == 0 || errno == ESRCH ? 0 : -1;
}

/* "-s SIGNAL" before the jobs. Its number, and how many words it takes; 0: after a line. */
static int take_signal(int argc, char **argv, int *n_words_p)
{
    char shown[VALUE_SHOWN_NBYTES];
    int number;

    *n_words_p = 0;
    if (argc == 0 || (strcmp(argv[0], "-s") != 0 && strcmp(argv[0], "--signal") != 0)) {
        return SIGTERM;
    }
    *n_words_p = 2;
    number = argc > 1 ? signal_number(argv[1]) : 0;
    if (number == 0) {
        fprintf(stderr,
                "nixlrun: kill: %s %s: no such signal; allowed: TERM, INT, HUP, QUIT, KILL, USR1, "
                "USR2, TSTP, CONT\n",
                argv[0], argc > 1 ? value_show(argv[1], shown) : "");
    }
    return number;
}

static int jobs_kill(int argc, char **argv)
{
    int n_words, number = take_signal(argc, argv, &n_words), code = 0;
    struct processes processes;

    if (number == 0) {
        return LAUNCH_EXIT_USAGE;
    }
    if (argc - n_words == 0) {
        fputs("nixlrun: kill: which job? 'nixlrun ps' lists them\n", stderr);
        return LAUNCH_EXIT_USAGE;
    }
    processes = processes_read();
    for (int i = n_words; i < argc; i++) {
        const struct process *job = job_named(&processes, "kill", argv[i]);

        if (job == NULL) {
            code = code == 0 ? LAUNCH_EXIT_USAGE : code;
        } else if (job_signal(job, number) != 0) {
            fprintf(stderr, "nixlrun: kill: job %d: %s\n", (int)job->pid, strerror(errno));
            code = LAUNCH_EXIT_FAILED;
        }
    }
    processes_free(&processes);
    return code;
}

/* ---- top ------------------------------------------------------------------------------------- */

/* "[--once] [--items] JOB" */
static int jobs_top(int argc, char **argv)
{
    bool is_once = false, shows_items = false;
    struct processes processes;
    const struct process *job;
    pid_t pid;

    while (argc > 0 && (strcmp(argv[0], "--once") == 0 || strcmp(argv[0], "--items") == 0)) {
        is_once |= strcmp(argv[0], "--once") == 0;
        shows_items |= strcmp(argv[0], "--items") == 0;
        argc--;
        argv++;
    }
    if (argc != 1) {
        fputs("nixlrun: top: which job? 'nixlrun ps' lists them\n", stderr);
        return LAUNCH_EXIT_USAGE;
    }
    processes = processes_read();
    job = job_named(&processes, "top", argv[0]);
    pid = job != NULL ? job->pid : 0;
    processes_free(&processes);
    return pid != 0 ? top_run(pid, is_once, shows_items) : LAUNCH_EXIT_USAGE;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* The commands, with the options that may come first. */
static const struct {
    const char *name, *options[2];
    const char *allowed; /* behind --help, for the message */
    int (*run)(int argc, char **argv);
} job_commands[] = {
    {"ps", {"-w", "--waits"}, ", -w", jobs_ps},
    {"kill", {"-s", "--signal"}, ", -s SIGNAL", jobs_kill},
    {"top", {"--once", "--items"}, ", --once, --items", jobs_top},
};
#define N_JOB_COMMANDS (sizeof(job_commands) / sizeof(job_commands[0]))

/* The number of the command of that name; N_JOB_COMMANDS: it is none. */
static size_t job_command(const char *name)
{
    size_t i = 0;

    while (i < N_JOB_COMMANDS && strcmp(job_commands[i].name, name) != 0) {
        i++;
    }
    return i;
}

bool jobs_are_meant(int argc, char **argv)
{
    return argc > 1 && job_command(argv[1]) < N_JOB_COMMANDS;
}

int jobs_main(int argc, char **argv)
{
    char why[160], shown[VALUE_SHOWN_NBYTES];
    size_t i = job_command(argv[1]);

    if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        return help_print(stdout, "jobs", why, sizeof(why)) == 0 ? 0 : LAUNCH_EXIT_FAILED;
    }
    if (argc > 2 && argv[2][0] == '-' && strcmp(argv[2], job_commands[i].options[0]) != 0 &&
        strcmp(argv[2], job_commands[i].options[1]) != 0) {
        fprintf(stderr, "nixlrun: %s: %s is not known; allowed: --help%s\n", argv[1],
                value_show(argv[2], shown), job_commands[i].allowed);
        return LAUNCH_EXIT_USAGE;
    }
    return job_commands[i].run(argc - 2, argv + 2);
}
