/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storage/uring: an armed engine signals all that a poll would end, and who sleeps in the ring is
 * woken. Without io_uring: skipped.
 */
#include "storage/storage.h"

#include "test/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <liburing.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const struct nxr_storage_engine nxr_storage_uring;

enum { PIECE = 4096, DEADLINE_MS = 10000 };

static const struct nxr_storage_engine *const engine = &nxr_storage_uring;
static int wake_fd = -1, file_fd = -1;
static unsigned n_reads, n_ended;
static struct nxr_storage_io *reads, last_sync;

/* Called by the engine, which holds its lock; what it begins has ended where it could at once. */
static void (*after_submit)(void);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

int __wrap_io_uring_submit(struct io_uring *ring)
{
    int n = __real_io_uring_submit(ring);

    if (after_submit != NULL) {
        after_submit();
    }
    return n;
}

/* Called by a thread that is on its way to sleep in the ring. */
static void (*before_sleep)(void);
static unsigned n_sleeps;
static int slept; /* what the last one returned */
int __real_io_uring_enter2(unsigned fd, unsigned n_submit, unsigned n_wait, unsigned flags,
                           sigset_t *how, size_t how_nbytes);
int __wrap_io_uring_enter2(unsigned fd, unsigned n_submit, unsigned n_wait, unsigned flags,
                           sigset_t *how, size_t how_nbytes);

int __wrap_io_uring_enter2(unsigned fd, unsigned n_submit, unsigned n_wait, unsigned flags,
                           sigset_t *how, size_t how_nbytes)
{
    n_sleeps++;
    if (before_sleep != NULL) {
        before_sleep();
    }
    slept = __real_io_uring_enter2(fd, n_submit, n_wait, flags, how, how_nbytes);
    return slept;
}

static void wake(void)
{
    cr_assert_eq(eventfd_write(wake_fd, 1), 0);
}

static void begin(void)
{
    static struct nxr_storage_core core = {.wake = wake};
    char path[] = "/tmp/nixlrun-uring.XXXXXX", why[200];

    wake_fd = core.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    file_fd = mkstemp(path);
    cr_assert(wake_fd >= 0 && file_fd >= 0);
    unlink(path);
    if (engine->start(&core, why, sizeof(why)) != 0) {
        cr_skip("%s", why);
    }
}

static void end(void)
{
    engine->stop();
    close(file_fd);
    close(wake_fd);
    free(reads);
}

TestSuite(uring, .init = begin, .fini = end, .timeout = 60);

static void ended(struct nxr_storage_io *io)
{
    cr_expect_eq(io->result, io->nbytes);
    n_ended++;
}

/* A list of reads of as many pieces, which lie in the page cache, so that most end at once. */
static void make_reads(unsigned n)
{
    char *memory = calloc(n, PIECE);

    reads = calloc(n, sizeof(*reads));
    cr_assert(memory != NULL && reads != NULL);
    cr_assert_eq(write(file_fd, memory, (size_t)n * PIECE), (ssize_t)n * PIECE);
    for (unsigned i = 0; i < n; i++) {
        reads[i] = (struct nxr_storage_io){.action = NXR_STORAGE_READ,
                                           .fd = file_fd,
                                           .slot = -1,
                                           .offset = (uint64_t)i * PIECE,
                                           .memory = memory + (size_t)i * PIECE,
                                           .nbytes = PIECE,
                                           .ended = ended,
                                           .next = i + 1 < n ? &reads[i + 1] : NULL};
    }
    n_reads = n;
}

/* Poll once for each signal, as the service thread does, until so many have ended. */
static void expect_signals(unsigned n)
{
    while (n_ended < n) {
        struct pollfd signal = {.fd = wake_fd, .events = POLLIN};
        eventfd_t count;

        cr_assert_eq(poll(&signal, 1, DEADLINE_MS), 1, "%u of %u have ended", n_ended, n);
        cr_assert_eq(eventfd_read(wake_fd, &count), 0);
        (void)engine->poll();
    }
    cr_expect_eq(n_ended, n);
}

Test(uring, an_armed_engine_signals_all_that_has_ended)
{
    make_reads(600);
    engine->submit(reads, false);
    engine->arm();
    expect_signals(n_reads);
}

static void ended_before_sync(struct nxr_storage_io *io)
{
    ended(io);
    if (n_ended == n_reads) {
        last_sync = (struct nxr_storage_io){
            .action = NXR_STORAGE_SYNC, .fd = file_fd, .slot = -1, .ended = ended};
        engine->submit(&last_sync, false);
    }
}

Test(uring, an_armed_engine_begins_what_the_end_of_others_submits)
{
    make_reads(65); /* one more than a poll takes */
    for (unsigned i = 0; i < n_reads; i++) {
        reads[i].ended = ended_before_sync;
    }
    engine->submit(reads, false);
    engine->arm();
    expect_signals(n_reads + 1);
}

/* As the service thread does, when another one holds the lock. */
static void poll_in_vain(void)
{
    eventfd_t count;

    (void)eventfd_read(wake_fd, &count);
    cr_expect_eq(engine->poll(), 0);
    cr_expect_eq(engine->poll(), 0);
}

Test(uring, a_signal_is_repeated_if_the_lock_was_held)
{
    make_reads(8);
    engine->arm();
    after_submit = poll_in_vain;
    engine->submit(reads, false);
    after_submit = NULL;
    expect_signals(n_reads);
}

enum { SHORT_NS = 1000000 };
static const int64_t long_ns = DEADLINE_MS * INT64_C(1000000);

static _Atomic uint32_t doorbell;

/* Sleep for a short time, in vain; from then on the ring waits for the doorbell. */
static void sleep_shortly(void)
{
    if (!engine->sleep(&doorbell, doorbell, SHORT_NS)) {
        cr_skip("the ring cannot wait for a futex");
    }
    cr_expect_eq(slept, -ETIME);
}

Test(uring, a_doorbell_that_rang_before_is_not_slept_on)
{
    sleep_shortly();
    doorbell++;
    n_sleeps = 0;
    cr_expect(engine->sleep(&doorbell, doorbell - 1, long_ns));
    cr_expect_eq(n_sleeps, 0);
}

static void ring(void)
{
    doorbell++;
    syscall(SYS_futex, &doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Another thread polls. */
static void ring_and_poll(void)
{
    ring();
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(engine->poll(), 0);
    }
}

Test(uring, a_doorbell_that_others_have_heard_wakes_who_goes_to_sleep)
{
    sleep_shortly();
    before_sleep = ring_and_poll;
    cr_expect(engine->sleep(&doorbell, doorbell, long_ns));
    cr_expect_neq(slept, -ETIME);
    before_sleep = NULL;
    (void)engine->poll();
    sleep_shortly();
}

/* The doorbell rings while a part of the reads is submitted: one completion more. */
Test(uring, a_full_ring_has_room_for_the_doorbell)
{
    sleep_shortly();
    make_reads(512);
    after_submit = ring;
    engine->submit(reads, false);
    after_submit = NULL;
    engine->arm();
    expect_signals(n_reads);
}
