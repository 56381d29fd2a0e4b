/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limit for log lines of one kind: those with the same format, from anywhere. A burst is
 * written, then one line a second; lines left out are counted and reported. Lock: the log's.
 */
#ifndef NXR_UTIL_LOG_LIMIT_H
#define NXR_UTIL_LOG_LIMIT_H

#include "nixlrun.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_LOG_BURST       20
#define NXR_LOG_KINDS       64 /* tracked at a time; a new one replaces the oldest */
#define NXR_LOG_TEXT_NBYTES 160

/* A kind of line, and how many were left out since the last one that was written. */
struct nxr_log_kind {
    const char *format; /* NULL: not used */
    enum nixl_log_level level;
    unsigned subsystem;
    int64_t written_at;
    int64_t refilled_at;
    unsigned n_left; /* lines that may be written now */
    uint64_t n_more;
    char text[NXR_LOG_TEXT_NBYTES]; /* of the last line written, perhaps cut */
};

struct nxr_log_limit {
    struct nxr_log_kind kinds[NXR_LOG_KINDS];
};

/*
 * May a line of that format be written now? If so, its kind, whose n_more lines were left out
 * before it. NULL: no; the line has been counted.
 */
struct nxr_log_kind *nxr_log_limit_take(struct nxr_log_limit *limit, const char *format,
                                        int64_t now);

/* A kind whose left-out lines should be reported `now`; NULL: none. *due_p: when to call again. */
struct nxr_log_kind *nxr_log_limit_due(struct nxr_log_limit *limit, int64_t now, int64_t *due_p);

/* Write "... 8611 more like this: TEXT" and reset the kind's count. */
void nxr_log_limit_tell(struct nxr_log_kind *kind, char *text, size_t text_nbytes);

#endif
