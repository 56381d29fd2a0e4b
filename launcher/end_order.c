/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each child has a pidfd in an epoll set, which reports descriptors in the order in which they
 * become ready. State: the set, and one descriptor for each child that lives. One thread.
 */
#include "config.h"

#include "launcher/end_order.h"

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static int end_order_set = -1;

void end_order_watch(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct epoll_event event = {.events = EPOLLIN};

    if (end_order_set < 0) {
        end_order_set = epoll_create1(EPOLL_CLOEXEC);
    }
    event.data.u64 = (uint64_t)pid << 32 | (uint32_t)pidfd;
    if (pidfd >= 0 && epoll_ctl(end_order_set, EPOLL_CTL_ADD, pidfd, &event) != 0) {
        close(pidfd);
    }
}

pid_t end_order_next(void)
{
    struct epoll_event event;

    if (end_order_set < 0 || epoll_wait(end_order_set, &event, 1, 0) <= 0) {
        return 0;
    }
    close((int)(uint32_t)event.data.u64); /* which takes it from the set */
    return (pid_t)(event.data.u64 >> 32);
}
