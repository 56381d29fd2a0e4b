/* SPDX-License-Identifier: Apache-2.0 */
/* The observation page: what others read of it, what they refuse, and records of waits. */
#include "config.h"

#include "core/job.h"
#include "core/observe.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(observe, .timeout = 60);

/* The descriptor of this process's page; -1: it has none. */
static int find_fd(void)
{
    DIR *fds = opendir("/proc/self/fd");
    const struct dirent *entry;
    int fd = -1;

    cr_assert(ne(ptr, fds, NULL));
    while ((entry = readdir(fds)) != NULL) {
        char target[64] = "";

        if (readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1) > 0 &&
            strncmp(target, "/memfd:" NXR_OBSERVE_NAME, strlen("/memfd:" NXR_OBSERVE_NAME)) == 0) {
            fd = atoi(entry->d_name);
        }
    }
    closedir(fds);
    return fd;
}

static void begin(void)
{
    nxr_job.rank = 2;
    nxr_job.size = 5;
    nxr_job.self.job = 77;
    nxr_job.self.incarnation = 3;
    strcpy(nxr_job.card.head.host, "here");
    cr_assert(eq(int, nxr_observe_open(), NIXL_OK));
}

static struct nxr_observe_page map(void)
{
    struct nxr_observe_page page = {NULL, 0};

    cr_assert(nxr_observe_map(find_fd(), &page));
    return page;
}

static const struct nxr_observe_waits *waits_of(const struct nxr_observe_page *page)
{
    return nxr_observe_find(page, NXR_OBSERVE_WAITS, NXR_OBSERVE_WAITS_VERSION,
                            sizeof(struct nxr_observe_waits));
}

Test(observe, head)
{
    struct nxr_observe_page page;

    begin();
    nxr_observe_set_life(NXR_OBSERVE_RUNNING);
    page = map();
    cr_expect(eq(int, page.head->rank, 2));
    cr_expect(eq(int, page.head->size, 5));
    cr_expect(eq(u64, page.head->job, 77));
    cr_expect(eq(u32, page.head->incarnation, 3));
    cr_expect(eq(int, page.head->pid, getpid()));
    cr_expect_str_eq(page.head->host, "here");
    cr_expect(eq(u32, page.head->life, NXR_OBSERVE_RUNNING));
    nxr_observe_close();
    cr_expect(eq(u32, page.head->life, NXR_OBSERVE_LEFT), "it outlives its owner");
    cr_expect(eq(int, find_fd(), -1));
    nxr_observe_unmap(&page);
}

Test(observe, sections)
{
    struct nxr_observe_page before, after;
    char *mine, *found;

    begin();
    before = map();
    mine = nxr_observe_add_section(NXR_OBSERVE_STATS, 4, 100000);
    cr_assert(ne(ptr, mine, NULL));
    strcpy(mine + 99000, "counted");
    cr_expect(eq(ptr, (void *)nxr_observe_find(&before, NXR_OBSERVE_STATS, 4, 100000), NULL),
              "it was mapped before the section was made");
    after = map();
    found = (char *)nxr_observe_find(&after, NXR_OBSERVE_STATS, 4, 100000);
    cr_assert(ne(ptr, found, NULL));
    cr_expect_str_eq(found + 99000, "counted");
    cr_expect(eq(ptr, (void *)nxr_observe_find(&after, NXR_OBSERVE_STATS, 5, 8), NULL));
    cr_expect(eq(ptr, (void *)nxr_observe_find(&after, NXR_OBSERVE_STATS, 4, 1 << 20), NULL));
    cr_expect(ne(ptr, (void *)waits_of(&after), NULL));
    for (int i = 2; i < NXR_OBSERVE_N_SECTIONS; i++) {
        cr_expect(ne(ptr, nxr_observe_add_section(NXR_OBSERVE_TRACE, 1, 1), NULL));
    }
    cr_expect(eq(ptr, nxr_observe_add_section(NXR_OBSERVE_TRACE, 1, 1), NULL), "the head is full");
    nxr_observe_unmap(&before);
    nxr_observe_unmap(&after);
    nxr_observe_close();
    cr_expect(eq(ptr, nxr_observe_add_section(NXR_OBSERVE_TRACE, 1, 1), NULL), "there is no page");
}

/* A memfd of one page with this head, which is sealed or not. */
static bool is_taken(const struct nxr_observe_head *head, size_t nbytes, bool is_sealed)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct nxr_observe_page page;
    bool is_mapped;

    cr_assert(eq(int, ftruncate(fd, (off_t)nbytes), 0));
    cr_assert(eq(long, pwrite(fd, head, sizeof(*head), 0), (long)sizeof(*head)));
    cr_assert(eq(int, ftruncate(fd, (off_t)nbytes), 0));
    if (is_sealed) {
        cr_assert(eq(int, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0));
    }
    is_mapped = nxr_observe_map(fd, &page);
    if (is_mapped) {
        for (uint32_t id = 0; id < 4; id++) {
            (void)nxr_observe_find(&page, id, 1, 1);
        }
        nxr_observe_unmap(&page);
    }
    close(fd);
    return is_mapped;
}

Test(observe, hostile_pages)
{
    const struct nxr_observe_head good = {
        .magic = NXR_OBSERVE_MAGIC, .version = NXR_OBSERVE_VERSION, .rank = 0, .size = 1};
    struct nxr_observe_head head = good;
    int fd = open("/dev/null", O_RDONLY);
    struct nxr_observe_page page;

    cr_expect(is_taken(&good, NXR_OBSERVE_PAGE, true));
    cr_expect(not(is_taken(&good, NXR_OBSERVE_PAGE, false)), "it may shrink");
    cr_expect(not(is_taken(&good, 100, true)), "too short");
    cr_expect(not(nxr_observe_map(fd, &page)), "no memfd");
    close(fd);
    head.version++;
    cr_expect(not(is_taken(&head, NXR_OBSERVE_PAGE, true)));
    head = good;
    head.rank = 1;
    cr_expect(not(is_taken(&head, NXR_OBSERVE_PAGE, true)));
    head = good;
    head.n_sections = UINT32_MAX;
    head.sections[0] = (struct nxr_observe_section){1, 1, UINT64_MAX - 4095, 8192};
    head.sections[1] = (struct nxr_observe_section){2, 1, 4096, UINT64_MAX};
    head.sections[2] = (struct nxr_observe_section){3, 1, 1, 100};
    cr_expect(is_taken(&head, NXR_OBSERVE_PAGE, true), "its sections are refused");
}

static void describe(const void *arg, struct nxr_wait_record *record)
{
    nxr_describe(record, NXR_WAIT_NOTE, "nixl_notify_recv", 4);
    record->values[0] = *(const uint64_t *)arg;
}

Test(observe, a_wait_is_recorded_while_it_sleeps)
{
    uint64_t tag = 42;
    struct nxr_waiting waiting = {.describe = describe, .about = &tag, .since_ns = 17};
    struct nxr_wait_record read;
    struct nxr_observe_page page;
    const struct nxr_wait_record *record;

    begin();
    page = map();
    record = &waits_of(&page)->records[0];
    cr_expect(eq(long, nxr_waiting_sleeps(&waiting, INT64_MAX), 50 * NXR_MS), "first it is short");
    cr_assert(nxr_observe_read(&read, record, sizeof(read)));
    cr_expect(eq(u32, read.kind, NXR_WAIT_NOTE));
    cr_expect_str_eq(read.call, "nixl_notify_recv");
    cr_expect(eq(int, read.peer, 4));
    cr_expect(eq(u64, read.values[0], 42));
    cr_expect(eq(long, read.since_ns, 17));
    cr_expect(eq(int, read.tid, gettid()));
    tag = 43;
    nxr_waiting_sleeps(&waiting, 1);
    cr_expect(eq(u64, record->values[0], 43), "as it is now");
    cr_expect(ne(long, waits_of(&page)->listed_ns, 0), "what is queued is listed from then on");
    nxr_waiting_ends(&waiting);
    cr_expect(eq(u32, record->kind, NXR_WAIT_NONE));
    cr_expect(eq(u32, record->is_used, 0));
    nxr_observe_unmap(&page);
    nxr_observe_close();
}

Test(observe, more_waits_than_records)
{
    uint64_t tag = 1;
    struct nxr_waiting waiting[NXR_OBSERVE_N_WAITS + 2];

    begin();
    for (int i = 0; i < NXR_OBSERVE_N_WAITS + 2; i++) {
        waiting[i] = (struct nxr_waiting){.describe = describe, .about = &tag};
        nxr_waiting_sleeps(&waiting[i], 1);
        nxr_waiting_sleeps(&waiting[i], 1);
    }
    cr_expect(eq(u32, nxr_observed_waits->n_unrecorded, 2));
    for (int i = 0; i < NXR_OBSERVE_N_WAITS + 2; i++) {
        nxr_waiting_ends(&waiting[i]);
    }
    cr_expect(eq(u32, nxr_observed_waits->n_unrecorded, 0));
    nxr_observe_close();
}

Test(observe, a_record_that_its_writer_never_completes)
{
    struct nxr_wait_record record = {.counter = 7}, copy;

    cr_expect(not(nxr_observe_read(&copy, &record, sizeof(copy))));
    record.counter = 8;
    cr_expect(nxr_observe_read(&copy, &record, sizeof(copy)));
}

/* Does a dump tell what is under way, while a thread has waited since then? 0: none waits. */
static bool dump_lists_flights(int64_t since_ns)
{
    uint64_t tag = 42;
    struct nxr_waiting waiting = {.describe = describe, .about = &tag, .since_ns = since_ns};
    char text[1024];
    ssize_t nbytes;
    int fds[2];

    cr_assert(eq(int, pipe(fds), 0));
    if (since_ns != 0) {
        nxr_waiting_sleeps(&waiting, 1);
    }
    cr_expect(eq(int, nixl_debug_dump(fds[1]), NIXL_OK));
    nbytes = read(fds[0], text, sizeof(text) - 1);
    text[nbytes > 0 ? nbytes : 0] = '\0';
    if (since_ns != 0) {
        nxr_waiting_ends(&waiting);
    }
    close(fds[0]);
    close(fds[1]);
    return strstr(text, "operations under way") != NULL;
}

/* What a thread has listed that waits no longer may have ended meanwhile. */
Test(observe, a_dump_tells_of_no_list_that_is_over)
{
    int64_t now = nxr_now_ns();

    begin();
    nxr_job.peers = calloc(5, sizeof(*nxr_job.peers));
    nxr_job.n_numbers = 5;
    atomic_store(&nxr_job.state, NXR_STATE_READY);
    nxr_observed_waits->flights.n = 2;
    atomic_store(&nxr_observed_waits->listed_ns, now - 3 * NXR_S);
    cr_expect(not(dump_lists_flights(0)));
    cr_expect(not(dump_lists_flights(now - 1 * NXR_S)));
    cr_expect(dump_lists_flights(now - 4 * NXR_S));
    atomic_store(&nxr_job.state, NXR_STATE_NONE);
    free(nxr_job.peers);
    nxr_observe_close();
}

Test(observe, a_dump)
{
    uint64_t tag = 42;
    struct nxr_waiting waiting = {
        .describe = describe, .about = &tag, .since_ns = nxr_now_ns() - 2500 * NXR_MS};
    char text[1024], expected[256];
    ssize_t nbytes;
    int fds[2];

    cr_assert(eq(int, pipe(fds), 0));
    cr_expect(eq(int, nixl_debug_dump(fds[1]), NIXL_E_NOT_INIT));
    begin();
    nxr_job.peers = calloc(5, sizeof(*nxr_job.peers));
    nxr_job.n_numbers = 5;
    atomic_store(&nxr_job.state, NXR_STATE_READY);
    cr_expect(eq(int, nixl_debug_dump(fds[1]), NIXL_OK));
    nxr_waiting_sleeps(&waiting, 1);
    cr_expect(eq(int, nixl_debug_dump(fds[1]), NIXL_OK));
    nbytes = read(fds[0], text, sizeof(text) - 1);
    cr_assert(gt(long, nbytes, 0));
    text[nbytes] = '\0';
    snprintf(expected, sizeof(expected),
             "rank 2 of 5 on host here (pid %d):\n"
             "  no thread waits in a call\n"
             "rank 2 of 5 on host here (pid %d):\n"
             "  thread %d waits in nixl_notify_recv for any notification from rank 4, for 2.5 s\n",
             (int)getpid(), (int)getpid(), (int)gettid());
    cr_expect_str_eq(text, expected);
    nxr_waiting_ends(&waiting);
    atomic_store(&nxr_job.state, NXR_STATE_NONE);
    free(nxr_job.peers);
    nxr_observe_close();
}
