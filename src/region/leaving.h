/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are in their last nixl_finalize(), as seen by ranks that wait for them. Such a rank is
 * alive and answers messages until all ranks have called nixl_finalize(), so it is not lost. But
 * its program starts no new call. A collective that needs it would never end, and neither would its
 * nixl_finalize(), which waits for the caller.
 *
 * After LOOK_NS a wait asks the rank for a region that nobody ever publishes. The rank answers
 * "never" once its program has left, its background work has ended and what it had to send is sent.
 * Everything that it has done for the waiter is visible before this answer.
 */
#ifndef NXR_REGION_LEAVING_H
#define NXR_REGION_LEAVING_H

#include "core/job.h"
#include "core/poll.h"

#include <stdbool.h>
#include <stdint.h>

struct nxr_region_segment;

/* A call's wait for a rank; all zero when the call begins. */
struct nxr_leaving {
    int awaited;     /* 1 + the rank; 0: none */
    int64_t look_at; /* when to look next */
    int n_looks;     /* the first one asks; the answer wakes those in nxr_wait() */
    bool was_seen;   /* the last look has found that it leaves */
    unsigned n_calls;
};

/*
 * The caller has waited in vain for something that only that rank does. True: it never will. It was
 * leaving when the caller last looked, and has not done it since. Takes job.lock.
 */
bool nxr_leaving_never_comes(struct nxr_leaving *leaving, int rank);

/*
 * There is reason to ask at once: that rank was seen leaving before, or another rank seems to have
 * seen it. The next nxr_leaving_never_comes() does not wait for LOOK_NS.
 */
void nxr_leaving_hurry(struct nxr_leaving *leaving, int rank);

/* Looks of a wait that spins between two of these, unless networks are polled between any two. */
#define NXR_LEAVING_LOOKS 64

/* Is it time to look, for a wait that counts how often it could? */
static inline bool nxr_leaving_is_time(unsigned *n_calls)
{
    return ++*n_calls % NXR_LEAVING_LOOKS == 0 ||
           atomic_load_explicit(&nxr_net_is_open, memory_order_relaxed);
}

/* nxr_leaving_never_comes() for nxr_wait(), most of whose looks may do no more than a load. */
static inline bool nxr_leaving_is_in_vain(struct nxr_leaving *leaving, int rank)
{
    return nxr_leaving_is_time(&leaving->n_calls) && nxr_leaving_never_comes(leaving, rank);
}

/* A call's wait for something that any rank may do; all zero when the call begins. */
struct nxr_leaving_all {
    int n_over;      /* of the others, from the next rank on: lost, or leaving */
    int64_t look_at; /* when to look next */
    bool has_asked;  /* the one after these */
    unsigned n_calls;
};

/*
 * Do all other ranks of the job that live leave? One is asked after the other, so that a wait costs
 * one question as long as there is anybody. What they have done is visible when this is true.
 * False also if none lives. Takes job.lock.
 */
bool nxr_leaving_none_comes(struct nxr_leaving_all *leaving);

/* The words of the error: a format for the rank's name. */
#define NXR_LEAVING_WHY "%s has called nixl_finalize(), and takes part in nothing any more"

/* Record that a call fails because that rank takes part in nothing any more. Returns PEER_LOST. */
int nxr_leaving_fail(const char *operation, int rank);

/*
 * Is that rank known to be leaving, by a wait of this process or by nxr_leaving_hear()? The latter
 * has heard it from another rank, and verifies it. Take job.lock.
 */
bool nxr_leaving_is_known(int rank);
void nxr_leaving_hear(int rank);

/* Ask a rank, and tell nxr_cq_rank_leaves(): see struct nxr_cq_watch. Caller holds job.lock. */
bool nxr_leaving_ask_for_cq(int rank);

/* The owner of that segment has answered "never". Caller holds job.lock. */
void nxr_leaving_heard_never(const struct nxr_region_segment *segment);

/* That peer has ended: if it comes back, it is not leaving any more. Caller holds job.lock. */
void nxr_leaving_peer_ended(struct nxr_peer *peer);

/* How long a waiter that the answer does not wake may sleep, at most longest_ns. */
int64_t nxr_leaving_sleep(const struct nxr_leaving *leaving, int64_t longest_ns);

/* This process begins, and ends, work for others that goes on during nixl_finalize(). */
void nxr_leaving_begin_work(void);
void nxr_leaving_end_work(void);

/*
 * Called in the last nixl_finalize(), when all puts are complete: tells ranks that wait for this
 * one to stop, as soon as none of its notifications is held back.
 */
typedef bool nxr_leaving_is_held_fn(void);
void nxr_leaving_say(nxr_leaving_is_held_fn *is_held);

/* What `is_held` has told may be over: answer then. job.lock. */
void nxr_leaving_look(void);

/* The last nixl_finalize() is about to close all regions. */
void nxr_leaving_stop(void);

#endif
