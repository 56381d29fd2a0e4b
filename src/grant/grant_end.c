/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How what this rank has lent ends: the door is shut first, then those inside are waited for, and
 * the lost ones are put out. Nothing polls: a thread that waits for the request looks at the
 * places, users wake it when they leave, and deaths and the service thread's timer do the rest. A
 * user that is lost is inside until no thread of its process can move bytes any more.
 * Lock: lent_lock.
 */
#include "config.h"

#include "grant/grant.h"
#include "core/request.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "util/clock.h"

#include <stdio.h>

/*
 * How often a grant that is shut with users inside is looked at, if nobody waits for it, and one
 * with a lost user inside.
 */
#define LOOK_EVERY_NS (20 * NXR_MS)

static _Atomic int64_t next_end = INT64_MAX; /* lower bound of when a grant expires */
static _Atomic bool must_look;               /* at one of these */

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

static bool user_is_known(int user)
{
    return user >= 0 && (unsigned)user < nxr_n_numbers();
}

/* The user of a place; -1: nobody, or one that finds its turn over. */
static int lent_place_user(const struct nxr_lent *lent, uint64_t place)
{
    return place >> 32 != lent->turn || place == 0 ? -1 : nxr_grant_place_user(place);
}

int nxr_lent_user(const struct nxr_lent *lent, uint32_t *n_users_p)
{
    struct nxr_grant_record *record = nxr_lent_record(lent);
    int found = -1;

    *n_users_p = 0;
    for (unsigned i = 0; i < NXR_GRANT_N_PLACES; i++) {
        uint64_t place = atomic_load(&record->places[i]);
        int user = nxr_grant_place_user(place);
        bool is_gone = !user_is_known(user) || nxr_rank_is_out(user);

        if (place >> 32 != lent->turn || place == 0) {
            continue; /* empty, or of a user that finds its turn over */
        }
        if (!is_gone || !atomic_compare_exchange_strong(&record->places[i], &place, 0)) {
            found = user;
            ++*n_users_p;
        }
    }
    return found;
}

/* Is a user inside that is lost? */
static bool lent_has_lost(const struct nxr_lent *lent)
{
    const struct nxr_grant_record *record = nxr_lent_record(lent);

    for (unsigned i = 0; i < NXR_GRANT_N_PLACES; i++) {
        int user = lent_place_user(lent, atomic_load(&record->places[i]));

        if (user_is_known(user) && nxr_rank_is_lost(user)) {
            return true;
        }
    }
    return false;
}

/* Put users out that are gone. Caller holds job.lock, too. */
static void lent_put_out(const struct nxr_lent *lent)
{
    const struct nxr_grant_record *record = nxr_lent_record(lent);
    uint32_t n_users;

    for (unsigned i = 0; i < NXR_GRANT_N_PLACES; i++) {
        int user = lent_place_user(lent, atomic_load(&record->places[i]));

        if (user_is_known(user)) {
            (void)nxr_rank_look_out_locked(user);
        }
    }
    (void)nxr_lent_user(lent, &n_users);
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

void nxr_lent_watch(bool must)
{
    if (must && !atomic_exchange(&must_look, true)) {
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

/* Put the lost out of all, open ones too. Must they be looked at again? Caller holds both locks. */
static bool lent_settle_all(void)
{
    struct nxr_list *link, *after;
    bool must = false;

    nxr_list_for_each (link, after, &nxr_lent_list) {
        struct nxr_lent *lent = nxr_list_entry(link, struct nxr_lent, link);

        lent_put_out(lent);
        must |= lent_has_lost(lent);
        must |= nxr_lent_look(lent);
    }
    return must;
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
    if (lent != NULL && nxr_lent_look(lent)) {
        nxr_lent_watch(lent_has_lost(lent)); /* this thread cannot find out when it is gone */
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
    bool must;

    if (now < next && !atomic_load(&must_look)) {
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
    must = lent_settle_all();
    atomic_store(&must_look, must);
    atomic_store(&next_end, next);
    pthread_mutex_unlock(&nxr_lent_lock);
    return must && next > now + LOOK_EVERY_NS ? now + LOOK_EVERY_NS : next;
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

/* Put it out of open grants, too: later its number may be another process's. */
static void lent_death_known(const struct nxr_peer *peer)
{
    (void)peer;
    pthread_mutex_lock(&nxr_lent_lock);
    nxr_lent_watch(lent_settle_all());
    pthread_mutex_unlock(&nxr_lent_lock);
}

/* Its number becomes another process's: what is still inside of it then stays as that one's. */
static void lent_peer_replaced(struct nxr_peer *peer)
{
    lent_death_known(peer);
}

/* A death that the program is not told of, since it has ended the attachment. */
static void lent_peer_ended(struct nxr_peer *peer)
{
    nxr_lent_watch(peer->is_detached);
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
    atomic_store(&must_look, false);
}

static void grants_stop(void)
{
    nxr_leases_forget();
    nxr_grants_forget();
}

const struct nxr_subsystem nxr_grant_subsystem = {
    .name = "grant",
    .register_handlers = nxr_grant_register,
    .tick = lent_tick,
    .progress = nxr_leases_progress,
    .region_closing = lent_region_closing,
    .has_news = lent_has_news,
    .peer_ended = lent_peer_ended,
    .death_known = lent_death_known,
    .peer_replaced = lent_peer_replaced,
    .quiesce = grants_quiesce,
    .stop = grants_stop,
};
