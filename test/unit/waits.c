/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of waits: circles, what waits come down to, and reports of nixlrun-rank. */
#include "config.h"

#include "launcher/foreign.h"
#include "launcher/rank_waits.h"
#include "launcher/waits.h"

#include "test/unit/unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(waits, .timeout = 60);

#define JOB 7u

static char said[64 * 1024];
static int n_said;

static void hear(const char *line)
{
    size_t used = strlen(said);

    n_said++;
    snprintf(said + used, sizeof(said) - used, "%s\n", line);
}

/* n ranks that compute. */
static struct waits make(int n)
{
    struct waits waits = {.ranks = calloc((size_t)n, sizeof(struct waits_rank)), .n = n};

    for (int i = 0; i < n; i++) {
        waits.ranks[i] = (struct waits_rank){
            .job = JOB, .rank = i, .size = n, .state = WAITS_RUNS, .life = NXR_OBSERVE_RUNNING};
    }
    said[0] = '\0';
    n_said = 0;
    return waits;
}

static struct nxr_wait_record *add_thread(struct waits *waits, int rank, enum nxr_wait_kind kind,
                                          const char *call, int peer)
{
    struct waits_rank *at = &waits->ranks[rank];
    struct nxr_wait_record *record;

    at->threads = realloc(at->threads, ((size_t)at->n_threads + 1) * sizeof(*at->threads));
    record = &at->threads[at->n_threads++];
    *record = (struct nxr_wait_record){.kind = kind, .peer = peer};
    snprintf(record->call, sizeof(record->call), "%s", call);
    at->state = WAITS_SLEEPS;
    return record;
}

static void add_recv(struct waits *waits, int rank, int peer, uint64_t tag)
{
    struct nxr_wait_record *record =
        add_thread(waits, rank, NXR_WAIT_NOTE, "nixl_notify_recv", peer);

    record->values[0] = tag;
    record->values[1] = UINT64_MAX;
}

static void add_barrier(struct waits *waits, int rank, int peer)
{
    add_thread(waits, rank, NXR_WAIT_TEAM, "nixl_barrier", peer)->team = 1;
}

static void explain(struct waits *waits)
{
    cr_assert(eq(int, waits_explain(waits, hear), n_said));
    waits_free(waits);
}

Test(waits, nobody_waits)
{
    struct waits waits = make(3);

    explain(&waits);
    cr_expect(eq(int, n_said, 0));
    waits = make(1);
    waits.n = 0;
    explain(&waits);
    cr_expect(eq(int, n_said, 0));
}

Test(waits, a_circle_and_those_that_wait_for_it)
{
    struct waits waits = make(5);

    add_barrier(&waits, 0, 1);
    add_recv(&waits, 1, 2, 9);
    add_recv(&waits, 2, 0, 8);
    add_barrier(&waits, 3, 0);
    explain(&waits);
    cr_expect_str_eq(
        said, "rank 0 waits in nixl_barrier for rank 1, which waits in nixl_notify_recv for tag "
              "9 from rank 2, which waits in nixl_notify_recv for tag 8 from rank 0; 1 other "
              "rank waits for these\n");
}

/* Another job is not looked at, so nobody knows that its process will not act. */
Test(waits, a_process_of_another_job)
{
    struct waits waits = make(2);

    add_recv(&waits, 0, 2, 42);
    add_thread(&waits, 1, NXR_WAIT_NOTE, "nixl_notify_recv", -1);
    waits.ranks[0].attached = calloc(1, sizeof(struct waits_attached));
    waits.ranks[0].attached[0] = (struct waits_attached){
        .number = 2, .rank = 5, .job = UINT64_C(0xabcd) << 32, .host = "node7"};
    waits.ranks[0].n_attached = 1;
    explain(&waits);
    cr_expect_str_eq(said, "rank 0 waits in nixl_notify_recv for tag 42 from the attached process "
                           "2 (rank 5 of job 0000abcd, host node7)\n");
}

Test(waits, what_a_wait_comes_down_to)
{
    struct waits waits = make(5);

    add_barrier(&waits, 0, 2);
    add_barrier(&waits, 2, 3);
    add_barrier(&waits, 4, 3);
    waits.ranks[3].state = WAITS_STOPPED;
    explain(&waits);
    cr_expect_str_eq(said,
                     "rank 0 waits in nixl_barrier for rank 3, which is stopped (by a signal or a "
                     "debugger); 2 other ranks wait for the same\n");
}

Test(waits, all_are_stopped)
{
    struct waits waits = make(2);

    add_recv(&waits, 0, 1, 1);
    waits.ranks[0].state = waits.ranks[1].state = WAITS_STOPPED;
    explain(&waits);
    cr_expect_str_eq(said, "all 2 ranks are stopped (by signals or a debugger)\n");
}

Test(waits, a_wait_for_itself)
{
    struct waits waits = make(1);

    add_recv(&waits, 0, 0, 1);
    explain(&waits);
    cr_expect_str_eq(said, "rank 0 waits in nixl_notify_recv for tag 1 from rank 0\n");
}

Test(waits, several_threads_and_circles_that_share_a_rank)
{
    struct waits waits = make(4);

    add_recv(&waits, 0, 1, 1);
    add_recv(&waits, 0, 2, 2);
    add_recv(&waits, 1, 0, 3);
    add_recv(&waits, 2, 0, 4);
    add_recv(&waits, 3, 2, 5);
    explain(&waits);
    cr_expect(eq(int, n_said, 1), "%s", said);
}

Test(waits, an_event_is_explained_only_if_nobody_is_left)
{
    struct waits waits = make(3);

    add_thread(&waits, 0, NXR_WAIT_EVENT, "nixl_event_recv", -1);
    explain(&waits);
    cr_expect_str_eq(said, "");
    waits = make(3);
    add_thread(&waits, 0, NXR_WAIT_EVENT, "nixl_event_recv", -1);
    waits.ranks[1].state = WAITS_DEAD;
    waits.ranks[2].state = WAITS_LEFT;
    explain(&waits);
    cr_expect_str_eq(
        said, "rank 0 waits in nixl_event_recv for an event, and no rank is left that could end "
              "this wait: rank 1 has died, rank 2 has left\n");
}

Test(waits, many_ranks)
{
    enum { N = 3000 };
    struct waits waits = make(N);

    for (int i = 0; i < N; i++) {
        add_recv(&waits, i, (i + 1) % N, 1);
    }
    explain(&waits);
    cr_expect(eq(int, n_said, 1));
    cr_expect(ne(ptr, strstr(said, ", and so on"), NULL));
    waits = make(N);
    for (int i = 0; i < N - 1; i++) {
        add_recv(&waits, i, i + 1, 1);
        add_recv(&waits, i, i > 0 ? i - 1 : 0, 1);
    }
    explain(&waits);
    cr_expect(gt(int, n_said, 0));
}

/* ---- reports --------------------------------------------------------------------------------- */

static struct {
    int n;
    char digits[16][2 * RANK_WAITS_PART_MOST + 1];
} parts;

static void send(pid_t pid, int part, const void *bytes, size_t nbytes)
{
    cr_assert(eq(int, pid, getpid()));
    cr_assert(eq(int, part, parts.n));
    for (size_t i = 0; i < nbytes; i++) {
        snprintf(parts.digits[part] + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
    }
    parts.n++;
}

/* A page of this process. */
static struct nxr_observe_waits *make_page(int *fd_p)
{
    size_t nbytes = NXR_OBSERVE_PAGE + 16 * NXR_OBSERVE_PAGE;
    int fd = memfd_create(NXR_OBSERVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct nxr_observe_head *head;

    cr_assert(eq(int, ftruncate(fd, (off_t)nbytes), 0));
    cr_assert(eq(int, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0));
    head = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(ne(ptr, head, MAP_FAILED));
    head->magic = NXR_OBSERVE_MAGIC;
    head->version = NXR_OBSERVE_VERSION;
    head->pid = getpid();
    head->job = JOB;
    head->rank = 1;
    head->size = 3;
    head->life = NXR_OBSERVE_RUNNING;
    head->n_sections = 1;
    head->sections[0] = (struct nxr_observe_section){NXR_OBSERVE_WAITS, NXR_OBSERVE_WAITS_VERSION,
                                                     NXR_OBSERVE_PAGE, 16 * NXR_OBSERVE_PAGE};
    *fd_p = fd;
    return (struct nxr_observe_waits *)((char *)head + NXR_OBSERVE_PAGE);
}

static void fill_wait(struct nxr_observe_waits *page, int64_t since_ns)
{
    struct nxr_wait_record *record = &page->records[5];

    record->kind = NXR_WAIT_NOTE;
    record->peer = 2;
    record->since_ns = since_ns;
    record->values[0] = 42;
    record->values[1] = UINT64_MAX;
    record->members[3] = 17;
    strcpy(record->call, "nixl_notify_recv");
    record->is_used = 1;
    page->notes.n = page->notes.n_listed = 12;
    for (int i = 0; i < 12; i++) {
        page->notes.listed[i].tag = 100 + (uint64_t)i;
    }
    page->flights.n = page->flights.n_listed = 1;
    page->flights.listed[0].n = 3;
    page->listed_ns = nxr_now_ns();
}

Test(waits, long_waits_are_reported)
{
    static const struct launch_job job = {.np = 3};
    struct nxr_observe_waits *page;
    struct waits waits;
    int fd;

    page = make_page(&fd);
    rank_waits_look(getpid(), send);
    cr_expect(eq(int, parts.n, 3), "the rank is known, and waits for nothing");
    parts.n = 0;
    fill_wait(page, nxr_now_ns());
    rank_waits_look(getpid(), send);
    cr_expect(eq(int, parts.n, 0), "a short wait is not reported");
    fill_wait(page, nxr_now_ns() - 5 * NXR_S);
    rank_waits_look(getpid(), send);
    cr_assert(eq(int, parts.n, 4));
    rank_waits_look(getpid(), send);
    cr_expect(eq(int, parts.n, 4), "it is reported once");

    close(fd); /* of another host */
    foreign.job = &job;
    for (int i = 0; i < parts.n; i++) {
        foreign_waits_take(1, "far", i, parts.digits[i]);
    }
    waits = waits_read(getpid());
    for (int i = 0; i < waits.n; i++) {
        if (waits.ranks[i].job == JOB && waits.ranks[i].is_kept) {
            struct waits_rank *rank = &waits.ranks[i];

            cr_expect(eq(int, rank->rank, 1));
            cr_expect_str_eq(rank->host, "far");
            cr_assert(eq(int, rank->n_threads, 1));
            cr_expect(eq(u64, rank->threads[0].values[0], 42));
            cr_expect(eq(u64, rank->threads[0].members[3], 17));
            cr_expect(ge(long, waits.now_ns - rank->threads[0].since_ns, 4 * NXR_S));
            cr_expect(eq(u64, rank->notes.n, 12));
            cr_expect(eq(u32, rank->notes.n_listed, RANK_WAITS_LISTED));
            cr_expect(eq(u64, rank->notes.listed[7].tag, 107));
            cr_expect(eq(u64, rank->flights.n, 1));
        }
    }
    cr_assert(eq(int, waits.n, 3));
    cr_expect(eq(int, (int)waits.ranks[0].state, WAITS_UNKNOWN), "nothing was heard of it");
    cr_expect(eq(int, (int)waits.ranks[2].state, WAITS_UNKNOWN));
    waits_free(&waits);
    foreign_waits_ended(1);
    waits = waits_read(getpid());
    cr_assert(eq(int, waits.n, 3));
    cr_expect(eq(int, (int)waits.ranks[1].state, WAITS_DEAD));
    waits_free(&waits);
}

Test(waits, a_program_that_has_not_joined_is_reported)
{
    static const struct launch_job job = {.np = 2};
    struct nxr_observe_waits *page;
    struct nxr_observe_head *head;
    struct waits waits;
    int fd;

    setenv("PMIX_RANK", "0", 1);
    rank_waits_look(getpid(), send);
    rank_waits_look(getpid(), send);
    cr_assert(eq(int, parts.n, 1), "it is reported once");
    foreign.job = &job;
    foreign_waits_take(0, "far", 0, parts.digits[0]);

    page = make_page(&fd); /* another one waits for it */
    head = (struct nxr_observe_head *)((char *)page - NXR_OBSERVE_PAGE);
    head->life = NXR_OBSERVE_JOINING;
    head->mirrored = 'S';
    page->records[0].kind = NXR_WAIT_START;
    page->records[0].peer = -1;
    page->records[0].since_ns = nxr_now_ns();
    strcpy(page->records[0].call, "nixl_init");
    page->records[0].is_used = 1;
    waits = waits_read(getpid());
    cr_assert(eq(int, waits.n, 3));
    cr_expect(eq(u64, waits.ranks[0].job, JOB), "it belongs to the job of the others");
    cr_expect(eq(int, (int)waits.ranks[0].state, WAITS_ABSENT));
    waits_explain(&waits, hear);
    cr_expect_str_eq(said,
                     "rank 1 waits in nixl_init for rank 0, which has not called nixl_init\n");
    waits_free(&waits);
    close(fd);
}

Test(waits, of_a_rank_that_tells_of_no_wait_nothing_else_is_known)
{
    struct waits waits = make(2);

    add_recv(&waits, 0, 1, 42);
    waits.ranks[1].is_told = true;
    explain(&waits);
    cr_expect_str_eq(said,
                     "rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which is in no "
                     "wait of a second or more\n");
}

/* A process that left and has joined again has two pages, of which nixlrun keeps both. */
Test(waits, the_page_in_use_counts)
{
    struct nxr_observe_waits *first, *second;
    struct nxr_observe_head *left;
    struct waits waits;
    int fds[2];

    for (int turn = 0; turn < 2; turn++) {
        first = make_page(&fds[0]);
        second = make_page(&fds[1]);
        left = (struct nxr_observe_head *)((char *)(turn == 0 ? first : second) - NXR_OBSERVE_PAGE);
        left->life = NXR_OBSERVE_LEFT;
        waits = waits_read(getpid());
        cr_assert(eq(int, waits.n, 1));
        cr_expect(ne(int, (int)waits.ranks[0].state, WAITS_LEFT), "turn %d", turn);
        waits_free(&waits);
        close(fds[0]);
        close(fds[1]);
    }
}

Test(waits, hostile_reports)
{
    static const struct launch_job job = {.np = 2};
    static const char *const digits[] = {"", "0", "zz", "00", "ffffffff"};
    char many[4 * RANK_WAITS_PART_MOST];
    struct waits waits;

    memset(many, 'f', sizeof(many));
    foreign.job = &job;
    for (int part = -1; part < 20; part++) {
        for (size_t i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
            foreign_waits_take(0, "far", part, digits[i]);
        }
        for (size_t n = 0; n < sizeof(many); n++) {
            many[n] = '\0';
            foreign_waits_take(0, "far", part, many);
            many[n] = 'f';
        }
    }
    foreign_waits_ended(0);
    foreign_waits_ended(1);
    waits = waits_read(getpid());
    cr_expect(eq(int, waits.n, 0));
    waits_free(&waits);
}
