/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that have come back as ranks of this job and wait to be readmitted, and the peers
 * that they replace. returned.h describes both. Lock: job.lock.
 */
#include "config.h"

#include "core/returned.h"
#include "core/event.h"
#include "core/job.h"
#include "core/late.h"
#include "core/life.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "util/log.h"
#include "util/status.h"

#include <stdlib.h>
#include <unistd.h>

/* A process that has come back and is not readmitted; the latest of its rank. */
struct returned {
    struct nxr_list link;
    struct nxr_full_card card;
};

static struct nxr_list returned_waiting = {&returned_waiting, &returned_waiting};
static struct nxr_list returned_former = {&returned_former, &returned_former}; /* struct nxr_peer */

/* ---- who has come back ----------------------------------------------------------------------- */

static struct returned *returned_find(int rank)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &returned_waiting) {
        struct returned *returned = nxr_list_entry(link, struct returned, link);

        if (returned->card.head.identity.rank == rank) {
            return returned;
        }
    }
    return NULL;
}

static void returned_drop(struct returned *returned)
{
    nxr_list_remove(&returned->link);
    free(returned);
}

/* Keep the card until the program readmits the rank. Caller holds job.lock. */
static void returned_keep(const struct nxr_full_card *card)
{
    const struct nxr_identity *identity = &card->head.identity;
    struct returned *returned = returned_find(identity->rank);

    if (returned == NULL) {
        returned = calloc(1, sizeof(*returned));
        if (returned == NULL) {
            nxr_error(CORE, "no memory to note that %s has come back", nxr_identity_name(identity));
            return;
        }
        nxr_list_append(&returned_waiting, &returned->link);
    }
    returned->card = *card;
    nxr_info(HOST, "%s has come back", nxr_identity_name(identity));
    nxr_event_push_of(NIXL_EVENT_PEER_JOINED, identity);
}

void nxr_returned_hear(const struct nxr_full_card *card)
{
    int rank = nxr_rank_of(&card->head.identity);
    struct nxr_peer *peer;

    if (rank < 0 || rank == nxr_job.rank) {
        return;
    }
    peer = nxr_peer_get_locked(rank);
    if (peer != NULL && peer->identity.incarnation < card->head.identity.incarnation) {
        nxr_life_lost_locked(rank);
        returned_keep(card);
    }
}

void nxr_returned_has_ended(int rank)
{
    struct returned *returned = returned_find(rank);

    if (returned != NULL) {
        nxr_event_push_of(NIXL_EVENT_PEER_LOST, &returned->card.head.identity);
        returned_drop(returned);
    } else {
        nxr_life_lost_locked(rank);
    }
}

/* ---- readmitting ----------------------------------------------------------------------------- */

/* Put the peer of the new process in the place of the former one. Caller holds job.lock. */
static int returned_replace(struct nxr_peer *former, const struct nxr_full_card *card)
{
    struct nxr_peer *peer;
    int status = nxr_peer_new_returned(card, &peer);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_subsystems_peer_replaced(former);
    nxr_inflight_free_of(former);
    nxr_event_settle_death(former->rank);
    atomic_store_explicit((struct nxr_peer * _Atomic *)&nxr_job.peers[former->rank], peer,
                          memory_order_release);
    if (former->rings_fd >= 0) { /* no greeting follows */
        close(former->rings_fd);
        former->rings_fd = -1;
    }
    former->ended_at = nxr_now_ns();
    nxr_list_append(&returned_former, &former->late_link);
    nxr_info(HOST, "%s is readmitted", nxr_peer_name(peer));
    nxr_peer_want(peer); /* it may be waiting for this */
    nxr_service_kick();
    return NIXL_OK;
}

/* Why the rank cannot be readmitted with that incarnation, in words. Caller holds job.lock. */
static int returned_judge(const struct nxr_peer *peer, uint32_t incarnation, const char **why_p)
{
    const struct returned *returned = returned_find(peer->rank);
    uint32_t known = peer->identity.incarnation;

    if (returned != NULL && incarnation == returned->card.head.identity.incarnation) {
        return NIXL_OK;
    }
    if (incarnation > known && returned != NULL &&
        incarnation < returned->card.head.identity.incarnation) {
        *why_p = "that process has ended, and another one has come; NIXL_EVENT_PEER_JOINED tells "
                 "so";
        return NIXL_E_PEER_LOST;
    }
    if (incarnation > known) {
        *why_p = "that process has ended, or has not come; NIXL_EVENT_PEER_JOINED tells who has";
        return NIXL_E_PEER_LOST;
    }
    *why_p = "that is an earlier process of the rank, or one that this rank has known before; "
             "allowed: the incarnation that NIXL_EVENT_PEER_JOINED has told";
    return NIXL_E_INVALID_ARG;
}

static int returned_readmit(const char *operation, int rank, uint32_t incarnation)
{
    struct nxr_peer *peer = nxr_peer_get_locked(rank);
    const struct nxr_identity meant = {nxr_job.self.job, rank, incarnation};
    const char *why = "";
    int status;

    if (peer == NULL) {
        return nxr_fail_no_peer(operation, rank);
    }
    if (incarnation == peer->identity.incarnation && !nxr_peer_is_lost(peer)) {
        return NIXL_OK;
    }
    status = returned_judge(peer, incarnation, &why);
    if (status != NIXL_OK) {
        return nxr_fail(status, operation, rank, "", 0, "%s cannot be readmitted: %s",
                        nxr_identity_name(&meant), why);
    }
    status = returned_replace(peer, &returned_find(rank)->card);
    if (status != NIXL_OK) {
        return nxr_fail(status, operation, rank, "", 0,
                        "no memory or no descriptor (raise ulimit -n) for %s",
                        nxr_identity_name(&meant));
    }
    returned_drop(returned_find(rank));
    return NIXL_OK;
}

int nixl_peer_readmit(int rank, uint32_t incarnation)
{
    static const char operation[] = "nixl_peer_readmit";
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_own_rank(rank)) {
        return nxr_fail_own_rank(operation, rank);
    }
    if (rank == nxr_job.rank) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "rank %d is this process; allowed: another rank of the job", rank);
    }
    pthread_mutex_lock(&nxr_job.lock);
    status = returned_readmit(operation, rank, incarnation);
    pthread_mutex_unlock(&nxr_job.lock);
    return status;
}

/* ---- former peers ---------------------------------------------------------------------------- */

/* Free a former peer if nothing refers to it. Returns when to look again. */
static int64_t returned_wind_up(struct nxr_peer *former, int64_t now)
{
    if (now < former->ended_at + NXR_LATE_NS) {
        return former->ended_at + NXR_LATE_NS;
    }
    if ((nxr_peer_is_up(former) && !nxr_inflight_leave_peer(former)) ||
        nxr_subsystems_peer_is_used(former)) {
        return now + NXR_LATE_CHECK_NS;
    }
    nxr_list_remove(&former->late_link);
    nxr_subsystems_peer_unlink(former);
    nxr_late_free(former, now);
    return now + NXR_LATE_NS;
}

struct nxr_peer *nxr_returned_next(const struct nxr_peer *former)
{
    struct nxr_list *next = former != NULL ? former->late_link.next : returned_former.next;

    return next != &returned_former ? nxr_list_entry(next, struct nxr_peer, late_link) : NULL;
}

static int64_t returned_tick(int64_t now)
{
    int64_t due = INT64_MAX;
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &returned_former) {
        int64_t step = returned_wind_up(nxr_list_entry(link, struct nxr_peer, late_link), now);

        due = step < due ? step : due;
    }
    return due;
}

void nxr_returned_reset(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&returned_former)) != NULL) {
        nxr_peer_free(nxr_list_entry(link, struct nxr_peer, late_link));
    }
    while (!nxr_list_is_empty(&returned_waiting)) {
        returned_drop(nxr_list_entry(returned_waiting.next, struct returned, link));
    }
}

const struct nxr_subsystem nxr_returned_subsystem = {
    .name = "returned",
    .tick = returned_tick,
};
