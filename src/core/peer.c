/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peers: what is known of each rank, made when first needed. Lock: job.lock. */
#include "config.h"

#include "core/carrier.h"
#include "core/service.h"
#include "core/stats.h"
#include "core/subsystem.h"
#include "core/job.h"
#include "util/debug.h"
#include "util/env.h"
#include "util/status.h"
#include "core/wait.h"
#include "core/wireup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* At most 16 MiB of memory are used for wide rings: the pages of those that are full once. */
#define MAX_WIDE_RINGS 256

static int n_wide_rings; /* job.lock */

/* A peer whose `in` is the caller's, all else empty; NULL: no memory. */
static struct nxr_peer *peer_new(int rank, const struct nxr_rings *in)
{
    size_t nbytes = nxr_subsystems_peer_nbytes();
    struct nxr_peer *peer = aligned_alloc(NXR_LINE_NBYTES, nbytes);

    if (peer == NULL) {
        return NULL;
    }
    memset(peer, 0, nbytes);
    *peer = (struct nxr_peer){
        .rank = rank,
        .identity = {nxr_job.self.job, rank, 0},
        .carrier = nxr_carrier_first(),
        .place = nxr_job.rank,
        .job_size = nxr_job.size,
        .in = *in,
        .rings_fd = -1,
        .event_fd = -1,
    };
    nxr_list_init(&peer->late_link);
    if (!nxr_subsystems_peer_init(peer)) {
        free(peer);
        return NULL;
    }
    return peer;
}

/* A peer with a page of rings. NIXL_OK, NIXL_E_NO_MEMORY, NIXL_E_LIMIT. */
static int peer_new_with_page(int number, struct nxr_peer **peer_p)
{
    struct nxr_rings in;
    int fd, status = nxr_rings_page_create(&in, &fd);
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    peer = peer_new(number, &in);
    if (peer == NULL) {
        nxr_rings_page_unmap(&in);
        close(fd);
        return NIXL_E_NO_MEMORY;
    }
    peer->rings_fd = fd;
    peer->has_rings_page = true;
    *peer_p = peer;
    return NIXL_OK;
}

/*
 * The rings of the control page are those of a rank's first process, at both ends: what a process
 * has left there must not meet what the next one expects.
 */
static struct nxr_peer *peer_new_rank(int rank)
{
    uint32_t incarnation = nxr_job.may_return ? nxr_wireup()->incarnation_of(rank) : 0;
    struct nxr_rings in = {.ring = NULL};
    struct nxr_peer *peer = NULL;

    NXR_ASSERT(rank == nxr_job.rank || !nxr_job.may_return || nxr_is_joined());
    if (rank != nxr_job.rank && (incarnation > 0 || nxr_job.self.incarnation > 0)) {
        (void)peer_new_with_page(rank, &peer);
    } else {
        if (nxr_job.control != NULL) {
            in = nxr_control_own_rings(nxr_job.control, rank);
        }
        peer = peer_new(rank, &in);
    }
    if (peer != NULL) {
        peer->identity.incarnation = incarnation;
        peer->is_counted = nxr_job.may_return;
    }
    return peer;
}

int nxr_peer_new_attached(int number, struct nxr_peer **peer_p)
{
    int status = peer_new_with_page(number, peer_p);

    if (status == NIXL_OK) {
        (*peer_p)->is_counted = true;
    }
    return status;
}

int nxr_peer_new_returned(const struct nxr_full_card *card, struct nxr_peer **peer_p)
{
    struct nxr_full_card *copy = malloc(sizeof(*copy));
    int status =
        copy != NULL ? peer_new_with_page(card->head.identity.rank, peer_p) : NIXL_E_NO_MEMORY;

    if (status != NIXL_OK) {
        free(copy);
        return status;
    }
    *copy = *card;
    (*peer_p)->full_card = copy;
    (*peer_p)->is_counted = true;
    nxr_peer_set_card(*peer_p, &copy->head);
    return NIXL_OK;
}

void nxr_peer_widen(struct nxr_peer *peer)
{
    void *ring = MAP_FAILED;

    if (n_wide_rings < MAX_WIDE_RINGS) {
        ring = mmap(NULL, NXR_RING_WIDE_NBYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    }
    if (ring != MAP_FAILED) {
        n_wide_rings++;
        peer->wide_ring = ring;
    }
}

static void end_wide_ring(struct nxr_peer *peer)
{
    if (peer->wide_ring != NULL) {
        munmap(peer->wide_ring, NXR_RING_WIDE_NBYTES);
        n_wide_rings--;
    }
}

void nxr_peer_free(struct nxr_peer *peer)
{
    nxr_subsystems_peer_fini(peer);
    nxr_stats_peer_end(peer);
    end_wide_ring(peer);
    if (peer->rings_fd >= 0) {
        close(peer->rings_fd);
    }
    if (peer->has_rings_page) {
        nxr_rings_page_unmap(&peer->in);
    }
    free(peer);
}

struct nxr_peer *nxr_peer_get_locked(int rank)
{
    if (nxr_job.peers[rank] == NULL && nxr_is_own_rank(rank)) {
        atomic_store_explicit((struct nxr_peer * _Atomic *)&nxr_job.peers[rank],
                              peer_new_rank(rank), memory_order_release);
    }
    return nxr_job.peers[rank];
}

struct nxr_peer *nxr_peer_get(int rank)
{
    struct nxr_peer *peer = nxr_peer_find(rank);

    if (peer == NULL) {
        pthread_mutex_lock(&nxr_job.lock);
        peer = nxr_peer_get_locked(rank);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    return peer;
}

void nxr_peer_set_card(struct nxr_peer *peer, const struct nxr_card *card)
{
    peer->card = *card;
    peer->has_card = true;
    if (!nxr_identity_is(&peer->identity, &card->identity)) { /* threads may read it to log */
        peer->identity = card->identity;
    }
}

const char *nxr_peer_why_refused(const struct nxr_identity *from, char why[NXR_IDENTITY_WHY_NBYTES])
{
    const struct nxr_identity here = {nxr_job.self.job, from->rank, from->incarnation};
    int rank = nxr_rank_of(from);
    const struct nxr_peer *peer = rank >= 0 ? nxr_job.peers[rank] : NULL;
    const struct nxr_identity *expected = peer != NULL && peer->has_card ? &peer->identity : &here;

    return nxr_identity_is(expected, from)
               ? NULL
               : nxr_identity_explain("a message of", expected, from, here.job, why);
}

void nxr_peers_free(void)
{
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (nxr_job.peers[rank] != NULL) {
            nxr_peer_free(nxr_job.peers[rank]);
        }
    }
    free(nxr_job.peers);
    nxr_job.peers = NULL;
}

const char *nxr_peer_why_lost(int rank)
{
    const struct nxr_peer *peer = nxr_is_rank(rank) ? nxr_peer_find(rank) : NULL;

    return peer != NULL &&
                   atomic_load_explicit(&peer->state, memory_order_acquire) == NIXL_PEER_LOST
               ? peer->why_not
               : "";
}

int nxr_fail_no_peer(const char *operation, int rank)
{
    if (nxr_attached_was(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0,
                    "no memory for the state of %s: %zu bytes", nxr_rank_name(rank),
                    nxr_subsystems_peer_nbytes());
}

int nxr_peer_fail_lost(const char *operation, int rank, const char *transport)
{
    const struct nxr_peer *peer = nxr_is_rank(rank) ? nxr_peer_find(rank) : NULL;
    int state =
        peer != NULL ? atomic_load_explicit(&peer->state, memory_order_acquire) : NIXL_PEER_LOST;

    if (peer != NULL && peer->is_detached) {
        return nxr_fail(NIXL_E_PEER_LOST, operation, rank, transport, 0,
                        "rank %d, which is %s, has been detached", rank, nxr_peer_name(peer));
    }
    if (state == NIXL_PEER_FINISHED && peer != NULL && nxr_peer_is_attached(peer)) {
        return nxr_fail(NIXL_E_PEER_LOST, operation, rank, transport, 0,
                        "rank %d, which is %s, has ended the attachment or left its job", rank,
                        nxr_peer_name(peer));
    }
    if (state == NIXL_PEER_FINISHED) {
        return nxr_fail(NIXL_E_PEER_LOST, operation, rank, transport, 0, "%s has left the job",
                        nxr_rank_name(rank));
    }
    if (state == NIXL_PEER_ALIVE && peer != NULL) {
        return nxr_fail(NIXL_E_PEER_LOST, operation, rank, transport, 0,
                        "the process that it was begun with has ended; %s has taken its place",
                        nxr_peer_name(peer));
    }
    if (nxr_peer_why_lost(rank)[0] != '\0') {
        return nxr_fail(NIXL_E_PEER_LOST, operation, rank, transport, 0, "%s is lost: %s",
                        nxr_rank_name(rank), nxr_peer_why_lost(rank));
    }
    return nxr_fail(NIXL_E_PEER_LOST, operation, rank, transport, 0, "%s has died",
                    nxr_rank_name(rank));
}

int nxr_peer_fail_unreached(const char *operation, const struct nxr_peer *peer)
{
    return nxr_fail(NIXL_E_UNSUPPORTED, operation, peer->rank, "", 0, "no transport reaches %s: %s",
                    nxr_peer_name(peer), peer->why_not);
}

void nxr_peer_tell(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    peer->carrier->send(peer, message);
}

void nxr_peer_want(struct nxr_peer *peer)
{
    nxr_carrier_first()->want(peer);
}

bool nxr_peer_is_gone_locked(struct nxr_peer *peer)
{
    return peer->rank != nxr_job.rank && peer->carrier->is_gone != NULL &&
           peer->carrier->is_gone(peer);
}

bool nxr_peer_is_gone(int rank)
{
    struct nxr_peer *peer;
    bool is_gone;

    if (rank == nxr_job.rank || !nxr_is_rank(rank)) {
        return false;
    }
    pthread_mutex_lock(&nxr_job.lock);
    peer = nxr_job.peers[rank];
    is_gone = peer != NULL && nxr_peer_is_gone_locked(peer);
    pthread_mutex_unlock(&nxr_job.lock);
    return is_gone;
}

bool nxr_rank_is_out(int rank)
{
    const struct nxr_peer *peer = nxr_is_rank(rank) ? nxr_peer_find(rank) : NULL;

    return peer != NULL ? atomic_load_explicit(&peer->is_out, memory_order_acquire)
                        : nxr_attached_was(rank);
}

bool nxr_rank_look_out_locked(int rank)
{
    struct nxr_peer *peer = nxr_is_rank(rank) ? nxr_peer_find(rank) : NULL;

    if (peer != NULL && nxr_peer_is_lost(peer) && !atomic_load(&peer->is_out) &&
        (!nxr_peer_is_local(peer) || atomic_load(&peer->control->life) == NXR_LIFE_FINISHED ||
         (nxr_peer_is_attached(peer) && atomic_load(&peer->in.credit->is_out)) ||
         nxr_peer_is_gone_locked(peer))) {
        atomic_store_explicit(&peer->is_out, true, memory_order_release);
    }
    return nxr_rank_is_out(rank);
}

bool nxr_peer_is_unconnected(const struct nxr_peer *peer, const char *within, char *why,
                             size_t why_nbytes)
{
    return peer->carrier->is_unconnected != NULL &&
           peer->carrier->is_unconnected(peer, within, why, why_nbytes);
}

static bool is_connection_known(void *arg)
{
    const struct nxr_peer *peer = arg;
    int connection = atomic_load_explicit(&peer->connection, memory_order_acquire);

    return connection == NXR_CONNECTION_UP || connection == NXR_CONNECTION_REMOTE ||
           nxr_peer_is_lost(peer);
}

int nxr_peer_connect(struct nxr_peer *peer, int64_t timeout_ns)
{
    if (is_connection_known(peer)) {
        return NIXL_OK;
    }
    pthread_mutex_lock(&nxr_job.lock);
    nxr_peer_want(peer);
    pthread_mutex_unlock(&nxr_job.lock);
    return nxr_wait_as(is_connection_known, peer, timeout_ns, nxr_describe_reason,
                       &(const struct nxr_reason){.kind = NXR_WAIT_CONNECTION, .peer = peer->rank});
}

struct nxr_peer *nxr_peer_connected(const char *operation, int rank, int *status_p)
{
    struct nxr_peer *peer;

    *status_p = nxr_check_ready(operation);
    if (*status_p != NIXL_OK) {
        return NULL;
    }
    if (!nxr_is_rank(rank)) {
        *status_p = nxr_fail_rank(operation, rank);
        return NULL;
    }
    peer = nxr_peer_get(rank);
    if (peer == NULL) {
        *status_p = nxr_fail_no_peer(operation, rank);
        return NULL;
    }
    *status_p = nxr_peer_connect(peer, nxr_env.resolve_timeout);
    if (*status_p != NIXL_OK) {
        nxr_fail(*status_p, operation, rank, "", 0,
                 "%s has not answered within %s (NIXLRUN_RESOLVE_TIMEOUT)", nxr_peer_name(peer),
                 nxr_duration(nxr_env.resolve_timeout).text);
        return NULL;
    }
    return peer;
}

/* ---- what transports may know of a peer ------------------------------------------------------ */

pid_t nxr_peer_pid(const struct nxr_peer *peer)
{
    return peer->pid;
}

int nxr_peer_prove_pid(const struct nxr_peer *peer, pid_t pid)
{
    unsigned char nonce[NXR_NONCE_NBYTES];
    uint64_t nonce_addr = peer->control->self_addr + offsetof(struct nxr_control, nonce);
    struct iovec here = {nonce, sizeof(nonce)};
    struct iovec there = {(void *)(uintptr_t)nonce_addr, sizeof(nonce)};

    ssize_t moved = process_vm_readv(pid, &here, 1, &there, 1, 0);

    if (moved != (ssize_t)sizeof(nonce)) {
        return moved < 0 ? errno : EFAULT;
    }
    return memcmp(nonce, peer->control->nonce, sizeof(nonce)) == 0 ? 0 : ESRCH;
}
