/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the counters of a job from the pages that its nixlrun keeps of all processes that have
 * met the others (pages.h). No state.
 */
#include "config.h"

#include "launcher/stats.h"
#include "launcher/pages.h"
#include "launcher/xalloc.h"
#include "util/clock.h"
#include "util/observe.h"
#include "util/wait_text.h"

#include <stdlib.h>
#include <string.h>

/* "nixl_barrier_x" counts as "barrier". */
static void stats_name_collective(const char *call, char name[NXR_STATS_NAME])
{
    static const char prefix[] = "nixl_";
    size_t nbytes;

    call += strncmp(call, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    nbytes = (size_t)snprintf(name, NXR_STATS_NAME, "%s", call);
    if (nbytes > 2 && strcmp(name + nbytes - 2, "_x") == 0) {
        name[nbytes - 2] = '\0';
    }
}

/* A record has less of a long name than the counters, which know it. */
static void stats_name_channel(const struct stats_rank *rank, uint32_t op, const char *object,
                               char name[NXR_STATS_NAME])
{
    size_t nbytes = strlen(object);

    snprintf(name, NXR_STATS_NAME, "%s", object);
    if (nbytes + 1 < sizeof(((struct nxr_wait_record *)NULL)->object)) {
        return;
    }
    for (size_t i = 0; i < rank->reading.n_sums; i++) {
        if (rank->reading.sums[i].op == op &&
            strncmp(rank->reading.sums[i].name, object, nbytes) == 0) {
            memcpy(name, rank->reading.sums[i].name, NXR_STATS_NAME);
            return;
        }
    }
}

/* Keep it, if the wait is one in something that has a name. */
static void stats_take_wait(struct stats_rank *rank, const struct nxr_wait_record *record,
                            uint64_t ns)
{
    struct stats_waiting wait = {.ns = ns, .peer = -1};

    if (record->kind == NXR_WAIT_TEAM) {
        wait.op = NXR_STATS_COLLECTIVE;
        wait.n_members = (uint32_t)record->n_members;
        stats_name_collective(record->call, wait.name);
    } else if (record->kind == NXR_WAIT_CHANNEL_ROOM || record->kind == NXR_WAIT_CHANNEL_ITEM) {
        wait.op = record->kind == NXR_WAIT_CHANNEL_ROOM ? NXR_STATS_CHANNEL_SEND
                                                        : NXR_STATS_CHANNEL_RECEIVE;
        wait.peer = record->peer;
        stats_name_channel(rank, wait.op, record->object, wait.name);
    } else {
        return;
    }
    rank->waiting = x_array(rank->waiting, rank->n_waiting + 1, sizeof(*rank->waiting));
    rank->waiting[rank->n_waiting++] = wait;
}

/*
 * Add how long its threads have slept in waits that have not ended, which its counters lack: a rank
 * that hangs would seem to wait for nothing.
 */
static void stats_take_waits(struct stats_rank *rank, const struct nxr_observe_page *page,
                             int64_t now_ns, bool only_totals)
{
    const struct nxr_observe_waits *section = nxr_observe_find(
        page, NXR_OBSERVE_WAITS, NXR_OBSERVE_WAITS_VERSION, sizeof(struct nxr_observe_waits));
    struct nxr_wait_record record;

    for (int i = 0; section != NULL && i < NXR_OBSERVE_N_WAITS; i++) {
        if (atomic_load(&section->records[i].is_used) != 0 &&
            nxr_observe_read(&record, &section->records[i], sizeof(record)) &&
            record.kind != NXR_WAIT_NONE && record.since_ns > 0 && record.since_ns < now_ns) {
            uint64_t ns = (uint64_t)(now_ns - record.since_ns);

            rank->totals.waited_ns += ns;
            if (!only_totals) {
                record = nxr_wait_checked(&record);
                stats_take_wait(rank, &record, ns);
            }
        }
    }
}

static void stats_rank_free(struct stats_rank *rank)
{
    nxr_stats_reading_free(&rank->reading);
    free(rank->waiting);
    rank->waiting = NULL;
    rank->n_waiting = 0;
}

/* Add the rank that a page is of. */
static void stats_take(struct stats_job *job, const struct nxr_observe_page *page, bool only_totals)
{
    const struct nxr_observe_head *head = page->head;
    const struct nxr_stats_head *section =
        nxr_observe_find(page, NXR_OBSERVE_STATS, NXR_STATS_VERSION, sizeof(struct nxr_stats_head));
    struct stats_rank rank = {.job = head->job,
                              .rank = head->rank,
                              .size = head->size,
                              .incarnation = head->incarnation,
                              .pid = head->pid,
                              .began_ns = head->began_ns,
                              .life = atomic_load_explicit(&head->life, memory_order_acquire),
                              .letter = (char)head->mirrored};
    size_t nbytes;

    if (section == NULL) {
        return;
    }
    nbytes = page->nbytes - (size_t)((const char *)section - (const char *)head);
    memcpy(rank.host, head->host, sizeof(rank.host) - 1);
    if (!nxr_stats_read_totals(section, nbytes, &rank.totals) ||
        (!only_totals && !nxr_stats_read(section, nbytes, &rank.reading))) {
        return;
    }
    if (stats_is_alive(&rank)) {
        stats_take_waits(&rank, page, job->read_ns, only_totals);
    }
    job->ranks = x_array(job->ranks, job->n + 1, sizeof(*job->ranks));
    job->ranks[job->n++] = rank;
}

static int stats_compare_incarnations(const struct stats_rank *first,
                                      const struct stats_rank *second)
{

    if (first->job != second->job) {
        return first->job < second->job ? -1 : 1;
    }
    if (first->rank != second->rank) {
        return first->rank < second->rank ? -1 : 1;
    }
    return (first->incarnation > second->incarnation) - (first->incarnation < second->incarnation);
}

static int stats_compare_ranks(const void *a, const void *b)
{
    const struct stats_rank *first = a, *second = b;
    int order = stats_compare_incarnations(first, second);

    return order != 0 ? order
                      : (first->began_ns > second->began_ns) - (first->began_ns < second->began_ns);
}

static bool stats_is_same(const struct stats_rank *a, const struct stats_rank *b, bool only_last)
{
    return only_last ? a->job == b->job && a->rank == b->rank
                     : stats_compare_ranks(a, b) == 0 && a->pid == b->pid;
}

/*
 * A page may be there twice, for nixlrun and its children share descriptors for a moment. Of a rank
 * that was started again all processes are there, or only the last one is wanted.
 */
static void stats_drop_doubles(struct stats_job *job, bool only_last)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++) {
        if (n > 0 && stats_is_same(&job->ranks[n - 1], &job->ranks[i], only_last)) {
            stats_rank_free(&job->ranks[--n]);
        }
        job->ranks[n++] = job->ranks[i];
    }
    job->n = n;
}

struct stats_job stats_job_read(pid_t nixlrun, bool only_totals)
{
    struct stats_job job = {.ranks = NULL, .read_ns = nxr_now_ns()};
    struct pages pages = pages_of(nixlrun);

    while (pages_next(&pages)) {
        stats_take(&job, &pages.page, only_totals);
    }
    pages_end(&pages);
    if (job.n > 1) {
        qsort(job.ranks, job.n, sizeof(*job.ranks), stats_compare_ranks);
        stats_drop_doubles(&job, only_totals);
    }
    return job;
}

void stats_job_merge(struct stats_job *job)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++) {
        if (n > 0 && stats_compare_incarnations(&job->ranks[n - 1], &job->ranks[i]) == 0) {
            /* Without memory the former counters are left out. */
            (void)nxr_stats_reading_add(&job->ranks[i].reading, &job->ranks[n - 1].reading);
            stats_rank_free(&job->ranks[--n]);
        }
        job->ranks[n++] = job->ranks[i];
    }
    job->n = n;
}

void stats_job_free(struct stats_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        stats_rank_free(&job->ranks[i]);
    }
    free(job->ranks);
    job->ranks = NULL;
    job->n = 0;
}
