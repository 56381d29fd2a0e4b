/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many lines of one kind are written: those of one format, wherever they come from. A burst,
 * then one a second; what is left out is counted and told. Lock: the log's.
 */
#ifndef NXR_UTIL_LOG_LIMIT_H
#define NXR_UTIL_LOG_LIMIT_H

#include "nixlrun.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_LOG_BURST       20
#define NXR_LOG_KINDS       64 /* that are known at a time; a new one replaces the oldest */
#define NXR_LOG_TEXT_NBYTES 160

/* Lines of a kind, and how many of them were left out since the last one that was written. */
struct nxr_log_kind {
    const char *format; /* NULL: not used */
    enum nixl_log_level level;
    unsigned subsystem;
    int64_t written_at;
    int64_t refilled_at;
    unsigned n_left; /* lines that may be written at once */
    uint64_t n_more;
    char text[NXR_LOG_TEXT_NBYTES]; /* of the last line that was written, or the beginning of it */
};

struct nxr_log_limit {
    struct nxr_log_kind kinds[NXR_LOG_KINDS];
};

/*
 * May a line of that format be written now? Then its kind, with the lines that were left out before
 * it; NULL: no, it is counted.
 */
struct nxr_log_kind *nxr_log_limit_take(struct nxr_log_limit *limit, const char *format,
                                        int64_t now);

/* A kind whose left-out lines are to be told `now`; NULL: none. *due_p: when to ask again. */
struct nxr_log_kind *nxr_log_limit_due(struct nxr_log_limit *limit, int64_t now, int64_t *due_p);

/* "... 8611 more like this: TEXT"; the kind has none left out then. */
void nxr_log_limit_tell(struct nxr_log_kind *kind, char *text, size_t text_nbytes);

#endif
