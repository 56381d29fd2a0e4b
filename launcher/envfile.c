/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of NAME=VALUE lines. The file is read whole, up to a limit, so that a device or a
 * wrong file cannot fill the memory; it may be a pipe. Nothing in it is expanded or executed.
 */
#include "launcher/envfile.h"
#include "launcher/xalloc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { FILE_MAX_NBYTES = 1 << 20 };

/* Read all of fd into `text`. Returns the number of bytes, -1 with errno; EFBIG over the limit. */
static ssize_t read_all(int fd, char *text)
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

int envfile_read(const char *path, struct envlist *list, char cause[ENVFILE_CAUSE_NBYTES])
{
    char *text = x_array(NULL, FILE_MAX_NBYTES + 2, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t nbytes = fd >= 0 ? read_all(fd, text) : -1;
    int status = -1;

    if (nbytes >= 0) {
        status = envfile_parse(text, (size_t)nbytes, list, cause);
    } else if (errno == EFBIG) {
        snprintf(cause, ENVFILE_CAUSE_NBYTES, "larger than %d MiB", FILE_MAX_NBYTES >> 20);
    } else {
        snprintf(cause, ENVFILE_CAUSE_NBYTES, "%s", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    return status;
}

static int is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/*
 * Take the quotes off a value that has one pair around it, else the blanks behind it. The value is
 * changed. Returns where it starts, or NULL: a quote is open or something follows the closing one.
 */
static char *unquote(char *value)
{
    size_t nbytes = strlen(value);

    while (nbytes > 0 && isspace((unsigned char)value[nbytes - 1])) {
        value[--nbytes] = '\0';
    }
    if (value[0] != '\'' && value[0] != '"') {
        return value;
    }
    if (nbytes < 2 || strchr(value + 1, value[0]) != value + nbytes - 1) {
        return NULL;
    }
    value[nbytes - 1] = '\0';
    return value + 1;
}

/* Take over one line. Returns NULL, or what is wrong with it. */
static const char *parse_line(char *line, struct envlist *list)
{
    size_t name_nbytes = 0;
    char *value, *assignment;

    line += strspn(line, " \t\r\v\f");
    if (line[0] == '\0' || line[0] == '#') {
        return NULL;
    }
    if (strncmp(line, "export", 6) == 0 && (line[6] == ' ' || line[6] == '\t')) {
        line += 6 + strspn(line + 6, " \t");
    }
    while (is_name_byte(line[name_nbytes])) {
        name_nbytes++;
    }
    if (line[name_nbytes] != '=') {
        return strchr(line, '=') == NULL ? "has no '='" : "has a name with a bad character";
    }
    if (name_nbytes == 0) {
        return "has no name before '='";
    }
    if (isdigit((unsigned char)line[0])) {
        return "has a name that begins with a digit";
    }
    value = unquote(line + name_nbytes + 1);
    if (value == NULL) {
        return "has a quote that does not end at the end of the line";
    }
    assignment = line;
    memmove(assignment + name_nbytes + 1, value, strlen(value) + 1);
    envlist_set(list, assignment);
    return NULL;
}

int envfile_parse(char *text, size_t nbytes, struct envlist *list, char cause[ENVFILE_CAUSE_NBYTES])
{
    char *end = text + nbytes;

    *end = '\0';
    for (int number = 1; text < end; number++) {
        char *line_end = memchr(text, '\n', (size_t)(end - text));
        const char *wrong;

        line_end = line_end != NULL ? line_end : end;
        *line_end = '\0';
        wrong = strlen(text) < (size_t)(line_end - text) ? "has a zero byte" : NULL;
        wrong = wrong != NULL ? wrong : parse_line(text, list);
        if (wrong != NULL) {
            snprintf(cause, ENVFILE_CAUSE_NBYTES, "line %d %s", number, wrong);
            return -1;
        }
        text = line_end + 1;
    }
    return 0;
}
