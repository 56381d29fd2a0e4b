/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PMIx call with a deadline. Engines ignore PMIX_TIMEOUT, so calls that may block run in their
 * _nb form, or on a thread of their own.
 */
#ifndef NXR_BOOT_CALL_H
#define NXR_BOOT_CALL_H

#include <pmix.h>
#include <stdint.h>

struct nxr_call;

/*
 * The state of a call that is about to be made; NULL: no memory. Both nxr_call_finish() and
 * nxr_call_wait() must follow.
 */
struct nxr_call *nxr_call_new(void);

/* The answer has arrived, in time or late. */
void nxr_call_finish(struct nxr_call *call, pmix_status_t status);

/* The same as the callback of an _nb call. */
void nxr_call_ended(pmix_status_t status, void *call);

/* Wait for the answer and release the call. Returns its status, or PMIX_ERR_TIMEOUT. */
pmix_status_t nxr_call_wait(struct nxr_call *call, int64_t timeout_ns);

/*
 * Run a blocking call on a thread of its own, which blocks signals, as all of the library
 * (util/thread.h): PMIx and its libraries write to sockets, and SIGPIPE would end the program.
 * After PMIX_ERR_TIMEOUT that thread may still be in the call and keeps `arg`, which the caller
 * must not touch again. If no thread can be made, for example after unshare(CLONE_NEWPID), the
 * caller's thread makes the call, and the deadline does not apply.
 */
typedef pmix_status_t nxr_call_fn(void *arg);
pmix_status_t nxr_call_blocking(nxr_call_fn *fn, void *arg, int64_t timeout_ns);

#endif
