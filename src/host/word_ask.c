/* SPDX-License-Identifier: Apache-2.0 */
/* Asking owners to change words, and doing it for others. Lock: job.lock. */
#include "config.h"

#include "host/word_ask.h"
#include "host/conn.h"
#include "host/publish.h"
#include "util/env.h"
#include "wait.h"

/* A question under way; lives on the stack of the thread that waits. */
struct word_ask {
    struct nxr_list link;
    struct nxr_peer *peer;
    struct nxr_conn *conn; /* pinned until the answer */
    uint64_t id;
    uint64_t fetched;
    _Atomic int status; /* NIXL_INPROGRESS until answered */
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

int nxr_word_ask(struct nxr_part *part, const struct nxr_atomic *atomic, bool is_signal,
                 uint64_t *fetched_p)
{
    struct word_ask ask = {.peer = part->peer, .status = NIXL_INPROGRESS};
    union nxr_wire_message message;
    int status;

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

/* Change a word of an own region; job.lock keeps it from being revoked meanwhile. */
static int change_own(const struct nxr_wire_word *message, uint64_t *fetched_p)
{
    size_t nbytes = nxr_type_nbytes(message->atomic.type);
    struct nxr_own_memory own;

    if (atomic_load_explicit(&nxr_job.control->generations[message->id], memory_order_acquire) !=
        message->generation) {
        return NIXL_ERR_STALE;
    }
    own = nxr_publish_memory(message->id);
    if (message->atomic.offset > own.nbytes || nbytes > own.nbytes - message->atomic.offset) {
        return NIXL_ERR_RANGE;
    }
    if (nbytes == 0 || (uintptr_t)(own.addr + message->atomic.offset) % nbytes != 0) {
        return NIXL_ERR_INVALID_ARG;
    }
    *fetched_p = nxr_atomic_apply(own.addr + message->atomic.offset, &message->atomic);
    return NIXL_OK;
}

void nxr_word_asked(struct nxr_conn *conn, const struct nxr_wire_word *message)
{
    union nxr_wire_message reply;
    uint64_t fetched = 0;
    int status = change_own(message, &fetched);

    nxr_wire_init(&reply, NXR_WIRE_WORD_DONE);
    reply.word_done.ask = message->ask;
    reply.word_done.status = status;
    reply.word_done.fetched = fetched;
    nxr_conn_send_on(conn, &reply, NULL, 0);
    if (message->is_signal) {
        nxr_wake_self();
    }
}
