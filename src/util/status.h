/* SPDX-License-Identifier: Apache-2.0 */
/* Failures: how a function of the library reports one with its detail. */
#ifndef NXR_UTIL_STATUS_H
#define NXR_UTIL_STATUS_H

#include "nixlrun.h"

/*
 * Thread-local data on the data path: one load from the thread pointer, also in a shared library.
 */
#define NXR_TLS_MODEL __attribute__((tls_model("initial-exec")))

/*
 * Record the detail of a failure for nixl_last_error() and return `status`.
 * `operation` and `transport` are constant texts; `rank` is the peer or -1; errno is kept.
 */
int nxr_fail(int status, const char *operation, int rank, const char *transport, int native_code,
             const char *format, ...) NIXL_PRINTF(6, 7);

/* A call within a call has failed: the failure of `operation`, with the text of that one. */
int nxr_fail_inner(int status, const char *operation, int rank);

/*
 * Between these two calls of a thread its failures are not recorded: what it only tries must not
 * hide the failure that it is about to report.
 */
void nxr_fail_quiet_begin(void);
void nxr_fail_quiet_end(void);

/* A time for a message: "2 s", "1.5 ms". Use as nxr_duration(ns).text. */
struct nxr_duration {
    char text[24];
};
struct nxr_duration nxr_duration(int64_t ns);

/* The status that says what an errno means. */
int nxr_status_of_errno(int error);

#endif
