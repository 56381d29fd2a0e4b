/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of hosts differ by unknown offsets. What is received was sent before, and nobody
 * leaves a meeting of all ranks before the last one has come: each such pair of moments bounds the
 * difference of two clocks from one side. With bounds from both sides the offset lies between them;
 * it is taken from the middle, so half their distance is the precision. Since all offsets are the
 * middle of two solutions of all bounds, nothing is shown as received before it was sent. No state.
 */
#include "config.h"

#include "launcher/trace.h"
#include "launcher/xalloc.h"

#include <string.h>

/* Beyond so many hosts only bounds to the first one are used: finding the shortest is cubic. */
#define MOST_HOSTS 256

#define UNKNOWN (INT64_MAX / 4)

/* bounds[b * n + a]: the offset of host a is at most that of host b plus this. */
struct bounds {
    int64_t *most;
    int n;
};

static void bound(struct bounds *bounds, int a, int b, int64_t most)
{
    int64_t *known = &bounds->most[(size_t)b * (size_t)bounds->n + (size_t)a];

    *known = most < *known ? most : *known;
}

static int64_t bound_of(const struct bounds *bounds, int a, int b)
{
    return bounds->most[(size_t)b * (size_t)bounds->n + (size_t)a];
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* One end of an arrow. */
struct end {
    uint64_t flow;
    int64_t ns;
    int host;
    bool is_taken;
};

static int compare_ends(const void *a, const void *b)
{
    const struct end *first = a, *second = b;

    if (first->flow != second->flow) {
        return first->flow < second->flow ? -1 : 1;
    }
    return (int)first->is_taken - (int)second->is_taken;
}

/* The host of a rank; -1: none is known. */
static int host_of(const struct trace_job *job, uint64_t library_job, int rank)
{
    for (size_t i = 0; i < job->n; i++) {
        if (job->ranks[i].job == library_job && job->ranks[i].rank == rank) {
            return job->ranks[i].host;
        }
    }
    return -1;
}

/* Add the ends, at a rank, of arrows between hosts. */
static size_t take_ends(const struct trace_job *job, const struct trace_rank *rank,
                        struct end **ends_p, size_t n)
{
    struct trace_events events = trace_events_of(job, rank);
    int *hosts = x_array(NULL, (size_t)rank->size, sizeof(*hosts));

    for (int i = 0; i < rank->size; i++) {
        hosts[i] = host_of(job, rank->job, i);
    }
    *ends_p = x_array(*ends_p, n + events.n, sizeof(**ends_p));
    for (size_t i = 0; i < events.n; i++) {
        const struct nxr_trace_event *event = &events.all[i];
        bool is_end = event->form == NXR_TRACE_SENT || event->form == NXR_TRACE_TAKEN;
        uint64_t flow = is_end ? trace_flow_of(rank, event) : 0;

        if (flow != 0 && hosts[event->peer] != rank->host && hosts[event->peer] >= 0) {
            (*ends_p)[n++] = (struct end){flow, (int64_t)event->begin, rank->host,
                                          event->form == NXR_TRACE_TAKEN};
        }
    }
    free(hosts);
    free(events.all);
    return n;
}

/* Sent before it is taken: sent + offset a <= taken + offset b. */
static void bound_by_arrows(const struct trace_job *job, struct bounds *bounds)
{
    struct end *ends = NULL;
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++) {
        n = take_ends(job, &job->ranks[i], &ends, n);
    }
    if (n > 1) {
        qsort(ends, n, sizeof(*ends), compare_ends);
    }
    for (size_t i = 1; i < n; i++) {
        if (ends[i - 1].flow == ends[i].flow && !ends[i - 1].is_taken && ends[i].is_taken) {
            bound(bounds, ends[i - 1].host, ends[i].host, ends[i].ns - ends[i - 1].ns);
        }
    }
    free(ends);
}

/* The last to come and the first to go, at each host. Processes that came later were not there. */
static void bound_by_meeting(const struct trace_job *job, uint64_t library_job,
                             enum nxr_trace_meeting_id id, struct bounds *bounds)
{
    int64_t *come = x_calloc((size_t)job->n_hosts, sizeof(*come));
    int64_t *go = x_calloc((size_t)job->n_hosts, sizeof(*go));

    for (size_t i = 0; i < job->n; i++) {
        const struct trace_rank *rank = &job->ranks[i];
        const struct nxr_trace_meeting meeting = rank->trace->meetings[id];

        if (rank->job == library_job && rank->incarnation == 0 && meeting.begin != 0 &&
            meeting.end != 0) {
            int64_t begin = trace_ns(job, rank, meeting.begin);
            int64_t end = trace_ns(job, rank, meeting.end);

            come[rank->host] = begin > come[rank->host] ? begin : come[rank->host];
            go[rank->host] = go[rank->host] == 0 || end < go[rank->host] ? end : go[rank->host];
        }
    }
    for (int a = 0; a < job->n_hosts; a++) {
        for (int b = 0; b < job->n_hosts; b++) {
            if (a != b && come[a] != 0 && go[b] != 0) {
                bound(bounds, a, b, go[b] - come[a]);
            }
        }
    }
    free(come);
    free(go);
}

/* ---- offsets --------------------------------------------------------------------------------- */

/* Over other hosts, too: Floyd and Warshall. False: the bounds contradict each other. */
static bool shorten(struct bounds *bounds)
{
    for (int over = 0; over < bounds->n; over++) {
        for (int b = 0; b < bounds->n; b++) {
            int64_t to = bound_of(bounds, over, b);

            for (int a = 0; a < bounds->n && to < UNKNOWN; a++) {
                int64_t from = bound_of(bounds, a, over);

                if (from < UNKNOWN) {
                    bound(bounds, a, b, to + from);
                }
            }
        }
    }
    for (int a = 0; a < bounds->n; a++) {
        if (bound_of(bounds, a, a) < 0) {
            return false;
        }
    }
    return true;
}

/* Between the bounds to the first host; clocks that drift apart make the upper one the lower. */
static void take_offsets(struct trace_job *job, const struct bounds *bounds)
{
    for (int a = 1; a < bounds->n; a++) {
        int64_t most = bound_of(bounds, a, 0), least = bound_of(bounds, 0, a);
        struct trace_host *host = &job->hosts[a];

        host->precision_ns = -1;
        if (most < UNKNOWN && least < UNKNOWN) {
            host->offset_ns = (most - least) / 2;
            host->precision_ns = (most + least) / 2;
            host->precision_ns = host->precision_ns < 0 ? -host->precision_ns : host->precision_ns;
        }
    }
}

void trace_align(struct trace_job *job)
{
    struct bounds bounds = {.n = job->n_hosts};
    struct bounds direct = bounds;
    size_t nbytes;

    if (job->n_hosts < 2) {
        return;
    }
    nbytes = (size_t)bounds.n * (size_t)bounds.n * sizeof(*bounds.most);
    bounds.most = x_calloc((size_t)bounds.n * (size_t)bounds.n, sizeof(*bounds.most));
    direct.most = x_calloc((size_t)bounds.n * (size_t)bounds.n, sizeof(*bounds.most));
    for (size_t i = 0; i < (size_t)bounds.n * (size_t)bounds.n; i++) {
        if (i % ((size_t)bounds.n + 1) != 0) { /* a host and itself: 0 */
            bounds.most[i] = UNKNOWN;
        }
    }
    for (size_t i = 0; i < job->n; i++) {
        if (i == 0 || job->ranks[i].job != job->ranks[i - 1].job) {
            for (int id = 0; id < NXR_TRACE_N_MEETINGS; id++) {
                bound_by_meeting(job, job->ranks[i].job, (enum nxr_trace_meeting_id)id, &bounds);
            }
        }
    }
    bound_by_arrows(job, &bounds);
    memcpy(direct.most, bounds.most, nbytes);
    take_offsets(job, bounds.n <= MOST_HOSTS && shorten(&bounds) ? &bounds : &direct);
    free(bounds.most);
    free(direct.most);
}
