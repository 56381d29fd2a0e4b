/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job as its ranks see it: whether calls are allowed now, this rank's place, and what is known
 * of the others. Owns nxr_job, which init.c fills and empties. No lock: see job.h.
 */
#include "config.h"

#include "core/job.h"
#include "util/log.h"
#include "util/status.h"
#include "util/symbol.h"
#include "util/thread.h"

#include <stdlib.h>

struct nxr_job nxr_job;

static __thread bool job_is_leaver NXR_TLS_MODEL; /* this thread is in the last nixl_finalize() */

void nxr_job_set_leaver(bool is_leaver)
{
    job_is_leaver = is_leaver;
}

#ifdef NXR_DEBUG
bool nxr_core_is_locked(void)
{
    return nxr_mutex_is_mine(&nxr_job.lock);
}
#endif

/* ---- may a call be made? --------------------------------------------------------------------- */

/* NIXL_OK, or why no call can be served. */
static int job_readiness(void)
{
    switch (atomic_load_explicit(&nxr_job.state, memory_order_acquire)) {
    case NXR_STATE_READY:
        return NIXL_OK;
    case NXR_STATE_LEAVING:
        return job_is_leaver || nxr_thread_is_own() ? NIXL_OK : NIXL_E_NOT_INIT;
    case NXR_STATE_FORKED:
        return NIXL_E_FORKED;
    default:
        return NIXL_E_NOT_INIT;
    }
}

/* A call that races the last nixl_finalize() is a bug in the program: debug builds abort. */
static int job_fail_leaving(const char *operation)
{
#ifdef NXR_DEBUG
    nxr_error(CORE, "%s was called while another thread is in nixl_finalize", operation);
    abort();
#endif
    return nxr_fail(NIXL_E_NOT_INIT, operation, -1, "", 0,
                    "another thread is in nixl_finalize; no call may run concurrently");
}

int nxr_check_ready(const char *operation)
{
    int status = job_readiness();

    if (status == NIXL_OK) {
        return NIXL_OK;
    }
    if (atomic_load(&nxr_job.state) == NXR_STATE_LEAVING) {
        return job_fail_leaving(operation);
    }
    return nxr_fail(status, operation, -1, "", 0, "%s",
                    status == NIXL_E_FORKED
                        ? "this process is a fork of a rank; only the rank can use the library"
                        : "call nixl_init first");
}

int nxr_fail_rank(const char *operation, int rank)
{
    if (nxr_attached_was(rank)) {
        return nxr_fail(NIXL_E_PEER_LOST, operation, rank, "", 0, "%s has been detached",
                        nxr_rank_name(rank));
    }
    return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                    nxr_job.attached != NULL
                        ? "rank %d is neither in the job nor attached; allowed: 0 to %d, and "
                          "numbers of attached processes"
                        : "rank %d is not in the job; allowed: 0 to %d",
                    rank, nxr_job.size - 1);
}

int nxr_fail_own_rank(const char *operation, int rank)
{
    return !nxr_is_rank(rank) ? nxr_fail_rank(operation, rank)
                              : nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                                         "rank %d is an attached process of another job; allowed: "
                                         "ranks of this job, 0 to %d",
                                         rank, nxr_job.size - 1);
}

int nxr_fail_timeout(const char *operation, int rank, int64_t timeout_ns)
{
    return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                    "the timeout is %lld ns; allowed: 0, a time in nanoseconds, or NIXL_FOREVER",
                    (long long)timeout_ns);
}

/* ---- calls about ranks ----------------------------------------------------------------------- */

/*
 * The next six record no failure: programs call them to report one, such as a failed nixl_init().
 */
int nixl_rank(void)
{
    int status = job_readiness();

    return status == NIXL_OK ? nxr_job.rank : status;
}

int nixl_size(void)
{
    int status = job_readiness();

    return status == NIXL_OK ? nxr_job.size : status;
}

int nixl_incarnation(void)
{
    int status = job_readiness();

    return status == NIXL_OK ? (int)nxr_job.self.incarnation : status;
}

int nixl_local_rank(void)
{
    int status = job_readiness();

    return status == NIXL_OK ? nxr_job.local_rank : status;
}

int nixl_local_size(void)
{
    int status = job_readiness();

    return status == NIXL_OK ? nxr_job.local_size : status;
}

int nixl_program(void)
{
    int status = job_readiness();

    return status == NIXL_OK ? nxr_job.program : status;
}
