/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that receives a notification (inbox.c), and what is told of it: to the caller if it fails,
 * and to those who observe this rank while it waits (receive.c).
 */
#ifndef NXR_SYNC_RECEIVE_H
#define NXR_SYNC_RECEIVE_H

#include "core/context.h"
#include "core/cq.h"
#include "core/job.h"
#include "core/observe.h"
#include "region/leaving.h"
#include "sync/peer.h"
#include "util/lock.h"
#include "util/symbol.h"

struct receive {
    const char *operation;
    struct nixl_context *context;
    int rank;
    struct sync_peer *from; /* NULL for NIXL_ANY_RANK */
    uint64_t tag;
    uint64_t mask;
    struct nixl_note *note;
    size_t room; /* of note->payload */
    unsigned n_looks;
    struct nxr_leaving leaving;         /* of `from` */
    struct nxr_leaving_all leaving_all; /* of all, for NIXL_ANY_RANK */
    int lost_rank;                      /* -1: all are */
    bool lost_leaves;                   /* it is in nixl_finalize(), or they are */
    int status;
};

/* Record why the call has failed with this status. Returns it. */
int nxr_receive_fail(const struct receive *receive, int status, int64_t timeout_ns);

/* For nxr_wait_as(). */
void nxr_receive_describe(const void *about, struct nxr_wait_record *record);

/*
 * Call `each` for each notification that still lies in a ring, up to `most` of a sender. Caller
 * holds the lock below.
 */
void nxr_inbox_walk_rings(size_t most, void (*each)(void *arg, const struct nxr_note *note),
                          void *arg);

/* List what no call has wanted yet. */
void nxr_receive_observe(struct nxr_observe_waits *waits);

/* Guards what inbox.c has; not needed, and not taken, at NIXL_THREAD_SINGLE. */
extern NXR_HIDDEN struct nxr_spin nxr_inbox_spin;

static inline void nxr_inbox_lock(void)
{
    if (nxr_job.is_multithreaded) {
        nxr_spin_lock(&nxr_inbox_spin);
    }
}

static inline void nxr_inbox_unlock(void)
{
    if (nxr_job.is_multithreaded) {
        nxr_spin_unlock(&nxr_inbox_spin);
    }
}

#endif
