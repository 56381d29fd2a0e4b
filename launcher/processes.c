/* SPDX-License-Identifier: Apache-2.0 */
/* Reading /proc. No state. */
#include "config.h"

#include "launcher/processes.h"
#include "launcher/xalloc.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Read /proc/PID/FILE whole, with a zero behind it; NULL: it is not there. */
static char *proc_read(pid_t pid, const char *file, size_t *nbytes_p)
{
    char path[64];
    size_t room = 4096, nbytes = 0;
    char *text = NULL;
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    do {
        room *= 2;
        text = x_array(text, room, 1);
        got = read(fd, text + nbytes, room - nbytes - 1);
        nbytes += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    close(fd);
    text[nbytes] = '\0';
    *nbytes_p = nbytes;
    return text;
}

/* False: it has ended, or is not this user's. */
static bool process_read(pid_t pid, struct process *process_p)
{
    struct process process = {.pid = pid};
    char path[32], *stat_text, *begin, *end;
    struct stat info;
    size_t nbytes;
    int n = 0;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &info) != 0 || info.st_uid != geteuid()) {
        return false;
    }
    stat_text = proc_read(pid, "stat", &nbytes);
    begin = stat_text != NULL ? strchr(stat_text, '(') : NULL;
    end = stat_text != NULL ? strrchr(stat_text, ')') : NULL; /* a name may contain one */
    if (begin != NULL && end != NULL && end > begin) {
        snprintf(process.name, sizeof(process.name), "%.*s", (int)(end - begin - 1), begin + 1);
        n = sscanf(end,
                   ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                   "%llu",
                   &process.state, &process.parent, &process.began);
    }
    free(stat_text);
    *process_p = process;
    return n == 3;
}

static int process_compare(const void *a, const void *b)
{
    pid_t first = ((const struct process *)a)->pid, second = ((const struct process *)b)->pid;

    return (first > second) - (first < second);
}

struct processes processes_read(void)
{
    struct processes processes = {NULL, 0};
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        struct process process;

        if (isdigit((unsigned char)entry->d_name[0]) &&
            process_read((pid_t)strtol(entry->d_name, NULL, 10), &process)) {
            processes.all = x_array(processes.all, processes.n + 1, sizeof(*processes.all));
            processes.all[processes.n++] = process;
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
    if (processes.n > 1) {
        qsort(processes.all, processes.n, sizeof(*processes.all), process_compare);
    }
    return processes;
}

void processes_free(struct processes *processes)
{
    free(processes->all);
    *processes = (struct processes){NULL, 0};
}

bool process_lives(const struct process *process)
{
    struct process now;

    return process_read(process->pid, &now) && now.began == process->began && now.state != 'Z';
}

struct process_age process_age(const struct process *process)
{
    struct timespec now = {0, 0};
    struct process_age age;
    long long seconds;

    clock_gettime(CLOCK_BOOTTIME, &now);
    seconds = (long long)now.tv_sec -
              (long long)(process->began / (unsigned long long)sysconf(_SC_CLK_TCK));
    seconds = seconds > 0 ? seconds : 0;
    if (seconds >= 86400) {
        snprintf(age.text, sizeof(age.text), "%lld-%02d:%02d:%02d", seconds / 86400,
                 (int)(seconds / 3600 % 24), (int)(seconds / 60 % 60), (int)(seconds % 60));
    } else {
        snprintf(age.text, sizeof(age.text), "%02d:%02d:%02d", (int)(seconds / 3600),
                 (int)(seconds / 60 % 60), (int)(seconds % 60));
    }
    return age;
}

char *process_command(const struct process *process)
{
    size_t nbytes = 0;
    char *words = proc_read(process->pid, "cmdline", &nbytes);

    if (words == NULL || nbytes == 0) {
        free(words);
        return x_strdup(process->name);
    }
    for (size_t i = 0; i + 1 < nbytes; i++) {
        if (words[i] == '\0') {
            words[i] = ' ';
        } else if (iscntrl((unsigned char)words[i])) {
            words[i] = '?';
        }
    }
    return words;
}

char *process_variable(const struct process *process, const char *name)
{
    size_t nbytes = 0, name_nbytes = strlen(name);
    char *environment = proc_read(process->pid, "environ", &nbytes), *value = NULL;

    for (size_t at = 0; at < nbytes && value == NULL; at += strlen(environment + at) + 1) {
        if (strncmp(environment + at, name, name_nbytes) == 0 &&
            environment[at + name_nbytes] == '=') {
            value = x_strdup(environment + at + name_nbytes + 1);
        }
    }
    free(environment);
    return value;
}

bool process_catches(pid_t pid, int signal)
{
    size_t nbytes = 0;
    char *text = proc_read(pid, "status", &nbytes);
    const char *line = text != NULL ? strstr(text, "\nSigCgt:") : NULL;
    unsigned long long caught = 0;
    bool is_caught;

    is_caught = line != NULL && sscanf(line, "\nSigCgt: %llx", &caught) == 1 &&
                ((caught >> (signal - 1)) & 1) != 0;
    free(text);
    return is_caught;
}

/* The flag PF_EXITING of the kernel, in the ninth field of /proc/PID/stat. */
#define FLAG_EXITING 0x4u

/* Is SIGKILL pending? The kernel sends it to all other threads when one ends the process. */
static bool process_is_killed(pid_t pid)
{
    size_t nbytes = 0;
    char *text = proc_read(pid, "status", &nbytes);
    const char *line = text != NULL ? strstr(text, "\nSigPnd:") : NULL;
    unsigned long long own = 0, shared = 0;

    if (line != NULL && sscanf(line, "\nSigPnd: %llx ShdPnd: %llx", &own, &shared) < 1) {
        own = shared = 0;
    }
    free(text);
    return (((own | shared) >> (SIGKILL - 1)) & 1) != 0;
}

bool process_is_dying(pid_t pid)
{
    size_t nbytes = 0;
    char *text = proc_read(pid, "stat", &nbytes);
    const char *after = text != NULL ? strrchr(text, ')') : NULL;
    unsigned flags = 0;
    char letter = '?';
    bool is_known =
        after != NULL && sscanf(after, ") %c %*d %*d %*d %*d %*d %u", &letter, &flags) == 2;

    free(text);
    if (!is_known) { /* gone, or of another user where these are hidden */
        return kill(pid, 0) != 0 && errno == ESRCH;
    }
    return letter == 'Z' || letter == 'X' || (flags & FLAG_EXITING) != 0 || process_is_killed(pid);
}

char process_letter(pid_t pid)
{
    size_t nbytes = 0;
    char *text = proc_read(pid, "stat", &nbytes);
    const char *after = text != NULL ? strrchr(text, ')') : NULL;
    char letter = after != NULL && after[1] == ' ' ? after[2] : '?';

    free(text);
    return letter;
}
