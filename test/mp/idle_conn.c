/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 2 dies. Rank 1 reports that to rank 0 over a connection that rank 0 closes at that moment,
 * because it was idle. The report arrives nevertheless.
 *
 *     idle_conn queued|late
 *
 * queued: the report is unread in the socket when rank 0 closes the connection. late: rank 0 has
 * closed it, and rank 1 has not seen that when it sends the report. Each rank watches the next one,
 * so with four ranks only rank 1 can report the death to rank 0.
 *
 * The program has an epoll_wait() of its own, by which it holds the library's service thread.
 */
#include "test/net/bed.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define VICTIM   2
#define IDLE_MS  700 /* longer waits of a service thread are for connections to become idle */
#define BOUND_NS (20 * MPT_S)
#define TRY_NS   (3 * MPT_S)

static int my_rank;
static bool is_late, has_held;
static atomic_bool is_ready;           /* behind nixl_init(): PMIx's thread is gone */
static int64_t idle_at_ns = INT64_MAX; /* the service thread closes what is idle then */

/* ---- the service thread ---------------------------------------------------------------------- */

/* Rank 0 is about to close the connection, or rank 1 is about to see that it was closed. */
static void hold(void)
{
    has_held = true;
    bed_mark("die", my_rank);
    bed_await_mark("told", 1);
}

static bool has_hang_up(const struct epoll_event *events, int n_ready)
{
    for (int i = 0; i < n_ready; i++) {
        if ((events[i].events & EPOLLHUP) != 0) {
            return true;
        }
    }
    return false;
}

NIXL_API int epoll_wait(int epoll_fd, struct epoll_event *events, int n_events, int timeout_ms)
{
    int (*wait)(int, struct epoll_event *, int, int), n_ready;

    *(void **)&wait = dlsym(RTLD_NEXT, "epoll_wait");
    if (timeout_ms >= IDLE_MS) {
        idle_at_ns = mpt_now_ns() + timeout_ms * MPT_MS;
    }
    n_ready = wait(epoll_fd, events, n_events, timeout_ms);
    if (has_held || !atomic_load(&is_ready)) {
        return n_ready;
    }
    if (my_rank == (is_late ? 1 : 0) &&
        (is_late ? has_hang_up(events, n_ready) : mpt_now_ns() >= idle_at_ns)) {
        hold();
    }
    return n_ready;
}

/* ---- the ranks ------------------------------------------------------------------------------- */

/*
 * Rank 0 says something to rank 1, so that the connection becomes idle once more: on a machine that
 * is busy the service thread may have begun to wait so late that its wait was not seen as one.
 */
static void use_the_connection(void)
{
    struct nixl_region *region;

    MPT_OK(nixl_region_open("nobody has it", &region));
    (void)!nixl_region_is_published(1, region, TRY_NS);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void hear_of_the_death(int64_t timeout_ns)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int64_t end_ns = mpt_now_ns() + timeout_ns;
    int status;

    while ((status = nixl_event_recv(TRY_NS, &event)) == NIXL_E_TIMEOUT && mpt_now_ns() < end_ns) {
        if (my_rank == 0) {
            use_the_connection();
        }
    }
    MPT_OK(status);
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, VICTIM);
}

/* The message has been sent: what follows a death holds the lock that this call takes, too. */
static void pass_the_lock(void)
{
    struct nixl_region *region;
    char bytes[8];

    MPT_OK(nixl_region_register("lock", bytes, sizeof(bytes), NULL, &region));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");

    mpt_start();
    MPT_TRUE(argc == 2 && rank != NULL);
    my_rank = atoi(rank);
    is_late = strcmp(argv[1], "late") == 0;
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 4);
    atomic_store(&is_ready, true);
    if (my_rank == VICTIM) {
        bed_await_mark("die", is_late ? 1 : 0);
        kill(getpid(), SIGKILL);
    }
    hear_of_the_death(my_rank == 0 ? BOUND_NS : MPT_PATIENCE);
    if (my_rank == 1) {
        pass_the_lock();
        bed_mark("told", 1);
    }
    bed_meet_without("heard", VICTIM);
    mpt_finalize();
    return mpt_passed();
}
