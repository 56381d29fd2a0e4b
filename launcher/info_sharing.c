/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this container, or host, permits processes that share memory: each is tried here, on a child
 * process. Which path is taken instead, and what would change that. No state.
 */
#include "config.h"

#include "launcher/info.h"
#include "nixlrun.h"
#include "util/env.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARING_TEXT_NBYTES = 400 };

/* The inode of the first namespace, which the kernel fixes (PROC_PID_INIT_INO). */
#define FIRST_PID_NAMESPACE 0xeffffffcu

const struct table_column info_sharing_columns[] = {
    {"what", "what", TABLE_TEXT},
    {"usable", "usable", TABLE_FLAG},
    {"then", "then", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};

static void sharing_add(struct table *table, const char *what, bool is_usable, const char *then)
{
    table_add(table, (const char *const[]){what, is_usable ? "yes" : "no", then});
}

/* ---- system calls, tried on a child ---------------------------------------------------------- */

/* 0, or the errno. */
static int sharing_read_child(pid_t child)
{
    char here = 0, there = 0; /* the child has the same at the same address */
    struct iovec to = {&here, 1}, from = {&there, 1};

    return process_vm_readv(child, &to, 1, &from, 1, 0) == 1 ? 0 : errno;
}

static int sharing_watch_child(pid_t child)
{
    int fd = (int)syscall(SYS_pidfd_open, child, 0);

    if (fd < 0) {
        return errno;
    }
    close(fd);
    return 0;
}

static void sharing_add_calls(struct table *table, const struct nxr_env *env)
{
    char text[SHARING_TEXT_NBYTES];
    pid_t child = fork();
    int error;

    if (child == 0) {
        pause();
        _exit(0);
    }
    if (child < 0) {
        return;
    }
    error = sharing_read_child(child);
    if (!env->process_vm) {
        snprintf(text, sizeof(text),
                 "NIXLRUN_PROCESS_VM is off: registered memory is copied twice, "
                 "through a buffer (NIXLRUN_BOUNCE_BYTES)");
    } else if (error != 0) {
        snprintf(text, sizeof(text),
                 "%s: registered memory is copied twice, through a buffer (NIXLRUN_BOUNCE_BYTES); "
                 "allow process_vm_readv and process_vm_writev in the seccomp profile, or allocate "
                 "by nixl_region_alloc()",
                 strerror(error));
    } else {
        snprintf(text, sizeof(text), "registered memory is copied directly");
    }
    sharing_add(table, "process_vm_readv", env->process_vm && error == 0, text);
    error = sharing_watch_child(child);
    if (error != 0) {
        snprintf(text, sizeof(text),
                 "%s: deaths are seen by futexes in shared memory and by sockets", strerror(error));
    } else {
        snprintf(text, sizeof(text), "deaths are seen by it, too");
    }
    sharing_add(table, "pidfd_open", error == 0, text);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void sharing_add_memfd(struct table *table)
{
    char text[SHARING_TEXT_NBYTES];
    int fd = memfd_create("nixlrun-info", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) {
        snprintf(text, sizeof(text),
                 "%s: ranks cannot start; allow memfd_create in the seccomp profile",
                 strerror(errno));
    } else {
        snprintf(text, sizeof(text), "shared memory without /dev/shm");
        close(fd);
    }
    sharing_add(table, "memfd_create", fd >= 0, text);
}

/* ---- other containers ------------------------------------------------------------------------ */

static void sharing_add_namespace(struct table *table)
{
    struct stat about;
    bool is_known = stat("/proc/self/ns/pid", &about) == 0;
    bool is_first = is_known && about.st_ino == FIRST_PID_NAMESPACE;

    sharing_add(table, "PID namespace of the host", is_first,
                is_first ? "pids name the processes of all containers"
                : !is_known
                    ? "unknown: /proc is not mounted"
                    : "with processes of other containers, registered memory goes through a "
                      "buffer, and memory of cudaMalloc() is not reached; share the "
                      "namespace, such as by --pid=host, or allocate by "
                      "nixl_region_alloc()");
}

static void sharing_add_folder(struct table *table, const char *dir)
{
    char text[SHARING_TEXT_NBYTES];
    bool is_usable = dir[0] != '\0' && access(dir, R_OK | W_OK | X_OK) == 0;

    if (dir[0] == '\0') {
        snprintf(text, sizeof(text),
                 "not set: containers of this host with other network namespaces are reached by a "
                 "network; name a folder that both have, such as a volume");
    } else if (!is_usable) {
        snprintf(text, sizeof(text), "%.200s: %s; it must be a folder that this user can write to",
                 dir, strerror(errno));
    } else {
        snprintf(text, sizeof(text), "%.200s: containers that have it, too, share memory", dir);
    }
    sharing_add(table, "NIXLRUN_SHARED_DIR", is_usable, text);
}

void info_add_sharing(struct table *table)
{
    struct nxr_env env;
    char why[SHARING_TEXT_NBYTES];

    if (nxr_env_parse(&env, why, sizeof(why)) != NIXL_OK) {
        return; /* the library has reported that */
    }
    sharing_add_memfd(table);
    sharing_add_calls(table, &env);
    sharing_add_namespace(table);
    sharing_add_folder(table, env.shared_dir);
}
