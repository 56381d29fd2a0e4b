/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call that attaches to a process: one attempt after the other until the timeout, where another
 * one may help. No state, no lock.
 */
#include "config.h"

#include "attach/attach.h"
#include "core/trace.h"
#include "attach/attempt.h"
#include "attach/directory_etcd.h"
#include "attach/reach.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"

#include <string.h>

#define LOOK_NS     (5 * NXR_MS)  /* before the next attempt by a folder, which costs little */
#define MAX_LOOK_NS (80 * NXR_MS) /* ... at last by TCP */
#define LEAST_NS    (20 * NXR_MS) /* for one more that asks another process */
#define SHORT_NS    (NXR_S / 4)   /* what may be too short for its answer on a busy machine */

static bool attach_never(void *arg)
{
    (void)arg;
    return false;
}

/* The time is over. */
static int attach_fail_timeout(const struct nxr_attempt *attempt, int64_t timeout_ns)
{
    static const char operation[] = "nixl_attach";
    char names[300];

    if (attempt->is_found) {
        return nxr_fail(NIXL_E_TIMEOUT, operation, -1, "", 0,
                        "cannot attach to '%s' in %s within %s: %s", attempt->name,
                        attempt->where.text, nxr_duration(timeout_ns).text, attempt->why);
    }
    if (attempt->where.kind == NXR_WHERE_PORT) {
        return nxr_fail(NIXL_E_NOT_FOUND, operation, -1, "", 0,
                        "nobody has published '%s' at %s within %s: %s", attempt->name,
                        attempt->where.text, nxr_duration(timeout_ns).text, attempt->why);
    }
    if (attempt->where.kind == NXR_WHERE_FOLDER) {
        nxr_directory_list(attempt->where.dir, names, sizeof(names));
    } else {
        nxr_directory_etcd_names(&attempt->where, attempt->etcd, names, sizeof(names));
    }
    return nxr_fail(NIXL_E_NOT_FOUND, operation, -1, "", 0,
                    "nobody has published '%s' in %s within %s; published there: %s", attempt->name,
                    attempt->where.text, nxr_duration(timeout_ns).text, names);
}

/*
 * Wait before the next attempt; at a port longer and longer, since others wait there, too. etcd
 * tells when the entry changes.
 */
static void attach_pause(struct nxr_attempt *attempt, int64_t left_ns, int64_t *look_ns)
{
    const struct nxr_reason reason = {
        .kind = NXR_WAIT_ATTACH, .call = "nixl_attach", .peer = -1, .object = attempt->name};

    if (attempt->where.kind == NXR_WHERE_ETCD) {
        nxr_reach_await_entry(attempt);
        return;
    }
    (void)nxr_wait_as(attach_never, NULL, left_ns < *look_ns ? left_ns : *look_ns,
                      nxr_describe_reason, &reason);
    if (attempt->where.kind == NXR_WHERE_PORT && *look_ns < MAX_LOOK_NS) {
        *look_ns *= 2;
    }
}

/*
 * Is there no time for another answer? A folder answers at once. What the attempt before has found
 * is then told.
 */
static bool attach_is_late(const struct nxr_attempt *attempt)
{
    return attempt->where.kind != NXR_WHERE_FOLDER && attempt->deadline - nxr_now_ns() < LEAST_NS;
}

/*
 * Make an attempt. One that the deadline has cut off, soon after its begin, says less than the one
 * before, whose outcome stays.
 */
static int attach_try_once(struct nxr_attempt *attempt, bool is_first)
{
    const bool is_short = !is_first && attempt->deadline - nxr_now_ns() < SHORT_NS;
    const bool was_found = attempt->is_found;
    char why[sizeof(attempt->why)];
    int status;

    memcpy(why, attempt->why, sizeof(why));
    status = nxr_attempt_once(attempt);
    if (status != NIXL_OK && !attempt->is_final && is_short && nxr_now_ns() >= attempt->deadline) {
        attempt->is_found = was_found;
        memcpy(attempt->why, why, sizeof(why));
    }
    return status;
}

static int attach_try(struct nxr_attempt *attempt, int64_t timeout_ns, int *rank_p)
{
    int64_t look_ns = LOOK_NS;
    bool is_first = true, has_said = false;

    for (;;) {
        int status = attach_try_once(attempt, is_first);

        is_first = false;

        if (status == NIXL_OK) {
            *rank_p = attempt->rank;
            return NIXL_OK;
        }
        if (attempt->is_final) {
            return nxr_fail(status, "nixl_attach", -1, "", 0, "cannot attach to '%s' in %s: %s",
                            attempt->name, attempt->where.text, attempt->why);
        }
        if (timeout_ns == 0) {
            return NIXL_INPROGRESS;
        }
        if (nxr_now_ns() >= attempt->deadline) {
            return attach_fail_timeout(attempt, timeout_ns);
        }
        if (attempt->is_away && !has_said) {
            nxr_warn(HOST, "nixl_attach waits for etcd to find '%s' in %s: %s", attempt->name,
                     attempt->where.text, attempt->why);
            has_said = true;
        }
        attach_pause(attempt, nxr_left(timeout_ns, attempt->deadline), &look_ns);
        if (attach_is_late(attempt)) {
            return attach_fail_timeout(attempt, timeout_ns);
        }
    }
}

static int call_attach(const char *where, const char *name, const char *schema, int64_t timeout_ns,
                       int *rank_p)
{
    static const char operation[] = "nixl_attach";
    struct nxr_attempt attempt = {.name = name};
    int status = nxr_attach_check(operation, where, name, &schema, &attempt.where);

    if (status != NIXL_OK) {
        return status;
    }
    if (attempt.where.kind == NXR_WHERE_PORT && attempt.where.port == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "where is '%.100s'; allowed: the port at which the publisher listens, 1 to "
                        "65535, which nixl_publish_query() tells there",
                        where);
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, -1, timeout_ns);
    }
    if (rank_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "rank_p is NULL");
    }
    attempt.schema = schema;
    attempt.deadline = timeout_ns != 0 ? nxr_deadline(timeout_ns) : INT64_MAX;
    status = attach_try(&attempt, timeout_ns, rank_p);
    nxr_attempt_end(&attempt);
    return status;
}

int nixl_attach(const char *where, const char *name, const char *schema, int64_t timeout_ns,
                int *rank_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_attach", -1, 0, 0,
                      call_attach(where, name, schema, timeout_ns, rank_p));
}
