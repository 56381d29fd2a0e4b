/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting connections. No state of its own; job.lock. */
#include "config.h"

#include "host/acceptor.h"
#include "host/conn.h"
#include "util/clock.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_PER_WAKE 16
#define PAUSE_NS         (5 * NXR_MS) /* until it is tried again to have a descriptor */

static void acceptor_unwatch(struct nxr_acceptor *acceptor)
{
    for (int i = 0; i < NXR_LOCAL_ADDRESSES && acceptor->is_watching; i++) {
        if (acceptor->ends[i].fd >= 0) {
            nxr_service_unwatch(acceptor->ends[i].fd);
        }
    }
    acceptor->is_watching = false;
}

static int acceptor_watch(struct nxr_acceptor *acceptor)
{
    int status = NIXL_OK;

    acceptor->is_watching = true;
    for (int i = 0; i < NXR_LOCAL_ADDRESSES && status == NIXL_OK; i++) {
        struct nxr_acceptor_end *end = &acceptor->ends[i];

        status = end->fd >= 0 ? nxr_service_watch(end->fd, EPOLLIN, &end->watch) : NIXL_OK;
    }
    if (status != NIXL_OK) {
        acceptor_unwatch(acceptor);
    }
    return status;
}

static void acceptor_pause(struct nxr_acceptor *acceptor)
{
    acceptor_unwatch(acceptor);
    acceptor->again_at = nxr_now_ns() + PAUSE_NS;
}

/* Accept one connection. False: there is none, or no descriptor for it. */
static bool acceptor_accept(const struct nxr_acceptor_end *end)
{
    struct nxr_acceptor *acceptor = end->acceptor;
    int fd = accept4(end->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0) {
        if (!acceptor->take(acceptor, fd)) {
            close(fd); /* who means well comes again */
        }
        return true;
    }
    if (errno == EMFILE || errno == ENFILE) {
        if (nxr_conn_make_room()) {
            return true;
        }
        acceptor_pause(acceptor);
        return false;
    }
    return errno != EAGAIN; /* one that was aborted: there may be others behind it */
}

static void acceptor_ready(struct nxr_watch *watch, uint32_t events)
{
    const struct nxr_acceptor_end *end = nxr_list_entry(watch, struct nxr_acceptor_end, watch);

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_WAKE && end->acceptor->is_watching; i++) {
        if (!acceptor_accept(end)) {
            return; /* epoll reports those that are left again */
        }
    }
}

int nxr_acceptor_start(struct nxr_acceptor *acceptor, const int fds[NXR_LOCAL_ADDRESSES],
                       bool (*take)(struct nxr_acceptor *acceptor, int fd))
{
    *acceptor = (struct nxr_acceptor){.again_at = INT64_MAX, .take = take};
    for (int i = 0; i < NXR_LOCAL_ADDRESSES; i++) {
        acceptor->ends[i] = (struct nxr_acceptor_end){{acceptor_ready}, acceptor, fds[i]};
    }
    return acceptor_watch(acceptor);
}

void nxr_acceptor_stop(struct nxr_acceptor *acceptor)
{
    acceptor_unwatch(acceptor);
    acceptor->again_at = INT64_MAX;
}

int64_t nxr_acceptor_tick(struct nxr_acceptor *acceptor, int64_t now)
{
    if (acceptor->again_at != INT64_MAX && acceptor->again_at <= now) {
        acceptor->again_at = acceptor_watch(acceptor) == NIXL_OK ? INT64_MAX : now + PAUSE_NS;
    }
    return acceptor->again_at;
}
