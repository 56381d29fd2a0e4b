/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking whether a rank has published a region at this moment. Unlike the question for a key, this
 * one is answered at once, whatever the answer. Lock: job.lock guards the list of questions; the
 * answer is waited for without it.
 */
#include "config.h"

#include "host/link.h"
#include "host/service.h"
#include "host/wire.h"
#include "part.h"
#include "region.h"
#include "util/clock.h"
#include "util/status.h"
#include "wait.h"

#include <stdio.h>

/* A question under way, on the stack of whoever asks. */
struct part_probe {
    struct nxr_list link;
    struct nxr_peer *peer;
    uint64_t ask;
    _Atomic int status; /* NIXL_INPROGRESS until it is answered */
};

static struct nxr_list probes = {&probes, &probes};
static uint64_t last_ask;

static void probe_end(struct part_probe *probe, int status)
{
    atomic_store_explicit(&probe->status, status, memory_order_release);
    nxr_wake_self();
}

void nxr_part_probed(struct nxr_peer *peer, const struct nxr_wire_probed *answer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &probes) {
        struct part_probe *probe = nxr_list_entry(link, struct part_probe, link);

        if (probe->peer == peer && probe->ask == answer->ask) {
            probe_end(probe, answer->is_published != 0 ? NIXL_OK : NIXL_ERR_NOT_FOUND);
        }
    }
}

void nxr_part_probes_end(struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &probes) {
        struct part_probe *probe = nxr_list_entry(link, struct part_probe, link);

        if (probe->peer == peer) {
            probe_end(probe, NIXL_ERR_PEER_LOST);
        }
    }
}

static bool is_answered(void *arg)
{
    const struct part_probe *probe = arg;

    return atomic_load_explicit(&probe->status, memory_order_acquire) != NIXL_INPROGRESS ||
           nxr_peer_is_lost(probe->peer);
}

/* Send the question; the link is known. False: nothing leads to the rank. */
static bool probe_send(struct part_probe *probe, const char *name)
{
    union nxr_wire_message message;
    bool is_up;

    nxr_wire_init(&message, NXR_WIRE_PROBE);
    snprintf(message.resolve.name, sizeof(message.resolve.name), "%s", name);
    pthread_mutex_lock(&nxr_job.lock);
    is_up = atomic_load(&probe->peer->link) == NXR_LINK_UP && probe->peer->transport != NULL;
    if (is_up) {
        probe->ask = message.resolve.ask = ++last_ask;
        nxr_list_append(&probes, &probe->link);
        nxr_peer_tell(probe->peer, &message);
        nxr_service_kick();
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return is_up;
}

/* NIXL_OK or NIXL_ERR_NOT_FOUND as the owner answers, or why there is no answer. */
static int probe_run(struct nxr_peer *peer, const char *name, int64_t timeout_ns)
{
    struct part_probe probe = {.peer = peer};
    int64_t deadline = nxr_deadline(timeout_ns);
    int status = nxr_peer_connect(peer, timeout_ns), answer;

    atomic_init(&probe.status, NIXL_INPROGRESS);
    if (status != NIXL_OK || nxr_peer_is_lost(peer)) {
        return status == NIXL_OK ? NIXL_ERR_PEER_LOST : status;
    }
    if (!probe_send(&probe, name)) {
        return nxr_peer_is_lost(peer) ? NIXL_ERR_PEER_LOST : NIXL_ERR_UNSUPPORTED;
    }
    status = nxr_wait(is_answered, &probe, nxr_left(timeout_ns, deadline));
    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_remove(&probe.link);
    pthread_mutex_unlock(&nxr_job.lock);
    answer = atomic_load(&probe.status);
    if (answer != NIXL_INPROGRESS) {
        return answer;
    }
    return nxr_peer_is_lost(peer) ? NIXL_ERR_PEER_LOST : status;
}

static int fail_probe(const char *operation, struct nxr_peer *peer, const char *name, int status)
{
    switch (status) {
    case NIXL_ERR_PEER_LOST:
        return nxr_peer_fail_lost(operation, peer->rank, "");
    case NIXL_ERR_UNSUPPORTED:
        return nxr_peer_fail_unreached(operation, peer);
    case NIXL_ERR_TIMEOUT:
        return nxr_fail(status, operation, peer->rank, "", 0,
                        "rank %d has not answered within the timeout", peer->rank);
    default:
        return nxr_fail(status, operation, peer->rank, "", 0,
                        "rank %d has no region '%s' at present", peer->rank, name);
    }
}

/* Its key is known here, and its owner has not closed it, as far as it has told. */
static bool is_open(const struct nxr_part *part)
{
    return part != NULL &&
           atomic_load_explicit(part->generation_now, memory_order_acquire) == part->key.generation;
}

int nixl_region_is_published(struct nixl_region *region, int rank, int64_t timeout_ns)
{
    static const char operation[] = "nixl_region_is_published";
    int status = nxr_region_check(operation, region, timeout_ns);
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    peer = nxr_peer_get(rank);
    if (peer == NULL) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, rank, "", 0, "no memory for rank %d", rank);
    }
    if (rank == nxr_job.rank) {
        pthread_mutex_lock(&nxr_job.lock);
        status = nxr_publish_find(region->name) != NULL ? NIXL_OK : NIXL_ERR_NOT_FOUND;
        pthread_mutex_unlock(&nxr_job.lock);
    } else if (!is_open(nxr_region_part(region, rank))) {
        status = probe_run(peer, region->name, timeout_ns);
    }
    return status >= 0 ? status : fail_probe(operation, peer, region->name, status);
}
