/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking owners to change words, and doing it for others; words in device memory, which take time,
 * also for this rank itself. Lock: job.lock.
 */
#include "config.h"

#include "host/word_ask.h"
#include "host/conn.h"
#include "device_word.h"
#include "host/publish.h"
#include "util/env.h"
#include "wait.h"

#include <stdlib.h>

/* A question under way; lives on the stack of the thread that waits. */
struct word_ask {
    struct nxr_list link;
    struct nxr_peer *peer;
    struct nxr_conn *conn; /* pinned until the answer */
    uint64_t id;
    uint64_t fetched;
    _Atomic int status; /* NIXL_INPROGRESS until answered */
};

/* A word of an own region in device memory, changed for a peer or for this rank itself. */
struct own_word {
    struct nxr_device_word word;
    struct nxr_guard_slot *slot; /* the region is entered */
    struct nxr_peer *peer;       /* who has asked; NULL: a thread of this rank, which waits */
    uint64_t ask;
    _Atomic int status;  /* NIXL_INPROGRESS until it is over */
    atomic_bool is_left; /* whoever comes second, the end or the waiter, frees it */
};

static struct nxr_list asks = {&asks, &asks};
static uint64_t last_id;

/* No answer is waited for any more. Caller holds job.lock. */
static void forget(struct word_ask *ask)
{
    nxr_list_remove(&ask->link);
    if (ask->conn != NULL) {
        ask->conn->n_pins--;
        ask->conn = NULL;
    }
}

static void answer(struct word_ask *ask, int status, uint64_t fetched)
{
    forget(ask);
    ask->fetched = fetched;
    atomic_store_explicit(&ask->status, status, memory_order_release);
    nxr_wake_self();
}

static bool is_answered(void *arg)
{
    const struct word_ask *ask = arg;

    return atomic_load_explicit(&ask->status, memory_order_acquire) != NIXL_INPROGRESS;
}

/*
 * An owner that is short of descriptors drops connections that are idle, and that is seen when
 * sending: nothing was delivered then, and a second try over a new connection is no repetition.
 * Caller holds job.lock.
 */
static void send_ask(struct word_ask *ask, const union nxr_wire_message *message)
{
    nxr_conn_send(ask->peer, message, NULL, 0);
    if (ask->peer->conn == NULL) {
        nxr_conn_send(ask->peer, message, NULL, 0);
    }
    if (nxr_peer_is_lost(ask->peer) || ask->peer->conn == NULL) {
        ask->status = nxr_peer_is_lost(ask->peer) ? NIXL_ERR_PEER_LOST : NIXL_ERR_TRANSPORT;
        return;
    }
    ask->conn = ask->peer->conn;
    ask->conn->n_pins++;
    nxr_list_append(&asks, &ask->link);
}

/* ---- own words in device memory -------------------------------------------------------------- */

static void tell_asker(const struct own_word *own, int status)
{
    union nxr_wire_message reply;

    nxr_wire_init(&reply, NXR_WIRE_WORD_DONE);
    reply.word_done.ask = own->ask;
    reply.word_done.status = status;
    reply.word_done.fetched = own->word.fetched;
    pthread_mutex_lock(&nxr_job.lock);
    if (!nxr_peer_is_lost(own->peer)) {
        nxr_conn_send(own->peer, &reply, NULL, 0);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

static void own_word_ended(struct nxr_device_word *word, int status)
{
    struct own_word *own = nxr_list_entry(word, struct own_word, word);

    nxr_guard_give_own(own->slot);
    if (own->peer != NULL) {
        tell_asker(own, status);
        free(own);
        return;
    }
    atomic_store_explicit(&own->status, status, memory_order_release);
    if (atomic_exchange(&own->is_left, true)) {
        free(own);
    }
}

/* Where a word lies in an own region that is open, or entered. */
static int find_word(uint32_t id, const struct nxr_atomic *atomic, struct nxr_own_memory *memory_p)
{
    size_t nbytes = nxr_type_nbytes(atomic->type);

    *memory_p = nxr_publish_memory(id);
    if (atomic->offset > memory_p->nbytes || nbytes > memory_p->nbytes - atomic->offset) {
        return NIXL_ERR_RANGE;
    }
    memory_p->addr += atomic->offset;
    return nbytes != 0 && (uintptr_t)memory_p->addr % nbytes == 0 ? NIXL_OK : NIXL_ERR_INVALID_ARG;
}

/* Enter the region with a slot that is given back when the change has ended. */
static int enter_own(struct own_word *own, uint32_t id, uint64_t generation)
{
    own->slot = nxr_guard_claim_own();
    if (own->slot == NULL) {
        return NIXL_ERR_LIMIT;
    }
    if (!nxr_guard_enter_own(own->slot, id, generation)) {
        nxr_guard_give_own(own->slot);
        return NIXL_ERR_STALE;
    }
    return NIXL_OK;
}

/* The change of a word in own device memory, to be lined up; or NULL and the failure. */
static struct own_word *own_word_new(uint32_t id, uint64_t generation,
                                     const struct nxr_atomic *atomic, int *status_p)
{
    struct own_word *own = calloc(1, sizeof(*own));
    struct nxr_own_memory memory;

    *status_p = own != NULL ? enter_own(own, id, generation) : NIXL_ERR_NO_MEMORY;
    if (*status_p != NIXL_OK) {
        free(own);
        return NULL;
    }
    *status_p = find_word(id, atomic, &memory);
    if (*status_p != NIXL_OK) {
        nxr_guard_give_own(own->slot);
        free(own);
        return NULL;
    }
    own->word.addr = memory.addr;
    own->word.range = memory.range;
    own->word.atomic = *atomic;
    own->word.ended = own_word_ended;
    atomic_init(&own->status, NIXL_INPROGRESS);
    return own;
}

static bool is_changed(void *arg)
{
    const struct own_word *own = arg;

    return atomic_load_explicit(&own->status, memory_order_acquire) != NIXL_INPROGRESS;
}

/* A word of this rank's own part. */
static int change_own_device(const struct nxr_part *part, const struct nxr_atomic *atomic,
                             uint64_t *fetched_p)
{
    int status;
    struct own_word *own = own_word_new(part->id, part->key.generation, atomic, &status);

    if (own == NULL) {
        return status;
    }
    nxr_device_word_add(&own->word);
    nxr_device_words_run();
    status = nxr_wait(is_changed, own, nxr_env.op_timeout);
    if (status == NIXL_OK) {
        status = own->status;
        *fetched_p = own->word.fetched;
    }
    if (atomic_exchange(&own->is_left, true)) {
        free(own);
    }
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

int nxr_word_ask(struct nxr_part *part, const struct nxr_atomic *atomic, bool is_signal,
                 uint64_t *fetched_p)
{
    struct word_ask ask = {.peer = part->peer, .status = NIXL_INPROGRESS};
    union nxr_wire_message message;
    int status;

    if (part->peer->rank == nxr_job.rank) {
        return change_own_device(part, atomic, fetched_p);
    }
    nxr_wire_init(&message, NXR_WIRE_WORD);
    message.word.generation = part->key.generation;
    message.word.id = part->id;
    message.word.is_signal = is_signal;
    message.word.atomic = *atomic;
    nxr_list_init(&ask.link);
    pthread_mutex_lock(&nxr_job.lock);
    ask.id = message.word.ask = ++last_id;
    send_ask(&ask, &message);
    pthread_mutex_unlock(&nxr_job.lock);
    status = nxr_wait(is_answered, &ask, nxr_env.op_timeout);
    pthread_mutex_lock(&nxr_job.lock);
    forget(&ask); /* also if no answer came: nobody may write here any more */
    pthread_mutex_unlock(&nxr_job.lock);
    if (is_answered(&ask)) {
        status = ask.status;
    }
    if (status == NIXL_OK) {
        *fetched_p = ask.fetched;
    }
    return status;
}

void nxr_word_answered(struct nxr_peer *peer, const struct nxr_wire_word_done *message)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &asks) {
        struct word_ask *ask = nxr_list_entry(link, struct word_ask, link);

        if (ask->peer == peer && ask->id == message->ask) {
            answer(ask, message->status, message->fetched);
            return;
        }
    }
}

void nxr_word_end_asks(struct nxr_peer *peer, int status)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &asks) {
        struct word_ask *ask = nxr_list_entry(link, struct word_ask, link);

        if (ask->peer == peer) {
            answer(ask, status, 0);
        }
    }
}

/*
 * Change a word of an own region, or NIXL_INPROGRESS: it is device memory. job.lock keeps it from
 * being revoked meanwhile.
 */
static int change_own(const struct nxr_wire_word *message, uint64_t *fetched_p)
{
    struct nxr_own_memory own;
    int status;

    if (atomic_load_explicit(&nxr_job.control->generations[message->id], memory_order_acquire) !=
        message->generation) {
        return NIXL_ERR_STALE;
    }
    status = find_word(message->id, &message->atomic, &own);
    if (status == NIXL_OK && own.range == NULL) {
        *fetched_p = nxr_atomic_apply(own.addr, &message->atomic);
    }
    return status == NIXL_OK && own.range != NULL ? NIXL_INPROGRESS : status;
}

/* The same in device memory: the answer comes later, from own_word_ended(). */
static int change_own_later(struct nxr_peer *peer, const struct nxr_wire_word *message)
{
    int status;
    struct own_word *own =
        own_word_new(message->id, message->generation, &message->atomic, &status);

    if (own == NULL) {
        return status;
    }
    own->peer = peer;
    own->ask = message->ask;
    nxr_device_word_add(
        &own->word); /* the service thread runs it when it has given the lock back */
    return NIXL_INPROGRESS;
}

void nxr_word_asked(struct nxr_conn *conn, const struct nxr_wire_word *message)
{
    union nxr_wire_message reply;
    uint64_t fetched = 0;
    int status = change_own(message, &fetched);

    if (status == NIXL_INPROGRESS) {
        status = change_own_later(conn->peer, message);
    }
    if (status == NIXL_INPROGRESS) {
        return;
    }
    nxr_wire_init(&reply, NXR_WIRE_WORD_DONE);
    reply.word_done.ask = message->ask;
    reply.word_done.status = status;
    reply.word_done.fetched = fetched;
    nxr_conn_send_on(conn, &reply, NULL, 0);
    if (message->is_signal) {
        nxr_wake_self();
    }
}
