/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log. One lock serialises lines, the file, the identity and the user's function; levels are
 * bytes that are read without it.
 */
#include "util/log.h"
#include "util/clock.h"
#include "util/line.h"
#include "util/log_limit.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LINE_MAX_NBYTES 1024

unsigned char nxr_log_levels[NXR_LOG_N_SUBSYSTEMS] = {
#define NXR_LOG_INITIAL(_name, _text) NIXL_LOG_WARN,
    NXR_LOG_SUBSYSTEMS(NXR_LOG_INITIAL)
#undef NXR_LOG_INITIAL
};

static const char *const subsystem_names[] = {
#define NXR_LOG_NAME(_name, _text) _text,
    NXR_LOG_SUBSYSTEMS(NXR_LOG_NAME)
#undef NXR_LOG_NAME
};

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
#define N_LEVELS (sizeof(level_names) / sizeof(level_names[0]))

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char identity[96] = "nixlrun"; /* log_lock */
static int identity_rank = -1;        /* log_lock */
static char identity_host[64];        /* log_lock */
static int log_fd = STDERR_FILENO;    /* log_lock */
static nixl_log_fn *user_fn;          /* log_lock */
static void *user_arg;                /* log_lock */
static struct nxr_log_limit limit;    /* log_lock */

/* Index of the word of `nbytes` bytes in `names`, or -1. */
static int log_find_word(const char *word, size_t nbytes, const char *const *names, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++) {
        if (strlen(names[i]) == nbytes && strncasecmp(word, names[i], nbytes) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* Parse a text of levels. NIXL_OK, or NIXL_E_INVALID_ARG and one line in `why`. */
static int parse_levels(const char *levels, unsigned char parsed[NXR_LOG_N_SUBSYSTEMS], char *why,
                        size_t why_nbytes)
{
    memset(parsed, NIXL_LOG_WARN, NXR_LOG_N_SUBSYSTEMS);
    while (*levels != '\0') {
        size_t item_nbytes = strcspn(levels, ",");
        size_t name_nbytes = strcspn(levels, ":,");
        const char *level = levels;
        size_t level_nbytes = item_nbytes;
        int subsystem = -1, value;

        if (name_nbytes < item_nbytes) {
            level = levels + name_nbytes + 1;
            level_nbytes = item_nbytes - name_nbytes - 1;
            subsystem = log_find_word(levels, name_nbytes, subsystem_names, NXR_LOG_N_SUBSYSTEMS);
        }
        value = log_find_word(level, level_nbytes, level_names, N_LEVELS);
        if (value < 0 || (name_nbytes < item_nbytes && subsystem < 0)) {
            snprintf(why, why_nbytes,
                     "NIXLRUN_LOG has '%.*s'; allowed: LEVEL or SUBSYSTEM:LEVEL, where a level "
                     "is error, warn, info, debug or trace",
                     (int)(item_nbytes < 60 ? item_nbytes : 60), levels);
            return NIXL_E_INVALID_ARG;
        }
        if (subsystem < 0) {
            memset(parsed, value, NXR_LOG_N_SUBSYSTEMS);
        } else {
            parsed[subsystem] = (unsigned char)value;
        }
        levels += item_nbytes;
        levels += *levels == ',';
    }
    return NIXL_OK;
}

int nxr_log_check(const char *levels, char *why, size_t why_nbytes)
{
    unsigned char parsed[NXR_LOG_N_SUBSYSTEMS];

    return parse_levels(levels, parsed, why, why_nbytes);
}

int nxr_log_configure(const char *levels, char *why, size_t why_nbytes)
{
    unsigned char parsed[NXR_LOG_N_SUBSYSTEMS];
    int status = parse_levels(levels, parsed, why, why_nbytes);

    if (status == NIXL_OK) {
        memcpy(nxr_log_levels, parsed, sizeof(parsed));
    }
    return status;
}

void nxr_log_identity(const char *who, int rank, int size, const char *host)
{
    pthread_mutex_lock(&log_lock);
    if (rank >= 0) {
        snprintf(identity, sizeof(identity), "[%d/%d %s]", rank, size, host);
    } else {
        snprintf(identity, sizeof(identity), "%s:", who);
    }
    identity_rank = rank;
    snprintf(identity_host, sizeof(identity_host), "%s", host);
    pthread_mutex_unlock(&log_lock);
}

/* One write per line, so that lines of several processes do not mix. Caller holds the lock. */
static void log_write_line(enum nxr_log_subsystem subsystem, const char *text)
{
    char line[LINE_MAX_NBYTES + 160];
    int nbytes =
        snprintf(line, sizeof(line), "%s %s: %s\n", identity, subsystem_names[subsystem], text);
    struct nxr_signal_guard guard;
    ssize_t written;

    if (nbytes >= (int)sizeof(line)) {
        nbytes = sizeof(line) - 1;
        line[nbytes - 1] = '\n';
    }
    nxr_signal_guard_begin(&guard);
    do {
        written = write(log_fd, line, (size_t)nbytes);
    } while (written < 0 && errno == EINTR);
    nxr_signal_guard_end(&guard);
}

/* Caller holds the lock. */
static void deliver(enum nixl_log_level level, enum nxr_log_subsystem subsystem, const char *text)
{
    if (user_fn != NULL) {
        user_fn(level, subsystem_names[subsystem], text, user_arg);
    } else {
        log_write_line(subsystem, text);
    }
}

/* Report how many lines of a kind were left out. Caller holds the lock. */
static void tell_more(struct nxr_log_kind *kind)
{
    char text[NXR_LOG_TEXT_NBYTES + 64];

    nxr_log_limit_tell(kind, text, sizeof(text));
    deliver(kind->level, (enum nxr_log_subsystem)kind->subsystem, text);
}

/* Caller holds the lock. */
static void tell_all_due(int64_t now, int64_t *due_p)
{
    struct nxr_log_kind *kind;

    while ((kind = nxr_log_limit_due(&limit, now, due_p)) != NULL) {
        tell_more(kind);
    }
}

/* Write an error or a warning, unless there are too many of its kind. Caller holds the lock. */
static void write_limited(enum nixl_log_level level, enum nxr_log_subsystem subsystem,
                          const char *format, const char *text)
{
    struct nxr_log_kind *kind = nxr_log_limit_take(&limit, format, nxr_now_ns());

    if (kind == NULL) {
        return;
    }
    if (kind->n_more > 0) {
        tell_more(kind);
    }
    kind->level = level;
    kind->subsystem = subsystem;
    snprintf(kind->text, sizeof(kind->text), "%.*s", NXR_LOG_TEXT_NBYTES - 1, text);
    deliver(level, subsystem, text);
}

/* Expand %r and %h. Caller holds the lock. */
static void expand_path(const char *pattern, char *path, size_t path_nbytes)
{
    size_t used = 0;

    path[0] = '\0';
    for (; *pattern != '\0' && used + 1 < path_nbytes; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'r') {
            used += (size_t)snprintf(path + used, path_nbytes - used, "%d", identity_rank);
            pattern++;
        } else if (pattern[0] == '%' && pattern[1] == 'h') {
            used += (size_t)snprintf(path + used, path_nbytes - used, "%s", identity_host);
            pattern++;
        } else {
            path[used++] = *pattern;
            path[used] = '\0';
        }
    }
}

int nxr_log_open(const char *path_pattern)
{
    char path[512];
    int fd = STDERR_FILENO;
    int64_t due;

    pthread_mutex_lock(&log_lock);
    tell_all_due(nxr_now_ns() + NXR_S, &due); /* report all while the old file is open */
    if (path_pattern != NULL && path_pattern[0] != '\0') {
        expand_path(path_pattern, path, sizeof(path));
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    if (fd >= 0) {
        if (log_fd != STDERR_FILENO) {
            close(log_fd);
        }
        log_fd = fd;
    }
    pthread_mutex_unlock(&log_lock);
    return fd >= 0 ? NIXL_OK : NIXL_E_INVALID_ARG;
}

void nixl_log_set_fn(nixl_log_fn *fn, void *arg)
{
    pthread_mutex_lock(&log_lock);
    user_fn = fn;
    user_arg = arg;
    pthread_mutex_unlock(&log_lock);
}

void nxr_log_write_args(enum nixl_log_level level, enum nxr_log_subsystem subsystem,
                        const char *format, va_list args)
{
    int saved_errno = errno;
    char text[LINE_MAX_NBYTES];

    vsnprintf(text, sizeof(text), format, args);
    nxr_make_line(text);
    pthread_mutex_lock(&log_lock);
    if (level <= NIXL_LOG_WARN) {
        write_limited(level, subsystem, format, text);
    } else {
        deliver(level, subsystem, text);
    }
    pthread_mutex_unlock(&log_lock);
    errno = saved_errno;
}

void nxr_log_write(enum nixl_log_level level, enum nxr_log_subsystem subsystem, const char *format,
                   ...)
{
    va_list args;

    va_start(args, format);
    nxr_log_write_args(level, subsystem, format, args);
    va_end(args);
}

int64_t nxr_log_tick(int64_t now)
{
    int64_t due;

    pthread_mutex_lock(&log_lock);
    tell_all_due(now, &due);
    pthread_mutex_unlock(&log_lock);
    return due;
}
