/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How what this rank has lent ends: the door is shut first, then those inside are waited for, and
 * the lost ones are put out. Nothing polls: a thread that waits for the request looks at the
 * places, users wake it when they leave, and deaths and the service thread's timer do the rest.
 * Lock: lent_lock.
 */
#include "config.h"

#include "grant/grant.h"
#include "core/request.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "util/clock.h"

#include <stdio.h>

/* How often a grant that is shut with users inside is looked at, if nobody waits for it. */
#define LOOK_EVERY_NS (20 * NXR_MS)

static _Atomic int64_t next_end = INT64_MAX; /* lower bound of when a grant expires */
static _Atomic bool any_is_shut;             /* with users inside */

bool nxr_lent_expires(struct nxr_lent *lent, int64_t at)
{
    lent->expires_at = at;
    if (at >= atomic_load(&next_end)) {
        return false;
    }
    atomic_store(&next_end, at);
    return true;
}

void nxr_lent_shut(struct nxr_lent *lent, enum nixl_grant_state state)
{
    struct nxr_grant_record *record = nxr_lent_record(lent);
    uint64_t word = atomic_load(&record->word);

    while (nxr_grant_word_state(word, lent->turn) == NIXL_GRANT_OPEN &&
           !atomic_compare_exchange_weak(&record->word, &word, nxr_grant_word_ended(word, state))) {
    }
}

/* The user has ended, or there was never one of that number. */
static bool user_is_gone(int user)
{
    return user < 0 || (unsigned)user >= nxr_n_numbers() || nxr_rank_is_lost(user);
}

int nxr_lent_user(const struct nxr_lent *lent, uint32_t *n_users_p)
{
    struct nxr_grant_record *record = nxr_lent_record(lent);
    int found = -1;

    *n_users_p = 0;
    for (unsigned i = 0; i < NXR_GRANT_N_PLACES; i++) {
        uint64_t place = atomic_load(&record->places[i]);
        int user = nxr_grant_place_user(place);

        if (place >> 32 != lent->turn || place == 0) {
            continue; /* empty, or of a user that finds its turn over */
        }
        if (!user_is_gone(user) || !atomic_compare_exchange_strong(&record->places[i], &place, 0)) {
            found = user;
            ++*n_users_p;
        }
    }
    return found;
}

/* With what the request ends; NIXL_INPROGRESS: the grant is open. */
static int lent_outcome(int state)
{
    switch (state) {
    case NIXL_GRANT_OPEN:
        return NIXL_INPROGRESS;
    case NIXL_GRANT_USED:
        return NIXL_OK;
    case NIXL_GRANT_EXPIRED:
        return NIXL_E_EXPIRED;
    default:
        return NIXL_E_CANCELED;
    }
}

/* Has any user begun? */
static bool was_used(const struct nxr_lent *lent, uint64_t word)
{
    return lent->uses == 0 || nxr_grant_word_uses(word) != lent->uses;
}

bool nxr_lent_look(struct nxr_lent *lent)
{
    uint64_t word = atomic_load(&nxr_lent_record(lent)->word);
    int status = lent_outcome(nxr_grant_word_state(word, lent->turn));
    struct nixl_req *req = lent->req;
    uint32_t n_users;

    if (req == NULL || status == NIXL_INPROGRESS) {
        return false;
    }
    if (nxr_lent_user(lent, &n_users) >= 0) {
        return true;
    }
    req->op.nbytes_done = was_used(lent, word) ? req->op.nbytes : 0;
    nxr_lent_give(lent);
    nxr_request_end(req, status);
    return false;
}

void nxr_lent_watch(bool is_shut)
{
    if (is_shut && !atomic_exchange(&any_is_shut, true)) {
        nxr_service_kick();
    }
}

/* Has any that is shut users inside? Caller holds the lock. */
static bool lent_look_all(void)
{
    struct nxr_list *link, *after;
    bool is_shut = false;

    nxr_list_for_each (link, after, &nxr_lent_list) {
        is_shut |= nxr_lent_look(nxr_list_entry(link, struct nxr_lent, link));
    }
    return is_shut;
}

void nxr_lent_look_all(void)
{
    pthread_mutex_lock(&nxr_lent_lock);
    nxr_lent_watch(lent_look_all());
    pthread_mutex_unlock(&nxr_lent_lock);
}

/* ---- the request ----------------------------------------------------------------------------- */

/* The slot of a request; NULL: it has ended. Caller holds the lock. */
static struct nxr_lent *lent_of(const struct nixl_req *req)
{
    struct nxr_lent *lent = req->owned;

    return lent != NULL && lent->req == req ? lent : NULL;
}

static void lent_req_look(struct nixl_req *req)
{
    struct nxr_lent *lent;

    pthread_mutex_lock(&nxr_lent_lock);
    lent = lent_of(req);
    if (lent != NULL) {
        (void)nxr_lent_look(lent);
    }
    pthread_mutex_unlock(&nxr_lent_lock);
}

static void lent_req_stop(struct nixl_req *req)
{
    struct nxr_lent *lent;

    pthread_mutex_lock(&nxr_lent_lock);
    lent = lent_of(req);
    if (lent != NULL) {
        nxr_lent_shut(lent, NIXL_GRANT_REVOKED);
        nxr_lent_watch(nxr_lent_look(lent));
    }
    pthread_mutex_unlock(&nxr_lent_lock);
}

static void lent_req_describe(const struct nixl_req *req, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "the grant of %zu bytes", req->op.nbytes);
}

const struct nxr_req_owner nxr_lent_owner = {.is_unflushed = true,
                                             .stop = lent_req_stop,
                                             .look = lent_req_look,
                                             .describe = lent_req_describe};

/* ---- the subsystem --------------------------------------------------------------------------- */

/* Shut what is due, and look at all. Service thread, job.lock. */
static int64_t lent_tick(int64_t now)
{
    int64_t next = atomic_load_explicit(&next_end, memory_order_relaxed);
    struct nxr_list *link, *after;
    bool is_shut;

    if (now < next && !atomic_load(&any_is_shut)) {
        return next;
    }
    next = INT64_MAX;
    pthread_mutex_lock(&nxr_lent_lock);
    nxr_list_for_each (link, after, &nxr_lent_list) {
        struct nxr_lent *lent = nxr_list_entry(link, struct nxr_lent, link);

        if (lent->expires_at > now) {
            next = lent->expires_at < next ? lent->expires_at : next;
        } else {
            lent->expires_at = INT64_MAX;
            nxr_lent_shut(lent, NIXL_GRANT_EXPIRED);
        }
    }
    is_shut = lent_look_all();
    atomic_store(&any_is_shut, is_shut);
    atomic_store(&next_end, next);
    pthread_mutex_unlock(&nxr_lent_lock);
    return is_shut && next > now + LOOK_EVERY_NS ? now + LOOK_EVERY_NS : next;
}

static void lent_region_closing(const struct nixl_region *region)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&nxr_lent_lock);
    nxr_list_for_each (link, after, &nxr_lent_list) {
        struct nxr_lent *lent = nxr_list_entry(link, struct nxr_lent, link);

        if (lent->region == region) {
            lent->region = NULL;
            nxr_lent_shut(lent, NIXL_GRANT_CLOSED);
            nxr_lent_watch(nxr_lent_look(lent));
        }
    }
    pthread_mutex_unlock(&nxr_lent_lock);
}

/* Put the dead out of open grants, too: later its number may be another process's. */
static void lent_death_known(const struct nxr_peer *peer)
{
    struct nxr_list *link, *after;
    uint32_t n_users;

    (void)peer;
    pthread_mutex_lock(&nxr_lent_lock);
    nxr_list_for_each (link, after, &nxr_lent_list) {
        (void)nxr_lent_user(nxr_list_entry(link, struct nxr_lent, link), &n_users);
    }
    nxr_lent_watch(lent_look_all());
    pthread_mutex_unlock(&nxr_lent_lock);
}

/* The event fd must be readable if one of these requests ends now. */
static bool lent_has_news(void)
{
    nxr_lent_look_all();
    return false;
}

/* End a grant although somebody may be inside: this process leaves. Caller holds the lock. */
static void lent_abandon(struct nxr_lent *lent)
{
    struct nixl_req *req = lent->req;

    nxr_lent_shut(lent, NIXL_GRANT_CLOSED);
    nxr_lent_give(lent);
    nxr_request_end(req, NIXL_E_CANCELED);
}

static void grants_quiesce(void)
{
    nxr_leases_stop();
    pthread_mutex_lock(&nxr_lent_lock);
    while (!nxr_list_is_empty(&nxr_lent_list)) {
        lent_abandon(nxr_list_entry(nxr_lent_list.next, struct nxr_lent, link));
    }
    pthread_mutex_unlock(&nxr_lent_lock);
    nxr_lent_drop();
    atomic_store(&next_end, INT64_MAX);
    atomic_store(&any_is_shut, false);
}

const struct nxr_subsystem nxr_grant_subsystem = {
    .name = "grant",
    .register_handlers = nxr_grant_register,
    .tick = lent_tick,
    .progress = nxr_leases_progress,
    .region_closing = lent_region_closing,
    .has_news = lent_has_news,
    .death_known = lent_death_known,
    .quiesce = grants_quiesce,
    .stop = nxr_grants_forget,
};
