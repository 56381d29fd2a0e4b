/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian process: one thread, no PMIx, little memory, so that starting a rank is cheap. It is
 * a subreaper: whatever a rank leaves behind becomes its child, so killing "all descendants" is
 * simply killing "all children, until there is none". Ranks die with it (PDEATHSIG), and then
 * nixlrun, which is a subreaper too, adopts and ends their orphans: nothing survives the death of
 * either.
 *
 * All signals but SIGKILL are blocked: ranks get signals only by nixlrun's order. Only the guardian
 * reaps, and it signals only what it has not reaped, so it never hits a reused pid.
 */
#include "config.h"

#include "launcher/guardian.h"
#include "launcher/descendants.h"
#include "launcher/end_order.h"
#include "launcher/ending.h"
#include "launcher/tmpdir.h"
#include "launcher/xalloc.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define GUARDIAN_STACK_NBYTES (64 * 1024)
#define ENDING_NS             (1 * NXR_S)  /* how long the end of a process may take */
#define LEAVING_MS            2            /* between looks at groups that are ending */
#define ZOMBIES_NS            (NXR_S / 10) /* between two looks whether a group has only zombies */

/* A process that was started on request and has not been reaped. */
struct child {
    int id;
    pid_t pid;
    int end_signal;
    bool ends_group;
    bool is_refused; /* it was reported as one that may not be signalled */
};

/* One that has been reaped and is to be reported. */
struct ended {
    int id, status;
    pid_t group;     /* in which nothing may live before; 0: none */
    int64_t look_at; /* when it is looked at for zombies; 0: it was just left */
};

static int guardian_fd;        /* to nixlrun */
static sigset_t guardian_mask; /* for the ranks */
static struct child *children;
static size_t n_children;
/* Reports that wait for room in the socket: the guardian never blocks on nixlrun. */
static struct guardian_message *reports;
static size_t n_reports;
/* Reaped, but others of their group are still ending. */
static struct ended *leaving;
static size_t n_leaving;

/* ---- reports --------------------------------------------------------------------------------- */

static void guardian_report(enum guardian_kind kind, int id, int value, int step)
{
    reports = x_array(reports, n_reports + 1, sizeof(*reports));
    reports[n_reports++] =
        (struct guardian_message){.kind = kind, .id = id, .value = value, .step = step};
}

static void send_reports(void)
{
    size_t n_sent = 0;

    while (n_sent < n_reports && send(guardian_fd, &reports[n_sent], sizeof(*reports),
                                      MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*reports)) {
        n_sent++;
    }
    n_reports -= n_sent;
    memmove(reports, reports + n_sent, n_reports * sizeof(*reports));
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The child with that pid; NULL: an orphan that the guardian has adopted. */
static struct child *guardian_child(pid_t pid)
{
    for (size_t i = 0; i < n_children; i++) {
        if (children[i].pid == pid) {
            return &children[i];
        }
    }
    return NULL;
}

/* A process that can be reaped: that one, or any (P_ALL); 0: there is none. */
static pid_t guardian_find_dead(idtype_t which, pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(which, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 ? info.si_pid : 0;
}

/* The first of the children that can be reaped. One that a debugger holds has ended, and cannot. */
static pid_t guardian_first_child(void)
{
    pid_t pid;

    while ((pid = end_order_next()) > 0 && guardian_find_dead(P_PID, pid) == 0) {
    }
    return pid;
}

/*
 * A process that can be reaped; 0: there is none. Children come in the order in which they ended,
 * also those that end while waitid() looks.
 */
static pid_t guardian_next_dead(void)
{
    pid_t first = guardian_first_child(), any;

    if (first > 0) {
        return first;
    }
    any = guardian_find_dead(P_ALL, 0);
    first = any > 0 ? guardian_first_child() : 0;
    return first > 0 ? first : any;
}

/* Reap a process. While it is not reaped its group is certainly its own: kill the others there. */
static bool guardian_reap_one(pid_t pid, struct ended *ended)
{
    struct child *child = guardian_child(pid);
    int status = 0;

    if (child != NULL && child->ends_group) {
        kill(-pid, SIGKILL);
    }
    waitpid(pid, &status, 0);
    if (child == NULL) {
        return false;
    }
    *ended = (struct ended){child->id, status, child->ends_group ? pid : 0, 0};
    *child = children[--n_children];
    return true;
}

static bool any_is_ending(void)
{
    for (size_t i = 0; i < n_children; i++) {
        if (descendant_is_ending(children[i].pid)) {
            return true;
        }
    }
    return false;
}

/* Reap what has ended. Returns whether one failed that may have reacted to a death. */
static bool guardian_collect(struct ended *ended, size_t *n_p)
{
    bool may_answer = false;
    pid_t pid;

    while ((pid = guardian_next_dead()) > 0) {
        if (guardian_reap_one(pid, &ended[*n_p])) {
            int status = ended[(*n_p)++].status;

            may_answer = may_answer || (status != 0 && !ending_is_cause(status));
        }
    }
    return may_answer;
}

/*
 * Does anything live in the group? Zombies count for kill(), and may stay: a parent that has left
 * the group may never reap them. All processes are looked at for that, so not each time.
 */
static bool group_lives(struct ended *ended)
{
    int64_t now = nxr_now_ns();

    if (ended->group == 0 || kill(-ended->group, 0) != 0) {
        return false;
    }
    if (ended->look_at != 0 && ended->look_at <= now && !descendants_group_lives(ended->group)) {
        return false;
    }
    if (ended->look_at <= now) {
        ended->look_at = now + ZOMBIES_NS;
    }
    return true;
}

/* Report the end of a process, at once or when nothing lives in its group. */
static void guardian_report_ended(struct ended *ended)
{
    if (group_lives(ended)) {
        leaving = x_array(leaving, n_leaving + 1, sizeof(*leaving));
        leaving[n_leaving++] = *ended;
    } else {
        guardian_report(GUARDIAN_ENDED, ended->id, ended->status, 0);
    }
}

static void guardian_look_at_leaving(void)
{
    size_t n = n_leaving;

    n_leaving = 0;
    for (size_t i = 0; i < n; i++) { /* each is kept at its place or before it */
        struct ended ended = leaving[i];

        guardian_report_ended(&ended);
    }
}

/*
 * Reap and report. A rank that fails because another one dies may end before the other can be
 * reaped, since exiting takes time. So the guardian waits for the other and reports it first:
 * nixlrun takes its exit code and the name of the culprit from the first failure.
 */
static void guardian_reap(void)
{
    struct ended *ended = x_array(NULL, n_children + 1, sizeof(*ended));
    int64_t deadline = nxr_now_ns() + ENDING_NS;
    size_t n = 0;
    bool may_answer = guardian_collect(ended, &n);

    while (may_answer && any_is_ending() && nxr_now_ns() < deadline) {
        poll(NULL, 0, 1);
        guardian_collect(ended, &n);
    }
    for (int is_cause = 1; is_cause >= 0; is_cause--) {
        for (size_t i = 0; i < n; i++) {
            if (ending_is_cause(ended[i].status) == (is_cause != 0)) {
                guardian_report_ended(&ended[i]);
            }
        }
    }
    free(ended);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* What the new process reads, and where it reports why it could not execute the program. */
struct birth {
    const struct guardian_payload *payload;
    const char *path, *wdir;
    char **argv, **env;
    const int *fds;
    pid_t guardian;
    volatile int error;
    volatile enum guardian_step step;
};

/*
 * Runs in the new process, on its own stack but in the guardian's memory, while the guardian waits
 * (CLONE_VM, CLONE_VFORK): only system calls here, and `birth` carries the error back.
 */
static int guardian_become_program(void *arg)
{
    static const int reset[] = {SIGPIPE, SIGXFSZ, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCHLD};
    struct birth *birth = arg;
    struct sigaction action = {.sa_handler = SIG_DFL};
    int end_signal = birth->payload->end_signal;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, end_signal != 0 ? end_signal : SIGKILL);
    if (getppid() != birth->guardian) {
        _exit(127); /* the guardian died before the line above */
    }
    for (int i = 0; i < 3; i++) {
        dup2(birth->fds[i], i);
    }
    birth->step = GUARDIAN_BIND;
    if (birth->payload->is_bound &&
        sched_setaffinity(0, sizeof(birth->payload->cpus), &birth->payload->cpus) != 0) {
        goto failed;
    }
    birth->step = GUARDIAN_CHDIR;
    if (birth->wdir[0] != '\0' && chdir(birth->wdir) != 0) {
        goto failed;
    }
    for (size_t i = 0; i < sizeof(reset) / sizeof(reset[0]); i++) {
        sigaction(reset[i], &action, NULL);
    }
    sigprocmask(SIG_SETMASK, &guardian_mask, NULL);
    birth->step = GUARDIAN_EXEC;
    execve(birth->path, birth->argv, birth->env);
failed:
    birth->error = errno;
    _exit(127);
}

/* Split the payload's strings into a NULL-terminated vector; returns what follows them. */
static char *guardian_split(char *text, uint32_t n, char **strings)
{
    for (uint32_t i = 0; i < n; i++) {
        strings[i] = text;
        text += strlen(text) + 1;
    }
    strings[n] = NULL;
    return text;
}

/* The stack on which the new process runs until it executes the program. NULL: no memory. */
static char *birth_stack(void)
{
    static char *stack;

    if (stack == NULL) {
        stack = mmap(NULL, GUARDIAN_STACK_NBYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    }
    return stack != MAP_FAILED ? stack : NULL;
}

/* Returns the pid, or -1 with birth->error. */
static pid_t give_birth(struct birth *birth)
{
    char *stack = birth_stack();
    pid_t pid = -1;

    birth->step = GUARDIAN_FORK;
    if (stack != NULL) {
        pid = clone(guardian_become_program, stack + GUARDIAN_STACK_NBYTES,
                    CLONE_VM | CLONE_VFORK | SIGCHLD, birth);
    }
    if (pid < 0) {
        birth->error = stack != NULL ? errno : ENOMEM;
    } else if (birth->error != 0) {
        waitpid(pid, NULL, 0);
        pid = -1;
    }
    return pid;
}

static void guardian_do_start(int id, struct guardian_payload *payload, const int fds[3])
{
    struct birth birth = {.payload = payload, .fds = fds, .guardian = getpid()};
    char **strings = x_calloc((size_t)payload->n_argv + payload->n_env + 2, sizeof(*strings));
    char *text = (char *)(payload + 1);
    pid_t pid;

    birth.path = text;
    birth.wdir = birth.path + strlen(birth.path) + 1;
    birth.argv = strings;
    birth.env = strings + payload->n_argv + 1;
    text = guardian_split(text + strlen(birth.path) + strlen(birth.wdir) + 2, payload->n_argv,
                          birth.argv);
    guardian_split(text, payload->n_env, birth.env);
    pid = give_birth(&birth);
    if (pid < 0) {
        guardian_report(GUARDIAN_FAILED, id, birth.error, birth.step);
    } else {
        children = x_array(children, n_children + 1, sizeof(*children));
        children[n_children++] =
            (struct child){id, pid, payload->end_signal, payload->ends_group != 0, false};
        end_order_watch(pid);
        guardian_report(GUARDIAN_STARTED, id, pid, 0);
    }
    free(strings);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void guardian_refused(struct child *child, int signal)
{
    if (!child->is_refused || signal == SIGKILL) {
        child->is_refused = true;
        guardian_report(GUARDIAN_REFUSED, child->id, child->pid, signal);
    }
}

/*
 * A program that is set-user-ID may run as a user whose processes we may not signal. Nobody waits
 * for SIGWINCH, so that is no reason to speak of it.
 */
static void guardian_signal_children(int id, int signal)
{
    for (size_t i = 0; i < n_children; i++) {
        if (id < 0 || children[i].id == id) {
            kill(-children[i].pid, signal); /* 0 if any in the group got it */
            if (signal != SIGWINCH && kill(children[i].pid, 0) != 0 && errno == EPERM) {
                guardian_refused(&children[i], signal);
            }
        }
    }
}

static void guardian_could_not_kill(pid_t pid)
{
    struct child *child = guardian_child(pid);

    if (child != NULL) {
        guardian_refused(child, SIGKILL);
    }
}

static void guardian_leaves(pid_t pid)
{
    guardian_report(GUARDIAN_LEFT, -1, pid, 0);
}

bool guardian_receive(int fd, void *data, size_t nbytes)
{
    char *at = data;

    while (nbytes > 0) {
        ssize_t n = recv(fd, at, nbytes, 0);

        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        at += n > 0 ? n : 0;
        nbytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Read one message header and the descriptors with it. Returns the number of fds, -1 at the end. */
static int receive(struct guardian_message *message, int fds[3])
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control.space,
                            .msg_controllen = sizeof(control.space)};
    struct cmsghdr *rights;
    ssize_t n;

    do {
        n = recvmsg(guardian_fd, &header, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0 ||
        !guardian_receive(guardian_fd, (char *)message + n, sizeof(*message) - (size_t)n)) {
        return -1;
    }
    rights = CMSG_FIRSTHDR(&header);
    if (rights == NULL || rights->cmsg_type != SCM_RIGHTS) {
        return 0;
    }
    memcpy(fds, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
    return (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
}

/* Serve one order. Returns false when nixlrun is gone. */
static bool guardian_serve(void)
{
    struct guardian_message message;
    struct guardian_payload *payload;
    int fds[3];
    int n_fds = receive(&message, fds);

    if (n_fds < 0) {
        return false;
    }
    switch (message.kind) {
    case GUARDIAN_DO_START:
        payload = malloc(message.nbytes);
        if (payload == NULL || n_fds != 3 ||
            !guardian_receive(guardian_fd, payload, message.nbytes)) {
            free(payload);
            return false;
        }
        guardian_do_start(message.id, payload, fds);
        free(payload);
        break;
    case GUARDIAN_DO_SIGNAL:
        guardian_signal_children(message.id, message.value);
        break;
    case GUARDIAN_DO_KILL_ALL:
        descendants_signal(SIGKILL, guardian_could_not_kill);
        break;
    }
    for (int i = 0; i < n_fds; i++) {
        close(fds[i]);
    }
    return true;
}

/* Send end signals; is_again: only those that must be sent twice. Was there any? */
static bool guardian_ask_children(bool is_again)
{
    bool is_asked = false;

    for (size_t i = 0; i < n_children; i++) {
        if (children[i].end_signal != 0 && (!is_again || children[i].end_signal == SIGINT)) {
            kill(-children[i].pid, children[i].end_signal);
            is_asked = true;
        }
    }
    return is_asked;
}

/*
 * nixlrun has died. An engine with ranks on other hosts gets the chance to end them, as only it
 * can. Ranks on this host get no such grace.
 */
static void end_politely(int sigchld_fd)
{
    struct pollfd polled = {.fd = sigchld_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    int64_t now = nxr_now_ns(), again_at = now + GUARDIAN_AGAIN_NS;
    int64_t deadline = now + GUARDIAN_POLITE_NS;
    bool is_asked = guardian_ask_children(false), was_again = false;

    while (is_asked && n_children > 0 && (now = nxr_now_ns()) < deadline) {
        int64_t until = was_again ? deadline : again_at;

        if (now >= until) {
            was_again = true;
            guardian_ask_children(true);
        } else if (poll(&polled, 1, (int)((until - now) / NXR_MS) + 1) > 0 &&
                   read(sigchld_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            guardian_reap();
        }
    }
}

/* Leave nixlrun's session and terminal, keep nothing of its standard files open. */
static void detach(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid();
    prctl(PR_SET_NAME, "nixlrun-guard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < 3; i++) {
        dup2(null_fd, i);
    }
}

void guardian_main(int socket_fd, int child_fd, const sigset_t *mask)
{
    struct pollfd polled[2] = {{.fd = socket_fd}, {.fd = child_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    guardian_fd = socket_fd;
    guardian_mask = *mask;
    detach();
    for (;;) {
        polled[0].events = n_reports > 0 ? POLLIN | POLLOUT : POLLIN;
        poll(polled, 2, n_leaving > 0 ? LEAVING_MS : -1);
        guardian_look_at_leaving();
        if (polled[1].revents != 0 &&
            read(polled[1].fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            guardian_reap();
        }
        if ((polled[0].revents & (POLLIN | POLLHUP)) != 0 && !guardian_serve()) {
            break;
        }
        send_reports();
    }
    end_politely(polled[1].fd);
    descendants_kill(guardian_leaves);
    send_reports();
    tmpdir_remove();
    _exit(0);
}
