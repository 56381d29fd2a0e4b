/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping on the network. The descriptor is an epoll over one descriptor of each rail and a timer,
 * so it stays the same when a rail is reopened. If a provider has no descriptor for its queue, the
 * timer expires every millisecond instead.
 *
 * libfabric's own TCP ("net", and "tcp" from 1.18 on) has a descriptor that stays readable forever
 * once anything has completed: nothing clears the queue's signal, and fi_trywait() does not check
 * it. That descriptor is an epoll that contains the signal and the epoll of the connections; we
 * sleep on the latter only, after checking the queue.
 */
#include "config.h"

#include "ofi.h"
#include "util/clock.h"

#include <rdma/fi_errno.h>

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define POLL_NS     (1 * NXR_MS)  /* without a descriptor */
#define MAX_REFUSED 8             /* how often sleep may be refused while nothing moves */
#define POSTING_NS  (20 * NXR_MS) /* something waits for room that no descriptor signals */

int nxr_ofi_sleep_open(void)
{
    struct epoll_event event = {.events = EPOLLIN};

    nxr_ofi.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    nxr_ofi.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return nxr_ofi.epoll_fd >= 0 && nxr_ofi.timer_fd >= 0 &&
                   epoll_ctl(nxr_ofi.epoll_fd, EPOLL_CTL_ADD, nxr_ofi.timer_fd, &event) == 0
               ? NIXL_OK
               : NIXL_E_LIMIT;
}

void nxr_ofi_sleep_close(void)
{
    if (nxr_ofi.timer_fd >= 0) {
        close(nxr_ofi.timer_fd);
    }
    if (nxr_ofi.epoll_fd >= 0) {
        close(nxr_ofi.epoll_fd);
    }
}

/* ---- one rail -------------------------------------------------------------------------------- */

static bool is_epoll(int fd)
{
    char path[64], what[64];
    ssize_t nbytes;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    nbytes = readlink(path, what, sizeof(what) - 1);
    what[nbytes > 0 ? nbytes : 0] = '\0';
    return strcmp(what, "anon_inode:[eventpoll]") == 0;
}

/* The epoll descriptor inside an epoll; -1: there is none. */
static int epoll_inside(int fd)
{
    char path[64], line[256];
    int inner = -1, member;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    file = fopen(path, "re");
    while (file != NULL && inner < 0 && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "tfd: %d", &member) == 1 && is_epoll(member)) {
            inner = member;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return inner;
}

int nxr_ofi_watch_rail(struct nxr_ofi_rail *rail)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd;

    if (fi_control(&rail->cq->fid, FI_GETWAIT, &fd) != 0) {
        return NIXL_E_UNSUPPORTED;
    }
    if (nxr_ofi_is_own_tcp()) {
        fd = epoll_inside(fd);
    }
    if (fd < 0 || epoll_ctl(nxr_ofi.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return NIXL_E_UNSUPPORTED;
    }
    rail->wait_fd = fd;
    return NIXL_OK;
}

void nxr_ofi_unwatch_rail(struct nxr_ofi_rail *rail)
{
    if (rail->wait_fd >= 0) {
        epoll_ctl(nxr_ofi.epoll_fd, EPOLL_CTL_DEL, rail->wait_fd, NULL);
    }
    rail->wait_fd = -1;
}

/* May the caller sleep on the rail's descriptor? */
static bool is_empty(struct nxr_ofi_rail *rail)
{
    struct fid *fids[1] = {&rail->cq->fid};

    return nxr_ofi_is_own_tcp() ? nxr_ofi_cq_read(rail, NULL, 0) == -FI_EAGAIN
                                : fi_trywait(rail->fabric, fids, 1) == 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

void nxr_ofi_hush_timer(void)
{
    uint64_t n_rings;

    if (nxr_ofi.timer_at != 0 && nxr_ofi.now >= nxr_ofi.timer_at &&
        read(nxr_ofi.timer_fd, &n_rings, sizeof(n_rings)) > 0) {
        nxr_ofi.timer_at = 0;
    }
}

int nxr_ofi_event_fd(void)
{
    return nxr_ofi.epoll_fd;
}

static int ofi_sleep_set_timer(int64_t at)
{
    struct itimerspec when = {.it_value = nxr_timespec(at)};

    if (nxr_ofi.timer_at != 0 && nxr_ofi.timer_at <= at) {
        return NIXL_OK;
    }
    if (timerfd_settime(nxr_ofi.timer_fd, TFD_TIMER_ABSTIME, &when, NULL) != 0) {
        return NIXL_E_AGAIN;
    }
    nxr_ofi.timer_at = at;
    return NIXL_OK;
}

int nxr_ofi_arm(void)
{
    int64_t ring_at = nxr_ofi.repair_at != 0 ? nxr_ofi.repair_at : INT64_MAX;
    int64_t now = nxr_now_ns();

    if (!nxr_list_is_empty(&nxr_ofi.ended) || !nxr_list_is_empty(&nxr_ofi.acking) ||
        nxr_ofi.n_to_tell > 0) {
        return NIXL_E_AGAIN;
    }
    if (!nxr_list_is_empty(&nxr_ofi.posting) && now + POSTING_NS < ring_at) {
        ring_at = now + POSTING_NS;
    }
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_rail *rail = &nxr_ofi.rails[i];

        if (rail->cq == NULL) {
            continue; /* it is closed; repair.c reopens it */
        }
        if (rail->wait_fd < 0) {
            ring_at = now + POLL_NS < ring_at ? now + POLL_NS : ring_at;
        } else if (rail->n_unposted > 0 || nxr_ofi_can_stir(rail) || !is_empty(rail)) {
            /* ofi_rxm returns that all the time that it connects: poll again in a moment. */
            if (++nxr_ofi.n_refused < MAX_REFUSED) {
                return NIXL_E_AGAIN;
            }
            ring_at = now + POLL_NS < ring_at ? now + POLL_NS : ring_at;
        }
    }
    return ring_at == INT64_MAX ? NIXL_OK : ofi_sleep_set_timer(ring_at);
}
