/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-flight slots, step by step, with owner and peer in one process: generations, claims that are
 * given back, threads that end, and a close that meets a copy which does not end.
 */
#include "config.h"

#include "core/carrier.h"
#include "core/job.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID          5u
#define PAGE_NBYTES (sizeof(struct nxr_control) + 2 * sizeof(struct nxr_ring_credit))

static struct nxr_peer self = {.rank = 0}, other = {.rank = 1}, *peers[2] = {&self, &other};
static struct nxr_segment segment;
static nxr_inflight_word *word;

static void make_page(void)
{
    nxr_barrier_init();
    pthread_mutex_init(&nxr_job.lock, NULL);
    nxr_job.size = 2;
    nxr_job.peers = peers;
    nxr_job.control =
        mmap(NULL, PAGE_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(ne(ptr, nxr_job.control, MAP_FAILED));
    self.control = nxr_job.control;
    nxr_job.control->generations[ID] = 7;
    segment = (struct nxr_segment){.peer = &self,
                                   .id = ID,
                                   .generation = 7,
                                   .generation_now = &nxr_job.control->generations[ID],
                                   .key.generation = 7,
                                   .full_fence = nxr_barrier_is_full()};
}

static void free_page(void)
{
    nxr_inflight_reset();
    munmap(nxr_job.control, PAGE_NBYTES);
}

static unsigned n_claimed(void)
{
    unsigned n = 0;

    for (int i = 0; i < NXR_N_INFLIGHT_SLOTS; i++) {
        n += atomic_load(&nxr_job.control->slots[i].claimed_by) != 0;
    }
    return n;
}

TestSuite(guard, .init = make_page, .fini = free_page, .timeout = 120);

Test(guard, a_segment_of_another_generation_is_not_entered)
{
    cr_assert(eq(int, nxr_inflight_enter(&segment, &word), NIXL_OK));
    cr_expect(nxr_inflight_is_busy_here(&segment));
    nxr_inflight_leave(word);
    cr_expect(not(nxr_inflight_is_busy_here(&segment)));
    nxr_job.control->generations[ID] = 8; /* closed, and opened again */
    cr_expect(eq(int, nxr_inflight_enter(&segment, &word), NIXL_E_STALE));
    cr_expect(eq(int, nxr_inflight_hold(&segment, &word), NIXL_E_STALE));
    cr_expect(not(nxr_inflight_is_busy_here(&segment)), "a refused entry leaves nothing behind");
    nxr_job.control->generations[ID] = 0;
    segment.generation = 0; /* given up on both sides: equal, and closed all the same */
    cr_expect(eq(int, nxr_inflight_enter(&segment, &word), NIXL_E_STALE));
    cr_expect(eq(int, nxr_inflight_quiesce_own(ID, 0), NIXL_OK));
}

Test(guard, claims_that_fail_or_end_are_given_back)
{
    for (int i = 0; i < NXR_N_INFLIGHT_SLOTS + 10; i++) {
        cr_assert(eq(int, nxr_inflight_hold(&segment, &word), NIXL_OK), "%d", i);
        nxr_inflight_release(word);
    }
    nxr_job.control->generations[ID] = 0;
    for (int i = 0; i < NXR_N_INFLIGHT_SLOTS + 10; i++) {
        cr_assert(eq(int, nxr_inflight_hold(&segment, &word), NIXL_E_STALE), "%d", i);
    }
    for (int i = 0; i < NXR_N_INFLIGHT_SLOTS + 10; i++) {
        struct nxr_inflight_slot *slot = nxr_inflight_claim_own();

        cr_assert(ne(ptr, slot, NULL), "%d", i);
        nxr_inflight_give_own(slot);
    }
    cr_expect(eq(uint, n_claimed(), 0));
}

Test(guard, too_many_claims_are_refused_until_one_is_given_back)
{
    static nxr_inflight_word *words[NXR_N_INFLIGHT_SLOTS];

    for (int i = 0; i < NXR_N_INFLIGHT_SLOTS; i++) {
        cr_assert(eq(int, nxr_inflight_hold(&segment, &words[i]), NIXL_OK), "%d", i);
    }
    cr_expect(eq(int, nxr_inflight_hold(&segment, &word), NIXL_E_LIMIT));
    cr_expect(eq(int, nxr_inflight_enter(&segment, &word), NIXL_E_LIMIT));
    nxr_inflight_release(words[100]);
    cr_expect(eq(int, nxr_inflight_enter(&segment, &word), NIXL_OK));
    nxr_inflight_leave(word);
}

/* The owner checks the used ones when it closes a region. */
Test(guard, no_more_slots_are_used_than_were_held_at_once)
{
    nxr_inflight_word *words[8];

    for (int i = 0; i < 8; i++) {
        cr_assert(eq(int, nxr_inflight_hold(&segment, &words[i]), NIXL_OK));
    }
    for (int i = 0; i < 100; i++) { /* in another order than they were taken in */
        nxr_inflight_release(words[i * 3 % 8]);
        cr_assert(eq(int, nxr_inflight_hold(&segment, &words[i * 3 % 8]), NIXL_OK));
    }
    cr_expect(eq(uint, nxr_job.control->n_slots_used, 8));
    cr_expect(eq(uint, n_claimed(), 8));
}

static void *enter_once(void *arg)
{
    nxr_inflight_word *own;

    *(int *)arg = nxr_inflight_enter(&segment, &own);
    if (*(int *)arg == NIXL_OK) {
        nxr_inflight_leave(own);
    }
    return NULL;
}

Test(guard, threads_that_end_give_their_slots_back)
{
    for (int i = 0; i < NXR_N_INFLIGHT_SLOTS + 10; i++) {
        pthread_t thread;
        int status;

        cr_assert(eq(int, pthread_create(&thread, NULL, enter_once, &status), 0));
        pthread_join(thread, NULL);
        cr_assert(eq(int, status, NIXL_OK), "thread %d", i);
    }
    cr_expect(eq(uint, n_claimed(), 0));
}

static pthread_t forker;

static void *exit_after_forker(void *arg)
{
    (void)arg;
    _exit(pthread_join(forker, NULL));
}

/* Has a slot, forks and ends in the child; then it counts the slots that are claimed. */
static void *fork_and_end(void *arg)
{
    pthread_t helper;
    pid_t pid;
    int status = -1;

    enter_once(&status);
    forker = pthread_self();
    pid = status == NIXL_OK ? fork() : -1;
    if (pid == 0) {
        atomic_store(&nxr_job.state, NXR_STATE_FORKED); /* as init.c does in every child */
        alarm(60);
        if (pthread_create(&helper, NULL, exit_after_forker, NULL) != 0) {
            _exit(1);
        }
        return NULL;
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        return NULL;
    }
    *(unsigned *)arg = n_claimed();
    return NULL;
}

Test(guard, a_thread_that_ends_in_a_child_leaves_the_parents_slot)
{
    pthread_t thread;
    unsigned n = 0;

    cr_assert(eq(int, pthread_create(&thread, NULL, fork_and_end, &n), 0));
    pthread_join(thread, NULL);
    cr_expect(eq(uint, n, 1));
    cr_expect(eq(uint, n_claimed(), 0));
}

/* A peer that is stopped in mid-copy: the close gives up at its deadline, and succeeds later. */
Test(guard, a_close_waits_no_longer_than_it_may)
{
    const int64_t timeout_ns = 20 * NXR_MS;
    int64_t took_ns;

    cr_assert(eq(int, nxr_inflight_enter(&segment, &word), NIXL_OK));
    nxr_job.control->generations[ID] = 0;
    cr_expect(eq(int, nxr_inflight_quiesce_own(ID, 0), NIXL_INPROGRESS));
    took_ns = nxr_now_ns();
    cr_expect(eq(int, nxr_inflight_quiesce_own(ID, timeout_ns), NIXL_E_TIMEOUT));
    took_ns = nxr_now_ns() - took_ns;
    cr_expect(ge(i64, took_ns, timeout_ns));
    cr_expect(lt(i64, took_ns, 5 * NXR_S));
    cr_expect(eq(int, nxr_inflight_quiesce_own(ID + 1, 0), NIXL_OK), "another region is not busy");
    nxr_inflight_leave(word);
    cr_expect(eq(int, nxr_inflight_quiesce_own(ID, timeout_ns), NIXL_OK));
}

static bool other_is_gone;

static bool is_gone(struct nxr_peer *peer)
{
    return peer == &other && other_is_gone;
}

Test(guard, a_close_does_not_wait_for_the_dead)
{
    static const struct nxr_carrier carrier = {.name = "made up", .is_gone = is_gone};
    struct nxr_inflight_slot *slot;

    other.control = nxr_job.control;
    other.carrier = &carrier;
    atomic_store(&other.connection, NXR_CONNECTION_UP);
    self.place = 1;
    cr_assert(eq(int, nxr_inflight_hold(&segment, &word), NIXL_OK)); /* by the other rank */
    self.place = 0;
    slot = (struct nxr_inflight_slot *)word;
    nxr_job.control->generations[ID] = 0;
    cr_expect(eq(int, nxr_inflight_quiesce_own(ID, 0), NIXL_INPROGRESS));
    other_is_gone = true;
    cr_expect(eq(int, nxr_inflight_quiesce_own(ID, 0), NIXL_OK));
    cr_expect(eq(int, atomic_load(&slot->claimed_by), 0), "its slot is for others");
}
