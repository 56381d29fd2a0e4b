/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detecting the deaths of connected peers. detector.c spreads the news to ranks that never
 * communicated with the dead one; the launcher's events only speed this up. Lock: job.lock.
 */
#include "config.h"

#include "host/liveness.h"
#include "core/subsystem.h"
#include "core/life.h"
#include "core/returned.h"
#include "core/service.h"
#include "core/event.h"
#include "host/deathwatch.h"
#include "host/conn.h"
#include "host/connect.h"
#include "host/local_socket.h"
#include "host/packet.h"
#include "host/peer.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"
#include "core/wait.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNWATCHED_POLL_NS (100 * NXR_MS) /* poll interval for peers without a pidfd */

static int n_unwatched; /* connected peers without a pidfd */
static int64_t orphan_at = INT64_MAX;

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool liveness_has_ended(int pidfd)
{
    struct pollfd entry = {.fd = pidfd, .events = POLLIN};

    return poll(&entry, 1, 0) > 0;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/*
 * The watch lies in the peer, which is freed late: a thread may end it after epoll has reported the
 * event, and before the service thread has job.lock.
 */
static void pid_ended(struct nxr_watch *watch, uint32_t events)
{
    struct host_peer *hp = nxr_list_entry(watch, struct host_peer, pid_watch);

    (void)events;
    if (hp->pidfd < 0) {
        return;
    }
    hp->is_gone = true;
    nxr_liveness_unwatch(hp->peer);
    if (!nxr_peer_is_replaced(hp->peer)) {
        nxr_life_lost_locked(hp->peer->rank);
    }
}

void nxr_liveness_watch(struct nxr_peer *peer, int socket)
{
    struct host_peer *hp = host_peer_of(peer);
    int pidfd = socket >= 0 ? nxr_packet_other_pidfd(socket) : -1;

    if (pidfd < 0) {
        pidfd = open_pidfd(peer->pid);
    }
    nxr_deathwatch_changed();
    if (pidfd < 0 && errno == ESRCH) {
        hp->is_gone = true;
        nxr_life_lost_locked(peer->rank);
        return;
    }
    if (pidfd >= 0 && nxr_control_is_dead(peer->control)) {
        close(pidfd); /* its number may have been another process's when that was opened */
        pidfd = -1;
    }
    if (pidfd >= 0 && nxr_service_may_keep_fd(pidfd)) {
        hp->pid_watch.fn = pid_ended;
        if (nxr_service_watch(pidfd, EPOLLIN, &hp->pid_watch) == NIXL_OK) {
            hp->pidfd = pidfd;
            return;
        }
    }
    if (pidfd >= 0) {
        close(pidfd);
    }
    hp->is_unwatched = true;
    n_unwatched++;
    nxr_service_kick(); /* its next tick is due sooner now */
}

void nxr_liveness_unwatch(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    n_unwatched -= hp->is_unwatched;
    hp->is_unwatched = false;
    if (hp->pidfd >= 0) {
        nxr_service_unwatch(hp->pidfd);
        close(hp->pidfd);
        hp->pidfd = -1;
    }
}

/* Has the process ended with all of its threads? */
static bool process_has_ended(const struct nxr_peer *peer, int own_pidfd)
{
    int pidfd = own_pidfd;
    bool has_ended;

    if (pidfd < 0 && peer->pid <= 0) {
        /* It has no pid here. The kernel closes its socket after its last thread has ended. */
        return !nxr_local_socket_is_there(NXR_CONN_SOCKET, peer->card.nonce);
    }
    pidfd = pidfd >= 0 ? pidfd : open_pidfd(peer->pid);
    has_ended = pidfd < 0 ? errno == ESRCH : liveness_has_ended(pidfd);
    if (pidfd >= 0 && pidfd != own_pidfd) {
        close(pidfd);
    }
    return has_ended;
}

bool nxr_liveness_is_gone(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    if (!nxr_peer_is_local(peer)) {
        return false;
    }
    if (!hp->is_gone && (nxr_peer_is_lost(peer) || nxr_control_is_dead(peer->control))) {
        /* The mark is per thread: the other threads of the process must have ended as well. */
        hp->is_gone = process_has_ended(peer, hp->pidfd);
    }
    return hp->is_gone;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void look_at_unwatched(void)
{
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        if (peer->rank == nxr_job.rank || host_peer_of(peer)->pidfd >= 0 ||
            !nxr_peer_is_local(peer) || nxr_peer_is_lost(peer)) {
            continue;
        }
        if (nxr_control_is_dead(peer->control) ||
            atomic_load(&peer->control->life) == NXR_LIFE_FINISHED) {
            nxr_life_lost_locked(peer->rank);
        }
    }
}

static _Noreturn void die_as_orphan(void)
{
    nxr_error(HOST, "the launcher has been gone for NIXLRUN_ORPHAN_GRACE; ending this rank");
    _exit(1);
}

int64_t nxr_liveness_tick(int64_t now)
{
    int64_t due = orphan_at;

    if (orphan_at <= now) {
        die_as_orphan();
    }
    if (n_unwatched > 0) {
        look_at_unwatched();
        due = now + UNWATCHED_POLL_NS < due ? now + UNWATCHED_POLL_NS : due;
    }
    return due;
}

static void liveness_launcher_gone(void)
{
    if (orphan_at == INT64_MAX) {
        orphan_at = nxr_deadline(nxr_env.orphan_grace);
        nxr_warn(HOST, "the launcher is gone");
        nxr_event_push(NULL, NIXL_EVENT_LAUNCHER_LOST, -1, "");
        nxr_service_kick();
    }
}

/* Caller holds job.lock. */
static void liveness_hear(const struct nxr_wireup_event *event)
{
    if (event->news == NXR_WIREUP_GONE) {
        liveness_launcher_gone();
    } else if (!nxr_is_own_rank(event->rank)) {
        return;
    } else if (event->news == NXR_WIREUP_JOINED) {
        nxr_returned_hear(&event->card);
    } else if (event->news == NXR_WIREUP_ENDED) {
        nxr_returned_has_ended(event->rank);
    } else {
        nxr_life_left_locked(event->rank);
    }
}

void nxr_liveness_from_launcher(const struct nxr_wireup_event *event)
{
    if (!nxr_is_joined()) { /* there may be no lock */
        return;
    }
    pthread_mutex_lock(&nxr_job.lock);
    if (nxr_is_joined()) { /* still: the lock is taken once more before the subsystems stop */
        liveness_hear(event);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

void nxr_liveness_stop(void)
{
    for (struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL; peer = nxr_peers_next(peer)) {
        nxr_liveness_unwatch(peer);
    }
    n_unwatched = 0;
    orphan_at = INT64_MAX;
}

const struct nxr_subsystem nxr_liveness_subsystem = {
    .name = "liveness",
    .tick = nxr_liveness_tick,
    .close = nxr_liveness_stop,
};
