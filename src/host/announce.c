/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announcements: a rank maps a peer's page, says so there, and wakes the peer. Owns the bell. A
 * rank sets its bit of `announced` after its announcement; the peer clears the bits before it reads
 * announcements. Lock: job.lock.
 */
#include "config.h"

#include "host/announce.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "core/wait.h"
#include "host/local_socket.h"
#include "host/mapping.h"
#include "host/peer.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int bell_fd = -1;

/* ---- announcing ------------------------------------------------------------------------------ */

bool nxr_announce_may(const struct nxr_peer *peer, const struct nxr_card *card)
{
    const struct nxr_card *own = &nxr_job.card.head;

    return !nxr_peer_is_attached(peer) && !peer->has_rings_page && bell_fd >= 0 && card->pid > 0 &&
           own->pid_space != 0 && own->pid_space == card->pid_space &&
           nxr_card_shares_sockets(own, card);
}

/*
 * Open a peer's control page. Returns -1 with errno if that fails or the file is not a page of this
 * job. Both numbers may have been given to another process or file, so open() must not wait for it.
 */
static int announce_open(int pid, int number)
{
    char path[48];
    struct stat info;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
                    (size_t)info.st_size != nxr_control_nbytes(nxr_job.size))) {
        close(fd);
        errno = ESTALE;
        fd = -1;
    }
    return fd;
}

static bool announce_map(struct nxr_peer *peer)
{
    int fd = announce_open(peer->card.pid, peer->card.control_fd), status;

    if (fd < 0) {
        nxr_debug(HOST, "%s cannot be connected through /proc: %m", nxr_peer_name(peer));
        return false;
    }
    status = nxr_mapping_make(peer, &peer->card, fd, -1);
    close(fd);
    return status == NIXL_OK;
}

/*
 * Make a thread of the peer look: one that polls, one that sleeps in a wait, or the service thread.
 * If another rank's bit is still set, that rank has done this; if it died first, the report of its
 * death makes the peer look. False: the peer has ended or cannot be reached.
 */
static bool announce_call(const struct nxr_peer *peer)
{
    struct nxr_control *page = host_peer_of(peer)->page;
    uint64_t bits = atomic_fetch_or(&page->announced, nxr_control_bit(nxr_job.rank));

    nxr_fence_full();
    return bits != 0 || atomic_load(&page->n_pollers) > 0 || nxr_wake_waiters(page) ||
           nxr_local_bell_ring(bell_fd, peer->card.nonce);
}

bool nxr_announce(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);
    const struct nxr_card *own = &nxr_job.card.head;

    if (hp->page != NULL || !nxr_announce_may(peer, &peer->card) || !announce_map(peer)) {
        return false;
    }
    atomic_store(&hp->page->credits[nxr_job.rank].announced_by,
                 (uint64_t)own->pid << 32 | (uint32_t)own->control_fd);
    return announce_call(peer);
}

/* ---- hearing --------------------------------------------------------------------------------- */

bool nxr_announce_came_from(const struct nxr_peer *peer)
{
    return !peer->has_rings_page && peer->in.credit != NULL &&
           atomic_load(&peer->in.credit->announced_by) != 0;
}

bool nxr_announce_read_card(const struct nxr_peer *peer, struct nxr_full_card *card_p)
{
    unsigned char bytes[NXR_CONTROL_CARD_NBYTES];
    ssize_t n_read = -1;
    uint64_t by;
    int fd;

    if (!nxr_announce_came_from(peer)) {
        return false;
    }
    by = atomic_load(&peer->in.credit->announced_by);
    fd = announce_open((int)(by >> 32), (int)(uint32_t)by);
    if (fd >= 0) {
        n_read = pread(fd, bytes, sizeof(bytes), offsetof(struct nxr_control, card));
        close(fd);
    }
    return n_read == (ssize_t)sizeof(bytes) &&
           nxr_card_parse(bytes, sizeof(bytes), &peer->identity, card_p) == NIXL_OK;
}

static void announce_take_bit(int bit, void (*fn)(struct nxr_peer *peer))
{
    for (int rank = bit; rank < nxr_job.size; rank += NXR_CONTROL_BITS) {
        struct nxr_peer *peer = NULL;

        if (rank != nxr_job.rank &&
            atomic_load(&nxr_job.control->credits[rank].announced_by) != 0) {
            peer = nxr_peer_get_locked(rank);
        }
        if (peer != NULL && nxr_announce_came_from(peer)) {
            fn(peer);
        }
    }
}

bool nxr_announce_has_come(void)
{
    return atomic_load(&nxr_job.control->announced) != 0 && nxr_is_joined();
}

void nxr_announce_take(void (*fn)(struct nxr_peer *peer))
{
    uint64_t bits = atomic_exchange(&nxr_job.control->announced, 0);

    for (int bit = 0; bit < NXR_CONTROL_BITS; bit++) {
        if ((bits >> bit & 1) != 0) {
            announce_take_bit(bit, fn);
        }
    }
}

void nxr_announce_hear_out(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    if (!nxr_peer_is_up(peer) && !hp->is_heard_out && nxr_announce_came_from(peer)) {
        hp->is_heard_out = true;
        nxr_subsystems_peer_connected(peer);
        nxr_wake_self();
    }
    if (nxr_announce_has_come()) {
        nxr_service_kick(); /* the peer may have died before announce_call() woke a thread here */
    }
}

/* The service thread takes announcements after each wake-up. */
static void bell_rang(struct nxr_watch *watch, uint32_t events)
{
    char byte;

    (void)watch;
    (void)events;
    (void)recv(bell_fd, &byte, sizeof(byte), MSG_DONTWAIT);
}

static struct nxr_watch bell_watch = {bell_rang};

int nxr_announce_listen(void)
{
    int status;

    bell_fd = nxr_local_bell_open(nxr_job.card.head.nonce);
    if (bell_fd < 0) {
        nxr_debug(HOST, "no bell, so that this rank connects by sockets: %m");
        return NIXL_OK;
    }
    status = nxr_service_watch(bell_fd, EPOLLIN, &bell_watch);
    if (status != NIXL_OK) {
        close(bell_fd);
        bell_fd = -1;
    }
    return status;
}

void nxr_announce_stop(void)
{
    if (bell_fd >= 0) {
        nxr_service_unwatch(bell_fd);
        close(bell_fd);
        bell_fd = -1;
    }
}
