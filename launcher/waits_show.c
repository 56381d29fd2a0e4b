/* SPDX-License-Identifier: Apache-2.0 */
/* Printing who waits for whom. No state. */
#include "config.h"

#include "launcher/waits.h"
#include "util/clock.h"
#include "util/wait_text.h"

#include <inttypes.h>
#include <stdio.h>

#define LINE_NBYTES 1400

static const char *state_text(const struct waits_rank *rank)
{
    if (rank->is_told && (rank->state == WAITS_RUNS || rank->state == WAITS_SLEEPS)) {
        return WAITS_TOLD_TEXT;
    }
    switch (rank->state) {
    case WAITS_ABSENT:
        return "has not called nixl_init";
    case WAITS_RUNS:
        return "computes, outside of nixlrun's calls";
    case WAITS_SLEEPS:
        return "sleeps, outside of nixlrun's calls";
    case WAITS_STOPPED:
        return "is stopped, outside of nixlrun's calls";
    case WAITS_LEFT:
        return "has called nixl_finalize";
    case WAITS_DEAD:
        return "has died";
    case WAITS_UNKNOWN:
        break;
    }
    return "has not told what it does";
}

/* "rank 3 (pid 1234)". */
static int name_rank(const struct waits_rank *rank, char *text, size_t nbytes)
{
    return rank->pid > 0 ? snprintf(text, nbytes, "rank %d (pid %d)", rank->rank, (int)rank->pid)
                         : snprintf(text, nbytes, "rank %d", rank->rank);
}

/* A time from a page may be any number. */
static double seconds_since(const struct waits *waits, int64_t since_ns)
{
    return since_ns > 0 && since_ns < waits->now_ns
               ? (double)(waits->now_ns - since_ns) / (double)NXR_S
               : 0;
}

static void show_thread(const struct waits *waits, const struct waits_rank *rank, int i,
                        waits_say_fn *say)
{
    const struct nxr_wait_record *wait = &rank->threads[i];
    char line[LINE_NBYTES], name[64], text[NXR_WAIT_TEXT_NBYTES], thread[48] = "";

    name_rank(rank, name, sizeof(name));
    if (rank->n_threads > 1) {
        snprintf(thread, sizeof(thread), ", thread %d", wait->tid);
    }
    snprintf(line, sizeof(line), "  %s%s: %s%s, for %.1f s", name, thread,
             rank->state == WAITS_STOPPED ? "is stopped; " : "",
             nxr_wait_text(wait, rank->size, text), seconds_since(waits, wait->since_ns));
    say(line);
}

static void show_lists(const struct waits_rank *rank, waits_say_fn *say)
{
    char line[LINE_NBYTES], text[NXR_WAIT_TEXT_NBYTES];

    if (rank->notes.n > 0) {
        snprintf(line, sizeof(line), "    queued unmatched: %s",
                 nxr_wait_notes_text(&rank->notes, rank->size, text));
        say(line);
    }
    if (rank->flights.n > 0) {
        snprintf(line, sizeof(line), "    operations under way: %s",
                 nxr_wait_flights_text(&rank->flights, rank->size, text));
        say(line);
    }
    if (rank->n_unrecorded > 0) {
        snprintf(line, sizeof(line), "    and %" PRIu32 " more threads that wait",
                 rank->n_unrecorded);
        say(line);
    }
}

void waits_show(const struct waits *waits, waits_say_fn *say)
{
    char line[LINE_NBYTES];

    for (int i = 0; i < waits->n; i++) {
        const struct waits_rank *rank = &waits->ranks[i];

        if (i > 0 && rank->job != waits->ranks[i - 1].job) {
            say("another job of the same nixlrun:");
        }
        if (rank->n_threads == 0) {
            int n = snprintf(line, sizeof(line), "  ");

            n += name_rank(rank, line + n, sizeof(line) - (size_t)n);
            snprintf(line + n, sizeof(line) - (size_t)n, ": %s", state_text(rank));
            say(line);
        }
        for (int k = 0; k < rank->n_threads; k++) {
            show_thread(waits, rank, k, say);
        }
        show_lists(rank, say);
    }
    waits_explain(waits, say);
}
