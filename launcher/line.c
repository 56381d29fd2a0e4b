/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of lines and files of --output-dir. */
#include "config.h"

#include "launcher/line.h"
#include "launcher/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool line_is_decorated(const struct launch_job *job)
{
    return job->tag_output || job->timestamp_output;
}

bool line_has_pty(const struct launch_job *job)
{
    return job->pty == PTY_YES ||
           (job->pty == PTY_AUTO && job->output_dir == NULL && isatty(STDOUT_FILENO));
}

size_t line_prefix(const struct launch_job *job, int space, int rank,
                   char prefix[LINE_PREFIX_NBYTES])
{
    size_t used = 0;

    if (job->timestamp_output) {
        struct timespec now;
        struct tm local;

        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &local);
        used = strftime(prefix, LINE_PREFIX_NBYTES, "%Y-%m-%dT%H:%M:%S", &local);
        used += (size_t)snprintf(prefix + used, LINE_PREFIX_NBYTES - used, ".%06ld ",
                                 now.tv_nsec / 1000);
    }
    if (job->tag_output && space == 0) {
        used += (size_t)snprintf(prefix + used, LINE_PREFIX_NBYTES - used, "[%d] ", rank);
    } else if (job->tag_output) {
        used += (size_t)snprintf(prefix + used, LINE_PREFIX_NBYTES - used, "[%d:%d] ", space, rank);
    }
    return used;
}

int line_open_file(const struct launch_job *job, int space, int rank, int which, bool is_again)
{
    const char *dir = job->output_dir;
    char path[PATH_MAX], spawned[32] = "";
    int fd;

    if (space > 0) {
        snprintf(spawned, sizeof(spawned), "job%d.", space);
    }
    snprintf(path, sizeof(path), "%s/%srank.%d.%s", dir, spawned, rank, which == 0 ? "out" : "err");
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        sink_say("--output-dir: cannot create %s: %s", dir, strerror(errno));
        return -1;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (is_again ? 0 : O_TRUNC), 0666);
    if (fd < 0) {
        sink_say("--output-dir: cannot open %s: %s", path, strerror(errno));
    }
    return fd;
}
