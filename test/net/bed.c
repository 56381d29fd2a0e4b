/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders to test/net/links by a child process, and meetings by files in the folder that all ranks
 * share. No state.
 */
#include "test/net/bed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void bed_link(const char *format, ...)
{
    const char *links = getenv("MPT_LINKS");
    char command[1024];
    va_list args;
    int used, status;

    if (links == NULL) {
        mpt_skip("the links between these ranks cannot be changed");
    }
    used = snprintf(command, sizeof(command), "%s ", links);
    va_start(args, format);
    vsnprintf(command + used, sizeof(command) - (size_t)used, format, args);
    va_end(args);
    status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        mpt_skip("this kernel cannot do that to a link");
    }
    if (status != 0) {
        mpt_fail(__FILE__, __LINE__, "'%s' failed", command);
    }
}

/* Open the file of a mark. False: it is not there. */
static bool open_mark(const char *name, int rank, int flags)
{
    const char *dir = getenv("MPT_DIR");
    char path[512];
    int fd;

    MPT_TRUE(dir != NULL);
    snprintf(path, sizeof(path), "%s/%s.%d", dir, name, rank);
    fd = open(path, O_RDONLY | O_CLOEXEC | flags, 0600);
    if (fd < 0 && errno != ENOENT) {
        mpt_fail(__FILE__, __LINE__, "the mark '%s': %s", path, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

void bed_mark(const char *name, int rank)
{
    MPT_TRUE(open_mark(name, rank, O_CREAT));
}

bool bed_has_mark(const char *name, int rank)
{
    return open_mark(name, rank, 0);
}

void bed_await_mark(const char *name, int rank)
{
    static const struct timespec while_waiting = {.tv_nsec = 2 * MPT_MS};
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    while (!bed_has_mark(name, rank)) {
        if (mpt_now_ns() > end_ns) {
            mpt_fail(__FILE__, __LINE__, "rank %d sets no mark '%s'", rank, name);
        }
        nanosleep(&while_waiting, NULL);
    }
}

void bed_meet(const char *name)
{
    bed_meet_without(name, -1);
}

void bed_meet_without(const char *name, int dead)
{
    bed_mark(name, nixl_rank());
    for (int rank = 0; rank < nixl_size(); rank++) {
        if (rank != dead) {
            bed_await_mark(name, rank);
        }
    }
}
