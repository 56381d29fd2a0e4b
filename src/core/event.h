/* SPDX-License-Identifier: Apache-2.0 */
/* Events (deaths, closed regions) and the event fd. */
#ifndef NXR_CORE_EVENT_H
#define NXR_CORE_EVENT_H

#include "nixlrun.h"
#include "util/list.h"

#include <stdbool.h>

struct nixl_context;

/*
 * Queue an event for that context, or for each open one (NULL), and wake all waiters. Any thread.
 */
void nxr_event_push(struct nixl_context *context, enum nixl_event_type type, int rank,
                    const char *name);

/*
 * Queue an event for each open context about a process that is not a peer now: it has come back, or
 * has ended since. Waits do not end by it. Any thread.
 */
struct nxr_identity;
void nxr_event_push_of(enum nixl_event_type type, const struct nxr_identity *identity);

/* Take the oldest event of a context, which free() frees; NULL: there is none. Any thread. */
struct nxr_event {
    struct nxr_list link;
    enum nixl_event_type type;
    int rank;
    uint32_t incarnation; /* of that rank */
    char name[];
};
struct nxr_event *nxr_event_take(struct nixl_context *context);

/* Has the context (arg) an event? The nxr_ready_fn of waits for one. */
bool nxr_event_is_queued(void *context);

/* Drop the events of a context that is closed. */
void nxr_event_drop(struct nixl_context *context);

/*
 * The number of peers that have died or left so far, and the n-th of them, from 0; -1: there are
 * fewer; or it is settled. Any thread.
 */
int nxr_event_n_deaths(void);
int nxr_event_death(int n);

/*
 * The program has ended the attachment of that peer, or has readmitted the rank: waits that any
 * loss ends are not ended by its end any more. Nor are they in an elastic job by a rank that has
 * left. The place of the first loss from `n` on that still ends them; the number of losses:
 * there is none. Any thread.
 */
void nxr_event_settle_death(int rank);
int nxr_event_next_death(int n);

/* Of these, the number of ranks of this job. Any thread. */
int nxr_event_n_rank_deaths(void);

/* Make this rank's event fd readable. */
void nxr_event_signal_fd(void);

/* Forget everything (last finalize). */
void nxr_event_reset(void);

extern const struct nxr_subsystem nxr_event_subsystem;

#endif
