/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the hosts on which the engine can start a rank, before nixlrun --explain starts its job.
 * One host that does not answer keeps an engine from starting anything, and some engines never give
 * up. So a separate nixlrun starts one rank on each host, within a time limit. This finds whatever
 * stops the engine on that host, and leaves nothing behind. Single-threaded, before the event loop.
 */
#include "config.h"

#include "launcher/reach.h"
#include "launcher/allocation.h"
#include "launcher/helper.h"
#include "launcher/here.h"
#include "launcher/hosts.h"
#include "launcher/inspect.h"
#include "launcher/probe.h"
#include "launcher/xalloc.h"
#include "util/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REACH_LIMIT    "15s" /* for an engine to start a rank: mpirun needs 0.3 s */
#define REACH_SILENCE  "nothing has been started there within 15 s"
#define REACH_GRACE_NS (30 * NXR_S) /* for the nixlrun that has this limit, to end */
enum { MAX_ASKED = 16, REACH_TEXT_NBYTES = 8192, REACH_NAMES_NBYTES = 65536 };

static const char own_mark[] = "nixlrun: "; /* of lines of nixlrun itself */

/* A host that is asked now. */
struct asked {
    int host;
    pid_t pid;
    int fd;
    int64_t deadline_ns;
    size_t used;
    char text[REACH_TEXT_NBYTES];
};

/* ---- what is said of a host ------------------------------------------------------------------ */

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Append a line, with a blank before it and between its words. */
static void add_words(char why[REACH_WHY_NBYTES], const char *line, size_t nbytes)
{
    size_t used = strlen(why);

    for (size_t i = 0; i < nbytes && used < REACH_WHY_NBYTES - 1; i++) {
        if (!isspace((unsigned char)line[i])) {
            bool is_first = i == 0 || isspace((unsigned char)line[i - 1]);

            used += (size_t)snprintf(why + used, REACH_WHY_NBYTES - used, "%s%c",
                                     is_first && used > 0 ? " " : "", line[i]);
        }
    }
    if (used >= REACH_WHY_NBYTES - 1) {
        memcpy(why + REACH_WHY_NBYTES - sizeof("..."), "...", sizeof("..."));
    }
}

/* mpirun's agent for ssh warns when a child that it starts was faster than itself: no reason. */
static bool line_is_harmless(const char *line, size_t nbytes)
{
    static const char mark[] = "plm:rsh: Warning: setpgid(";

    return memmem(line, nbytes, mark, sizeof(mark) - 1) != NULL;
}

/*
 * The first paragraph of what the engine or the rank says. A ruler or an empty line ends it, and so
 * does what mpirun guesses of the cause, and srun's word of its queue.
 */
static void first_paragraph(const char *text, char why[REACH_WHY_NBYTES])
{
    static const char *const needless[] = {"This usually is caused by ",
                                           "This is usually caused by ", "srun: job "};

    why[0] = '\0';
    while (*text != '\0') {
        size_t nbytes = strcspn(text, "\n");
        const char *word = text + strspn(text, " \t");

        bool is_end = nbytes == strspn(text, "-= \t\r");

        for (size_t i = 0; i < sizeof(needless) / sizeof(needless[0]); i++) {
            is_end |= begins_with(word, needless[i]);
        }
        if (is_end) {
            if (why[0] != '\0') {
                return;
            }
        } else if (!begins_with(word, own_mark) && !line_is_harmless(text, nbytes)) {
            add_words(why, text, nbytes);
        }
        text += nbytes + (text[nbytes] == '\n');
    }
}

/*
 * The first line of nixlrun itself that says more than that the engine or a rank has failed; if
 * there is none, what is there already stays, or any line of its own.
 */
static void own_line(const char *text, char why[REACH_WHY_NBYTES])
{
    static const char *const needless[] = {" before any rank started", " exited with code ",
                                           " ranks have started; ", "nixlrun: the timeout of "};
    bool is_needless = true;

    for (; *text != '\0' && is_needless; text += *text == '\n') {
        size_t nbytes = strcspn(text, "\n");

        if (begins_with(text, own_mark)) {
            is_needless = false;
            for (size_t i = 0; i < sizeof(needless) / sizeof(needless[0]); i++) {
                is_needless |= memmem(text, nbytes, needless[i], strlen(needless[i])) != NULL;
            }
            if (!is_needless || why[0] == '\0') {
                why[0] = '\0';
                add_words(why, text + strlen(own_mark), nbytes - strlen(own_mark));
            }
        }
        text += nbytes;
    }
}

bool reach_has_failed(int wait_status, const char *text, char why[REACH_WHY_NBYTES])
{
    bool is_late = !WIFEXITED(wait_status) || WEXITSTATUS(wait_status) == LAUNCH_EXIT_TIMEOUT;

    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
        return false;
    }
    if (is_late && strstr(text, "queued and waiting for resources") != NULL &&
        strstr(text, "not available") == NULL) {
        return false; /* Slurm will start the ranks when their turn has come */
    }
    first_paragraph(text, why);
    if (!is_late) {
        own_line(text, why);
    }
    if (why[0] == '\0') {
        snprintf(why, REACH_WHY_NBYTES, "%s",
                 is_late ? REACH_SILENCE : "the engine has failed and says nothing");
    }
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Start a program that ends in order when we die, its output in the pipe. Returns -1 or its pid. */
static pid_t reach_spawn(const char *path, const char *const argv[], int fd)
{
    pid_t parent = getpid(), pid = fork();
    int null_fd;

    if (pid != 0) {
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() != parent || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(fd, 1) < 0 ||
        dup2(fd, 2) < 0) {
        _exit(LAUNCH_EXIT_FAILED);
    }
    execv(path, (char *const *)argv);
    _exit(LAUNCH_EXIT_NOT_EXEC);
}

/* Ask one host. Returns false if that cannot be done; then it counts as reached. */
static bool ask_start(struct asked *asked, const struct engine_task *task,
                      const struct launch_job *job)
{
    char engine[ENGINE_NAME_NBYTES], inspect[PATH_MAX], *place;
    const char *argv[] = {"nixlrun", "--engine",  engine,        "--host",
                          NULL,      "-n",        "1",           "--stdin",
                          "none",    "--timeout", REACH_LIMIT,   "--kill-grace",
                          "0",       inspect,     INSPECT_THERE, NULL};
    int fds[2];

    engine_name(task->engine->id, engine);
    if (!helper_find(INSPECT_PROGRAM, inspect) || pipe2(fds, O_CLOEXEC) != 0) {
        return false;
    }
    place = x_calloc(strlen(job->hosts[asked->host].name) + 3, 1);
    sprintf(place, "%s:1", job->hosts[asked->host].name);
    argv[4] = place;
    asked->fd = fds[0];
    asked->used = 0;
    asked->deadline_ns = nxr_now_ns() + REACH_GRACE_NS;
    asked->pid = reach_spawn("/proc/self/exe", argv, fds[1]);
    close(fds[1]);
    free(place);
    if (asked->pid < 0) {
        close(fds[0]);
    }
    return asked->pid > 0;
}

/* Read what there is. Returns false at the end. */
static bool ask_read(struct asked *asked)
{
    size_t room = sizeof(asked->text) - 1 - asked->used;
    char rest[512];
    ssize_t n = read(asked->fd, room > 0 ? asked->text + asked->used : rest,
                     room > 0 ? room : sizeof(rest));

    asked->used += n > 0 && room > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && errno == EINTR);
}

/* The host has answered, or its time is over. */
static void ask_end(struct asked *asked, struct reach_lost *lost, bool *is_lost_p)
{
    int status = 0;

    if (nxr_now_ns() >= asked->deadline_ns) {
        kill(asked->pid, SIGKILL); /* its guardian kills what it has started */
    }
    close(asked->fd);
    while (waitpid(asked->pid, &status, 0) < 0 && errno == EINTR) {
    }
    asked->text[asked->used] = '\0';
    *is_lost_p = reach_has_failed(status, asked->text, lost->why);
}

/* Wait for the hosts that are asked until one of them is through; it leaves the array. */
static void ask_wait(struct asked *asked, size_t *n_p, struct reach_lost *lost, bool *is_lost)
{
    struct pollfd polled[MAX_ASKED];
    size_t n = *n_p;

    while (*n_p == n) {
        for (size_t i = 0; i < n; i++) {
            polled[i] = (struct pollfd){.fd = asked[i].fd, .events = POLLIN};
        }
        poll(polled, n, 1000);
        for (size_t i = 0; i < n && *n_p == n; i++) {
            if ((polled[i].revents != 0 && !ask_read(&asked[i])) ||
                nxr_now_ns() >= asked[i].deadline_ns) {
                ask_end(&asked[i], &lost[asked[i].host], &is_lost[asked[i].host]);
                asked[i] = asked[--*n_p];
            }
        }
    }
}

/* ---- the hosts of the job -------------------------------------------------------------------- */

/* Without --host the hosts are those of Slurm's allocation, whose ranks nobody has dealt yet. */
static void name_allocated(const struct engine_task *task, struct launch_job *job)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    const char *const argv[] = {"scontrol", "show", "hostnames", list, NULL};
    char path[PATH_MAX], *names, *next, *name;

    if (job->n_hosts > 0 || task->engine->id != ENGINE_SLURM || list == NULL ||
        !probe_find(argv[0], path)) {
        return;
    }
    next = names = x_calloc(REACH_NAMES_NBYTES, 1);
    if (probe_run(path, argv, names, REACH_NAMES_NBYTES)) {
        while ((name = strsep(&next, "\n")) != NULL) {
            if (name[0] != '\0') {
                job->hosts = x_array(job->hosts, (size_t)job->n_hosts + 1, sizeof(*job->hosts));
                job->hosts[job->n_hosts++] = (struct launch_host){.name = x_strdup(name)};
            }
        }
    }
    free(names);
}

/* Deal ranks to hosts that had none, as Slurm would: in blocks. */
static void deal_allocated(struct launch_job *job)
{
    int each = (job->np + job->n_hosts - 1) / job->n_hosts, left = job->np;

    for (int i = 0; i < job->n_hosts; i++) {
        job->hosts[i].n_ranks = each < left ? each : left;
        left -= job->hosts[i].n_ranks;
    }
}

/* Leave a host out of the job, and its ranks. */
static void drop_host(struct launch_job *job, int at)
{
    job->np -= job->hosts[at].n_ranks;
    job->apps[0].np = job->np;
    memmove(&job->hosts[at], &job->hosts[at + 1],
            (size_t)(job->n_hosts - at - 1) * sizeof(*job->hosts));
    job->n_hosts--;
}

static size_t take_lost(struct launch_job *job, struct reach_lost *lost, const bool *is_lost)
{
    size_t n_lost = 0;

    for (int i = 0, at = 0, n = job->n_hosts; i < n; i++) {
        if (!is_lost[i]) {
            at++;
            continue;
        }
        lost[n_lost] = lost[i];
        lost[n_lost++].host = job->hosts[at].name;
        drop_host(job, at);
    }
    return n_lost;
}

size_t reach_hosts(const struct engine_task *task, struct launch_job *job,
                   struct reach_lost **lost_p)
{
    bool is_named = job->n_hosts > 0, *is_lost;
    struct asked *asked = x_calloc(MAX_ASKED, sizeof(*asked));
    struct reach_lost *lost;
    size_t n_asked = 0, n_lost = 0;

    name_allocated(task, job);
    lost = x_calloc((size_t)job->n_hosts, sizeof(*lost));
    is_lost = x_calloc((size_t)job->n_hosts, sizeof(*is_lost));
    for (int i = 0; i < job->n_hosts; i++) {
        if ((is_named && job->hosts[i].n_ranks == 0) || here_is(job->hosts[i].name)) {
            continue;
        }
        if (n_asked == MAX_ASKED) {
            ask_wait(asked, &n_asked, lost, is_lost);
        }
        asked[n_asked].host = i;
        n_asked += ask_start(&asked[n_asked], task, job);
    }
    while (n_asked > 0) {
        ask_wait(asked, &n_asked, lost, is_lost);
    }
    for (int i = 0; i < job->n_hosts; i++) {
        n_lost += is_lost[i];
    }
    if (!is_named && n_lost > 0) {
        deal_allocated(job);
    } else if (!is_named) {
        hosts_free(job); /* the engine knows them */
    }
    n_lost = n_lost > 0 ? take_lost(job, lost, is_lost) : 0;
    free(is_lost);
    free(asked);
    *lost_p = lost;
    return n_lost;
}
