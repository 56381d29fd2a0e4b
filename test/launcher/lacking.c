/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into nixlrun: the LACKING-th request of the program itself for memory, a descriptor or
 * a place in an epoll set fails, once in it and once in its guardian, which notes that in the file
 * LACKING_SAID. Other programs, and nixlrun's libraries, get what they ask for.
 */
#define _GNU_SOURCE /* dl_iterate_phdr, pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t n, size_t nbytes);
void *__libc_realloc(void *old, size_t nbytes);

/* Instead of those of the C library. */
#define VISIBLE __attribute__((visibility("default")))
#define CALLER  ((uintptr_t)__builtin_return_address(0))

#define KERNEL_MASK_NBYTES 8 /* of signals */

static uintptr_t lacking_begin, lacking_end; /* the code of nixlrun */
static _Atomic int lacking_left;             /* requests until one fails; 0: none does */
static const char *lacking_said;

/* The program comes first. */
static int lacking_find(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0) {
            lacking_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            lacking_end = lacking_begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

static void __attribute__((constructor)) lacking_start(void)
{
    const char *count = getenv("LACKING");

    lacking_said = getenv("LACKING_SAID");
    if (strcmp(program_invocation_short_name, "nixlrun") == 0 && count != NULL &&
        lacking_said != NULL) {
        dl_iterate_phdr(lacking_find, NULL);
        atomic_store(&lacking_left, atoi(count));
    }
}

static bool lacks(uintptr_t caller, int error)
{
    int fd;

    if (caller < lacking_begin || caller >= lacking_end || atomic_load(&lacking_left) <= 0 ||
        atomic_fetch_sub(&lacking_left, 1) != 1) {
        return false;
    }
    fd = open(lacking_said, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return true;
}

VISIBLE void *malloc(size_t nbytes)
{
    return lacks(CALLER, ENOMEM) ? NULL : __libc_malloc(nbytes);
}

VISIBLE void *calloc(size_t n, size_t nbytes)
{
    return lacks(CALLER, ENOMEM) ? NULL : __libc_calloc(n, nbytes);
}

VISIBLE void *realloc(void *old, size_t nbytes)
{
    return lacks(CALLER, ENOMEM) ? NULL : __libc_realloc(old, nbytes);
}

VISIBLE int pipe2(int fds[2], int flags)
{
    return lacks(CALLER, EMFILE) ? -1 : (int)syscall(SYS_pipe2, fds, flags);
}

VISIBLE int epoll_create1(int flags)
{
    return lacks(CALLER, EMFILE) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

VISIBLE int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    return op == EPOLL_CTL_ADD && lacks(CALLER, ENOSPC)
               ? -1
               : (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

VISIBLE int eventfd(unsigned count, int flags)
{
    return lacks(CALLER, EMFILE) ? -1 : (int)syscall(SYS_eventfd2, count, flags);
}

VISIBLE int signalfd(int fd, const sigset_t *mask, int flags)
{
    return lacks(CALLER, EMFILE) ? -1
                                 : (int)syscall(SYS_signalfd4, fd, mask, KERNEL_MASK_NBYTES, flags);
}

VISIBLE int socketpair(int domain, int type, int protocol, int fds[2])
{
    return lacks(CALLER, EMFILE) ? -1 : (int)syscall(SYS_socketpair, domain, type, protocol, fds);
}
