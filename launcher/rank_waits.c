/* SPDX-License-Identifier: Apache-2.0 */
/* Sending the long waits of a rank: see rank_waits.h. One thread; the state is what was sent. */
#include "config.h"

#include "launcher/rank_waits.h"
#include "launcher/processes.h"
#include "launcher/pages.h"
#include "launcher/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    int fd;    /* of the page; 0: not found yet */
    pid_t pid; /* its process */
    bool is_sent, is_stopped, is_absent;
    uint32_t life;
    int n_threads;
    int64_t began_ns;
    int64_t since_ns[RANK_WAITS_THREADS];
    uint64_t seen[RANK_WAITS_THREADS]; /* words have values that change during a wait */
    int n_searches;
} told;

/* The program may be a shell that has started the rank: look at all that stems from it. */
static void find_page(pid_t pid)
{
    struct processes processes;

    told.fd = pages_open_own(pid);
    told.pid = pid;
    if (told.fd <= 0 && told.n_searches++ < 60) {
        processes = processes_read();
        for (size_t i = 0; told.fd <= 0 && i < processes.n; i++) {
            const struct process *process = &processes.all[i];

            if (process->parent == pid && process->state != 'Z') {
                told.fd = pages_open_own(process->pid);
                told.pid = process->pid;
            }
        }
        processes_free(&processes);
    }
    told.fd = told.fd > 0 ? told.fd : 0;
}

/* The first threads that have waited for long. */
static int count_long(const struct waits *waits, const struct waits_rank *rank)
{
    int n = 0;

    while (n < rank->n_threads && n < RANK_WAITS_THREADS &&
           waits->now_ns - rank->threads[n].since_ns >= RANK_WAITS_LONG_NS) {
        n++;
    }
    return n;
}

/* Has it changed since it was sent? Remembers it. */
static bool is_news(const struct waits_rank *rank, int n)
{
    bool is_stopped = rank->state == WAITS_STOPPED;
    bool is_news = !told.is_sent || told.n_threads != n || told.is_stopped != is_stopped ||
                   told.life != rank->life;

    for (int i = 0; i < n; i++) {
        is_news |= told.since_ns[i] != rank->threads[i].since_ns ||
                   told.seen[i] != rank->threads[i].values[NXR_WAIT_SIGNAL_SEEN];
        told.since_ns[i] = rank->threads[i].since_ns;
        told.seen[i] = rank->threads[i].values[NXR_WAIT_SIGNAL_SEEN];
    }
    told.is_sent = true;
    told.n_threads = n;
    told.is_stopped = is_stopped;
    told.life = rank->life;
    return is_news;
}

static char letter_of(const struct waits_rank *rank)
{
    return rank->state == WAITS_STOPPED ? 'T' : rank->state == WAITS_RUNS ? 'R' : 'S';
}

static void send_all(const struct waits *waits, struct waits_rank *rank, int n,
                     rank_waits_send_fn *send)
{
    const struct rank_waits_head head = {.job = rank->job,
                                         .rank = rank->rank,
                                         .size = rank->size,
                                         .pid = (int32_t)rank->pid,
                                         .incarnation = rank->incarnation,
                                         .life = rank->life,
                                         .n_threads = (uint32_t)n,
                                         .state = (uint32_t)letter_of(rank),
                                         .began_ns = told.began_ns};

    send(told.pid, 0, &head, sizeof(head));
    for (int i = 0; i < n; i++) {
        rank->threads[i].since_ns = waits->now_ns - rank->threads[i].since_ns;
        send(told.pid, i + 1, &rank->threads[i], RANK_WAITS_RECORD_NBYTES);
    }
    rank->notes.n_listed =
        rank->notes.n_listed < RANK_WAITS_LISTED ? rank->notes.n_listed : RANK_WAITS_LISTED;
    rank->flights.n_listed =
        rank->flights.n_listed < RANK_WAITS_LISTED ? rank->flights.n_listed : RANK_WAITS_LISTED;
    send(told.pid, n + 1, &rank->notes, RANK_WAITS_NOTES_NBYTES);
    send(told.pid, n + 2, &rank->flights, RANK_WAITS_FLIGHTS_NBYTES);
}

bool rank_waits_is_kept(int fd)
{
    struct stat first, second;

    return told.fd > 0 && fstat(told.fd, &first) == 0 && fstat(fd, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void rank_waits_keep(int fd)
{
    struct nxr_observe_page page;

    if (fd >= 0 && nxr_observe_map(fd, &page)) {
        if (told.fd > 0) {
            close(told.fd);
        }
        told.fd = fd;
        told.pid = page.head->pid;
        told.is_sent = false;
        nxr_observe_unmap(&page);
    } else if (fd >= 0) {
        close(fd);
    }
}

int rank_waits_page(void)
{
    return told.is_sent ? told.fd : 0;
}

void rank_waits_end(rank_waits_send_fn *send)
{
    struct waits waits = {.now_ns = nxr_now_ns()};
    struct nxr_observe_page page;
    int n;

    if (told.fd <= 0 || !nxr_observe_map(told.fd, &page)) {
        return;
    }
    waits_add(&waits, &page, told.pid, WAITS_SLEEPS);
    told.began_ns = page.head->began_ns;
    nxr_observe_unmap(&page);
    n = waits.ranks[0].n_threads;
    n = n < RANK_WAITS_THREADS ? n : RANK_WAITS_THREADS;
    send_all(&waits, &waits.ranks[0], n, send);
    told.is_sent = true;
    waits_free(&waits);
}

/* It has not called nixl_init(), or is not to call it. */
static void tell_absent(pid_t pid, rank_waits_send_fn *send)
{
    const char *text = getenv("PMIX_RANK");
    int rank = text != NULL ? atoi(text) : 0;
    const struct rank_waits_head head = {
        .rank = rank, .size = rank + 1, .pid = (int32_t)pid, .state = WAITS_LETTER_ABSENT};

    if (!told.is_absent) {
        told.is_absent = true;
        send(pid, 0, &head, sizeof(head));
    }
}

void rank_waits_look(pid_t pid, rank_waits_send_fn *send)
{
    struct waits waits = {.now_ns = nxr_now_ns()};
    struct nxr_observe_page page;
    char letter;

    if (told.fd == 0) {
        find_page(pid);
    }
    if (told.fd == 0) {
        tell_absent(pid, send);
        return;
    }
    letter = process_letter(told.pid);
    if (letter == '?' || !nxr_observe_map(told.fd, &page)) {
        return;
    }
    waits_add(&waits, &page, told.pid, waits_state_of(letter));
    told.began_ns = page.head->began_ns;
    nxr_observe_unmap(&page);
    if (is_news(&waits.ranks[0], count_long(&waits, &waits.ranks[0]))) {
        send_all(&waits, &waits.ranks[0], told.n_threads, send);
    }
    waits_free(&waits);
}
