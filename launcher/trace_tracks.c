/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracks of a rank. Each thread has one, on which calls, their parts, and what was sent and
 * taken nest: events were written when they ended, so they are sorted by their beginnings, and a
 * stack closes those that end. Operations that overlap have tracks of their own, each the first
 * that is free. An arrow leaves the put before it, if there is one, and the place where its
 * notification was sent; it ends where that was taken. No state.
 */
#include "config.h"

#include "launcher/trace.h"
#include "launcher/xalloc.h"
#include "nixlrun.h"
#include "util/hash.h"

#include <inttypes.h>
#include <string.h>

/* Deeper nesting is not shown. */
#define MOST_OPEN 32

/* Operations of a rank that overlap have up to so many tracks; more lie on the last one. */
#define MOST_LANES 64

/* Processes of different hosts may have the same pid, which Perfetto would take for one process. */
#define PIDS_OF_HOST (1 << 22)

struct tracks {
    struct perfetto *out;
    const struct trace_job *job;
    const struct trace_rank *rank;
    uint64_t process; /* its track */
    int32_t pid;
    struct trace_sums *sums;
};

static uint64_t track_of(const struct tracks *tracks, uint64_t what)
{
    const struct trace_rank *rank = tracks->rank;
    uint64_t value = nxr_hash_mix(rank->job, (uint64_t)rank->rank << 32 | rank->incarnation);

    /* A script may run several programs as one incarnation, and a process may leave and join. */
    value = nxr_hash_mix(nxr_hash_mix(value, (uint64_t)rank->began_ns), what);
    return value != 0 ? value : 1;
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool is_moment(const struct nxr_trace_event *event)
{
    return event->form == NXR_TRACE_SENT || event->form == NXR_TRACE_TAKEN ||
           event->form == NXR_TRACE_INSTANT;
}

/* Operations last; else by thread, then by beginning, the longer one first: it holds the other. */
static int compare_events(const void *a, const void *b)
{
    const struct nxr_trace_event *first = a, *second = b;
    bool is_first_operation = first->form == NXR_TRACE_OPERATION;

    if (is_first_operation != (second->form == NXR_TRACE_OPERATION)) {
        return is_first_operation ? 1 : -1;
    }
    if (!is_first_operation && first->tid != second->tid) {
        return first->tid < second->tid ? -1 : 1;
    }
    if (first->begin != second->begin) {
        return first->begin < second->begin ? -1 : 1;
    }
    if (first->end != second->end) {
        return first->end > second->end ? -1 : 1;
    }
    return (int)first->form - (int)second->form;
}

/* ---- one event ------------------------------------------------------------------------------- */

/* Why a thread sleeps, in one or two words. */
static const char *sleep_reason(uint64_t kind)
{
    static const char *const names[NXR_WAIT_N_KINDS] = {
        [NXR_WAIT_START] = "all ranks in nixl_init",
        [NXR_WAIT_FINALIZE] = "all ranks in nixl_finalize",
        [NXR_WAIT_NOTE] = "a notification",
        [NXR_WAIT_NOTE_ROOM] = "room for a notification",
        [NXR_WAIT_SIGNAL] = "a signal",
        [NXR_WAIT_CONNECTION] = "a connection",
        [NXR_WAIT_REGION] = "a region",
        [NXR_WAIT_REGION_FREE] = "users of a region",
        [NXR_WAIT_REQUEST] = "a request",
        [NXR_WAIT_REQUESTS] = "any of some requests",
        [NXR_WAIT_FLUSH] = "puts",
        [NXR_WAIT_TEAM] = "a member of a team",
        [NXR_WAIT_TEAM_IDLE] = "earlier collectives",
        [NXR_WAIT_CHANNEL_ROOM] = "room in a channel",
        [NXR_WAIT_CHANNEL_ITEM] = "an item of a channel",
        [NXR_WAIT_EVENT] = "an event",
        [NXR_WAIT_QUEUE] = "a completion",
        [NXR_WAIT_ANSWER] = "an answer",
        [NXR_WAIT_ATTACH] = "a process of another job",
        [NXR_WAIT_GRANT] = "readers of a grant",
        [NXR_WAIT_DEVICE] = "a copy by a device",
    };

    return kind < NXR_WAIT_N_KINDS && names[kind] != NULL ? names[kind] : "something";
}

/* Fill in the debug annotations of an event. Returns their number. */
static size_t notes_of(const struct trace_rank *rank, const struct nxr_trace_event *event,
                       struct perfetto_note notes[6])
{
    size_t n = 0;

    if (event->peer >= 0) {
        notes[n++] = (struct perfetto_note){.key = "rank", .number = event->peer};
    }
    if (event->nbytes != 0) {
        notes[n++] = (struct perfetto_note){.key = "bytes", .number = (int64_t)event->nbytes};
    }
    if (event->form == NXR_TRACE_ASLEEP) {
        notes[n++] = (struct perfetto_note){.key = "for", .text = sleep_reason(event->tag)};
    } else if (event->kind == NXR_TRACE_NOTE || event->tag != 0) {
        const char *key = event->kind == NXR_TRACE_NOTE      ? "tag"
                          : event->kind == NXR_TRACE_CHANNEL ? "item"
                          : event->kind == NXR_TRACE_SIGNAL  ? "value"
                                                             : "tag";

        notes[n++] = (struct perfetto_note){.key = key, .number = (int64_t)event->tag};
    }
    if (event->detail != 0) {
        notes[n++] =
            (struct perfetto_note){.key = "transport", .text = trace_name(rank, event->detail)};
    }
    if (event->status != NIXL_OK && event->status != NIXL_INPROGRESS) {
        notes[n++] = (struct perfetto_note){.key = "status", .text = nixl_strerror(event->status)};
    }
    return n;
}

static void write_begin(const struct tracks *tracks, uint64_t track,
                        const struct nxr_trace_event *event, uint64_t flow)
{
    struct perfetto_note notes[6];
    size_t n = notes_of(tracks->rank, event, notes);

    perfetto_event(tracks->out, &(const struct perfetto_event){
                                    .type = is_moment(event) ? PERFETTO_INSTANT : PERFETTO_BEGIN,
                                    .track = track,
                                    .ns = (int64_t)event->begin,
                                    .category = nxr_trace_kind_name(event->kind),
                                    .name = trace_name(tracks->rank, event->name),
                                    .flow = flow,
                                    .is_flow_end = event->form == NXR_TRACE_TAKEN,
                                    .notes = notes,
                                    .n_notes = n});
    tracks->sums->n_events++;
}

static void write_end(const struct tracks *tracks, uint64_t track, uint64_t ns)
{
    perfetto_event(tracks->out, &(const struct perfetto_event){
                                    .type = PERFETTO_END, .track = track, .ns = (int64_t)ns});
}

static void write_moment(const struct tracks *tracks, uint64_t track, int64_t ns, const char *name,
                         const struct perfetto_note *note)
{
    perfetto_event(tracks->out, &(const struct perfetto_event){.type = PERFETTO_INSTANT,
                                                               .track = track,
                                                               .ns = ns,
                                                               .category = "job",
                                                               .name = name,
                                                               .notes = note,
                                                               .n_notes = note != NULL});
}

/* ---- threads --------------------------------------------------------------------------------- */

/*
 * The arrow that leaves each event; 0: none. Of a put it is that of the next notification that the
 * thread sends to the same rank.
 */
static uint64_t *find_flows(const struct trace_rank *rank, const struct nxr_trace_event *events,
                            size_t n)
{
    uint64_t *flows = x_calloc(n, sizeof(*flows));
    size_t *last_put = x_calloc((size_t)rank->size, sizeof(*last_put)); /* index + 1; 0: none */

    for (size_t i = 0; i < n; i++) {
        const struct nxr_trace_event *event = &events[i];

        if (event->peer < 0 || event->peer >= rank->size) {
            continue;
        }
        if (event->form == NXR_TRACE_CALL && event->kind == NXR_TRACE_PUT) {
            last_put[event->peer] = i + 1;
        } else if (event->form == NXR_TRACE_SENT || event->form == NXR_TRACE_TAKEN) {
            flows[i] = trace_flow_of(rank, event);
        }
        if (event->form == NXR_TRACE_SENT && event->kind == NXR_TRACE_NOTE &&
            last_put[event->peer] != 0) {
            flows[last_put[event->peer] - 1] = flows[i];
            last_put[event->peer] = 0;
        }
    }
    free(last_put);
    return flows;
}

/*
 * Calls of the thread that its rank has recorded as waits, and that have not ended. They began
 * after its last event.
 */
static void write_unended(const struct tracks *tracks, uint64_t track, int32_t tid, int64_t last_ns)
{
    const struct nxr_observe_waits *waits =
        nxr_observe_find(&tracks->rank->page, NXR_OBSERVE_WAITS, NXR_OBSERVE_WAITS_VERSION,
                         sizeof(struct nxr_observe_waits));
    int64_t offset = tracks->job->hosts[tracks->rank->host].offset_ns;

    for (int i = 0; waits != NULL && !tracks->rank->has_left && i < NXR_OBSERVE_N_WAITS; i++) {
        struct nxr_wait_record record;
        int64_t begin_ns;
        char name[64];

        if (!nxr_observe_read(&record, &waits->records[i], sizeof(record)) || record.tid != tid ||
            record.kind == NXR_WAIT_NONE ||
            memchr(record.call, '\0', sizeof(record.call)) == NULL) {
            continue;
        }
        snprintf(name, sizeof(name), "%s (has not ended)",
                 record.call[0] != '\0' ? record.call : "a wait");
        /* in a copy it is known only how long ago that was, by nixlrun's clock */
        begin_ns = tracks->rank->page.head->mirrored != 0
                       ? tracks->job->end_ns - (nxr_now_ns() - record.since_ns)
                       : record.since_ns + offset;
        begin_ns = begin_ns > last_ns ? begin_ns : last_ns;
        perfetto_event(
            tracks->out,
            &(const struct perfetto_event){
                .type = PERFETTO_BEGIN,
                .track = track,
                .ns = begin_ns,
                .category = "wait",
                .name = name,
                .notes = &(const struct perfetto_note){.key = "rank", .number = record.peer},
                .n_notes = record.peer >= 0});
        write_end(tracks, track,
                  (uint64_t)(tracks->job->end_ns > begin_ns ? tracks->job->end_ns : begin_ns));
        tracks->sums->n_events++;
    }
}

/* Write what nests. The events are in order. */
static void write_nested(const struct tracks *tracks, uint64_t track,
                         struct nxr_trace_event *events, size_t n)
{
    uint64_t *flows = find_flows(tracks->rank, events, n);
    uint64_t open[MOST_OPEN]; /* ends of those that hold the next one */
    size_t n_open = 0;

    for (size_t i = 0; i < n; i++) {
        struct nxr_trace_event *event = &events[i];

        while (n_open > 0 && open[n_open - 1] < event->begin + !is_moment(event)) {
            write_end(tracks, track, open[--n_open]);
        }
        if (is_moment(event)) {
            write_begin(tracks, track, event, flows[i]);
        } else if (n_open < MOST_OPEN) {
            if (n_open > 0 && event->end > open[n_open - 1]) {
                event->end = open[n_open - 1];
            }
            write_begin(tracks, track, event, flows[i]);
            open[n_open++] = event->end;
        }
    }
    while (n_open > 0) {
        write_end(tracks, track, open[--n_open]);
    }
    free(flows);
}

/* The name of a thread, if its ring is still its own. */
static const char *thread_name(const struct trace_rank *rank, int32_t tid)
{
    for (int i = 0; i < NXR_TRACE_MAX_THREADS; i++) {
        const struct nxr_trace_ring *ring = &rank->trace->rings[i];

        if (ring->tid == tid && ring->thread[0] != '\0' &&
            memchr(ring->thread, '\0', sizeof(ring->thread)) != NULL) {
            return ring->thread;
        }
    }
    return "thread";
}

static void write_thread(const struct tracks *tracks, struct nxr_trace_event *events, size_t n)
{
    const struct trace_rank *rank = tracks->rank;
    int32_t tid = events[0].tid;
    uint64_t track = track_of(tracks, (uint64_t)(uint32_t)tid);
    uint64_t last_ns = 0;
    char name[48];

    for (size_t i = 0; i < n; i++) {
        last_ns = events[i].end > last_ns ? events[i].end : last_ns;
    }
    snprintf(name, sizeof(name), "%s %" PRId32, thread_name(rank, tid), tid);
    perfetto_thread(tracks->out, track, tracks->pid, tracks->pid - rank->pid + tid, name);
    write_nested(tracks, track, events, n);
    write_unended(tracks, track, tid, (int64_t)last_ns);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void write_operations(const struct tracks *tracks, const struct nxr_trace_event *events,
                             size_t n)
{
    uint64_t busy_until[MOST_LANES];
    unsigned n_lanes = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned lane = 0;
        uint64_t track;

        while (lane < n_lanes && busy_until[lane] > events[i].begin) {
            lane++;
        }
        if (lane == MOST_LANES) {
            tracks->sums->n_lost++;
            continue;
        }
        track = track_of(tracks, UINT64_C(1) << 40 | lane);
        if (lane == n_lanes) {
            char name[32];

            n_lanes++;
            snprintf(name, sizeof(name), "operations %u", n_lanes);
            perfetto_track(tracks->out, track, tracks->process, name);
        }
        busy_until[lane] = events[i].end;
        write_begin(tracks, track, &events[i], 0);
        write_end(tracks, track, events[i].end);
    }
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static void write_process(struct tracks *tracks)
{
    const struct trace_rank *rank = tracks->rank;
    const struct trace_job *job = tracks->job;
    char name[160], job_name[32] = "", again[32] = "";

    if (rank->job != job->ranks[0].job) {
        snprintf(job_name, sizeof(job_name), "job %" PRIx64 " ", rank->job);
    }
    if (rank->incarnation > 0) {
        snprintf(again, sizeof(again), ", started again %" PRIu32 "x", rank->incarnation);
    }
    snprintf(name, sizeof(name), "%srank %d (%s, pid %" PRId32 "%s)", job_name, rank->rank,
             rank->host_name, rank->pid, again);
    tracks->process = track_of(tracks, UINT64_C(1) << 41);
    tracks->pid = rank->pid + (rank->host % 500) * PIDS_OF_HOST;
    perfetto_process(tracks->out, tracks->process, tracks->pid, name);
}

/* What the rings could not tell. */
static void write_losses(const struct tracks *tracks, const struct trace_events *events,
                         uint64_t first_ns, uint64_t last_ns)
{
    if (events->n_lost > 0) {
        write_moment(
            tracks, tracks->process, (int64_t)first_ns, "events lost before this",
            &(const struct perfetto_note){.key = "events", .number = (int64_t)events->n_lost});
        tracks->sums->n_lost += events->n_lost;
    }
    if (events->n_without > 0) {
        write_moment(
            tracks, tracks->process, (int64_t)first_ns, "events of more threads than are recorded",
            &(const struct perfetto_note){.key = "events", .number = (int64_t)events->n_without});
        tracks->sums->n_without += events->n_without;
    }
    if (!tracks->rank->has_left) {
        write_moment(tracks, tracks->process, (int64_t)last_ns,
                     "last event: the rank did not call nixl_finalize", NULL);
    }
}

void trace_write_rank(struct perfetto *out, const struct trace_job *job,
                      const struct trace_rank *rank, struct trace_sums *sums)
{
    struct tracks tracks = {.out = out, .job = job, .rank = rank, .sums = sums};
    struct trace_events events = trace_events_of(job, rank);
    uint64_t first_ns = UINT64_MAX, last_ns = 0;
    size_t begin = 0;

    write_process(&tracks);
    if (events.n > 1) {
        qsort(events.all, events.n, sizeof(*events.all), compare_events);
    }
    for (size_t i = 0; i < events.n; i++) {
        first_ns = events.all[i].begin < first_ns ? events.all[i].begin : first_ns;
        last_ns = events.all[i].end > last_ns ? events.all[i].end : last_ns;
    }
    write_losses(&tracks, &events, events.n > 0 ? first_ns : 0, last_ns);
    for (size_t i = 1; i <= events.n; i++) {
        const struct nxr_trace_event *first = &events.all[begin], *event = &events.all[i];

        if (first->form == NXR_TRACE_OPERATION) {
            write_operations(&tracks, first, events.n - begin);
            break;
        }
        if (i == events.n || event->form == NXR_TRACE_OPERATION || event->tid != first->tid) {
            write_thread(&tracks, &events.all[begin], i - begin);
            begin = i;
        }
    }
    free(events.all);
}
