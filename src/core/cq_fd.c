/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors of completion queues. A peer makes this rank's event fd readable, and knows no
 * other. So the descriptor of a queue is an epoll instance that watches the event fd, which wakes
 * the queue's thread without another one in between, and an eventfd of the queue's own: whoever
 * takes the news off the event fd passes it on to all armed queues. Both are edge-triggered:
 * arming takes what was seen before, and reads neither. Lock: nxr_cqs_lock (cq.c).
 */
#include "config.h"

#include "core/cq.h"
#include "core/progress.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "util/log.h"
#include "util/status.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The event fd was read, by a thread that armed it: queues that have not looked yet must. */
static void cqs_pass_on(void)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = nxr_cqs.next; link != &nxr_cqs; link = link->next) {
        struct nixl_cq *cq = nxr_list_entry(link, struct nixl_cq, link);

        if (atomic_load(&cq->is_armed) && write(cq->news_fd, &one, sizeof(one)) < 0 &&
            errno != EAGAIN) {
            nxr_warn(CORE, "cannot signal the descriptor of a completion queue: %m");
        }
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
}

static bool cq_watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void nxr_cq_close_fd(struct nixl_cq *cq)
{
    if (cq->fd >= 0) {
        close(cq->fd);
    }
    if (cq->news_fd >= 0) {
        close(cq->news_fd);
    }
    cq->fd = -1;
    cq->news_fd = -1;
}

/* Caller holds nxr_cqs_lock. */
static bool cq_open_fd(struct nixl_cq *cq)
{
    int error;

    cq->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cq->fd = cq->news_fd >= 0 ? epoll_create1(EPOLL_CLOEXEC) : -1;
    if (cq->fd >= 0 && cq_watch(cq->fd, cq->news_fd) && cq_watch(cq->fd, nxr_job.event_fd)) {
        return true;
    }
    error = errno;
    nxr_cq_close_fd(cq);
    errno = error;
    return false;
}

int nixl_cq_fd(struct nixl_cq *cq)
{
    static const char operation[] = "nixl_cq_fd";
    int status = nxr_cq_check(operation, cq), fd, error = 0;

    if (status != NIXL_OK) {
        return status;
    }
    pthread_mutex_lock(&nxr_cqs_lock);
    if (cq->fd < 0 && !cq_open_fd(cq)) {
        error = errno;
    }
    fd = cq->fd;
    pthread_mutex_unlock(&nxr_cqs_lock);
    return fd >= 0 ? fd
                   : nxr_fail(NIXL_E_LIMIT, operation, -1, "", error,
                              "no descriptor for a completion queue is left");
}

int nixl_cq_arm(struct nixl_cq *cq)
{
    static const char operation[] = "nixl_cq_arm";
    int status = nxr_cq_check(operation, cq);
    struct epoll_event seen[2];

    if (status != NIXL_OK) {
        return status;
    }
    if (cq->fd < 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "the queue has no descriptor yet: call nixl_cq_fd() first");
    }
    if (epoll_wait(cq->fd, seen, 2, 0) < 0 && errno != EINTR) {
        return nxr_fail(NIXL_E_INTERNAL, operation, -1, "", errno,
                        "cannot read the descriptor of the queue: was it closed?");
    }
    atomic_store(&cq->is_armed, true);
    nxr_subsystems_hand_over();
    atomic_fetch_or_explicit(&nxr_job.control->sleep_flags, NXR_SLEEP_EVENT_FD,
                             memory_order_relaxed);
    nxr_barrier_heavy();
    nxr_progress();
    if (!nxr_cq_has_any(cq)) {
        return NIXL_OK;
    }
    atomic_store(&cq->is_armed, false);
    return NIXL_INPROGRESS;
}

const struct nxr_subsystem nxr_cq_fd_subsystem = {
    .name = "cq fd",
    .event_fd_read = cqs_pass_on,
};
