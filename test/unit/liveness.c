/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does when its launcher is gone, or says that a rank is. The test sets the time. */
#include "config.h"

#include "fake_job.h"

#include "core/context.h"
#include "core/event.h"
#include "core/service.h"
#include "host/atomic_ask.h"
#include "host/conn.h"
#include "host/connect.h"
#include "host/liveness.h"
#include "host/peer.h"
#include "nixlrun.h"
#include "test/unit/unit.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/random.h"

#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(void)
{
    fake_job_start(0);
    fake_must(nxr_peer_get(1) != NULL);
}

/* The type of the next event, or -1. */
static int next_event(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    return nixl_event_recv(0, &event) == NIXL_OK ? (int)event.type : -1;
}

static void hear(enum nxr_wireup_news news, int rank)
{
    nxr_liveness_from_launcher(&(struct nxr_wireup_event){.news = news, .rank = rank});
}

Test(liveness, an_orphan_has_its_grace_once, .init = start, .fini = fake_job_stop)
{
    int64_t before = nxr_now_ns(), due;

    nxr_env.orphan_grace = 7 * NXR_S;
    cr_expect_eq(nxr_liveness_tick(before), INT64_MAX, "it has a launcher");
    hear(NXR_WIREUP_GONE, -1);
    due = nxr_liveness_tick(before);
    cr_expect(due >= before + nxr_env.orphan_grace && due <= nxr_now_ns() + nxr_env.orphan_grace);
    cr_expect_eq(next_event(), NIXL_EVENT_LAUNCHER_LOST);
    nxr_env.orphan_grace = 9 * NXR_S;
    hear(NXR_WIREUP_GONE, -1);
    cr_expect_eq(nxr_liveness_tick(due - 1), due, "the second word of it changes nothing");
    cr_expect_eq(next_event(), -1);
    nxr_liveness_stop();
    cr_expect_eq(nxr_liveness_tick(due), INT64_MAX, "the next job has a launcher again");
    hear(NXR_WIREUP_GONE, -1);
    cr_expect_lt(due, nxr_liveness_tick(due), "and its own grace");
}

Test(liveness, an_orphan_ends_when_its_grace_is_over, .init = start, .exit_code = 1)
{
    nxr_env.orphan_grace = 7 * NXR_S;
    hear(NXR_WIREUP_GONE, -1);
    nxr_liveness_tick(nxr_liveness_tick(0));
}

Test(liveness, the_launcher_tells_of_deaths, .init = start, .fini = fake_job_stop)
{
    hear(NXR_WIREUP_ENDED, FAKE_SIZE);
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_ALIVE);
    cr_expect_eq(next_event(), -1);
    hear(NXR_WIREUP_ENDED, 1);
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_LOST);
    cr_expect_eq(nixl_peer_state(2), NIXL_PEER_ALIVE);
    cr_expect(nxr_event_is_queued(&nxr_context_default));
    cr_expect_eq(next_event(), NIXL_EVENT_PEER_LOST);
    cr_expect(not(nxr_event_is_queued(&nxr_context_default)), "nothing keeps waiters awake");
    cr_expect_eq(next_event(), -1);
}

/* Timers that want nothing would keep the service thread awake. */
Test(liveness, nothing_is_due_in_a_quiet_job, .init = start, .fini = fake_job_stop)
{
    cr_expect_eq(nxr_liveness_tick(1), INT64_MAX);
    cr_expect_eq(nxr_atomic_tick(1), INT64_MAX);
    cr_expect_eq(nxr_conn_tick(1), INT64_MAX);
    cr_expect_eq(nxr_connect_tick(1), INT64_MAX);
}

Test(liveness, a_process_that_is_gone_already_is_lost, .init = start, .fini = fake_job_stop)
{
    struct nxr_peer *peer = nxr_job.peers[1];
    pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    pthread_mutex_lock(&nxr_job.lock);
    peer->pid = pid;
    nxr_liveness_watch(peer, -1);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_LOST);
    cr_expect_eq(next_event(), NIXL_EVENT_PEER_LOST);
}

/* Without a service thread no descriptor of a process is kept, as with too many of them. */
Test(liveness, a_process_without_a_descriptor_is_looked_at, .init = start, .fini = fake_job_stop)
{
    struct nxr_peer *peer = nxr_job.peers[1];
    struct nxr_control *control = calloc(1, sizeof(*control));

    cr_assert(control != NULL);
    pthread_mutex_lock(&nxr_job.lock);
    peer->pid = getpid();
    peer->control = control;
    atomic_store(&peer->connection, NXR_CONNECTION_UP);
    nxr_liveness_watch(peer, -1);
    cr_assert_lt(host_peer_of(peer)->pidfd, 0);
    cr_expect_eq(nxr_liveness_tick(5), 5 + 100 * NXR_MS);
    cr_expect(not(nxr_peer_is_lost(peer)), "it runs");
    atomic_store(&control->life, NXR_LIFE_FINISHED);
    nxr_liveness_tick(6);
    cr_expect(nxr_peer_is_lost(peer));
    peer->control = NULL;
    pthread_mutex_unlock(&nxr_job.lock);
    free(control);
}

/* A thread waits for the lock: the service thread, with its event, or the one that watches. */
static void await_waiter(void)
{
    int64_t until = nxr_now_ns() + 10 * NXR_S;

    while (atomic_load((_Atomic int *)&nxr_job.lock.__data.__lock) != 2) {
        cr_assert_lt(nxr_now_ns(), until);
        sched_yield();
    }
}

static void *hear_late(void *news)
{
    hear(*(const enum nxr_wireup_news *)news, 1);
    return NULL;
}

/* Its thread goes on until the launcher is left, when all else has been stopped. */
Test(liveness, what_the_launcher_tells_in_nixl_finalize_is_not_taken, .init = start,
     .fini = fake_job_stop, .timeout = 60)
{
    static const enum nxr_wireup_news all[] = {NXR_WIREUP_ENDED, NXR_WIREUP_LEFT, NXR_WIREUP_GONE};
    pthread_t thread;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        pthread_mutex_lock(&nxr_job.lock);
        cr_assert_eq(pthread_create(&thread, NULL, hear_late, (void *)&all[i]), 0);
        await_waiter(); /* it has seen that this rank is joined */
        atomic_store(&nxr_job.state, NXR_STATE_NONE);
        pthread_mutex_unlock(&nxr_job.lock);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        atomic_store(&nxr_job.state, NXR_STATE_READY);
    }
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_ALIVE);
    cr_expect_eq(nxr_liveness_tick(1), INT64_MAX);
    cr_expect_eq(next_event(), -1);
}

/* Watch a process, which dies, and end the watch when epoll has reported that. */
static void watch_briefly(struct nxr_peer *peer)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    cr_assert_gt(pid, 0);
    pthread_mutex_lock(&nxr_job.lock);
    peer->pid = pid;
    nxr_liveness_watch(peer, -1);
    cr_assert_geq(host_peer_of(peer)->pidfd, 0);
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    await_waiter();
    nxr_liveness_unwatch(peer);
    pthread_mutex_unlock(&nxr_job.lock);
}

Test(liveness, a_watch_may_end_before_its_event_is_handled, .init = start, .fini = fake_job_stop,
     .timeout = 60)
{
    struct nxr_peer *peer = nxr_job.peers[1];
    struct nxr_control *control = calloc(1, sizeof(*control));

    cr_assert(control != NULL);
    cr_assert(nxr_random(nxr_job.card.head.nonce, NXR_NONCE_NBYTES)); /* its sockets' names */
    peer->control = control;
    atomic_store(&peer->connection, NXR_CONNECTION_UP);
    cr_assert_eq(nxr_service_start(), NIXL_OK);
    for (int i = 0; i < 20; i++) {
        watch_briefly(peer);
    }
    nxr_service_stop();
    cr_expect(not(nxr_peer_is_lost(peer)), "nobody watched it any more");
    pthread_mutex_lock(&nxr_job.lock);
    peer->control = NULL;
    pthread_mutex_unlock(&nxr_job.lock);
    free(control);
}

/* ---- memory ---------------------------------------------------------------------------------- */

Test(liveness, to_find_a_region_takes_no_memory, .init = start, .fini = fake_job_stop)
{
    struct nxr_published *found, *none;
    size_t used[40];

    pthread_mutex_lock(&nxr_job.lock);
    for (int i = 0; i < 40; i++) { /* malloc keeps what the first rounds give back */
        found = nxr_publish_find("own");
        none = nxr_publish_find("other");
        used[i] = mallinfo2().uordblks;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect(found == fake_job.published && none == NULL);
    cr_expect_eq(used[39], used[19]);
}
