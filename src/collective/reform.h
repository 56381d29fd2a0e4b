/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreeing on who is in a team, among processes of which each knows the others by numbers of its
 * own: own ranks, those that have come back, those of other jobs. Each names the members by their
 * identities, in the order of their team ranks. The coordinator is the member with the lowest job,
 * and of that job the lowest rank; the others speak with it alone:
 *   JOIN      a member has called; it says so again from time to time
 *   PROPOSE   the coordinator has called; it says so again, and who has not, from time to time
 *   ACCEPT    the member has the same list. From now on it can end its call only by telling so
 *   REFUSE    the answer of either to a JOIN or PROPOSE with another list. It may be that one of
 *             them does not know yet of a death, or of a member in nixl_finalize(), for which it
 *             looks now. So this fails the call only after a while
 *   COMMIT    all have accepted: the team is made, with the epoch as the number of the call
 *             (those who have refused are told by an ABORT without epoch, that names their list)
 *   ABORT     the sender has given up: why. If its time was over it may call again, and the others
 *             wait for that as long as they want
 * A coordinator's attempt has an epoch, random and never used again, and begins another one when a
 * member that has accepted gives up. What is of another epoch than the current one is dropped; so
 * is what comes when no call is under way, since whoever sent it says it again. So a failed attempt
 * leaves nothing behind, and can be repeated at once.
 *
 * A member that has accepted and gives up writes that into its register (agreement.h) of the epoch:
 * if the coordinator has committed meanwhile, those that make the team agree on it.
 *
 * Lock: job.lock for the list of attempts and all that messages change.
 */
#ifndef NXR_COLLECTIVE_REFORM_H
#define NXR_COLLECTIVE_REFORM_H

#include "control/wire.h"
#include "core/job.h"
#include "region/leaving.h"
#include "util/list.h"

enum nxr_reform_state {
    NXR_REFORM_GATHERING,
    NXR_REFORM_ACCEPTED, /* a member, waiting for COMMIT */
    NXR_REFORM_COMMITTED,
    NXR_REFORM_FAILED,
};

/* Why an attempt has failed. */
struct nxr_reform_failure {
    int status;
    int member;          /* its team rank; -1: none */
    bool has_left;       /* or is in nixl_finalize() */
    uint32_t cause;      /* enum nxr_reform_cause */
    int other_size;      /* DISAGREES: how many the other one names */
    bool is_other_order; /* ... the same ones in another order */
    bool is_silent;      /* TIMEOUT: the coordinator has not been heard for long */
    uint64_t missing[NXR_REFORM_NAMED / 64];
};

/* What is known of a member. */
struct nxr_reform_member {
    bool must_send;  /* PROPOSE or JOIN, as soon as it can be reached; the caller's thread alone */
    bool has_called; /* it had accepted at some time */
    bool has_accepted;
    bool has_refused; /* it has another list: */
    uint64_t list, set;
    int size;
    int64_t refused_at, refused_last; /* when it has said so first, and last */
    bool is_awaited, never_comes;     /* it was at the last step; it leaves. The caller's thread */
    struct nxr_leaving leaving;
};

/* A call under way. */
struct nxr_reform {
    const char *operation;
    uint64_t context;
    const int *ranks;                   /* [size] by which this process names the members */
    const struct nxr_identity *members; /* [size] */
    int size, me, coordinator;
    uint64_t list, set;
    int64_t timeout_ns, deadline;

    struct nxr_list link; /* of all attempts */
    bool has_begun;
    enum nxr_reform_state state;
    uint64_t epoch; /* 0: a member that has not accepted yet */
    struct nxr_reform_failure failure;
    struct nxr_reform_member *about;         /* [size] */
    int64_t send_at;                         /* when to say it again */
    int64_t heard_at;                        /* when the coordinator was heard last; 0: never */
    uint64_t missing[NXR_REFORM_NAMED / 64]; /* ... who was missing then */

    atomic_bool is_disputed; /* a member has another list: it may know who is leaving */
    _Atomic uint32_t n_news; /* what wakes the caller: messages */
    uint32_t n_news_seen;
    int n_deaths_seen;
    atomic_bool is_canceled;
};

/*
 * Begin: `operation` to `timeout_ns` are set, all else is zero; the deadline is set by it. Waits
 * for the end of an attempt that was canceled: NIXL_INPROGRESS if timeout_ns is 0, then
 * nxr_reform_agree() does. Any other failure is recorded. nxr_reform_end() in any case.
 */
int nxr_reform_begin(struct nxr_reform *reform, int64_t timeout_ns);

/*
 * Agree. NIXL_OK: all members make the team, with the epoch as the number of the call, and the
 * attempt stays in the list until nxr_reform_end(). Otherwise the failure, recorded.
 */
int nxr_reform_agree(struct nxr_reform *reform);

/* The attempt is over, or has not begun. */
void nxr_reform_end(struct nxr_reform *reform);

/* Give up; any thread. */
void nxr_reform_cancel(struct nxr_reform *reform);

/* Record the failure of an attempt, in words that name who is the cause (reform_fail.c). */
int nxr_reform_fail(const struct nxr_reform *reform);

/* Take the messages. */
void nxr_reform_register(void);

#endif
