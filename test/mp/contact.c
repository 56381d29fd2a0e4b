/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First contact of ranks of one host.
 *
 *     contact memory|one|all|dead
 *
 * memory: through shared memory alone, without a connection between their service threads. one,
 * all: rank 1, or every rank, finds no page of others through /proc, as in a container that hides
 * it: then they connect by socket, also where the other one has connected through memory. dead:
 * rank 1 notifies rank 0 and is killed before rank 0 has looked at its page: rank 0 receives the
 * notification and then hears of the death.
 *
 * The program has an open() and a connect() of its own, by which it sees and stops the library.
 */
#include "test/net/bed.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TAG_FIRST  1
#define TAG_SECOND 2
#define TAG_COUNT  3
#define SOCKET     "nixlrun-rank-" /* behind the zero of an abstract name */

static int my_rank;
static const char *way;
static atomic_int n_opened, n_connected; /* pages through /proc; sockets of service threads */

/* ---- what the library does ------------------------------------------------------------------- */

static bool is_way(const char *name)
{
    return strcmp(way, name) == 0;
}

static bool is_page(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/") != NULL &&
           strncmp(path, "/proc/self/", 11) != 0;
}

/* Until the page's owner has ended, and the kernel has closed its files. */
static void await_end(const char *path)
{
    const struct timespec pause = {0, 1000000};
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    while (access(path, F_OK) == 0 && mpt_now_ns() < until) {
        nanosleep(&pause, NULL);
    }
}

NIXL_API int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, mode_t);
    mode_t mode = 0;
    va_list args;

    if ((flags & O_CREAT) != 0) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if (way != NULL && is_page(path)) {
        atomic_fetch_add(&n_opened, 1);
        if (is_way("all") || (is_way("one") && my_rank == 1)) {
            errno = EACCES;
            return -1;
        }
        if (is_way("dead") && my_rank == 0) {
            await_end(path);
        }
    }
    *(void **)&next = dlsym(RTLD_NEXT, "open");
    return next(path, flags, mode);
}

NIXL_API int connect(int fd, const struct sockaddr *address, socklen_t nbytes)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)address;
    int (*next)(int, const struct sockaddr *, socklen_t);

    if (address->sa_family == AF_UNIX &&
        strncmp(local->sun_path + 1, SOCKET, strlen(SOCKET)) == 0) {
        atomic_fetch_add(&n_connected, 1);
    }
    *(void **)&next = dlsym(RTLD_NEXT, "connect");
    return next(fd, address, nbytes);
}

/* ---- the ranks ------------------------------------------------------------------------------- */

/* All notify all. */
static void say_to_all(uint64_t tag)
{
    for (int i = 1; i < nixl_size(); i++) {
        int rank = (my_rank + i) % nixl_size();

        MPT_OK(nixl_notify(rank, tag, &my_rank, sizeof(my_rank), MPT_PATIENCE));
    }
    for (int rank = 0; rank < nixl_size(); rank++) {
        if (rank != my_rank) {
            const struct nixl_note *note = mpt_hear(rank, tag);

            MPT_EQ(note->nbytes, sizeof(rank));
            MPT_EQ(memcmp(note->payload, &rank, sizeof(rank)), 0);
        }
    }
}

/* Of two ranks that find no page, the one that begins connects; the other one need not. */
static int sum_of_connections(void)
{
    int sum = n_connected;

    if (my_rank != 0) {
        MPT_OK(nixl_notify(0, TAG_COUNT, &sum, sizeof(sum), MPT_PATIENCE));
        return 0;
    }
    for (int rank = 1; rank < nixl_size(); rank++) {
        const struct nixl_note *note = mpt_hear(rank, TAG_COUNT);
        int n_its;

        memcpy(&n_its, note->payload, sizeof(n_its));
        sum += n_its;
    }
    return sum;
}

static void meet_all(void)
{
    say_to_all(TAG_FIRST);
    for (int rank = 0; rank < nixl_size(); rank++) {
        MPT_EQ(nixl_scope(rank), rank == my_rank ? NIXL_SCOPE_SELF : NIXL_SCOPE_LOCAL);
    }
    say_to_all(TAG_SECOND);
    bed_meet("all have met");
    if (is_way("memory")) {
        MPT_TRUE(n_opened >= nixl_size() - 1);
        MPT_EQ(n_connected, 0);
    } else if (is_way("one") && my_rank == 1) {
        MPT_TRUE(n_opened > 0 && n_connected > 0);
    } else if (is_way("all")) {
        int sum = sum_of_connections();

        MPT_TRUE(my_rank != 0 || sum >= nixl_size() * (nixl_size() - 1) / 2);
    }
    bed_meet("all have checked");
}

static void meet_a_dead_rank(void)
{
    struct nixl_note note;

    if (my_rank == 1) {
        MPT_OK(nixl_notify(0, TAG_FIRST, "last", 4, MPT_PATIENCE));
        kill(getpid(), SIGKILL);
    }
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_FIRST, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.nbytes, 4);
    MPT_EQ(memcmp(note.payload, "last", 4), 0);
    MPT_EQ(nixl_notify_recv(1, TAG_FIRST, UINT64_MAX, MPT_PATIENCE, &note), NIXL_E_PEER_LOST);
    MPT_TRUE(n_opened > 0);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");

    mpt_start();
    MPT_EQ(argc, 2);
    my_rank = rank != NULL ? atoi(rank) : -1;
    way = argv[1];
    MPT_OK(nixl_init(NULL));
    if (is_way("dead")) {
        meet_a_dead_rank();
        mpt_finalize();
    } else {
        meet_all();
        MPT_OK(nixl_finalize());
    }
    return mpt_passed();
}
