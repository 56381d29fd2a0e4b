/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that this rank exposes. Each has a request, which ends when its word has ended. Nothing
 * polls: a thread that waits for the request reads the word; the partner's signal wakes the waiter
 * and the event fd; deaths and the service thread's timer end the rest. A lost partner that has
 * begun is waited for until no thread of its process can move bytes any more.
 *
 * Locks: exposed_lock guards the list of exposed buffers, the free slots and their requests; it
 * is taken inside job.lock, and requests are ended under it. table_lock serializes the creation of
 * the table, and is taken outside both.
 */
#include "config.h"

#include "core/subsystem.h"
#include "core/service.h"
#include "pair/pair.h"
#include "region/extents.h"
#include "region/leaving.h"
#include "util/clock.h"
#include "util/status.h"
#include "util/symbol.h"
#include "core/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What this rank keeps of a slot. */
struct nxr_exposed_buffer {
    struct nxr_list link;             /* of those that are exposed, or free */
    struct nixl_req *req;             /* NULL: it has ended */
    const struct nixl_region *region; /* NULL: it was closed meanwhile */
    _Atomic int rank;                 /* may use it, or NIXL_ANY_RANK; read without the lock */
    uint32_t turn;
    int64_t expires_at;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t exposed_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_pair_slot *exposed_slots; /* the table; NULL: nothing has been exposed yet */
static struct nxr_exposed_buffer *exposed_buffers; /* [NXR_PAIR_N_SLOTS] */
static struct nxr_list exposed_list = {&exposed_list, &exposed_list};
static struct nxr_list unused = {&unused, &unused}; /* the longest unused first */
static _Atomic uint32_t n_exposed;
static _Atomic int64_t next_expiry = INT64_MAX; /* lower bound of the first expiry */
static _Atomic bool has_lost_partner;           /* that has begun, and may still move bytes */

/* How often the service thread looks whether such a partner is gone. */
#define LOST_LOOK_NS (20 * NXR_MS)

static struct nxr_pair_slot *exposed_slot_of(const struct nxr_exposed_buffer *buffer)
{
    return &exposed_slots[buffer - exposed_buffers];
}

/* ---- the table ------------------------------------------------------------------------------- */

static int make_table(const char *operation)
{
    struct nxr_exposed_buffer *entries = calloc(NXR_PAIR_N_SLOTS, sizeof(*entries));
    struct nixl_region *region;
    int status;

    if (entries == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0,
                        "no memory for the table of buffers");
    }
    status = nxr_region_alloc_internal(NXR_PAIR_TABLE, sizeof(*exposed_slots) * NXR_PAIR_N_SLOTS,
                                       &region);
    if (status != NIXL_OK) {
        free(entries);
        return nxr_fail_inner(status, operation, -1);
    }
    pthread_mutex_lock(&exposed_lock);
    for (int i = 0; i < NXR_PAIR_N_SLOTS; i++) {
        nxr_list_append(&unused, &entries[i].link);
    }
    exposed_buffers = entries;
    exposed_slots = nixl_region_addr(region);
    pthread_mutex_unlock(&exposed_lock);
    return NIXL_OK;
}

int nxr_exposed_need_table(const char *operation)
{
    int status = NIXL_OK;

    pthread_mutex_lock(&table_lock);
    if (exposed_slots == NULL) {
        status = make_table(operation);
    }
    pthread_mutex_unlock(&table_lock);
    return status;
}

/* ---- ending: all under the lock -------------------------------------------------------------- */

/* The slot is free again; its word stays, for partners that come late. */
static void exposed_end(struct nxr_exposed_buffer *buffer, int status, bool is_touched,
                        int lost_rank)
{
    struct nixl_req *req = buffer->req;

    buffer->req = NULL;
    buffer->region = NULL;
    nxr_list_remove(&buffer->link);
    nxr_list_append(&unused, &buffer->link);
    atomic_fetch_sub(&n_exposed, 1);
    req->op.nbytes_done = is_touched ? req->op.nbytes : 0;
    req->lost_rank = lost_rank;
    nxr_request_end(req, status);
}

/* The exposer ends it, if the word has not changed. */
static bool try_end(struct nxr_exposed_buffer *buffer, uint64_t word, int status, int lost_rank)
{
    bool is_touched = nxr_pair_word_state(word) != NXR_PAIR_OPEN;
    uint64_t ended =
        nxr_pair_word(buffer->turn, nxr_pair_word_rank(word), nxr_pair_ended(status, is_touched));

    if (!atomic_compare_exchange_strong(&exposed_slot_of(buffer)->word, &word, ended)) {
        return false;
    }
    exposed_end(buffer, status, is_touched, lost_rank);
    return true;
}

/* End it if no partner has begun. */
static bool exposed_take_back(struct nxr_exposed_buffer *buffer, int status)
{
    return try_end(buffer, nxr_pair_word(buffer->turn, 0, NXR_PAIR_OPEN), status, -1);
}

/* The rank whose death ends it, as the word now is; -1: none. */
static int needed_rank(const struct nxr_exposed_buffer *buffer, uint64_t word)
{
    return nxr_pair_word_state(word) == NXR_PAIR_BEGUN
               ? nxr_pair_word_rank(word)
               : atomic_load_explicit(&buffer->rank, memory_order_relaxed);
}

/* Is the partner lost, and does it move no bytes any more? One that has not begun never will. */
static bool partner_is_over(uint64_t word, int rank)
{
    return nxr_pair_word_state(word) == NXR_PAIR_BEGUN ? nxr_rank_is_out(rank)
                                                       : nxr_rank_is_lost(rank);
}

/* Have the service thread find out when the partner is gone, if it is lost. */
static void watch_partner(int rank)
{
    if (nxr_rank_is_lost(rank) && !atomic_exchange(&has_lost_partner, true)) {
        nxr_service_kick();
    }
}

static void exposed_look(struct nxr_exposed_buffer *buffer)
{
    for (;;) {
        uint64_t word = atomic_load_explicit(&exposed_slot_of(buffer)->word, memory_order_acquire);
        unsigned state = nxr_pair_word_state(word);
        int rank = needed_rank(buffer, word);

        if ((state & NXR_PAIR_ENDED) != 0) {
            exposed_end(buffer, nxr_pair_status(word), (state & NXR_PAIR_TOUCHED) != 0, -1);
            return;
        }
        if (!partner_is_over(word, rank)) {
            watch_partner(rank);
            return;
        }
        /* What the dead rank still did is found by the next check. */
        if (try_end(buffer, word, NIXL_E_PEER_LOST, rank)) {
            return;
        }
    }
}

/* End the requests of all exposed buffers that have ended. Any thread; job.lock may be held. */
static void exposed_all_look(void)
{
    struct nxr_list *link, *after;

    if (atomic_load_explicit(&n_exposed, memory_order_relaxed) == 0) {
        return;
    }
    pthread_mutex_lock(&exposed_lock);
    nxr_list_for_each (link, after, &exposed_list) {
        exposed_look(nxr_list_entry(link, struct nxr_exposed_buffer, link));
    }
    pthread_mutex_unlock(&exposed_lock);
}

/* Does its buffer still belong to the request? */
static bool is_of(const struct nixl_req *req)
{
    const struct nxr_exposed_buffer *buffer = req->owned;

    return buffer->req == req;
}

/*
 * What this thread waits for, and whether the only partner of the buffer leaves. Requests and slots
 * are reused, also after the next nixl_init().
 */
static __thread struct {
    const struct nixl_req *req;
    uint32_t turn;
    unsigned life;
    struct nxr_leaving leaving;
} exposed_wait NXR_TLS_MODEL;

/* Will the only rank that may use the buffer never begin? Takes job.lock, not exposed_lock. */
static bool expose_is_in_vain(const struct nixl_req *req, uint32_t turn, int rank)
{
    if (rank < 0 || rank == nxr_job.rank) {
        return false;
    }
    if (exposed_wait.req != req || exposed_wait.turn != turn ||
        exposed_wait.life != nxr_job.n_starts) {
        memset(&exposed_wait, 0, sizeof(exposed_wait));
        exposed_wait.req = req;
        exposed_wait.turn = turn;
        exposed_wait.life = nxr_job.n_starts;
    }
    return nxr_leaving_is_in_vain(&exposed_wait.leaving, rank);
}

/* Take it back, unless the partner has begun before it left. Caller holds the lock. */
static void exposed_end_in_vain(struct nxr_exposed_buffer *buffer, int rank)
{
    uint64_t word = nxr_pair_word(buffer->turn, 0, NXR_PAIR_OPEN);
    uint64_t ended = nxr_pair_word(buffer->turn, 0, nxr_pair_ended(NIXL_E_PEER_LOST, false));
    char why[NXR_WHY_NBYTES];

    if (atomic_compare_exchange_strong(&exposed_slot_of(buffer)->word, &word, ended)) {
        snprintf(why, sizeof(why), NXR_LEAVING_WHY, nxr_rank_name(rank));
        nxr_request_keep_failure(buffer->req, rank, why);
        exposed_end(buffer, NIXL_E_PEER_LOST, false, rank);
    }
}

/* End the request if its buffer has ended. Called while a thread waits for it. */
static void expose_look(struct nixl_req *req)
{
    struct nxr_exposed_buffer *buffer = req->owned;
    uint64_t word = atomic_load_explicit(&exposed_slot_of(buffer)->word, memory_order_acquire);
    unsigned state = nxr_pair_word_state(word);
    int rank = needed_rank(buffer, word);
    bool is_in_vain =
        state == NXR_PAIR_OPEN && expose_is_in_vain(req, nxr_pair_word_turn(word), rank);

    if ((state & NXR_PAIR_ENDED) == 0 && !partner_is_over(word, rank) && !is_in_vain) {
        watch_partner(rank);
        return;
    }
    pthread_mutex_lock(&exposed_lock);
    if (is_of(req)) {
        exposed_look(buffer);
    }
    if (is_of(req) && is_in_vain) {
        exposed_end_in_vain(buffer, rank);
    }
    pthread_mutex_unlock(&exposed_lock);
}

/* Withdraw the buffer unless a partner has begun; its request ends with it. */
static void expose_stop(struct nixl_req *req)
{
    struct nxr_exposed_buffer *buffer = req->owned;

    pthread_mutex_lock(&exposed_lock);
    if (is_of(req) && !exposed_take_back(buffer, NIXL_E_CANCELED)) {
        exposed_look(buffer);
    }
    pthread_mutex_unlock(&exposed_lock);
}

static void expose_describe(const struct nixl_req *req, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "the exposed buffer of %zu bytes", req->op.nbytes);
}

const struct nxr_req_owner nxr_exposed_owner = {
    .is_unflushed = true, .stop = expose_stop, .look = expose_look, .describe = expose_describe};

/* A region of this rank is about to be closed: cancel its buffers that no partner has begun. */
static void exposed_all_withdraw(const struct nixl_region *region)
{
    struct nxr_list *link, *after;

    if (atomic_load_explicit(&n_exposed, memory_order_relaxed) == 0) {
        return;
    }
    pthread_mutex_lock(&exposed_lock);
    nxr_list_for_each (link, after, &exposed_list) {
        struct nxr_exposed_buffer *buffer = nxr_list_entry(link, struct nxr_exposed_buffer, link);

        if (buffer->region == region && !exposed_take_back(buffer, NIXL_E_CANCELED)) {
            buffer->region = NULL; /* a partner has begun, and reports the outcome */
        }
    }
    pthread_mutex_unlock(&exposed_lock);
}

/* End buffers of lost partners that are gone. Must be done again? Caller holds both locks. */
static bool exposed_end_lost(void)
{
    struct nxr_list *link, *after;
    bool must = false;

    nxr_list_for_each (link, after, &exposed_list) {
        struct nxr_exposed_buffer *buffer = nxr_list_entry(link, struct nxr_exposed_buffer, link);
        uint64_t word = atomic_load_explicit(&exposed_slot_of(buffer)->word, memory_order_acquire);
        int rank = needed_rank(buffer, word);

        if (nxr_rank_is_lost(rank)) {
            must |= !nxr_rank_look_out_locked(rank);
            exposed_look(buffer);
        }
    }
    return must;
}

/* End those whose lifetime is over; returns when to check next. Service thread, job.lock. */
static int64_t exposed_all_tick(int64_t now)
{
    int64_t next = atomic_load_explicit(&next_expiry, memory_order_relaxed);
    struct nxr_list *link, *after;
    bool must = atomic_load(&has_lost_partner);

    if (now < next && !must) {
        return next;
    }
    next = INT64_MAX;
    pthread_mutex_lock(&exposed_lock);
    nxr_list_for_each (link, after, &exposed_list) {
        struct nxr_exposed_buffer *buffer = nxr_list_entry(link, struct nxr_exposed_buffer, link);

        if (buffer->expires_at > now) {
            next = buffer->expires_at < next ? buffer->expires_at : next;
        } else if (!exposed_take_back(buffer, NIXL_E_EXPIRED)) {
            buffer->expires_at = INT64_MAX; /* a partner began in time, and may have ended */
            exposed_look(buffer);
        }
    }
    if (must) {
        must = exposed_end_lost();
        atomic_store(&has_lost_partner, must);
    }
    atomic_store(&next_expiry, next);
    pthread_mutex_unlock(&exposed_lock);
    return must && next > now + LOST_LOOK_NS ? now + LOST_LOOK_NS : next;
}

/* The last finalize: end all of them. */
static void exposed_all_stop(void)
{
    pthread_mutex_lock(&exposed_lock);
    while (!nxr_list_is_empty(&exposed_list)) {
        struct nxr_exposed_buffer *buffer =
            nxr_list_entry(exposed_list.next, struct nxr_exposed_buffer, link);

        if (!exposed_take_back(buffer, NIXL_E_CANCELED)) {
            exposed_end(buffer, NIXL_E_CANCELED, true, -1);
        }
    }
    free(exposed_buffers);
    exposed_buffers = NULL;
    exposed_slots = NULL; /* the region is closed with all others */
    nxr_list_init(&unused);
    atomic_store(&next_expiry, INT64_MAX);
    atomic_store(&has_lost_partner, false);
    pthread_mutex_unlock(&exposed_lock);
}

/* ---- adding one ------------------------------------------------------------------------------ */

/*
 * Fill a slot, and open it last: a partner that has its token and finds the word unchanged has
 * read a slot that does not change. Caller holds the lock.
 */
static void fill_slot(struct nxr_exposed_buffer *buffer, const struct nxr_offer *offer,
                      const struct nxr_token *token)
{
    struct nxr_pair_slot *slot = exposed_slot_of(buffer);

    atomic_store_explicit(&buffer->rank, offer->rank, memory_order_relaxed);
    buffer->region = offer->region;
    buffer->turn = token->turn;
    buffer->expires_at = offer->expires_at;
    memcpy(slot->nonce, token->nonce, sizeof(slot->nonce));
    slot->nbytes = token->nbytes;
    slot->offset = offer->offset;
    slot->generation = offer->region->published->key.generation;
    slot->use = (uint32_t)token->use;
    slot->rank = offer->rank;
    memcpy(slot->name, offer->region->name, strlen(offer->region->name) + 1);
    atomic_store_explicit(&slot->word, nxr_pair_word(token->turn, 0, NXR_PAIR_OPEN),
                          memory_order_release);
}

/*
 * A free slot. Those that partners have ended are found here at the latest: nobody waits for a
 * request that was detached. NULL: there is none. Caller holds the lock.
 */
static struct nxr_list *exposed_unused(void)
{
    struct nxr_list *link, *after;

    if (nxr_list_is_empty(&unused)) {
        nxr_list_for_each (link, after, &exposed_list) {
            exposed_look(nxr_list_entry(link, struct nxr_exposed_buffer, link));
        }
    }
    return nxr_list_pop(&unused);
}

int nxr_exposed_add(const char *operation, const struct nxr_offer *offer, struct nixl_req *req,
                    struct nxr_token *token)
{
    bool is_first = false;
    struct nxr_list *link;

    if (!nxr_token_make_nonce(token->nonce)) {
        return nxr_fail(NIXL_E_INTERNAL, operation, offer->rank, "", errno, "no random numbers");
    }
    pthread_mutex_lock(&exposed_lock);
    link = exposed_unused();
    if (link != NULL) {
        struct nxr_exposed_buffer *buffer = nxr_list_entry(link, struct nxr_exposed_buffer, link);

        token->slot = (uint32_t)(buffer - exposed_buffers);
        token->turn = (buffer->turn + 1) & NXR_PAIR_TURNS;
        fill_slot(buffer, offer, token);
        buffer->req = req;
        req->owned = buffer;
        nxr_list_append(&exposed_list, &buffer->link);
        atomic_fetch_add(&n_exposed, 1);
        is_first = offer->expires_at < atomic_load(&next_expiry);
        if (is_first) {
            atomic_store(&next_expiry, offer->expires_at);
        }
    }
    pthread_mutex_unlock(&exposed_lock);
    if (is_first) {
        nxr_service_kick();
    }
    return link != NULL ? NIXL_OK
                        : nxr_fail(NIXL_E_LIMIT, operation, offer->rank, "", 0,
                                   "%d buffers are exposed, which is the limit", NXR_PAIR_N_SLOTS);
}

/* ---- what the job tells ---------------------------------------------------------------------- */

static void pair_death_known(const struct nxr_peer *peer)
{
    (void)nxr_rank_look_out_locked(peer->rank);
    exposed_all_look();
}

/* Its number becomes another process's: what it still moves then counts as that one's. */
static void pair_peer_replaced(struct nxr_peer *peer)
{
    pair_death_known(peer);
}

/* A death that the program is not told of, since it has ended the attachment. */
static void pair_peer_ended(struct nxr_peer *peer)
{
    if (peer->is_detached && atomic_load_explicit(&n_exposed, memory_order_relaxed) != 0) {
        watch_partner(peer->rank);
    }
}

/* The event fd must be readable if one of these requests ends now. */
static bool pair_has_news(void)
{
    exposed_all_look();
    return false;
}

const struct nxr_subsystem nxr_pair_subsystem = {
    .name = "pair",
    .tick = exposed_all_tick,
    .region_closing = exposed_all_withdraw,
    .has_news = pair_has_news,
    .peer_ended = pair_peer_ended,
    .death_known = pair_death_known,
    .peer_replaced = pair_peer_replaced,
    .quiesce = exposed_all_stop,
    .stop = nxr_pair_handles_drop,
};
