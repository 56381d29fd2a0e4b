/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks without a runtime, for libraries that bring none: a fork, a socket pair to swap
 * addresses through, and a barrier in shared memory that keeps the library going. With
 * PEER_NETNS=a,b each rank enters a network namespace of that name first, so that the library finds
 * itself on two hosts; pair and barrier stay what they are.
 */
#ifndef PEER_PAIR_H
#define PEER_PAIR_H

#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int pair_fd;
static _Atomic long *pair_arrived;
static pid_t pair_child;

static inline void pair_die(const char *what)
{
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

/*
 * The rank's name of the two in `names`. /sys is mounted anew, since it lists the interfaces of the
 * namespace that mounted it, and libraries read it.
 */
static inline void pair_enter_netns(const char *names)
{
    size_t first = strcspn(names, ",");
    const char *name = peer_rank == 0 ? names : names + first + (names[first] == ',');
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "/run/netns/%.*s", (int)strcspn(name, ","), name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        pair_die(path);
    }
    close(fd);
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", "none", MS_SLAVE | MS_REC, NULL) != 0 ||
        umount2("/sys", MNT_DETACH) != 0 || mount("sysfs", "/sys", "sysfs", 0, NULL) != 0) {
        pair_die("mounting /sys");
    }
}

static inline void pair_start(void)
{
    const char *names = getenv("PEER_NETNS");
    int fds[2];

    pair_arrived = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pair_arrived == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
        pair_die("socketpair");
    }
    pair_child = fork();
    peer_rank = pair_child == 0;
    if (peer_rank == 1) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    pair_fd = fds[peer_rank];
    close(fds[!peer_rank]);
    peer_pin(peer_rank);
    if (names != NULL && names[0] != '\0') {
        pair_enter_netns(names);
    }
}

/* Both send a blob and get the other's, to be freed. */
static inline void *pair_swap(const void *mine, size_t nbytes)
{
    uint64_t sizes[2] = {nbytes, 0};
    void *theirs;

    if (write(pair_fd, &sizes[0], 8) != 8 || write(pair_fd, mine, nbytes) != (ssize_t)nbytes ||
        recv(pair_fd, &sizes[1], 8, MSG_WAITALL) != 8) {
        pair_die("swapping addresses");
    }
    theirs = malloc(sizes[1] + 1);
    if (theirs == NULL || recv(pair_fd, theirs, sizes[1], MSG_WAITALL) != (ssize_t)sizes[1]) {
        pair_die("swapping addresses");
    }
    return theirs;
}

static inline void pair_barrier(void (*progress)(void))
{
    long round = atomic_fetch_add(pair_arrived, 1) / 2;

    while (atomic_load(pair_arrived) < 2 * round + 2) {
        progress();
    }
}

static inline void pair_end(void)
{
    fflush(stdout);
    if (peer_rank == 0) {
        waitpid(pair_child, NULL, 0);
    }
    _exit(0);
}

#endif
