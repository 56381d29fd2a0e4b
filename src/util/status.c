/* SPDX-License-Identifier: Apache-2.0 */
/* Text of status codes, and the calling thread's last failure. */
#include "util/status.h"
#include "util/clock.h"
#include "util/line.h"
#include "util/symbol.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define TEXT_NBYTES 512

static __thread struct {
    struct nixl_error error;
    char text[TEXT_NBYTES];
} last NXR_TLS_MODEL;
static __thread int n_quiet; /* calls of nxr_fail_quiet_begin() not yet ended */

const char *nixl_strerror(int status)
{
    switch (status) {
#define STATUS_CASE(_name, _value, _text)                                                          \
    case _value:                                                                                   \
        return _text;
        NIXL_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

const struct nixl_error *nixl_last_error(void)
{
    if (last.error.struct_nbytes == 0) {
        last.error = (struct nixl_error){sizeof(last.error), NIXL_OK, -1, 0, "", "", ""};
    }
    return &last.error;
}

void nxr_fail_quiet_begin(void)
{
    n_quiet++;
}

void nxr_fail_quiet_end(void)
{
    n_quiet--;
}

int nxr_fail(int status, const char *operation, int rank, const char *transport, int native_code,
             const char *format, ...)
{
    int saved_errno = errno;
    va_list args;

    if (n_quiet > 0) {
        return status;
    }
    va_start(args, format);
    vsnprintf(last.text, sizeof(last.text), format, args);
    va_end(args);
    nxr_make_line(last.text);
    last.error = (struct nixl_error){.struct_nbytes = sizeof(last.error),
                                     .status = status,
                                     .rank = rank,
                                     .native_code = native_code,
                                     .operation = operation,
                                     .transport = transport,
                                     .text = last.text};
    errno = saved_errno;
    return status;
}

struct nxr_duration nxr_duration(int64_t ns)
{
    static const struct {
        int64_t ns;
        const char *name;
    } units[] = {{NXR_S, "s"}, {NXR_MS, "ms"}, {NXR_US, "us"}, {1, "ns"}};
    struct nxr_duration duration;
    size_t i = 0;

    while (ns < units[i].ns && units[i].ns > 1) {
        i++;
    }
    snprintf(duration.text, sizeof(duration.text), "%.4g %s", (double)ns / (double)units[i].ns,
             units[i].name);
    return duration;
}

int nxr_fail_inner(int status, const char *operation, int rank)
{
    char text[TEXT_NBYTES];

    snprintf(text, sizeof(text), "%s", nixl_last_error()->text);
    return nxr_fail(status, operation, rank, nixl_last_error()->transport,
                    nixl_last_error()->native_code, "%s", text);
}

int nxr_status_of_errno(int error)
{
    switch (error) {
    case 0:
        return NIXL_OK;
    case ENOMEM:
    case ENOSPC:
    case EFBIG:
        return NIXL_E_NO_MEMORY;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return NIXL_E_LIMIT;
    case EINVAL:
    case EFAULT:
        return NIXL_E_INVALID_ARG;
    case ESRCH:
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
        return NIXL_E_PEER_LOST;
    case EPERM:
    case EACCES:
    case ENOSYS:
    case EOPNOTSUPP:
        return NIXL_E_UNSUPPORTED;
    case ETIMEDOUT:
        return NIXL_E_TIMEOUT;
    default:
        return NIXL_E_TRANSPORT;
    }
}
