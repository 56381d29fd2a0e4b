/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads small text files line by line. A file is read whole, up to a limit, so that a device or a
 * wrong file cannot fill the memory; it may be a pipe. The first bad line stops the parsing and is
 * reported by its number. Making and closing are for any file that is written.
 */
#include "launcher/textfile.h"
#include "launcher/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

enum { FILE_MAX_NBYTES = 1 << 20 };

/* Read all of fd into `text`. Returns the number of bytes, -1 with errno; EFBIG over the limit. */
static ssize_t textfile_read_all(int fd, char *text)
{
    size_t used = 0;

    for (;;) {
        ssize_t n = read(fd, text + used, FILE_MAX_NBYTES + 1 - used);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? n : (ssize_t)used;
        }
        used += (size_t)n;
        if (used > FILE_MAX_NBYTES) {
            errno = EFBIG;
            return -1;
        }
    }
}

int textfile_parse(char *text, size_t nbytes, textfile_line_fn *line_fn, void *arg,
                   char cause[TEXTFILE_CAUSE_NBYTES])
{
    char *end = text + nbytes;

    *end = '\0';
    for (int number = 1; text < end; number++) {
        char *line_end = memchr(text, '\n', (size_t)(end - text));
        const char *wrong;

        line_end = line_end != NULL ? line_end : end;
        *line_end = '\0';
        wrong = strlen(text) < (size_t)(line_end - text) ? "has a zero byte" : NULL;
        wrong = wrong != NULL ? wrong : line_fn(text, arg);
        if (wrong != NULL) {
            snprintf(cause, TEXTFILE_CAUSE_NBYTES, "line %d %s", number, wrong);
            return -1;
        }
        text = line_end + 1;
    }
    return 0;
}

int textfile_read(const char *path, textfile_line_fn *line_fn, void *arg,
                  char cause[TEXTFILE_CAUSE_NBYTES])
{
    char *text = x_array(NULL, FILE_MAX_NBYTES + 2, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t nbytes = fd >= 0 ? textfile_read_all(fd, text) : -1;
    int status = -1;

    if (nbytes >= 0) {
        status = textfile_parse(text, (size_t)nbytes, line_fn, arg, cause);
    } else if (errno == EFBIG) {
        snprintf(cause, TEXTFILE_CAUSE_NBYTES, "larger than %d MiB", FILE_MAX_NBYTES >> 20);
    } else {
        snprintf(cause, TEXTFILE_CAUSE_NBYTES, "%s", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    return status;
}

FILE *textfile_create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    FILE *file;

    if (fd < 0) {
        errno = errno == ENXIO ? EPIPE : errno;
        return NULL;
    }
    (void)fcntl(fd, F_SETFL, 0);
    file = fdopen(fd, "w");
    if (file == NULL) {
        close(fd);
    }
    return file;
}

int textfile_close(FILE *file)
{
    bool has_failed = ferror(file) != 0;
    int error = has_failed ? errno : 0;

    if (fflush(file) != 0) {
        error = errno;
    }
    if (fclose(file) != 0 && error == 0) {
        error = errno;
    }
    return error == 0 && has_failed ? EIO : error;
}
