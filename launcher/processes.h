/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of this user, as /proc shows them. */
#ifndef NIXLRUN_LAUNCHER_PROCESSES_H
#define NIXLRUN_LAUNCHER_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct process {
    pid_t pid, parent;
    char name[32];            /* as the kernel has it, cut */
    char state;               /* as /proc/PID/stat has it */
    unsigned long long began; /* clock ticks after the start of the host */
};

struct processes {
    struct process *all;
    size_t n;
};

/* Read them, by pid. Ends the program if there is no memory; none without /proc. */
struct processes processes_read(void);
void processes_free(struct processes *processes);

/* Is it there still, as the same process? */
bool process_lives(const struct process *process);

/* "1-02:03:04" or "00:00:07" since it began. */
struct process_age {
    char text[48];
};
struct process_age process_age(const struct process *process);

/* The state of a process or thread now, as `state` above; '?': it is gone. */
char process_letter(pid_t pid);

/* Has its end begun? It may be gone, or be a zombie, or still be giving back its memory. */
bool process_is_dying(pid_t pid);

/* Does it catch that signal, by a handler of its own? */
bool process_catches(pid_t pid, int signal);

/* Its words, with a space between two; what cannot be printed is '?'. The caller frees it. */
char *process_command(const struct process *process);

/* A variable of its environment as it began; NULL: not set, or not to be read. Caller frees. */
char *process_variable(const struct process *process, const char *name);

#endif
