/* SPDX-License-Identifier: Apache-2.0 */
/* nixl_rank_kill() where no launcher does it: which process it signals, and which it never does. */
#include "config.h"

#include "boot/boot.h"
#include "core/attached.h"
#include "core/carrier.h"
#include "core/job.h"
#include "core/life.h"
#include "nixlrun.h"
#include "test/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWNER_DIED 0x40000000 /* of a robust mutex, see nxr_control_is_dead() */

static const struct nxr_carrier no_carrier = {.name = "none"};
static const unsigned char nonce[NXR_NONCE_NBYTES] = {1};
static struct nxr_peer *peers[2];
static struct nxr_control *page; /* of rank 1 */
static pid_t pid;                /* its process, which waits */

/* This process is rank 0 of 2. Rank 1 is connected. */
static void start(void)
{
    cr_assert_eq(getpgrp(), getpid(), "what is killed by mistake is this test alone");
    nxr_carriers_set(&no_carrier, &no_carrier);
    pthread_mutex_init(&nxr_job.lock, NULL);
    nxr_job.size = 2;
    nxr_job.n_numbers = 2;
    nxr_job.peers = peers;
    nxr_job.event_fd = -1;
    nxr_job.control_fd = -1;
    cr_assert_eq(nxr_control_create(&nxr_job.self, 2, nonce, &nxr_job.control, &nxr_job.control_fd),
                 NIXL_OK);
    atomic_store(&nxr_job.state, NXR_STATE_READY);
    page = calloc(1, sizeof(*page));
    cr_assert(page != NULL && nxr_peer_get(1) != NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    cr_assert_gt(pid, 0);
    peers[1]->control = page;
    peers[1]->pid = pid;
    atomic_store(&peers[1]->connection, NXR_CONNECTION_UP);
}

static void stop(void)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

TestSuite(job_end, .init = start, .fini = stop, .timeout = 60);

/* End the process by SIGTERM. The signal that has ended it: SIGKILL, if it was sent that before. */
static int process_signal(void)
{
    siginfo_t info = {.si_pid = 0};

    cr_assert_eq(kill(pid, SIGTERM), 0);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    return info.si_status;
}

Test(job_end, a_rank_of_this_host_is_killed)
{
    cr_expect_eq(nixl_rank_kill(1), NIXL_OK);
    cr_expect_eq(process_signal(), SIGKILL);
    cr_expect_eq(nixl_rank_kill(1), NIXL_OK, "nobody has noticed that it is dead");
}

/* Its pid is another process's by now. */
Test(job_end, a_dead_rank_is_not_killed_again)
{
    nxr_life_lost(peers[1]);
    cr_expect_eq(nixl_rank_kill(1), NIXL_OK);
    cr_expect_eq(process_signal(), SIGTERM);
}

Test(job_end, a_death_that_nobody_has_noticed_is_noticed)
{
    page->alive.__data.__lock = OWNER_DIED;
    cr_expect_eq(nixl_rank_kill(1), NIXL_OK);
    cr_expect_eq(process_signal(), SIGTERM);
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_LOST);
}

Test(job_end, a_rank_that_has_left_is_not_killed)
{
    atomic_store(&page->life, NXR_LIFE_FINISHED);
    cr_expect_eq(nixl_rank_kill(1), NIXL_OK);
    cr_expect_eq(process_signal(), SIGTERM);
}

/* To the kernel 0 is the group of the caller. */
Test(job_end, without_a_pid_nobody_is_killed)
{
    peers[1]->pid = 0;
    cr_expect_eq(nixl_rank_kill(1), NIXL_E_UNSUPPORTED);
    cr_expect(strstr(nixl_last_error()->text, "PID namespace") != NULL, "%s",
              nixl_last_error()->text);
    cr_expect_eq(process_signal(), SIGTERM);
}

Test(job_end, on_another_host_only_the_dead_are_killed)
{
    peers[1]->control = NULL;
    atomic_store(&peers[1]->connection, NXR_CONNECTION_REMOTE);
    cr_expect_eq(nixl_rank_kill(1), NIXL_E_UNSUPPORTED);
    nxr_life_lost(peers[1]);
    cr_expect_eq(nixl_rank_kill(1), NIXL_OK);
    cr_expect_eq(process_signal(), SIGTERM);
}

Test(job_end, an_attached_process_is_said_to_be_one)
{
    const struct nxr_full_card card = {
        .head = {.identity = {1, 0, 0}, .nbytes = sizeof(struct nxr_card)}};
    struct nxr_peer *peer = NULL;

    pthread_mutex_lock(&nxr_job.lock);
    cr_assert_eq(nxr_attached_add(&card, &peer), NIXL_OK);
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect_eq(nixl_rank_kill(peer->rank), NIXL_E_INVALID_ARG);
    cr_expect(strstr(nixl_last_error()->text, "is an attached process") != NULL, "%s",
              nixl_last_error()->text);
}
