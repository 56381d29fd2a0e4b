/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the observation page of this rank (util/observe.h). It is made in nixl_init() and dropped
 * in the last nixl_finalize(); without it, which is no failure, all calls here do nothing.
 *
 * A thread records what it waits for only when it is about to sleep, so calls that need not wait
 * pay nothing.
 */
#ifndef NXR_CORE_OBSERVE_H
#define NXR_CORE_OBSERVE_H

#include "util/observe.h"
#include "util/symbol.h"

struct nxr_stats_histogram;

/* Make the page of this rank, which nxr_job describes. NIXL_OK, NIXL_E_NO_MEMORY, NIXL_E_LIMIT. */
int nxr_observe_open(void);
void nxr_observe_close(void);

/* The descriptor of the page; -1: there is none. */
int nxr_observe_fd(void);
void nxr_observe_set_life(enum nxr_observe_life life);

/*
 * Append a section of `nbytes`, all zeros, at a whole page; it takes memory only where it is
 * written. Any thread. NULL: no page, no memory, or no room in the head.
 */
void *nxr_observe_add_section(enum nxr_observe_section_id id, uint32_t version, size_t nbytes);

/* The waits of this rank; NULL: there is no page. Debuggers know it by this name, too. */
extern NXR_HIDDEN struct nxr_observe_waits *nxr_observed_waits;

/* ---- recording waits ------------------------------------------------------------------------- */

/* Fill in a record, of which all is zero but the thread, its time, and peer -1. Must not block. */
typedef void nxr_describe_fn(const void *about, struct nxr_wait_record *record);

/* A wait of the calling thread, which began at since_ns. Nothing is recorded before it sleeps. */
struct nxr_waiting {
    nxr_describe_fn *describe; /* NULL: it is not recorded */
    const void *about;
    int64_t since_ns;
    struct nxr_wait_record *record; /* NULL: none yet */
    uint64_t slept_ticks;           /* when it slept first */
    bool is_uncounted;              /* it is among n_unrecorded */
    bool has_slept;
};

/*
 * The thread is about to sleep: record its wait as it is now. Returns how long it may sleep until
 * the next call, at most `longest_ns`. Once the wait has lasted for 50 ms, each call also lists
 * what is queued and under way, so a short wait does not pay for that, however often it wakes.
 */
int64_t nxr_waiting_sleeps(struct nxr_waiting *waiting, int64_t longest_ns);

/* The wait is over. */
void nxr_waiting_ends(struct nxr_waiting *waiting);

/* A wait that can be described as a whole before it begins; `about` of nxr_describe_reason(). */
struct nxr_reason {
    enum nxr_wait_kind kind;
    const char *call; /* NULL: not known */
    int peer;         /* -1: none is known */
    const char *object;
    uint64_t value;
    struct nxr_stats_histogram *times; /* how long it was, if it slept; NULL: not wanted */
};
void nxr_describe_reason(const void *about, struct nxr_wait_record *record);

/* Which ranks the members of a team are, as far as the record has room. */
void nxr_describe_members(struct nxr_wait_record *record, const int *ranks, int n);

/* For describing: set a name, cut if it is too long. */
void nxr_describe_call(struct nxr_wait_record *record, const char *call);
void nxr_describe_object(struct nxr_wait_record *record, const char *name);

/* Describe the wait for a rank: kind, call, peer. */
void nxr_describe(struct nxr_wait_record *record, enum nxr_wait_kind kind, const char *call,
                  int peer);

#endif
