/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams: the members, their hosts, and how they communicate: by shared memory on one
 * host (node.h), by mailboxes between hosts (mailbox.h).
 *
 * One thread of a process at a time works for a team: the one that called, or the team's worker for
 * _x calls (later.h). Any thread may access `broken` and what the members share.
 */
#ifndef NXR_COLLECTIVE_TEAM_H
#define NXR_COLLECTIVE_TEAM_H

#include "collective/node.h"
#include "collective/mailbox.h"
#include "collective/trial_table.h"
#include "core/observe.h"
#include "core/stats.h"
#include "region/leaving.h"
#include "util/clock.h"

#define NXR_TEAM_OPEN 0x6e78722d7465616dull

/* Operations of which a team remembers where they are counted: a power of two, more than exist. */
#define NXR_TEAM_COUNTED 64

/* What each call uses stands first: a rank that shares its core fetches it after each switch. */
struct nixl_team {
    _Atomic uint64_t magic; /* NXR_TEAM_OPEN while open */
    int size;
    int me; /* this member's team rank */
    int n_nodes;
    _Atomic int broken;       /* NIXL_OK, or why */
    _Atomic uint32_t n_later; /* calls that were started and have not ended (later.h) */
    bool is_plain;            /* the call under way: none of its buffers is device memory */
    int *local;               /* [node.size]: the team ranks on this host */
    int *local_index;         /* [size]: the index in local, or -1 */
    struct nxr_plan *plan;    /* of the call under way, if it was prepared; else NULL */
    struct nxr_node node;

    /* The call under way: its deadline is computed when a wait first becomes long. */
    const char *operation;
    int64_t timeout_ns;
    int64_t deadline;               /* 0: not computed */
    int64_t waited_ns;              /* for others, as far as it was long */
    uint32_t n_waits;               /* of this team, that gave others the core */
    struct nxr_stats_named *record; /* where it counts */
    struct nxr_leaving leaving;
    int left_awaited; /* 1 + the team rank that was seen to have left while awaited; 0: none */

    /* Where calls are counted, by operation, hashed with linear probing. */
    struct {
        const char *operation; /* NULL: free */
        struct nxr_stats_named *record;
    } counted[NXR_TEAM_COUNTED];

    uint64_t id;                  /* the same on all members, different from every other team */
    uint64_t origin;              /* the id of the team before members were lost */
    int *ranks;                   /* [size]: by which this process names the members */
    struct nxr_identity *members; /* [size]: the processes that they are; another one never is */
    bool is_mixed;                /* some are of another job */

    /* Hosts are numbered in the order of their first members. */
    int my_node;
    int *node_of;                   /* [size] */
    int *leaders;                   /* [n_nodes]: the first team rank on each host */
    const void **srcs;              /* [size]: operands of the reduction under way */
    bool offers_are_plain;          /* of the last offers that gave something: no device memory */
    struct nxr_far *far;            /* [node.size]: buffers of the others; NULL until used */
    struct nxr_team_device *device; /* for device memory; NULL until used */
    bool has_no_process_vm;         /* such a call failed between two members of this host */
    struct nxr_trial trials[NXR_TRIAL_OPERATIONS][NXR_TRIAL_CLASSES]; /* in no region */
    struct nxr_trial region_trials[NXR_TRIAL_OPERATIONS][NXR_TRIAL_REGION_CLASSES];
    struct nxr_mailbox boot; /* for making teams from it, and for breaking it */
    struct nxr_mailbox post; /* for data between hosts; closed if there is one host */

    uint64_t call;         /* while it is made: the call whose verdict ends all waits; 0: made */
    bool is_boot_borrowed; /* its mailbox belongs to the team that is divided */
    bool is_boot_worn;     /* a call to divide it has failed: the mailbox may hold old messages */

    _Atomic int lost_rank;
    atomic_bool lost_leaves;   /* it is in nixl_finalize(), and not lost otherwise */
    _Atomic int cause;         /* why others have broken it; NIXL_OK: not reported */
    _Atomic int n_deaths_seen; /* of the job's deaths, those that were checked */

    struct nxr_later *later; /* calls that were started; NULL: there was none yet */
    bool is_canceled;        /* one of them was: the other hosts must be told (cancel_lock) */

    struct nxr_list link;       /* of all open teams, or the retired ones */
    struct nxr_list mixed_link; /* of those with members of other jobs, from their making on */
};

/* Small calls take less than what reading a clock twice costs: one in so many is timed. */
#define NXR_TEAM_TIMED_EVERY  256
#define NXR_TEAM_TIMED_NBYTES (256u << 10)

/* Find out where the call under way counts, from `slot` on. */
struct nxr_stats_named *nxr_team_count_as(struct nixl_team *team, unsigned slot);
void nxr_team_count_end(struct nixl_team *team);

/* Where the call under way counts. */
static inline struct nxr_stats_named *nxr_team_record(struct nixl_team *team)
{
    unsigned slot = (unsigned)((uintptr_t)team->operation >> 3) % NXR_TEAM_COUNTED;

    return __builtin_expect(team->counted[slot].operation != team->operation, 0)
               ? nxr_team_count_as(team, slot)
               : team->counted[slot].record;
}

/* A call of that size begins: is it one that is timed? The first of its kind is. */
static inline bool nxr_team_is_timed(const struct nxr_stats_named *record, size_t nbytes)
{
    uint64_t n = atomic_load_explicit(&record->n[NXR_STATS_OPS], memory_order_relaxed);

    return NXR_STATS_COUNTS && (n % NXR_TEAM_TIMED_EVERY == 0 || nbytes >= NXR_TEAM_TIMED_NBYTES);
}

/* It has waited for others from then until then. */
static inline void nxr_team_waited(struct nixl_team *team, int64_t since_ns, int64_t until_ns)
{
    team->waited_ns += until_ns - since_ns;
}

/* Start a call on the team. */
static inline void nxr_team_begin(struct nixl_team *team, const char *operation, int64_t timeout_ns)
{
    team->operation = operation;
    team->is_plain = false;
    team->timeout_ns = timeout_ns;
    team->deadline = 0;
    team->waited_ns = 0;
    team->leaving.awaited = 0;
    team->left_awaited = 0;
}

/*
 * Check whether the call under way has to end: the team is broken, a member has died, the one that
 * is waited for has left, or the time is over. `team_rank` is the member that is waited for, or -1.
 * NIXL_OK: not yet, the caller checks for what it awaits and looks again. Any other status ends the
 * call, and the team is broken.
 */
int nxr_team_look(struct nixl_team *team, int team_rank);

/*
 * Check the deaths that were not checked yet: was one a member's that has not left in order?
 * Returns as nxr_team_look().
 */
int nxr_team_look_for_deaths(struct nixl_team *team);

/*
 * Describe the wait of the call under way for a member (a team rank, or -1), for those who observe
 * this rank.
 */
struct nxr_team_wait {
    const struct nixl_team *team;
    int team_rank;
};
void nxr_team_describe(const void *about, struct nxr_wait_record *record);

/* When the time of the call under way is over, by CLOCK_MONOTONIC; INT64_MAX: never. */
int64_t nxr_team_deadline(struct nixl_team *team);

/* The time left for the call under way, at least 1. */
int64_t nxr_team_left(struct nixl_team *team);

/*
 * Break the team for all members on this host; the first reason stays. Does not block; any thread.
 * Returns `status`. lost_rank: the rank that has died, with NIXL_E_PEER_LOST.
 */
int nxr_team_break(struct nixl_team *team, int status, int lost_rank);

/*
 * Mark the team as broken in the memory that the members on this host share, and wake all sleepers,
 * so that no member waits any more.
 */
void nxr_team_break_node(struct nixl_team *team, int status, int lost_rank);

/* Has that member ended, for this process? Any thread. */
bool nxr_team_has_lost(const struct nixl_team *team, int team_rank);

/* Is a member known here to have died? If so, lost_rank is set to its rank. */
bool nxr_team_has_lost_one(struct nixl_team *team);

/* Tell the other hosts that the team is broken. May block. */
void nxr_team_tell_hosts(const struct nixl_team *team);

/*
 * A failure that may be explained by the death of a member that is not known here yet: wait for
 * news of it, at most a second. NIXL_E_PEER_LOST, or `status`.
 */
int nxr_team_explain(struct nixl_team *team, int status);

/*
 * The call under way has failed: tell the other hosts unless they learn of it by themselves, and
 * record the failure. Returns `status`.
 */
int nxr_team_end(struct nixl_team *team, int status);

/* Fail a call because a member is lost, as it was named when the team was made. */
int nxr_team_fail_lost(const struct nixl_team *team, const char *operation, int rank);

/* The team rank of a rank, by the number that this process has for it; -1: not a member. */
int nxr_team_rank_of(const struct nixl_team *team, int rank);

/* Is it a team that can be used? Records the failure of `operation`. */
int nxr_team_check(const char *operation, const struct nixl_team *team);

static inline bool nxr_team_is_open(const struct nixl_team *team)
{
    return team != NULL &&
           atomic_load_explicit(&team->magic, memory_order_relaxed) == NXR_TEAM_OPEN;
}

/* ---- handles (team.c) ------------------------------------------------------------------------ */

/* An empty one; NULL: no memory. */
struct nixl_team *nxr_team_new(void);

/* All members are known: those of other jobs may settle calls on the team until it is dropped. */
void nxr_team_admit(struct nixl_team *team);

/* The team was made: it can be found from now on. */
void nxr_team_opened(struct nixl_team *team);

/* The handle is not used any more: cancel what was started on it. */
void nxr_team_close(struct nixl_team *team);

/* Close it, and free all that it has. nxr_teams_drop_all(): all of them (last finalize). */
void nxr_team_drop(struct nixl_team *team);
void nxr_teams_drop_all(void);

/*
 * Make sure that a member's part of a region is known: wait until the member has made it, or the
 * call under way has to end. Returns as nxr_team_look(). (mailbox.c)
 */
int nxr_team_find_segment(struct nixl_team *team, struct nixl_region *region, int team_rank);

/*
 * The same for a region that the call can do without: NIXL_OK also if the member's part cannot be
 * used. nxr_region_segment() says whether it can.
 */
int nxr_team_await_segment(struct nixl_team *team, struct nixl_region *region, int team_rank);

/*
 * Another member reports that one is lost, or has left: record it, so that a caller that gets
 * NIXL_E_PEER_LOST finds the loss everywhere. What may come from another job is not recorded: this
 * process learns of it by itself. Takes job.lock.
 */
void nxr_team_hear_of_loss(struct nixl_team *team, int team_rank, enum nxr_loss loss);

/* ---- making teams (team_make.c; what is wanted: making.h) ------------------------------------ */

/* Check the arguments that all calls that make teams have. Records the failure. */
int nxr_team_check_make(const char *operation, int64_t timeout_ns, struct nixl_team **team_p);

/*
 * Check a list of members: each is there once, the caller is among them, and no one is of another
 * job unless takes_attached. Records the failure.
 */
int nxr_team_check_ranks(const char *operation, const int *ranks, size_t nranks,
                         bool takes_attached);

#endif
