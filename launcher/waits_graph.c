/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of waits: each rank is a node, each thread of it that waits for a certain rank an edge.
 * What a rank waits for comes down to a circle, or to a rank that waits for none in particular:
 * one that computes, is stopped, has died or left, or waits for anybody. No state.
 */
#include "config.h"

#include "launcher/waits.h"
#include "launcher/xalloc.h"
#include "util/wait_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_NBYTES  4096
#define MOST_CLAUSES 8 /* of one sentence */

struct graph {
    const struct waits *waits;
    int *next;        /* [n]: the rank that this one waits for, on the way to a circle or an end */
    int *by;          /* [n]: the thread of it that does */
    int *circle;      /* [n]: the lowest rank of the circle that it is in; -1: none */
    char *is_told;    /* [n]: a sentence names it, or says that it waits for what is named */
    char *is_visited; /* [n] */
    waits_say_fn *say;
    int n_said;
};

struct line {
    char text[LINE_NBYTES];
    size_t used;
};

static void line_add(struct line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void line_add(struct line *line, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line->text + line->used, sizeof(line->text) - line->used, format, args);
    va_end(args);
    line->used += n > 0 ? (size_t)n : 0;
    line->used = line->used < sizeof(line->text) ? line->used : sizeof(line->text) - 1;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static bool is_at_end(const struct waits_rank *rank)
{
    return rank->state != WAITS_RUNS && rank->state != WAITS_SLEEPS;
}

static bool waits_at(const struct waits_rank *rank, enum nxr_wait_kind kind, uint64_t team)
{
    for (int i = 0; i < rank->n_threads; i++) {
        if (rank->threads[i].kind == (uint32_t)kind && rank->threads[i].team == team) {
            return true;
        }
    }
    return false;
}

static bool is_member(const struct nxr_wait_record *record, int rank)
{
    return rank < NXR_OBSERVE_N_MEMBERS && ((record->members[rank / 64] >> (rank % 64)) & 1) != 0;
}

/* Is that rank one of those that have not come yet? */
static bool is_missing(const struct waits_rank *rank, const struct nxr_wait_record *record)
{
    switch ((enum nxr_wait_kind)record->kind) {
    case NXR_WAIT_START:
        return rank->state == WAITS_ABSENT || rank->state == WAITS_UNKNOWN ||
               (rank->life == NXR_OBSERVE_JOINING && !waits_at(rank, NXR_WAIT_START, 0));
    case NXR_WAIT_FINALIZE:
        return rank->state != WAITS_DEAD && rank->state != WAITS_LEFT &&
               rank->life < NXR_OBSERVE_LEAVING;
    case NXR_WAIT_TEAM:
        return is_member(record, rank->rank) && !waits_at(rank, NXR_WAIT_TEAM, record->team);
    default:
        return false;
    }
}

/* The rank that a thread waits for; -1: none in particular. */
static int target_of(const struct waits *waits, int i, const struct nxr_wait_record *record)
{
    const struct waits_rank *rank = &waits->ranks[i];

    if (record->peer >= 0) {
        return record->peer < rank->size ? waits_find(waits, rank->job, record->peer) : -1;
    }
    for (int j = 0; j < waits->n; j++) {
        if (j != i && waits->ranks[j].job == rank->job && is_missing(&waits->ranks[j], record)) {
            return j;
        }
    }
    return -1;
}

/* ---- clauses --------------------------------------------------------------------------------- */

/* A notification from the awaited rank that no call has wanted may be the one that was meant. */
static void add_instead(struct line *line, const struct waits_rank *rank,
                        const struct nxr_wait_record *record)
{
    uint32_t n = rank->notes.n_listed;

    for (uint32_t i = 0; record->kind == NXR_WAIT_NOTE && i < n && i < NXR_OBSERVE_N_NOTES; i++) {
        if (record->peer < 0 || rank->notes.listed[i].rank == record->peer) {
            line_add(line, " (queued unmatched: tag %" PRIu64 " from rank %d)",
                     rank->notes.listed[i].tag, rank->notes.listed[i].rank);
            return;
        }
    }
}

/* Of which job an attached process is, whose ranks are not looked at. */
static void add_attached(struct line *line, const struct waits_rank *rank, int number)
{
    for (int i = 0; i < rank->n_attached; i++) {
        const struct waits_attached *attached = &rank->attached[i];

        if (attached->number == number) {
            line_add(line, " (rank %d of job %08x, host %s)", attached->rank,
                     (unsigned)(attached->job >> 32), attached->host);
        }
    }
}

static void add_wait(struct line *line, const struct waits_rank *rank, int thread)
{
    char text[NXR_WAIT_TEXT_NBYTES];

    line_add(line, "%s", nxr_wait_text(&rank->threads[thread], rank->size, text));
    add_attached(line, rank, rank->threads[thread].peer);
    add_instead(line, rank, &rank->threads[thread]);
}

/* Does its first thread wait for a process of another job? */
static bool waits_for_attached(const struct waits_rank *rank)
{
    return rank->n_threads > 0 && rank->threads[0].peer >= rank->size;
}

/* Is anybody in the job, or attached to it, not known to wait? */
static bool can_anybody_act(const struct waits *waits, int except)
{
    uint64_t job = waits->ranks[except].job;

    for (int i = 0; i < waits->n; i++) {
        const struct waits_rank *rank = &waits->ranks[i];

        if (rank->job == job && !is_at_end(rank) &&
            (rank->n_attached > 0 || waits_for_attached(rank))) {
            return true;
        }
        if (i != except && rank->job == job &&
            (rank->state == WAITS_UNKNOWN || rank->state == WAITS_ABSENT ||
             (!is_at_end(rank) && rank->n_threads == 0))) {
            return true;
        }
    }
    return false;
}

/* Can nobody end a wait for any rank? Then say which ranks have died, or left. */
static void add_nobody(struct line *line, const struct waits *waits, int i)
{
    int n = 0;

    if (can_anybody_act(waits, i)) {
        return;
    }
    line_add(line, ", and no rank is left that could end this wait");
    for (int j = 0; j < waits->n && n < MOST_CLAUSES; j++) {
        const struct waits_rank *rank = &waits->ranks[j];

        if (rank->job == waits->ranks[i].job && is_at_end(rank)) {
            line_add(line, "%s rank %d %s", n++ == 0 ? ":" : ",", rank->rank,
                     rank->state == WAITS_STOPPED ? "is stopped"
                     : rank->state == WAITS_DEAD  ? "has died"
                                                  : "has left");
        }
    }
}

/* What keeps a rank that waits for none in particular. */
static void add_end(struct line *line, const struct waits *waits, int i)
{
    const struct waits_rank *rank = &waits->ranks[i];

    switch (rank->state) {
    case WAITS_ABSENT:
        line_add(line, "has not called nixl_init");
        return;
    case WAITS_STOPPED:
        line_add(line, "is stopped (by a signal or a debugger)");
        return;
    case WAITS_DEAD:
        line_add(line, "has died");
        return;
    case WAITS_LEFT:
        line_add(line, "has left the job by nixl_finalize");
        return;
    case WAITS_UNKNOWN:
        line_add(line, "has not told what it does");
        return;
    case WAITS_RUNS:
    case WAITS_SLEEPS:
        break;
    }
    if (rank->n_threads == 0 && rank->is_told) {
        line_add(line, WAITS_TOLD_TEXT);
        return;
    }
    if (rank->n_threads == 0) {
        line_add(line, "%s outside of nixlrun's calls",
                 rank->state == WAITS_RUNS ? "computes" : "sleeps");
        return;
    }
    add_wait(line, rank, 0);
    add_nobody(line, waits, i);
}

/* ---- sentences ------------------------------------------------------------------------------- */

/*
 * A collective waits for one member, which waits for the next in the same call: what matters is
 * the last.
 */
static int skip_team(const struct graph *graph, int i)
{
    const struct nxr_wait_record *wait = &graph->waits->ranks[i].threads[graph->by[i]];
    int j = graph->next[i];

    for (int n = 0; wait->kind == NXR_WAIT_TEAM && n < graph->waits->n; n++) {
        const struct nxr_wait_record *other;

        if (graph->next[j] < 0) {
            break;
        }
        other = &graph->waits->ranks[j].threads[graph->by[j]];
        if (other->kind != NXR_WAIT_TEAM || other->team != wait->team ||
            strcmp(other->call, wait->call) != 0 || graph->next[j] == i) {
            break;
        }
        j = graph->next[j];
    }
    return j;
}

/* The wait of a rank, after its name. What waits for all, or for a team, waits for the last one. */
static void add_link(struct line *line, const struct graph *graph, int i, int to)
{
    const struct waits_rank *rank = &graph->waits->ranks[i];

    if (to != graph->next[i] || rank->threads[graph->by[i]].peer < 0) {
        line_add(line, "waits in %s for rank %d", rank->threads[graph->by[i]].call,
                 graph->waits->ranks[to].rank);
    } else {
        add_wait(line, rank, graph->by[i]);
    }
}

/* Say the chain from a rank to where it ends, or around its circle. */
static void say_chain(struct graph *graph, int from, bool is_circle, int n_others)
{
    const struct waits *waits = graph->waits;
    struct line line = {.used = 0};
    int i = from, n = 0;

    line_add(&line, "rank %d ", waits->ranks[i].rank);
    while (graph->next[i] >= 0 && n < MOST_CLAUSES) {
        int to = skip_team(graph, i);

        add_link(&line, graph, i, to);
        n++;
        i = to;
        if (is_circle && i == from) {
            break;
        }
        line_add(&line, n < MOST_CLAUSES ? ", which " : ", and so on");
    }
    if (!is_circle && graph->next[i] < 0) {
        add_end(&line, waits, i);
    }
    if (n_others > 0) {
        line_add(&line, "; %d other rank%s wait%s for %s", n_others, n_others > 1 ? "s" : "",
                 n_others > 1 ? "" : "s", is_circle ? "these" : "the same");
    }
    graph->say(line.text);
    graph->n_said++;
}

/* ---- circles --------------------------------------------------------------------------------- */

/* Where a walk is at a rank: the thread whose wait is followed next. */
struct step {
    int rank, thread;
};

enum { NOT_SEEN, ON_PATH, SEEN };

/* The path from where the rank is on it to its end is a circle. */
static void graph_close(struct graph *graph, const struct step *path, int n, int to)
{
    int first = n - 1, lowest;

    while (path[first].rank != to) {
        first--;
    }
    lowest = path[first].rank;
    for (int i = first; i < n; i++) {
        if (graph->circle[path[i].rank] >= 0) {
            return; /* a circle that shares a rank is known */
        }
        lowest = path[i].rank < lowest ? path[i].rank : lowest;
    }
    for (int i = first; i < n; i++) {
        graph->next[path[i].rank] = i + 1 < n ? path[i + 1].rank : to;
        graph->by[path[i].rank] = path[i].thread - 1;
        graph->circle[path[i].rank] = lowest;
    }
}

/* Walk along all waits from that rank. */
static void graph_walk(struct graph *graph, struct step *path, int from)
{
    const struct waits *waits = graph->waits;
    int n = 1;

    path[0] = (struct step){from, 0};
    graph->is_visited[from] = ON_PATH;
    while (n > 0) {
        struct step *step = &path[n - 1];
        const struct waits_rank *rank = &waits->ranks[step->rank];
        int to;

        if (is_at_end(rank) || step->thread == rank->n_threads) {
            graph->is_visited[step->rank] = SEEN;
            n--;
            continue;
        }
        to = target_of(waits, step->rank, &rank->threads[step->thread++]);
        if (to < 0 || graph->is_visited[to] == SEEN) {
            continue;
        }
        if (graph->is_visited[to] == ON_PATH) {
            graph_close(graph, path, n, to);
            continue;
        }
        graph->is_visited[to] = ON_PATH;
        path[n++] = (struct step){to, 0};
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* The first wait for a certain rank of each rank that is in no circle. */
static void graph_aim(struct graph *graph)
{
    for (int i = 0; i < graph->waits->n; i++) {
        const struct waits_rank *rank = &graph->waits->ranks[i];

        for (int k = 0; graph->circle[i] < 0 && graph->next[i] < 0 && k < rank->n_threads; k++) {
            graph->next[i] = is_at_end(rank) ? -1 : target_of(graph->waits, i, &rank->threads[k]);
            graph->by[i] = k;
        }
    }
}

/* Where its waits end; in a circle at one of its ranks. */
static int end_of(const struct graph *graph, int i)
{
    for (int n = 0; graph->next[i] >= 0 && graph->circle[i] < 0 && n < graph->waits->n; n++) {
        i = graph->next[i];
    }
    return i;
}

/* Mark all whose waits end there; returns how many there are but these. */
static int mark_those_of(struct graph *graph, int end)
{
    int circle = graph->circle[end], n = 0;

    for (int i = 0; i < graph->waits->n; i++) {
        int at = end_of(graph, i);

        if (at == end || (circle >= 0 && graph->circle[at] == circle)) {
            graph->is_told[i] = 1;
            n += i != end && (circle < 0 || graph->circle[i] != circle);
        }
    }
    return n;
}

static void say_all_stopped(struct graph *graph)
{
    int n = graph->waits->n;
    struct line line = {.used = 0};

    for (int i = 0; i < n; i++) {
        if (graph->waits->ranks[i].state != WAITS_STOPPED) {
            return;
        }
    }
    if (n > 0) {
        line_add(&line, "all %d ranks are stopped (by signals or a debugger)", n);
        graph->say(line.text);
        graph->n_said++;
    }
}

/* Circles first, then what ends at a rank, then those for which nobody of the job is left. */
static void say_all(struct graph *graph)
{
    const struct waits *waits = graph->waits;

    for (int i = 0; i < waits->n; i++) {
        if (graph->circle[i] == i) {
            say_chain(graph, i, true, mark_those_of(graph, i));
        }
    }
    for (int i = 0; i < waits->n; i++) {
        int end = end_of(graph, i);

        if (!graph->is_told[i] && end != i) {
            say_chain(graph, i, false, mark_those_of(graph, end) - 1);
        }
    }
    for (int i = 0; i < waits->n; i++) {
        if (!graph->is_told[i] && !is_at_end(&waits->ranks[i]) && waits->ranks[i].n_threads > 0 &&
            (waits_for_attached(&waits->ranks[i]) || !can_anybody_act(waits, i))) {
            say_chain(graph, i, false, 0);
        }
    }
    say_all_stopped(graph);
}

int waits_explain(const struct waits *waits, waits_say_fn *say)
{
    size_t n = (size_t)waits->n + 1;
    struct graph graph = {.waits = waits,
                          .next = x_calloc(n, sizeof(int)),
                          .by = x_calloc(n, sizeof(int)),
                          .circle = x_calloc(n, sizeof(int)),
                          .is_told = x_calloc(n, 1),
                          .is_visited = x_calloc(n, 1),
                          .say = say};
    struct step *path = x_calloc(n, sizeof(*path));

    for (int i = 0; i < waits->n; i++) {
        graph.next[i] = graph.circle[i] = -1;
    }
    for (int i = 0; i < waits->n; i++) {
        if (graph.is_visited[i] == NOT_SEEN) {
            graph_walk(&graph, path, i);
        }
    }
    graph_aim(&graph);
    say_all(&graph);
    free(path);
    free(graph.next);
    free(graph.by);
    free(graph.circle);
    free(graph.is_told);
    free(graph.is_visited);
    return graph.n_said;
}
