/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the waits of a job's ranks from their observation pages: those of living ranks, and those
 * that nixlrun keeps of ranks that have died, or have left (pages.h). No state.
 */
#include "config.h"

#include "launcher/waits.h"
#include "launcher/pages.h"
#include "launcher/processes.h"
#include "launcher/xalloc.h"
#include "util/clock.h"
#include "util/wait_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GUARDIAN_NAME "nixlrun-guard"
#define RANK_VARIABLE "PMIX_RANK"
#define MOST_DEPTH    64 /* generations between the guardian and a rank */
#define MOST_RANKS    (1 << 20)

/* ---- a rank ---------------------------------------------------------------------------------- */

static int compare_threads(const void *a, const void *b)
{
    const struct nxr_wait_record *first = a, *second = b;

    return (first->since_ns > second->since_ns) - (first->since_ns < second->since_ns);
}

static void take_threads(struct waits_rank *rank, const struct nxr_observe_waits *page)
{
    struct nxr_wait_record record;

    rank->threads = x_calloc(NXR_OBSERVE_N_WAITS, sizeof(*rank->threads));
    for (int i = 0; i < NXR_OBSERVE_N_WAITS; i++) {
        if (atomic_load(&page->records[i].is_used) != 0 &&
            nxr_observe_read(&record, &page->records[i], sizeof(record)) &&
            record.kind != NXR_WAIT_NONE) {
            rank->threads[rank->n_threads++] = nxr_wait_checked(&record);
        }
    }
    if (rank->n_threads > 1) {
        qsort(rank->threads, (size_t)rank->n_threads, sizeof(*rank->threads), compare_threads);
    }
}

/* What was listed before the waits began may have been taken meanwhile. */
static void take_lists(struct waits_rank *rank, const struct nxr_observe_waits *page)
{
    if (rank->n_threads == 0 || atomic_load(&page->listed_ns) < rank->threads[0].since_ns) {
        return;
    }
    if (!nxr_observe_read(&rank->notes, &page->notes, sizeof(rank->notes))) {
        rank->notes.n = rank->notes.n_listed = 0;
    }
    if (!nxr_observe_read(&rank->flights, &page->flights, sizeof(rank->flights))) {
        rank->flights.n = rank->flights.n_listed = 0;
    }
}

/* Texts of a page may lack an end, or hold anything. */
static void rank_take_attached(struct waits_rank *rank, const struct nxr_observe_page *page)
{
    const struct nxr_observe_attached *section =
        nxr_observe_find(page, NXR_OBSERVE_ATTACHED, NXR_OBSERVE_ATTACHED_VERSION,
                         sizeof(struct nxr_observe_attached));

    for (int i = 0; section != NULL && i < NXR_OBSERVE_N_ATTACHED; i++) {
        struct nxr_attached_record record;
        struct waits_attached *to;

        if (!nxr_observe_read(&record, &section->records[i], sizeof(record)) ||
            record.is_used == 0) {
            continue;
        }
        rank->attached =
            x_array(rank->attached, (size_t)rank->n_attached + 1, sizeof(*rank->attached));
        to = &rank->attached[rank->n_attached++];
        *to = (struct waits_attached){
            .number = record.number, .rank = record.rank, .job = record.job};
        for (size_t k = 0; k + 1 < sizeof(to->host) && record.host[k] != '\0'; k++) {
            to->host[k] =
                (char)(record.host[k] > ' ' && record.host[k] <= '~' ? record.host[k] : '?');
        }
    }
}

void waits_add(struct waits *waits, const struct nxr_observe_page *page, pid_t pid,
               enum waits_state state)
{
    const struct nxr_observe_head *head = page->head;
    const struct nxr_observe_waits *section = nxr_observe_find(
        page, NXR_OBSERVE_WAITS, NXR_OBSERVE_WAITS_VERSION, sizeof(struct nxr_observe_waits));
    struct waits_rank rank = {.job = head->job,
                              .rank = head->rank,
                              .size = head->size,
                              .incarnation = head->incarnation,
                              .began_ns = head->began_ns,
                              .pid = pid,
                              .state = state,
                              .life = atomic_load(&head->life)};

    memcpy(rank.host, head->host, sizeof(rank.host) - 1);
    if (rank.life == NXR_OBSERVE_LEFT ||
        (state == WAITS_DEAD && rank.life == NXR_OBSERVE_LEAVING)) {
        rank.state = WAITS_LEFT;
    }
    if (section != NULL &&
        (rank.state == WAITS_RUNS || rank.state == WAITS_SLEEPS || rank.state == WAITS_STOPPED)) {
        rank.n_unrecorded = atomic_load(&section->n_unrecorded);
        take_threads(&rank, section);
        take_lists(&rank, section);
        rank_take_attached(&rank, page);
    }
    waits->ranks = x_array(waits->ranks, (size_t)waits->n + 1, sizeof(*waits->ranks));
    waits->ranks[waits->n++] = rank;
}

/* ---- the job --------------------------------------------------------------------------------- */

static int compare_ranks(const void *a, const void *b)
{
    const struct waits_rank *first = a, *second = b;

    if (first->job != second->job) {
        return first->job < second->job ? -1 : 1;
    }
    if (first->rank != second->rank) {
        return first->rank < second->rank ? -1 : 1;
    }
    if (first->incarnation != second->incarnation) {
        return first->incarnation > second->incarnation ? -1 : 1; /* the last one first */
    }
    if ((first->state == WAITS_LEFT) != (second->state == WAITS_LEFT)) {
        return first->state == WAITS_LEFT ? 1 : -1; /* a process may join again */
    }
    if (first->began_ns != second->began_ns) {
        return first->began_ns > second->began_ns ? -1 : 1;
    }
    return first->is_kept - second->is_kept;
}

void waits_sort(struct waits *waits)
{
    int n = 0;

    if (waits->n > 1) {
        qsort(waits->ranks, (size_t)waits->n, sizeof(*waits->ranks), compare_ranks);
    }
    for (int i = 0; i < waits->n; i++) {
        struct waits_rank *rank = &waits->ranks[i];

        if (n > 0 && waits->ranks[n - 1].job == rank->job &&
            waits->ranks[n - 1].rank == rank->rank) {
            free(rank->threads);
            free(rank->attached);
        } else {
            waits->ranks[n++] = *rank;
        }
    }
    waits->n = n;
}

int waits_find(const struct waits *waits, uint64_t job, int rank)
{
    int low = 0, high = waits->n;

    while (low < high) {
        int middle = low + (high - low) / 2;
        const struct waits_rank *at = &waits->ranks[middle];

        if (at->job == job && at->rank == rank) {
            return middle;
        }
        if (at->job < job || (at->job == job && at->rank < rank)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return -1;
}

enum waits_state waits_state_of(char letter)
{
    switch (letter) {
    case 'R':
        return WAITS_RUNS;
    case 'T':
    case 't':
        return WAITS_STOPPED;
    case 'Z':
    case 'X':
        return WAITS_DEAD;
    case WAITS_LETTER_ABSENT:
        return WAITS_ABSENT;
    default:
        return WAITS_SLEEPS;
    }
}

static const struct process *process_at(const struct processes *processes, pid_t pid)
{
    size_t low = 0, high = processes->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (processes->all[middle].pid == pid) {
            return &processes->all[middle];
        }
        if (processes->all[middle].pid < pid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* Does the process stem from the guardian of that nixlrun? */
static bool is_started_by(const struct processes *processes, const struct process *process,
                          pid_t nixlrun)
{
    for (int i = 0; process != NULL && i < MOST_DEPTH; i++) {
        if (process->parent == nixlrun) {
            return strcmp(process->name, GUARDIAN_NAME) == 0 && i > 0;
        }
        process = process_at(processes, process->parent);
    }
    return false;
}

/* A rank that the guardian has started, and that may have called nothing yet. */
static void add_absent(struct waits *waits, const struct processes *processes,
                       const struct process *process, pid_t nixlrun, uint64_t job)
{
    const struct process *parent = process_at(processes, process->parent);
    char *text, *end;
    long rank;

    if (parent == NULL || parent->parent != nixlrun || strcmp(parent->name, GUARDIAN_NAME) != 0) {
        return;
    }
    text = process_variable(process, RANK_VARIABLE);
    rank = text != NULL ? strtol(text, &end, 10) : -1;
    if (rank >= 0 && rank < INT32_MAX && *end == '\0') {
        waits->ranks = x_array(waits->ranks, (size_t)waits->n + 1, sizeof(*waits->ranks));
        waits->ranks[waits->n++] = (struct waits_rank){
            .job = job, .rank = (int)rank, .pid = process->pid, .state = WAITS_ABSENT};
    }
    free(text);
}

/* Does a page tell of the rank that this process, or one that it has started, is? */
static bool has_page(const struct waits *waits, const struct processes *processes,
                     const struct process *process)
{
    for (int i = 0; i < waits->n; i++) {
        const struct process *at = process_at(processes, waits->ranks[i].pid);

        for (int k = 0; at != NULL && k < MOST_DEPTH; k++) {
            if (at == process) {
                return true;
            }
            at = process_at(processes, at->parent);
        }
    }
    return false;
}

/* The state of the process of a page that nixlrun has: it may have closed its own descriptor. */
static enum waits_state state_of_kept(const struct nxr_observe_head *head,
                                      const struct process *process)
{
    if (head->mirrored != 0) {
        return waits_state_of((char)head->mirrored);
    }
    return process != NULL ? waits_state_of(process->state) : WAITS_DEAD;
}

/* The process of a page, if this nixlrun has started it; NULL: it is gone, or on another host. */
static const struct process *process_of(const struct nxr_observe_head *head,
                                        const struct processes *processes, pid_t nixlrun)
{
    const struct process *process = head->mirrored == 0 ? process_at(processes, head->pid) : NULL;

    return process != NULL && is_started_by(processes, process, nixlrun) ? process : NULL;
}

/* All pages that nixlrun has. Marks the processes of which one is in use. */
static void add_kept(struct waits *waits, const struct processes *processes, pid_t nixlrun,
                     bool *is_known)
{
    struct pages pages = pages_of(nixlrun);

    while (pages_next(&pages)) {
        const struct nxr_observe_head *head = pages.page.head;
        const struct process *process = process_of(head, processes, nixlrun);

        waits_add(waits, &pages.page, head->pid, state_of_kept(head, process));
        waits->ranks[waits->n - 1].is_kept = true;
        waits->ranks[waits->n - 1].is_told = head->mirrored != 0;
        if (process != NULL && waits->ranks[waits->n - 1].state != WAITS_LEFT) {
            is_known[process - processes->all] = true;
        }
    }
    pages_end(&pages);
}

/*
 * The pages of processes of which nixlrun has none. Looking for them among a process's descriptors
 * takes most of the time, so it is done for few.
 */
static void add_living(struct waits *waits, const struct processes *processes, pid_t nixlrun,
                       const bool *is_known)
{
    for (size_t i = 0; i < processes->n; i++) {
        const struct process *process = &processes->all[i];
        struct nxr_observe_page page;
        int fd = -1;

        if (!is_known[i] && process->state != 'Z' && is_started_by(processes, process, nixlrun)) {
            fd = pages_open_own(process->pid);
        }
        if (fd >= 0 && nxr_observe_map(fd, &page)) {
            waits_add(waits, &page, process->pid, waits_state_of(process->state));
            nxr_observe_unmap(&page);
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

static void add_all_absent(struct waits *waits, const struct processes *processes, pid_t nixlrun)
{
    uint64_t job = waits->n > 0 ? waits->ranks[0].job : 0;
    const struct waits with_pages = *waits;

    for (size_t i = 0; i < processes->n; i++) {
        if (processes->all[i].state != 'Z' &&
            !has_page(&with_pages, processes, &processes->all[i])) {
            add_absent(waits, processes, &processes->all[i], nixlrun, job);
        }
    }
}

/* ---- ranks of other hosts -------------------------------------------------------------------- */

/* The report of a rank that has no page yet lacks its job: take it from the other ranks. */
static void name_job(struct waits *waits)
{
    uint64_t job = 0;

    for (int i = 0; i < waits->n; i++) {
        job = waits->ranks[i].job != 0 ? waits->ranks[i].job : job;
    }
    for (int i = 0; i < waits->n; i++) {
        if (waits->ranks[i].job == 0) {
            waits->ranks[i].job = job;
        }
    }
}

/* Of which no nixlrun-rank has told so far: those that are missing in the job of the first rank. */
static void add_unknown(struct waits *waits)
{
    const struct waits_rank first = waits->n > 0 ? waits->ranks[0] : (struct waits_rank){0};
    int n = waits->n, size = 0;
    bool is_told = false;

    for (int i = 0; i < n && waits->ranks[i].job == first.job; i++) {
        size = waits->ranks[i].size > size ? waits->ranks[i].size : size;
        is_told |= waits->ranks[i].is_told;
    }
    if (!is_told || size > MOST_RANKS) {
        return;
    }
    for (int rank = 0, i = 0; rank < size; rank++) {
        if (i < n && waits->ranks[i].job == first.job && waits->ranks[i].rank == rank) {
            i++;
            continue;
        }
        waits->ranks = x_array(waits->ranks, (size_t)waits->n + 1, sizeof(*waits->ranks));
        waits->ranks[waits->n++] = (struct waits_rank){
            .job = first.job, .rank = rank, .size = size, .state = WAITS_UNKNOWN};
    }
    waits_sort(waits);
}

struct waits waits_of(pid_t nixlrun, const struct processes *processes)
{
    struct waits waits = {.now_ns = nxr_now_ns()};
    bool *is_known = x_calloc(processes->n + 1, sizeof(*is_known));

    add_kept(&waits, processes, nixlrun, is_known);
    add_living(&waits, processes, nixlrun, is_known);
    free(is_known);
    add_all_absent(&waits, processes, nixlrun);
    name_job(&waits);
    waits_sort(&waits);
    add_unknown(&waits);
    return waits;
}

struct waits waits_read(pid_t nixlrun)
{
    struct processes processes = processes_read();
    struct waits waits = waits_of(nixlrun, &processes);

    processes_free(&processes);
    return waits;
}

void waits_free(struct waits *waits)
{
    for (int i = 0; i < waits->n; i++) {
        free(waits->ranks[i].threads);
        free(waits->ranks[i].attached);
    }
    free(waits->ranks);
    *waits = (struct waits){.ranks = NULL};
}
