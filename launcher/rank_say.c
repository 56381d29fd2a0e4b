/* SPDX-License-Identifier: Apache-2.0 */
/* What nixlrun-rank writes, in frames: output of the program, and reports. No state. */
#include "config.h"

#include "launcher/rank_say.h"
#include "launcher/frame.h"
#include "launcher/rank_waits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool rank_say_write(int fd, const char *data, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = write(fd, data, nbytes);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        data += n > 0 ? n : 0;
        nbytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Pass on text in frames, each in one write(). False when the reader is gone. */
static bool write_frames(int fd, enum frame_kind kind, const char *text, size_t nbytes)
{
    char frame[FRAME_MOST_NBYTES];
    size_t taken;

    for (; nbytes > 0; text += taken, nbytes -= taken) {
        size_t used = frame_write(kind, text, nbytes, frame, &taken);

        if (!rank_say_write(fd, frame, used)) {
            return false;
        }
    }
    return true;
}

void rank_say(pid_t pid, enum rank_report_kind kind, int value)
{
    int fd = rank_report_is_of_stdout(kind) ? STDOUT_FILENO : STDERR_FILENO;
    char host[HOST_NAME_MAX + 1] = "localhost", text[HOST_NAME_MAX + 128];
    const char *rank = getenv("PMIX_RANK");
    int n;

    gethostname(host, sizeof(host) - 1);
    n = snprintf(text, sizeof(text), "%.12s %s %d %c %d", rank != NULL ? rank : "0", host, (int)pid,
                 (char)kind, value);
    write_frames(fd, FRAME_REPORT, text, (size_t)n);
}

bool rank_say_output(int fd, const char *text, size_t nbytes)
{
    return write_frames(fd, FRAME_OUTPUT, text, nbytes);
}

/* Report bytes of a kind; `where` stands between its value and the digits. */
static void report_bytes(pid_t pid, enum rank_report_kind kind, int value, const char *where,
                         const void *bytes, size_t nbytes)
{
    static const char digits[] = "0123456789abcdef";
    char host[HOST_NAME_MAX + 1] = "localhost",
                              text[HOST_NAME_MAX + 192 + 2 * RANK_WAITS_PART_MOST];
    const char *rank = getenv("PMIX_RANK");
    const unsigned char *at = bytes;
    int n;

    gethostname(host, sizeof(host) - 1);
    n = snprintf(text, sizeof(text), "%.12s %s %d %c %d %s", rank != NULL ? rank : "0", host,
                 (int)pid, (char)kind, value, where);
    for (size_t i = 0; i < nbytes && i < RANK_WAITS_PART_MOST; i++) {
        text[n++] = digits[at[i] / 16];
        text[n++] = digits[at[i] % 16];
    }
    write_frames(STDERR_FILENO, FRAME_REPORT, text, (size_t)n);
}

void rank_say_waits(pid_t pid, int part, const void *bytes, size_t nbytes)
{
    report_bytes(pid, RANK_REPORT_WAITS, part, "", bytes, nbytes);
}

void rank_say_page(pid_t pid, const struct nxr_observe_section *section, size_t offset,
                   const void *bytes, size_t nbytes)
{
    char where[64];

    snprintf(where, sizeof(where), "%zu %llu %u ", offset, (unsigned long long)section->nbytes,
             section->version);
    report_bytes(pid, RANK_REPORT_PAGE, (int)section->id, where, bytes, nbytes);
}
