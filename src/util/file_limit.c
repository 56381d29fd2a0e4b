/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of file sizes. */
#include "config.h"

#include "util/file_limit.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

bool nxr_file_may_have(uint64_t nbytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           nbytes <= limit.rlim_cur;
}

int nxr_file_resize(int fd, uint64_t nbytes)
{
    if (nbytes > INT64_MAX || !nxr_file_may_have(nbytes)) {
        errno = EFBIG;
        return -1;
    }
    return ftruncate(fd, (off_t)nbytes);
}

const char *nxr_file_limit_note(int error)
{
    return error == EFBIG ? " (ulimit -f is set and counts here)" : "";
}
