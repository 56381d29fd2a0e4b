/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that receives a notification (notify_recv.c). It uses the inbox (inbox.c); receive.c
 * explains its failure to the caller, and its wait to observers of this rank.
 */
#ifndef NXR_SYNC_RECEIVE_H
#define NXR_SYNC_RECEIVE_H

#include "core/context.h"
#include "core/cq.h"
#include "core/job.h"
#include "core/observe.h"
#include "core/trace.h"
#include "net/net.h"
#include "core/wait.h"
#include "region/leaving.h"
#include "sync/peer.h"
#include "util/lock.h"
#include "util/probe.h"
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

/* ---- the inbox (inbox.c); "under the lock" is nxr_inbox_spin --------------------------------- */

/* The bytes that it takes in a queue. */
static inline size_t nxr_note_cost(uint32_t nbytes)
{
    return sizeof(struct nxr_note) + nbytes;
}

/* Has the context's queue any? */
static inline bool nxr_inbox_has_queued(const struct nixl_context *context)
{
    return atomic_load_explicit(&context->queued_nbytes, memory_order_acquire) != 0;
}

/* Has any ring? */
bool nxr_inbox_has_arrived(void);

/*
 * Move the message at the head of a ring to its context's queue. False: the queue is full. Under
 * the lock.
 */
bool nxr_inbox_enqueue(struct sync_peer *sp, const struct nxr_ring_message *message);

/* Let `take` look into the rings that have any, until it returns true. Under the lock. */
bool nxr_inbox_each_in_turn(bool (*take)(struct receive *receive, struct sync_peer *sp),
                            struct receive *receive);

/*
 * Take the message at the head of a ring. Its sender may wait for slots. Returns its number if it
 * is traced. Under the lock.
 */
static inline uint64_t nxr_inbox_pop(struct sync_peer *sp, const struct nxr_ring_message *message,
                                     void *payload)
{
    bool is_credit = nxr_ring_pop(&sp->rx, message, payload) && nxr_peer_is_up(sp->peer);

    sync_count_received(sp, message->nbytes);
    if (is_credit && nxr_peer_is_remote(sp->peer)) {
        nxr_net_send_credit(sp->peer);
    } else if (is_credit) {
        nxr_wake_peer(sp->peer);
    }
    return nxr_trace_has(NXR_TRACE_NOTE) ? ++sp->n_traced_taken : 0;
}

/* A call gets a notification. Under the lock. */
static inline void nxr_inbox_tell(int rank, uint64_t tag, uint32_t nbytes, uint64_t traced)
{
    NXR_PROBE3(note_received, rank, tag, nbytes);
    if (__builtin_expect(traced != 0, 0)) {
        const struct nxr_peer *peer = nxr_peer_find(rank);

        if (peer != NULL) {
            nxr_sync_trace(peer, &(const struct nxr_traced){.form = NXR_TRACE_TAKEN,
                                                            .begin = nxr_ticks_after(),
                                                            .flow = traced,
                                                            .tag = tag,
                                                            .nbytes = nbytes});
        }
    }
}

#endif
