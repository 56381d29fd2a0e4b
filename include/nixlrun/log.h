/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/log.h
 * Sends the library's log lines where the application wants them.
 */
#ifndef NIXLRUN_LOG_H
#define NIXLRUN_LOG_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Log levels; see NIXLRUN_LOG in nixlrun(7). */
enum nixl_log_level {
    NIXL_LOG_ERROR = 0,
    NIXL_LOG_WARN = 1,
    NIXL_LOG_INFO = 2,
    NIXL_LOG_DEBUG = 3,
    NIXL_LOG_TRACE = 4,
};

/** Receives a log line: level, subsystem ("shm"), and the text without a newline. */
typedef void nixl_log_fn(enum nixl_log_level level, const char *subsystem, const char *text,
                         void *arg);

/**
 * Send log lines to @p fn instead of stderr; NULL restores stderr. @p fn may be called from any
 * thread, one call at a time, and must not call the library. It may be set before nixl_init().
 */
NIXL_API void nixl_log_set_fn(nixl_log_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_LOG_H */
