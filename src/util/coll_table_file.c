/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of limits between the algorithms of collectives, as `nixl_bench tune' writes it. A line
 * is empty, a comment, NAME=VALUE, or `ranks N': the lines after that are for jobs of N or more
 * ranks, and those before the first such line are for all. Each limit is taken from the largest N
 * that fits, and from its last line there. No state.
 */
#include "config.h"

#include "util/coll_table.h"
#include "nixlrun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_NBYTES   (64ul << 10)
#define CAUSE_NBYTES 256

struct reader {
    size_t n_ranks;                 /* of the job */
    size_t section;                 /* the smallest job that these lines are for */
    size_t from[NXR_COLL_N_LIMITS]; /* the section from which each limit was taken */
    struct nxr_coll_table *table;
};

/* Parse the N of `ranks N'. NIXL_OK and *section_p, or NIXL_E_INVALID_ARG. */
static int read_section(const char *line, size_t nbytes, size_t *section_p)
{
    char number[8], *end;
    size_t blanks = strspn(line, " ");

    if (blanks == 0 || nbytes - blanks >= sizeof(number) || line[blanks] < '1' ||
        line[blanks] > '9') {
        return NIXL_E_INVALID_ARG;
    }
    memcpy(number, line + blanks, nbytes - blanks);
    number[nbytes - blanks] = '\0';
    *section_p = strtoul(number, &end, 10);
    return *end == '\0' ? NIXL_OK : NIXL_E_INVALID_ARG;
}

/* Read one line, without blanks at its ends. */
static int coll_file_read_line(struct reader *reader, const char *line, size_t nbytes, char *why,
                               size_t why_nbytes)
{
    static const char word[] = "ranks";
    const size_t word_nbytes = sizeof(word) - 1;
    size_t value;
    int limit, status;

    if (nbytes == 0 || line[0] == '#') {
        return NIXL_OK;
    }
    if (nbytes >= word_nbytes && memcmp(line, word, word_nbytes) == 0) {
        status = read_section(line + word_nbytes, nbytes - word_nbytes, &reader->section);
        if (status != NIXL_OK) {
            snprintf(why, why_nbytes, "has '%.*s'; allowed: ranks 1 to 9999999",
                     nbytes < 60 ? (int)nbytes : 60, line);
        }
        return status;
    }
    status = nxr_coll_table_parse(line, nbytes, &limit, &value, why, why_nbytes);
    if (status == NIXL_OK && reader->section <= reader->n_ranks &&
        reader->section >= reader->from[limit]) {
        reader->from[limit] = reader->section;
        *nxr_coll_table_at(reader->table, limit) = value;
    }
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

int nxr_coll_table_read(const char *text, size_t nbytes, size_t n_ranks,
                        struct nxr_coll_table *table, char *why, size_t why_nbytes)
{
    struct nxr_coll_table read = *table;
    struct reader reader = {.n_ranks = n_ranks, .table = &read};
    const char *at = text, *end = text + nbytes;

    for (int number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *first = at, *last = newline != NULL ? newline : end;
        char cause[CAUSE_NBYTES];

        at = newline != NULL ? newline + 1 : end;
        while (first < last && is_blank(*first)) {
            first++;
        }
        while (first < last && is_blank(last[-1])) {
            last--;
        }
        if (coll_file_read_line(&reader, first, (size_t)(last - first), cause, sizeof(cause)) !=
            NIXL_OK) {
            nxr_coll_table_one_line(cause);
            snprintf(why, why_nbytes, "line %d %s", number, cause);
            return NIXL_E_INVALID_ARG;
        }
    }
    *table = read;
    return NIXL_OK;
}

/*
 * Open a regular file, but not a pipe, on which a rank would block. On failure -1 and errno, which
 * is 0 if it is not a regular file.
 */
static int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat what;

    if (fd < 0 || (fstat(fd, &what) == 0 && S_ISREG(what.st_mode))) {
        return fd;
    }
    close(fd);
    errno = 0;
    return -1;
}

/*
 * Read the whole file into `text`. Returns its size, or -1 as above; EFBIG: more than MAX_NBYTES.
 */
static ssize_t slurp(const char *path, char *text)
{
    int fd = open_file(path);
    ssize_t nbytes = 0, got = 1;

    if (fd < 0) {
        return -1;
    }
    while (got > 0 && nbytes <= (ssize_t)MAX_NBYTES) {
        got = read(fd, text + nbytes, MAX_NBYTES + 1 - (size_t)nbytes);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        nbytes += got;
    }
    close(fd);
    if (got >= 0 && nbytes > (ssize_t)MAX_NBYTES) {
        errno = EFBIG;
        return -1;
    }
    return got < 0 ? -1 : nbytes;
}

int nxr_coll_table_load(const char *path, size_t n_ranks, struct nxr_coll_table *table, char *why,
                        size_t why_nbytes)
{
    char cause[CAUSE_NBYTES + 16], *text = malloc(MAX_NBYTES + 2);
    ssize_t nbytes;
    int status = NIXL_E_INVALID_ARG;

    if (text == NULL) {
        snprintf(why, why_nbytes, "no memory for NIXLRUN_COLL_TABLE_FILE");
        return NIXL_E_NO_MEMORY;
    }
    nbytes = slurp(path, text);
    if (nbytes < 0) {
        snprintf(why, why_nbytes, "NIXLRUN_COLL_TABLE_FILE: cannot read '%s': %s", path,
                 errno != 0 ? strerror(errno) : "it is not a regular file");
    } else {
        text[nbytes] = '\0';
        status = nxr_coll_table_read(text, (size_t)nbytes, n_ranks, table, cause, sizeof(cause));
    }
    if (nbytes >= 0 && status != NIXL_OK) {
        snprintf(why, why_nbytes, "NIXLRUN_COLL_TABLE_FILE: '%s' %s", path, cause);
    }
    free(text);
    return status;
}
