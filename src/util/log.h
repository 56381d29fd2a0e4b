/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines, with a level per subsystem. The level is tested inline before the arguments are
 * evaluated; errno is kept. Lines go to stderr, a file or the user's function, never to stdout:
 *     [rank/size host] subsystem: text
 * Errors and warnings of one format are rate-limited (util/log_limit.h), so that a repeated failure
 * does not flood the log.
 */
#ifndef NXR_UTIL_LOG_H
#define NXR_UTIL_LOG_H

#include "nixlrun.h"
#include "util/symbol.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Subsystems: enum NXR_LOG_<NAME> and the name that NIXLRUN_LOG takes. */
/* clang-format off */
#define NXR_LOG_SUBSYSTEMS(_x)                                                                     \
    _x(CORE, "core")                                                                               \
    _x(ENV, "env")                                                                                 \
    _x(BOOT, "boot")                                                                               \
    _x(HOST, "host")                                                                               \
    _x(MEMORY, "memory")                                                                           \
    _x(ROUTE, "route")                                                                             \
    _x(NET, "net")                                                                                 \
    _x(COLL, "coll")                                                                               \
    _x(SHM, "shm")                                                                                 \
    _x(LAUNCH, "launch")

enum nxr_log_subsystem {
#define NXR_LOG_ENUM(_name, _text) NXR_LOG_##_name,
    NXR_LOG_SUBSYSTEMS(NXR_LOG_ENUM)
#undef NXR_LOG_ENUM
    NXR_LOG_N_SUBSYSTEMS
};
/* clang-format on */

/* Highest level that is written, per subsystem (enum nixl_log_level). Read without a lock. */
extern NXR_HIDDEN unsigned char nxr_log_levels[NXR_LOG_N_SUBSYSTEMS];

/*
 * Set levels from a text such as "warn,shm:debug". On a bad text returns NIXL_E_INVALID_ARG,
 * writes one line into `why` and changes nothing.
 */
int nxr_log_configure(const char *levels, char *why, size_t why_nbytes);

/* The same check without setting levels. */
int nxr_log_check(const char *levels, char *why, size_t why_nbytes);

/* Set the prefix of each line. rank -1: not a rank; the prefix is then `who`, such as "nixlrun". */
void nxr_log_identity(const char *who, int rank, int size, const char *host);

/*
 * Write to a file; %r and %h in the name are rank and host. NULL or "": stderr. NIXL_OK, or
 * NIXL_E_INVALID_ARG with errno if the file cannot be opened.
 */
int nxr_log_open(const char *path_pattern);

void nxr_log_write(enum nixl_log_level level, enum nxr_log_subsystem subsystem, const char *format,
                   ...) NIXL_PRINTF(3, 4);

/* The same with a va_list. The format must stay valid while the process runs. */
void nxr_log_write_args(enum nixl_log_level level, enum nxr_log_subsystem subsystem,
                        const char *format, va_list args) NIXL_PRINTF(3, 0);

/* Report lines that were left out a while ago. Returns when to call again. */
int64_t nxr_log_tick(int64_t now);

#define nxr_log(_level, _subsystem, ...)                                                           \
    do {                                                                                           \
        if ((_level) <= nxr_log_levels[NXR_LOG_##_subsystem]) {                                    \
            nxr_log_write((_level), NXR_LOG_##_subsystem, __VA_ARGS__);                            \
        }                                                                                          \
    } while (0)

#define nxr_error(_subsystem, ...) nxr_log(NIXL_LOG_ERROR, _subsystem, __VA_ARGS__)
#define nxr_warn(_subsystem, ...)  nxr_log(NIXL_LOG_WARN, _subsystem, __VA_ARGS__)
#define nxr_info(_subsystem, ...)  nxr_log(NIXL_LOG_INFO, _subsystem, __VA_ARGS__)
#define nxr_debug(_subsystem, ...) nxr_log(NIXL_LOG_DEBUG, _subsystem, __VA_ARGS__)
#ifdef NXR_DEBUG
#define nxr_trace(_subsystem, ...) nxr_log(NIXL_LOG_TRACE, _subsystem, __VA_ARGS__)
#else
#define nxr_trace(_subsystem, ...) ((void)0)
#endif

#endif
