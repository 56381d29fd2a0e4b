/* SPDX-License-Identifier: Apache-2.0 */
/* Failures: how the library's functions report them in detail. */
#ifndef NXR_UTIL_STATUS_H
#define NXR_UTIL_STATUS_H

#include "nixlrun.h"

/*
 * Record the detail of a failure for nixl_last_error() and return `status`.
 * `operation` and `transport` are constant texts; `rank` is the peer or -1; errno is kept.
 */
int nxr_fail(int status, const char *operation, int rank, const char *transport, int native_code,
             const char *format, ...) NIXL_PRINTF(6, 7) __attribute__((cold));

/* An inner call has failed: record a failure of `operation` with the inner call's text. */
int nxr_fail_inner(int status, const char *operation, int rank) __attribute__((cold));

/*
 * Between these two calls the calling thread's failures are not recorded: a mere attempt must not
 * hide the failure that the thread is about to report. May be nested.
 */
void nxr_fail_quiet_begin(void);
void nxr_fail_quiet_end(void);

/* A time for a message: "2 s", "1.5 ms". Use as nxr_duration(ns).text. */
struct nxr_duration {
    char text[24];
};
struct nxr_duration nxr_duration(int64_t ns);

/* The status that corresponds to an errno. */
int nxr_status_of_errno(int error);

#endif
