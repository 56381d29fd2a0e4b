/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors of completion queues. A peer makes this rank's event fd readable, and knows no
 * other. So the service thread watches that descriptor once a queue has one of its own, and passes
 * the news on to all armed queues. Lock: queues_lock (cq.c).
 */
#include "config.h"

#include "core/cq.h"
#include "core/progress.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "util/log.h"
#include "util/status.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_bool is_watching; /* the service thread watches the event fd */

static void write_fd(int fd)
{
    const uint64_t one = 1;

    if (write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN) {
        nxr_warn(CORE, "cannot signal the descriptor of a completion queue: %m");
    }
}

static void cqs_signal(void)
{
    if (!atomic_load_explicit(&is_watching, memory_order_acquire)) {
        return;
    }
    pthread_mutex_lock(&nxr_cqs_lock);
    for (struct nxr_list *link = nxr_cqs.next; link != &nxr_cqs; link = link->next) {
        struct nixl_cq *cq = nxr_list_entry(link, struct nixl_cq, link);

        if (cq->fd >= 0 && atomic_exchange(&cq->is_armed, false)) {
            write_fd(cq->fd);
        }
    }
    pthread_mutex_unlock(&nxr_cqs_lock);
}

static void event_fd_is_readable(struct nxr_watch *watch, uint32_t events)
{
    (void)watch;
    (void)events;
    cqs_signal();
}

/* Edge-triggered: only nixl_event_arm() reads the descriptor, but each write of a peer is seen. */
static int watch_event_fd(void)
{
    static struct nxr_watch watch = {event_fd_is_readable};
    int status = NIXL_OK;

    pthread_mutex_lock(&nxr_job.lock);
    if (!atomic_load(&is_watching)) {
        status = nxr_service_watch(nxr_job.event_fd, EPOLLIN | EPOLLET, &watch);
        atomic_store(&is_watching, status == NIXL_OK);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return status;
}

int nixl_cq_fd(struct nixl_cq *cq)
{
    static const char operation[] = "nixl_cq_fd";
    int status = nxr_cq_check(operation, cq), fd;

    if (status == NIXL_OK) {
        status = watch_event_fd();
    }
    if (status != NIXL_OK) {
        return status;
    }
    pthread_mutex_lock(&nxr_cqs_lock);
    if (cq->fd < 0) {
        cq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    fd = cq->fd;
    pthread_mutex_unlock(&nxr_cqs_lock);
    return fd >= 0 ? fd
                   : nxr_fail(NIXL_E_LIMIT, operation, -1, "", errno,
                              "no descriptor for a completion queue is left");
}

int nixl_cq_arm(struct nixl_cq *cq)
{
    static const char operation[] = "nixl_cq_arm";
    int status = nxr_cq_check(operation, cq);
    uint64_t count;

    if (status != NIXL_OK) {
        return status;
    }
    if (cq->fd < 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "the queue has no descriptor yet: call nixl_cq_fd() first");
    }
    if (read(cq->fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
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

static void cq_fds_close(void)
{
    atomic_store(&is_watching, false);
}

const struct nxr_subsystem nxr_cq_fd_subsystem = {
    .name = "cq fd",
    .event_fd_written = cqs_signal,
    .close = cq_fds_close,
};
