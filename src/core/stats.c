/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and finding the counters of this rank. Locks, leaves both: stats_lock while an entry, a
 * row or a lane is made; longest_lock guards the list of the longest waits, which only one that is
 * long enough takes.
 */
#include "config.h"

#include "core/observe.h"
#include "core/route.h"
#include "core/stats.h"
#include "core/trace.h"
#include "util/clock.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/probe.h"
#include "util/status.h"
#include "util/symbol.h"

#include <stdlib.h>
#include <string.h>

/* Larger operations are all timed, of the others one in so many. */
#define TIMED_NBYTES 65536
#define TIMED_EVERY  8

static struct nxr_stats_head *stats_head;           /* NULL: none */
static struct nxr_stats_entry *_Atomic own_entries; /* of no peer */
static pthread_mutex_t stats_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_spin longest_lock;
static _Atomic int64_t longest_floor; /* shorter waits are not among the longest */
static uint32_t n_serials;            /* stats_lock */
static __thread unsigned n_untimed NXR_TLS_MODEL;
__thread bool nxr_stats_is_piece NXR_TLS_MODEL;

/* Where counts go that have no row. */
static struct nxr_stats_row stats_no_row;
static struct nxr_stats_lane stats_no_lane;
static struct nxr_stats_named stats_no_named;
static struct nxr_stats_times stats_no_times;
static struct nxr_stats_entry stats_no_entry = {.row = &stats_no_row, .times = &stats_no_times};

/* ---- the section ----------------------------------------------------------------------------- */

void nxr_stats_open(void)
{
    size_t nbytes = nxr_stats_section_nbytes(nxr_job.size);
    struct nxr_stats_head *head =
        nxr_observe_add_section(NXR_OBSERVE_STATS, NXR_STATS_VERSION, nbytes);

    if (head == NULL) {
        nxr_info(CORE, "no memory of %zu bytes for counters: nixl_stats_query() finds none",
                 nbytes);
        return;
    }
    nxr_stats_section_init(head, nxr_job.size, nxr_now_ns());
    atomic_store(&longest_floor, 0);
    n_serials = 0;
    stats_head = head;
}

static void stats_free_entries(struct nxr_stats_entry *entry)
{
    while (entry != NULL) {
        struct nxr_stats_entry *next = entry->next;

        free(entry);
        entry = next;
    }
}

void nxr_stats_close(void)
{
    stats_free_entries(atomic_exchange(&own_entries, NULL));
    stats_head = NULL;
}

const struct nxr_stats_head *nxr_stats_own(size_t *nbytes_p)
{
    *nbytes_p = stats_head != NULL ? stats_head->nbytes : 0;
    return stats_head;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Number of the next of `max` records; NULL-like `max`: there is none left. stats_lock. */
static uint32_t stats_take_number(_Atomic uint32_t *n, uint32_t max)
{
    uint32_t number = atomic_load_explicit(n, memory_order_relaxed);

    if (number == max) {
        atomic_fetch_add_explicit(&stats_head->n_lost, 1, memory_order_relaxed);
        return max;
    }
    atomic_store_explicit(n, number + 1, memory_order_release);
    return number;
}

static bool stats_op_has_times(enum nxr_stats_op op)
{
    return op != NXR_STATS_NOTIFY && op != NXR_STATS_RECEIVE && op != NXR_STATS_WAKE;
}

/* Give the entry a row. Caller holds stats_lock. */
static void stats_make_row(struct nxr_stats_entry *entry, int peer)
{
    uint32_t number, max;
    struct nxr_stats_row *row;

    entry->row = &stats_no_row;
    entry->times = &stats_no_times;
    if (stats_head == NULL) {
        return;
    }
    max = stats_head->max_rows;
    number = stats_take_number(&stats_head->n_rows, max);
    if (number == max) {
        return;
    }
    row = &nxr_stats_rows(stats_head)[number];
    row->op = (uint32_t)entry->op;
    row->peer = peer;
    row->serial = n_serials++;
    row->has_times = stats_op_has_times(entry->op);
    strncpy(row->transport, entry->transport, sizeof(row->transport) - 1);
    strncpy(row->method, nxr_method_name(entry->method), sizeof(row->method) - 1);
    atomic_store_explicit(&row->is_ready, 1, memory_order_release);
    entry->row = row;
    entry->times = row->has_times != 0 ? &nxr_stats_times_of(stats_head)[number] : &stats_no_times;
}

static struct nxr_stats_entry *stats_find(struct nxr_stats_entry *entry, enum nxr_stats_op op,
                                          const char *transport, enum nxr_method method)
{
    while (entry != NULL &&
           (entry->op != op || entry->transport != transport || entry->method != method)) {
        entry = entry->next;
    }
    return entry;
}

static struct nxr_stats_entry *stats_make(struct nxr_stats_entry *_Atomic *list,
                                          const struct nxr_stats_entry *wanted, int peer)
{
    struct nxr_stats_entry *entry;

    pthread_mutex_lock(&stats_lock);
    entry = stats_find(atomic_load(list), wanted->op, wanted->transport, wanted->method);
    if (entry == NULL) {
        entry = malloc(sizeof(*entry));
        if (entry != NULL) {
            *entry = *wanted;
            entry->next = atomic_load(list);
            stats_make_row(entry, peer);
            atomic_store_explicit(list, entry, memory_order_release);
        }
    }
    pthread_mutex_unlock(&stats_lock);
    return entry != NULL ? entry : &stats_no_entry;
}

struct nxr_stats_entry *nxr_stats_entry_of(struct nxr_peer *peer, enum nxr_stats_op op,
                                           const char *transport, enum nxr_method method)
{
    struct nxr_stats_entry *_Atomic *list = peer != NULL ? &peer->stats : &own_entries;
    struct nxr_stats_entry *entry =
        stats_find(atomic_load_explicit(list, memory_order_acquire), op, transport, method);
    const struct nxr_stats_entry wanted = {.op = op, .transport = transport, .method = method};

    return entry != NULL ? entry
                         : stats_make(list, &wanted, peer != NULL ? peer->rank : NXR_STATS_NO_PEER);
}

void nxr_stats_peer_end(struct nxr_peer *peer)
{
    stats_free_entries(atomic_exchange(&peer->stats, NULL));
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* One that a thread has given back counts on. Caller holds stats_lock. */
static struct nxr_stats_lane *stats_find_lane(int peer, const char *transport)
{
    uint32_t n = atomic_load_explicit(&stats_head->n_lanes, memory_order_relaxed);

    for (uint32_t i = 0; i < n; i++) {
        struct nxr_stats_lane *lane = &nxr_stats_lanes(stats_head)[i];

        if (lane->peer == peer &&
            strncmp(lane->transport, transport, sizeof(lane->transport) - 1) == 0 &&
            atomic_load_explicit(&lane->is_taken, memory_order_acquire) == 0) {
            return lane;
        }
    }
    return NULL;
}

static struct nxr_stats_lane *stats_make_lane(int peer, const char *transport)
{
    uint32_t max = stats_head->max_lanes;
    uint32_t number = stats_take_number(&stats_head->n_lanes, max);
    struct nxr_stats_lane *lane;

    if (number == max) {
        return &stats_no_lane;
    }
    lane = &nxr_stats_lanes(stats_head)[number];
    lane->peer = peer;
    lane->serial = n_serials++;
    strncpy(lane->transport, transport, sizeof(lane->transport) - 1);
    atomic_store_explicit(&lane->is_ready, 1, memory_order_release);
    return lane;
}

struct nxr_stats_lane *nxr_stats_lane_take(int peer, const char *transport)
{
    struct nxr_stats_lane *lane = &stats_no_lane;

    pthread_mutex_lock(&stats_lock);
    if (stats_head != NULL) {
        lane = stats_find_lane(peer, transport);
        lane = lane != NULL ? lane : stats_make_lane(peer, transport);
        atomic_store_explicit(&lane->is_taken, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&stats_lock);
    return lane;
}

void nxr_stats_lane_give(struct nxr_stats_lane *lane)
{
    if (lane != NULL) {
        atomic_store_explicit(&lane->is_taken, 0, memory_order_release);
    }
}

static bool stats_is_move(const struct nxr_stats_row *row, int peer)
{
    return row->peer == peer && row->op <= NXR_STATS_NOTIFY;
}

bool nxr_stats_has_moved(int peer)
{
    bool has_moved = stats_head == NULL;

    pthread_mutex_lock(&stats_lock);
    for (uint32_t i = 0; !has_moved && i < atomic_load(&stats_head->n_rows); i++) {
        has_moved = stats_is_move(&nxr_stats_rows(stats_head)[i], peer);
    }
    for (uint32_t i = 0; !has_moved && i < atomic_load(&stats_head->n_lanes); i++) {
        has_moved = nxr_stats_lanes(stats_head)[i].peer == peer;
    }
    has_moved |= stats_head != NULL && atomic_load(&stats_head->n_lost) != 0;
    pthread_mutex_unlock(&stats_lock);
    return has_moved;
}

/* ---- what has a name ------------------------------------------------------------------------- */

/* Is it alike, and has been given back? */
static bool stats_is_free_of(const struct nxr_stats_named *named, const struct nxr_stats_key *key)
{
    return named->op == key->op && named->peer == key->peer && named->n_members == key->n_members &&
           strncmp(named->transport, key->transport, sizeof(named->transport) - 1) == 0 &&
           strncmp(named->name, key->name, sizeof(named->name) - 1) == 0 &&
           atomic_load_explicit(&named->is_taken, memory_order_acquire) == 0;
}

/* Caller holds stats_lock. */
static struct nxr_stats_named *stats_find_named(const struct nxr_stats_key *key)
{
    uint32_t n = atomic_load_explicit(&stats_head->n_named, memory_order_relaxed);

    for (uint32_t i = 0; i < n; i++) {
        struct nxr_stats_named *named = &nxr_stats_named(stats_head)[i];

        if (stats_is_free_of(named, key)) {
            return named;
        }
    }
    return NULL;
}

/* Caller holds stats_lock. */
static struct nxr_stats_named *stats_make_named(const struct nxr_stats_key *key)
{
    uint32_t max = stats_head->max_named;
    uint32_t number = stats_take_number(&stats_head->n_named, max);
    struct nxr_stats_named *named;

    if (number == max) {
        return &stats_no_named;
    }
    named = &nxr_stats_named(stats_head)[number];
    named->op = key->op;
    named->peer = key->peer;
    named->n_members = key->n_members;
    named->serial = n_serials++;
    strncpy(named->transport, key->transport, sizeof(named->transport) - 1);
    strncpy(named->name, key->name, sizeof(named->name) - 1);
    atomic_store_explicit(&named->is_ready, 1, memory_order_release);
    return named;
}

struct nxr_stats_named *nxr_stats_named_take(const struct nxr_stats_key *key)
{
    struct nxr_stats_named *named = &stats_no_named;

    pthread_mutex_lock(&stats_lock);
    if (stats_head != NULL) {
        named = stats_find_named(key);
        named = named != NULL ? named : stats_make_named(key);
        atomic_store_explicit(&named->is_taken, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&stats_lock);
    return named;
}

void nxr_stats_named_give(struct nxr_stats_named *named)
{
    if (named != NULL) {
        atomic_store_explicit(&named->is_taken, 0, memory_order_release);
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

static enum nxr_stats_op stats_op_of(enum nxr_op_kind kind)
{
    return kind == NXR_OP_PUT   ? NXR_STATS_PUT
           : kind == NXR_OP_GET ? NXR_STATS_GET
                                : NXR_STATS_ATOMIC;
}

/* Does this process read a peer's storage itself? */
static bool stats_is_read_here(const struct nxr_segment *segment,
                               const struct nxr_transport *transport, enum nxr_op_kind kind)
{
    return kind == NXR_OP_GET && segment->readable != NULL && transport == segment->transport;
}

/* Storage that this process reads or writes is a route of its own: no device copies it. */
static const char *stats_transport(const struct nxr_segment *segment,
                                   const struct nxr_transport *transport, enum nxr_op_kind kind)
{
    return (segment->method == NXR_METHOD_DEVICE &&
            nxr_key_storage(&segment->key) != NXR_METHOD_NONE) ||
                   stats_is_read_here(segment, transport, kind)
               ? nxr_storage_route
               : transport->name;
}

/* Storage is counted by what reads or writes it, which its owner does unless it is read here. */
static enum nxr_method stats_method(const struct nxr_segment *segment, enum nxr_op_kind kind)
{
    enum nxr_method storage = nxr_key_storage(&segment->key);

    return stats_is_read_here(segment, segment->transport, kind) ? segment->read_by
           : storage != NXR_METHOD_NONE                          ? storage
                                                                 : segment->method;
}

void nxr_stats_moved_by(const struct nxr_segment *segment, enum nxr_op_kind kind, size_t nbytes,
                        enum nxr_method by)
{
    if (nxr_stats_is_piece || !NXR_STATS_COUNTS) {
        return;
    }
    nxr_stats_count(nxr_stats_entry_of(segment->peer, stats_op_of(kind),
                                       stats_transport(segment, segment->transport, kind),
                                       by != NXR_METHOD_NONE ? by : stats_method(segment, kind)),
                    nbytes);
}

void nxr_stats_moved(const struct nxr_segment *segment, enum nxr_op_kind kind, size_t nbytes)
{
    nxr_stats_moved_by(segment, kind, nbytes, NXR_METHOD_NONE);
}

void nxr_stats_time(struct nxr_stats_histogram *histogram, int64_t ns)
{
    uint64_t time = ns > 0 ? (uint64_t)ns : 0;
    uint64_t known = atomic_load_explicit(&histogram->max_ns, memory_order_relaxed);

    nxr_stats_add_shared(&histogram->n[nxr_stats_bucket(ns)], 1);
    nxr_stats_add_shared(&histogram->sum_ns, time);
    while (time > known &&
           !atomic_compare_exchange_weak_explicit(&histogram->max_ns, &known, time,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* ---- operations that take time --------------------------------------------------------------- */

/* A transport that is none of the segment's stages, or is a device: it has no method of its own. */
static enum nxr_method stats_method_of(const struct nxr_op *op,
                                       const struct nxr_transport *transport)
{
    return transport == op->segment->transport ? stats_method(op->segment, op->kind)
                                               : nxr_key_storage(&op->segment->key);
}

static enum nxr_trace_kind stats_trace_kind_of(enum nxr_op_kind kind)
{
    return kind == NXR_OP_PUT   ? NXR_TRACE_PUT
           : kind == NXR_OP_GET ? NXR_TRACE_GET
                                : NXR_TRACE_ATOMIC;
}

/* An operation that has ended, as an event of the trace. */
static void stats_trace(const struct nxr_op *op, const char *transport, int status)
{
    enum nxr_trace_kind kind = stats_trace_kind_of(op->kind);

    nxr_trace_record(&(const struct nxr_traced){.kind = kind,
                                                .form = NXR_TRACE_OPERATION,
                                                .name = nxr_trace_kind_name(kind),
                                                .detail = transport,
                                                .begin = op->began_ticks,
                                                .nbytes = op->nbytes,
                                                .peer = op->segment->peer->rank,
                                                .status = status});
}

void nxr_stats_begin(struct nxr_op *op, const struct nxr_transport *transport)
{
    bool is_timed =
        NXR_STATS_COUNTS && (op->nbytes >= TIMED_NBYTES || n_untimed++ % TIMED_EVERY == 0);

    op->stats = !NXR_STATS_COUNTS
                    ? NULL
                    : nxr_stats_entry_of(op->segment->peer, stats_op_of(op->kind),
                                         stats_transport(op->segment, transport, op->kind),
                                         stats_method_of(op, transport));
    op->began_ns = is_timed ? nxr_now_ns() : 0;
    op->began_ticks = nxr_trace_has(stats_trace_kind_of(op->kind)) ? nxr_ticks() : 0;
    NXR_PROBE5(start, op, (int)op->kind, op->segment->peer->rank, op->nbytes, transport->name);
}

void nxr_stats_by(struct nxr_op *op, enum nxr_method by)
{
    if (op->stats != NULL && by != NXR_METHOD_NONE) {
        op->stats =
            nxr_stats_entry_of(op->segment->peer, stats_op_of(op->kind), op->stats->transport, by);
    }
}

void nxr_stats_posted(const struct nxr_stats_post *post)
{
    if (post->entry != NULL) {
        nxr_stats_time(&post->entry->times->post, nxr_now_ns() - post->began_ns);
    }
}

void nxr_stats_end(struct nxr_op *op, int status)
{
    struct nxr_stats_entry *entry = op->stats;

    if (entry == NULL) {
        return;
    }
    op->stats = NULL;
    NXR_PROBE5(complete, op, (int)op->kind, op->segment->peer->rank, op->nbytes, status);
    if (op->began_ticks != 0 && nxr_trace_has(stats_trace_kind_of(op->kind))) {
        stats_trace(op, entry->transport, status);
    }
    if (status != NIXL_OK) {
        bool is_failure = status != NIXL_E_UNSUPPORTED && status != NIXL_E_AGAIN;

        nxr_stats_add_shared(&entry->row->n[NXR_STATS_FAILED], is_failure);
        return;
    }
    nxr_stats_count(entry, op->nbytes);
    nxr_stats_add_shared(&entry->row->n[NXR_STATS_REQUESTS], 1);
    if (op->began_ns != 0) {
        nxr_stats_time(&entry->times->complete, nxr_now_ns() - op->began_ns);
    }
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Replace the shortest of the longest, and find the next shortest. Caller holds longest_lock. */
static void stats_keep_wait(const struct nxr_stats_wait *wait)
{
    struct nxr_stats_wait *all = stats_head->longest, *shortest = all;
    int64_t floor = INT64_MAX;

    for (int i = 1; i < NXR_STATS_N_LONGEST; i++) {
        shortest = all[i].waited_ns < shortest->waited_ns ? &all[i] : shortest;
    }
    if (wait->waited_ns > shortest->waited_ns) {
        nxr_observe_write_begin(&shortest->counter);
        shortest->peer = wait->peer;
        shortest->began_ns = wait->began_ns;
        shortest->waited_ns = wait->waited_ns;
        memcpy(shortest->call, wait->call, sizeof(shortest->call));
        nxr_observe_write_end(&shortest->counter);
    }
    for (int i = 0; i < NXR_STATS_N_LONGEST; i++) {
        floor = all[i].waited_ns < floor ? all[i].waited_ns : floor;
    }
    atomic_store_explicit(&longest_floor, floor, memory_order_relaxed);
}

void nxr_stats_waited(int64_t began_ns, int64_t waited_ns, const char *call, int peer)
{
    const struct nxr_stats_entry *entry =
        NXR_STATS_COUNTS ? nxr_stats_entry_of(NULL, NXR_STATS_WAIT, "", NXR_METHOD_NONE) : NULL;
    struct nxr_stats_wait wait = {.peer = peer, .began_ns = began_ns, .waited_ns = waited_ns};

    if (entry == NULL) {
        return;
    }
    nxr_stats_add_shared(&entry->row->n[NXR_STATS_OPS], 1);
    nxr_stats_time(&entry->times->complete, waited_ns);
    if (call == NULL || stats_head == NULL ||
        waited_ns <= atomic_load_explicit(&longest_floor, memory_order_relaxed)) {
        return;
    }
    strncpy(wait.call, call, sizeof(wait.call) - 1);
    nxr_spin_lock(&longest_lock);
    stats_keep_wait(&wait);
    nxr_spin_unlock(&longest_lock);
}
