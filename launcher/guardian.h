/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian: a small process in a session of its own, the parent of all ranks, which adopts
 * their orphans. It starts ranks, signals them, reports their ends, and kills all its descendants
 * when nixlrun ends, however that happens. nixlrun talks to it over a socket whose end of file is
 * the order to clean up. guardian.c is the process, guardian_client.c is nixlrun's end.
 */
#ifndef NIXLRUN_LAUNCHER_GUARDIAN_H
#define NIXLRUN_LAUNCHER_GUARDIAN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- what nixlrun calls (guardian_client.c) -------------------------------------------------- */

/* A process to start. The caller keeps `fds`. */
struct guardian_start {
    int id;           /* the caller's name for it, in every report */
    const char *path; /* what to exec, as execve() takes it after the change to `wdir` */
    char **argv;
    char **env;
    const char *wdir;      /* NULL: unchanged */
    const cpu_set_t *cpus; /* NULL: leave as it is */
    int fds[3];            /* stdin, stdout, stderr */
    int end_signal;        /* what it gets before SIGKILL when nixlrun has died, or instead of it
                              when the guardian has; 0: nothing */
    bool ends_group;       /* its end is reported when no process of its group is left: the
                              guardian kills the others */
};

/* As an end signal SIGINT is sent twice in a short time, as by a person at a terminal. */
#define GUARDIAN_AGAIN_NS (1 * NXR_S)

/* The time that an engine has to end its job when nixlrun or the guardian has died. */
#define GUARDIAN_POLITE_NS (5 * NXR_S)

/* What could not be done when a process did not start. */
enum guardian_step { GUARDIAN_FORK, GUARDIAN_BIND, GUARDIAN_CHDIR, GUARDIAN_EXEC };

/* Reports, called from the event loop. */
struct guardian_reports {
    void (*started)(int id, pid_t pid);
    void (*failed)(int id, enum guardian_step step, int error);
    void (*ended)(int id, int wait_status);
    void (*refused)(int id, pid_t pid, int signal); /* the kernel forbids to signal it; said once
                                                       of a process, and at each SIGKILL; or NULL */
    void (*lost)(void);                             /* the guardian itself has died */
};

/*
 * Make the guardian. Call it before any thread exists and any limit is raised: ranks inherit its
 * signal mask (which is `mask`) and limits. Returns 0 or -errno.
 */
int guardian_open(const sigset_t *mask);

/* Start serving reports from the event loop. */
int guardian_listen(const struct guardian_reports *reports);

int guardian_start(const struct guardian_start *start);

/* Signal the process group of one process, or of all (id -1), if its leader is not reaped yet. */
void guardian_signal(int id, int signal);

/* SIGKILL every descendant; the known ones are reported as usual. */
void guardian_kill_all(void);

/*
 * Continue the guardian if it was stopped, after a line on stderr the first time. Without it no
 * signal reaches a rank, and the end of a rank is not noticed.
 */
void guardian_continue(void);

/*
 * Kill what is left and wait for the guardian's end. What may not be killed is named on stderr and
 * left alone.
 */
void guardian_close(void);

/* ---- between the two files ------------------------------------------------------------------- */

enum guardian_kind {
    GUARDIAN_DO_START,  /* id; payload struct guardian_payload and its strings; three fds */
    GUARDIAN_DO_SIGNAL, /* id, value = signal */
    GUARDIAN_DO_KILL_ALL,
    GUARDIAN_STARTED, /* id, value = pid */
    GUARDIAN_FAILED,  /* id, value = errno, step */
    GUARDIAN_ENDED,   /* id, value = wait status */
    GUARDIAN_REFUSED, /* id, value = pid, step = signal */
    GUARDIAN_LEFT,    /* value = pid: the guardian ends, and it runs on */
};

struct guardian_message {
    int32_t kind;
    int32_t id;
    int32_t value;
    int32_t step;
    uint64_t nbytes; /* of the payload that follows */
};

/* Strings follow, each with its zero: path, wdir ("" for none), argv, env. */
struct guardian_payload {
    cpu_set_t cpus;
    uint32_t is_bound;
    int32_t end_signal;
    int32_t ends_group;
    uint32_t n_argv;
    uint32_t n_env;
};

/* Receive all of it, or return false at the end. A recv() that SIGSTOP has cut short goes on. */
bool guardian_receive(int fd, void *data, size_t nbytes);

/* The guardian's life; does not return. */
void guardian_main(int socket_fd, int child_fd, const sigset_t *mask) __attribute__((noreturn));

#endif
