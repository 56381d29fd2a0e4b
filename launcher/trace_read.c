/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the traces of a job's ranks. What is read is checked. No state. */
#include "config.h"

#include "launcher/pages.h"
#include "launcher/trace.h"
#include "launcher/xalloc.h"
#include "util/clock.h"
#include "util/hash.h"

#include <string.h>
#include <unistd.h>

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Take the pairs of clocks that are in order; the last of a killed rank may not be. */
static void read_pairs(struct trace_rank *rank)
{
    uint32_t n = atomic_load_explicit(&rank->trace->n_pairs, memory_order_acquire);

    n = n < NXR_TRACE_MAX_PAIRS ? n : NXR_TRACE_MAX_PAIRS;
    rank->pairs = x_calloc(n, sizeof(*rank->pairs));
    for (uint32_t i = 0; i < n; i++) {
        const struct nxr_tick_pair pair = rank->trace->pairs[i];

        if (rank->n_pairs == 0 || (pair.ticks > rank->pairs[rank->n_pairs - 1].ticks &&
                                   pair.ns > rank->pairs[rank->n_pairs - 1].ns)) {
            rank->pairs[rank->n_pairs++] = pair;
        }
    }
}

/* Take the page if it has a trace; it stays mapped. */
static bool take_page(struct trace_job *job, const struct nxr_observe_page *page)
{
    const struct nxr_observe_head *head = page->head;
    struct trace_rank rank = {.page = *page,
                              .job = head->job,
                              .rank = head->rank,
                              .size = head->size,
                              .incarnation = head->incarnation,
                              .pid = head->pid,
                              .began_ns = head->began_ns,
                              .has_left = atomic_load_explicit(&head->life, memory_order_acquire) ==
                                          NXR_OBSERVE_LEFT};

    rank.trace = nxr_observe_find(page, NXR_OBSERVE_TRACE, NXR_TRACE_VERSION, sizeof(*rank.trace));
    if (rank.trace == NULL ||
        !nxr_trace_is_section(
            rank.trace, page->nbytes - (size_t)((const char *)rank.trace - (const char *)head))) {
        return false;
    }
    memcpy(rank.host_name, head->host, sizeof(rank.host_name) - 1);
    read_pairs(&rank);
    job->ranks = x_array(job->ranks, job->n + 1, sizeof(*job->ranks));
    job->ranks[job->n++] = rank;
    return true;
}

static void drop_rank(const struct trace_rank *rank)
{
    free(rank->pairs);
    nxr_observe_unmap(&rank->page);
}

static int trace_compare_incarnations(const struct trace_rank *first,
                                      const struct trace_rank *second)
{
    if (first->job != second->job) {
        return first->job < second->job ? -1 : 1;
    }
    if (first->rank != second->rank) {
        return first->rank < second->rank ? -1 : 1;
    }
    return (first->incarnation > second->incarnation) - (first->incarnation < second->incarnation);
}

static int trace_compare_ranks(const void *a, const void *b)
{
    const struct trace_rank *first = a, *second = b;
    int order = trace_compare_incarnations(first, second);

    return order != 0 ? order
                      : (first->began_ns > second->began_ns) - (first->began_ns < second->began_ns);
}

/* A page may have come twice, for nixlrun and its children share descriptors for a moment. */
static void drop_doubles(struct trace_job *job)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++) {
        if (n > 0 && trace_compare_ranks(&job->ranks[n - 1], &job->ranks[i]) == 0 &&
            job->ranks[n - 1].pid == job->ranks[i].pid) {
            drop_rank(&job->ranks[i]);
        } else {
            job->ranks[n++] = job->ranks[i];
        }
    }
    job->n = n;
}

static void trace_number_turns(struct trace_job *job)
{
    for (size_t i = 1; i < job->n; i++) {
        const struct trace_rank *before = &job->ranks[i - 1];

        if (trace_compare_incarnations(before, &job->ranks[i]) == 0) {
            job->ranks[i].turn = before->turn + 1;
        }
    }
}

static void trace_number_hosts(struct trace_job *job)
{
    job->hosts = x_calloc(job->n, sizeof(*job->hosts));
    for (size_t i = 0; i < job->n; i++) {
        struct trace_rank *rank = &job->ranks[i];

        rank->host = 0;
        while (rank->host < job->n_hosts &&
               strcmp(job->hosts[rank->host].name, rank->host_name) != 0) {
            rank->host++;
        }
        if (rank->host == job->n_hosts) {
            job->hosts[job->n_hosts++].name = rank->host_name;
        }
    }
}

/* When the last event was written, or the clock was read last. */
static int64_t last_ns(const struct trace_job *job, const struct trace_rank *rank)
{
    return rank->n_pairs > 0 ? rank->pairs[rank->n_pairs - 1].ns + job->hosts[rank->host].offset_ns
                             : 0;
}

struct trace_job trace_read(void)
{
    struct trace_job job = {.ranks = NULL};
    struct pages pages = pages_of(getpid());

    while (pages_next(&pages)) {
        if (take_page(&job, &pages.page)) {
            pages.page.head = NULL; /* it is ours */
        }
    }
    job.n_unread = pages.n_unmapped;
    pages_end(&pages);
    if (job.n > 1) {
        qsort(job.ranks, job.n, sizeof(*job.ranks), trace_compare_ranks);
        drop_doubles(&job);
        trace_number_turns(&job);
    }
    trace_number_hosts(&job);
    trace_align(&job);
    for (size_t i = 0; i < job.n; i++) {
        int64_t ns = last_ns(&job, &job.ranks[i]);

        job.end_ns = ns > job.end_ns ? ns : job.end_ns;
    }
    return job;
}

void trace_free(struct trace_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        drop_rank(&job->ranks[i]);
    }
    free(job->ranks);
    free(job->hosts);
    *job = (struct trace_job){.ranks = NULL};
}

/* ---- times ----------------------------------------------------------------------------------- */

/* The last pair, of all but the last one, that is not later; the first one if all are. */
static size_t pair_before(const struct trace_rank *rank, uint64_t ticks)
{
    size_t low = 0, high = rank->n_pairs - 1;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (rank->pairs[middle].ticks <= ticks) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* On the line through the two pairs around it, or nearest to it. */
int64_t trace_ns(const struct trace_job *job, const struct trace_rank *rank, uint64_t ticks)
{
    const struct nxr_tick_pair *a, *b;
    double rate;

    if (rank->n_pairs < 2) { /* it died right after it had begun */
        return rank->n_pairs == 0 ? 0
                                  : rank->pairs[0].ns + (int64_t)(ticks - rank->pairs[0].ticks) +
                                        job->hosts[rank->host].offset_ns;
    }
    a = &rank->pairs[pair_before(rank, ticks)];
    b = a + 1;
    rate = (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);
    return a->ns + (int64_t)((double)(int64_t)(ticks - a->ticks) * rate) +
           job->hosts[rank->host].offset_ns;
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_event(const struct nxr_trace_event *event)
{
    return event->form >= NXR_TRACE_CALL && event->form <= NXR_TRACE_INSTANT &&
           event->kind < NXR_TRACE_N_KINDS && event->end >= event->begin;
}

static void read_ring(const struct trace_job *job, const struct trace_rank *rank, uint32_t ring,
                      struct trace_events *events)
{
    const struct nxr_trace_event *slots = nxr_trace_events(rank->trace, ring);
    uint64_t first, n = nxr_trace_ring_range(rank->trace, ring, &first);

    events->n_lost += first;
    events->all = x_array(events->all, events->n + n, sizeof(*events->all));
    for (uint64_t i = first; i < first + n; i++) {
        struct nxr_trace_event *event = &events->all[events->n];

        memcpy(event, &slots[i & (rank->trace->n_events - 1)], sizeof(*event));
        if (is_event(event)) {
            event->begin = (uint64_t)trace_ns(job, rank, event->begin);
            event->end = (uint64_t)trace_ns(job, rank, event->end);
            events->n++;
        }
    }
}

struct trace_events trace_events_of(const struct trace_job *job, const struct trace_rank *rank)
{
    struct trace_events events = {.all = NULL};
    uint32_t n = atomic_load_explicit(&rank->trace->n_rings, memory_order_acquire);

    events.n_without = atomic_load_explicit(&rank->trace->n_without_ring, memory_order_relaxed);
    for (uint32_t i = 0; i < n && i < NXR_TRACE_MAX_THREADS; i++) {
        read_ring(job, rank, i, &events);
    }
    return events;
}

const char *trace_name(const struct trace_rank *rank, uint16_t name)
{
    uint32_t n = atomic_load_explicit(&rank->trace->n_names, memory_order_acquire);

    if (name == 0 || name >= n || name >= NXR_TRACE_MAX_NAMES ||
        memchr(rank->trace->names[name], '\0', NXR_TRACE_NAME_NBYTES) == NULL) {
        return "other";
    }
    return rank->trace->names[name];
}

uint64_t trace_flow_of(const struct trace_rank *rank, const struct nxr_trace_event *event)
{
    bool is_sent = event->form == NXR_TRACE_SENT;
    uint64_t own = (uint64_t)rank->rank << 16 | rank->incarnation;
    /* of a notification the object is the other process; of an item, the channel */
    bool is_note = event->kind == NXR_TRACE_NOTE;
    uint64_t other = (uint64_t)(uint32_t)event->peer << 16 | (is_note ? event->object : 0);
    uint64_t way, value;

    if (event->flow == 0 || event->peer < 0 || event->peer >= rank->size) {
        return 0;
    }
    own = is_note ? own : (uint64_t)rank->rank << 16;
    way = nxr_hash_mix(is_sent ? own : other, is_sent ? other : own);
    way = nxr_hash_mix(way, (uint64_t)event->kind << 32 | (is_note ? 0 : event->object));
    way = nxr_hash_mix(way, rank->turn); /* all take turns together, and count anew in each */
    value = nxr_hash_mix(nxr_hash_mix(rank->job, way), event->flow);
    return value != 0 ? value : 1;
}
