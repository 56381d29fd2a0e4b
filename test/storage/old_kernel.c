/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel without openat2(), and a file system without O_TMPFILE and RENAME_NOREPLACE, for
 * programs that are started with this library in LD_PRELOAD.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long syscall_fn(long number, long a, long b, long c, long d, long e, long f);
typedef int openat_fn(int dir, const char *path, int flags, mode_t mode);

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    syscall_fn *real = (syscall_fn *)dlsym(RTLD_NEXT, "syscall");
    long args[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        args[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_openat2) {
        errno = ENOSYS;
        return -1;
    }
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

__attribute__((visibility("default"))) int openat(int dir, const char *path, int flags, ...)
{
    openat_fn *real = (openat_fn *)dlsym(RTLD_NEXT, "openat");
    mode_t mode = 0;
    va_list list;

    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    va_start(list, flags);
    if ((flags & O_CREAT) != 0) {
        mode = va_arg(list, mode_t);
    }
    va_end(list);
    return real(dir, path, flags, mode);
}

__attribute__((visibility("default"))) int renameat2(int from_dir, const char *from, int to_dir,
                                                     const char *to, unsigned flags)
{
    if (flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return renameat(from_dir, from, to_dir, to);
}
