/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's log. UCX prints to stdout, which belongs to the user's program. So its lines are kept while
 * the network is open and passed to the core in progress(), one level below UCX's: a lost peer is
 * the core's to report. If the user configures UCX to log more than warnings, or to a file, UCX
 * logs as usual. UCX has threads that log: the mutex guards the kept lines.
 */
#include "config.h"

#include "ucx.h"

#include <ucs/config/global_opts.h>
#include <ucs/debug/log_def.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MAX_LINES   8
#define LINE_NBYTES 200

struct line {
    enum nxr_net_log level;
    char text[LINE_NBYTES];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct line lines[MAX_LINES];
static unsigned n_lines, n_dropped;
static atomic_bool is_open, has_lines;

/* UCX can only remove the handler that was added last, so ours stays. */
static bool is_pushed;

static ucs_log_func_rc_t
ucx_log_keep(const char *file, unsigned number, const char *function, ucs_log_level_t level,
             const ucs_log_component_config_t *component, const char *format, va_list args)
    __attribute__((format(printf, 6, 0)));

static ucs_log_func_rc_t ucx_log_keep(const char *file, unsigned number, const char *function,
                                      ucs_log_level_t level,
                                      const ucs_log_component_config_t *component,
                                      const char *format, va_list args)
{
    (void)file;
    (void)number;
    (void)function;
    (void)component;
    if (!atomic_load(&is_open) || level == UCS_LOG_LEVEL_FATAL) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }
    if (strncmp(format, "invalid configuration", 21) == 0) {
        return UCS_LOG_FUNC_RC_STOP; /* caused by the setting's other name; see set_tcp() */
    }
    pthread_mutex_lock(&mutex);
    if (n_lines == MAX_LINES) {
        n_dropped++;
    } else {
        lines[n_lines].level = level == UCS_LOG_LEVEL_ERROR  ? NXR_NET_WARN
                               : level == UCS_LOG_LEVEL_WARN ? NXR_NET_INFO
                                                             : NXR_NET_DEBUG;
        vsnprintf(lines[n_lines].text, LINE_NBYTES, format, args);
        n_lines++;
        atomic_store(&has_lines, true);
    }
    pthread_mutex_unlock(&mutex);
    return UCS_LOG_FUNC_RC_STOP;
}

void nxr_ucx_log_start(void)
{
    if (ucs_global_opts.log_component.log_level > UCS_LOG_LEVEL_WARN ||
        ucs_global_opts.log_file[0] != '\0') {
        return;
    }
    if (!is_pushed) {
        ucs_log_push_handler(ucx_log_keep);
        is_pushed = true;
    }
    atomic_store(&is_open, true);
}

void nxr_ucx_log_stop(void)
{
    atomic_store(&is_open, false);
    pthread_mutex_lock(&mutex);
    n_lines = n_dropped = 0;
    atomic_store(&has_lines, false);
    pthread_mutex_unlock(&mutex);
}

bool nxr_ucx_log_is_empty(void)
{
    return !atomic_load_explicit(&has_lines, memory_order_relaxed);
}

int nxr_ucx_log_tell(void)
{
    struct line told[MAX_LINES];
    unsigned n, dropped;

    if (nxr_ucx_log_is_empty()) {
        return 0;
    }
    pthread_mutex_lock(&mutex);
    n = n_lines;
    dropped = n_dropped;
    memcpy(told, lines, n * sizeof(told[0]));
    n_lines = n_dropped = 0;
    atomic_store(&has_lines, false);
    pthread_mutex_unlock(&mutex);
    for (unsigned i = 0; i < n; i++) {
        nxr_ucx.core->log(told[i].level, "UCX: %s", told[i].text);
    }
    if (dropped > 0) {
        nxr_ucx.core->log(NXR_NET_DEBUG, "UCX: %u more lines were dropped", dropped);
    }
    return (int)n;
}

void nxr_ucx_log_take(char *line, size_t line_nbytes)
{
    pthread_mutex_lock(&mutex);
    snprintf(line, line_nbytes, "%s", n_lines > 0 ? lines[n_lines - 1].text : "");
    n_lines = 0;
    atomic_store(&has_lines, false);
    pthread_mutex_unlock(&mutex);
}
