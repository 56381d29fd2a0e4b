/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what this rank moves: always on, in its observation page (util/stats_page.h), where
 * others read it without its help. Every operation is counted once, where its outcome is decided:
 *   - copies through mapped memory by the transport, in the lane of the calling thread: two
 *     additions to a cache line of its own (nxr_stats_lane_count(), transports/transport.h);
 *   - what a transport or network completes otherwise within a call: nxr_stats_moved(), unless it
 *     is a piece of an operation that takes time (nxr_stats_is_piece);
 *   - operations that take time, from start to end: nxr_stats_begin(), nxr_stats_end();
 *   - notifications under the lock that they need anyway;
 *   - collectives, items of channels and what rails carry in records of their own
 *     (nxr_stats_named_take()), by the one thread that uses such a thing at the time.
 * Times cost two readings of the clock, so of short operations only one in eight is timed.
 *
 * Without a page all of it goes to rows that nobody reads.
 */
#ifndef NXR_CORE_STATS_H
#define NXR_CORE_STATS_H

#include "core/job.h"
#include "util/stats_page.h"
#include "util/status.h"
#include "util/symbol.h"

/* How this process finds a row. It lives as long as its peer. */
struct nxr_stats_entry {
    struct nxr_stats_entry *next; /* of the same peer */
    const char *transport;
    enum nxr_stats_op op;
    enum nxr_method method;
    struct nxr_stats_row *row;
    struct nxr_stats_times *times;
};

/* Make the section in the page of this rank; without one nothing is read. */
void nxr_stats_open(void);

/* Has this process moved, or sent, anything to that peer, or is that not counted? */
bool nxr_stats_has_moved(int peer);

/* Forget it, before the page is dropped and after all lanes were given back. */
void nxr_stats_close(void);

/* The section; NULL: there is none. */
const struct nxr_stats_head *nxr_stats_own(size_t *nbytes_p);

/*
 * The entry for an operation with a peer by that path; NULL: with no peer. Never NULL; takes a
 * leaf lock when it is the first one.
 */
struct nxr_stats_entry *nxr_stats_entry_of(struct nxr_peer *peer, enum nxr_stats_op op,
                                           const char *transport, enum nxr_method method);

/* Free the entries of a peer. Their rows stay. */
void nxr_stats_peer_end(struct nxr_peer *peer);

/* The lane of the calling thread for copies to that peer, until it is given back. Never NULL. */
struct nxr_stats_lane *nxr_stats_lane_take(int peer, const char *transport);

void nxr_stats_lane_give(struct nxr_stats_lane *lane);

/* What has a name: see struct nxr_stats_named. */
struct nxr_stats_key {
    enum nxr_stats_op op;
    int peer; /* or NXR_STATS_NO_PEER */
    const char *transport, *name;
    unsigned n_members; /* of a team; else 0 */
};

/* The record for one such thing, until it is given back. Never NULL; takes a leaf lock. */
struct nxr_stats_named *nxr_stats_named_take(const struct nxr_stats_key *key);
void nxr_stats_named_give(struct nxr_stats_named *named); /* NULL: nothing */

/* The name of the transport that serves a peer; "": none is chosen yet. */
static inline const char *nxr_peer_transport_name(const struct nxr_peer *peer)
{
    const struct nxr_transport *transport = peer->transport;

    return transport != NULL ? transport->name : "";
}

/* ---- counting -------------------------------------------------------------------------------- */

/* One operation by any thread. */
static inline void nxr_stats_count(const struct nxr_stats_entry *entry, uint64_t nbytes)
{
    nxr_stats_add_shared(&entry->row->n[NXR_STATS_OPS], 1);
    nxr_stats_add_shared(&entry->row->n[NXR_STATS_NBYTES], nbytes);
}

/* The same under a lock that all have who count in the entry. */
static inline void nxr_stats_count_alone(const struct nxr_stats_entry *entry, uint64_t nbytes)
{
    nxr_stats_add(&entry->row->n[NXR_STATS_OPS], 1);
    nxr_stats_add(&entry->row->n[NXR_STATS_NBYTES], nbytes);
}

/* The time of an operation, by any thread. */
void nxr_stats_time(struct nxr_stats_histogram *histogram, int64_t ns);

/* This thread moves a piece of an operation that is counted as a whole. */
extern NXR_HIDDEN __thread bool nxr_stats_is_piece NXR_TLS_MODEL;

/* ---- operations that take time --------------------------------------------------------------- */

/* `transport` is about to start it. Until it ends it belongs to that transport, or to another. */
void nxr_stats_begin(struct nxr_op *op, const struct nxr_transport *transport);

/*
 * The time when start() was called, or 0; to be taken before, since the operation may end in it.
 * Then, when it has returned: it was posted.
 */
struct nxr_stats_post {
    struct nxr_stats_entry *entry; /* NULL: it is not timed */
    int64_t began_ns;
};

static inline struct nxr_stats_post nxr_stats_post_of(const struct nxr_op *op)
{
    return (struct nxr_stats_post){op->began_ns != 0 ? op->stats : NULL, op->began_ns};
}

void nxr_stats_posted(const struct nxr_stats_post *post);

/* It was done by that, and not as its segment says; NONE: as it says. */
void nxr_stats_by(struct nxr_op *op, enum nxr_method by);

/* It has ended; counted only if it was begun. Others may try what a transport does not support. */
void nxr_stats_end(struct nxr_op *op, int status);

/* One of its pieces goes through a staging buffer. */
static inline void nxr_stats_staged(const struct nxr_op *op)
{
    if (op->stats != NULL) {
        nxr_stats_add_shared(&op->stats->row->n[NXR_STATS_STAGES], 1);
    }
}

/* ---- waits ----------------------------------------------------------------------------------- */

/*
 * A wait of this process has ended, which did not find at once what it waited for. `call`: NULL if
 * it is not known; `peer`: -1 if none is.
 */
void nxr_stats_waited(int64_t began_ns, int64_t waited_ns, const char *call, int peer);

#endif
