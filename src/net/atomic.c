/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words on other hosts. The owner's processor changes them, in the order of messages, so that a
 * word has one atomicity domain whichever rank accesses it. A fetch waits for the answer, or is a
 * move (move.c); a signal does not wait. Lock: nxr_net.lock.
 */
#include "config.h"

#include "core/stats.h"
#include "net/move.h"
#include "net/out.h"
#include "util/env.h"
#include "core/wait.h"

/* A fetch under way, on the stack of the waiting thread. */
struct net_atomic {
    struct nxr_list link;
    uint64_t id;
    uint64_t fetched;
    _Atomic int status; /* NIXL_INPROGRESS until answered */
};

/* Caller holds the lock, and pushes. `ask` 0: a signal. */
static int append_word(struct net_peer *np, const struct nxr_segment *segment,
                       const struct nxr_atomic *atomic, uint64_t ask)
{
    struct nxr_net_atomic *word = nxr_net_begin(np, NXR_NET_ATOMIC, sizeof(*word));

    if (word == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    *word = (struct nxr_net_atomic){
        .ask = ask,
        .what = {.generation = segment->key.generation,
                 .id = segment->id,
                 .is_own = (segment->key.marks & NXR_KEY_OWN) != 0,
                 .atomic = *atomic},
    };
    return NIXL_OK;
}

/* Caller holds the lock. */
static int net_atomic_send(struct net_peer *np, const struct nxr_segment *segment,
                           const struct nxr_atomic *atomic, uint64_t ask)
{
    int status = nxr_net_check_segment(np, segment);

    if (status == NIXL_OK) {
        status = append_word(np, segment, atomic, ask);
    }
    if (status == NIXL_OK) {
        nxr_net_push(np, ask == 0);
    }
    return status;
}

bool nxr_net_atomic_go(struct net_move *move)
{
    const struct nxr_op *user = move->user;

    if (!nxr_net_has_room(move->np)) {
        return false;
    }
    if (append_word(move->np, user->segment, &user->atomic, move->id) != NIXL_OK) {
        nxr_net_move_end(move, NIXL_E_NO_MEMORY);
        return true;
    }
    nxr_net_push(move->np, true);
    return true;
}

static bool net_atomic_is_answered(void *arg)
{
    const struct net_atomic *word = arg;

    return atomic_load_explicit(&word->status, memory_order_acquire) != NIXL_INPROGRESS;
}

int nxr_net_atomic(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                   uint64_t *fetched_p)
{
    struct net_peer *np = net_peer_at(segment->peer);
    struct net_atomic word = {.status = NIXL_INPROGRESS};
    int status;

    net_lock();
    word.id = ++np->last_id;
    status = net_atomic_send(np, segment, atomic, word.id);
    if (status == NIXL_OK) {
        nxr_list_append(&np->words, &word.link);
    }
    net_unlock();
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_wait_as(
        net_atomic_is_answered, &word, nxr_env.op_timeout, nxr_describe_reason,
        &(const struct nxr_reason){.kind = NXR_WAIT_ANSWER, .peer = segment->peer->rank});
    net_lock();
    nxr_list_remove(&word.link); /* also if no answer arrived: it must not be written any more */
    net_unlock();
    if (net_atomic_is_answered(&word)) {
        status = word.status;
    }
    if (status == NIXL_OK) {
        *fetched_p = word.fetched;
    }
    return status;
}

int nxr_net_signal(struct nxr_segment *segment, const struct nxr_atomic *atomic)
{
    struct net_peer *np = net_peer_at(segment->peer);
    int status;

    net_lock();
    status = net_atomic_send(np, segment, atomic, 0);
    np->is_dirty |= status == NIXL_OK;
    net_unlock();
    return status;
}

int nxr_net_put_signal(struct nxr_segment *segment, const struct nxr_put_signal *what)
{
    struct net_peer *np = net_peer_at(segment->peer);
    int status = NIXL_E_AGAIN;

    if (what->nbytes > np->put_max) {
        return status;
    }
    net_lock();
    if (nxr_net_check_segment(np, segment) == NIXL_OK &&
        nxr_net_check_segment(np, what->word_segment) == NIXL_OK && nxr_net_has_room(np)) {
        status = nxr_net_append_put(np, segment, what->offset, what->src, what->nbytes);
        if (status == NIXL_OK) {
            nxr_stats_moved(segment, NXR_OP_PUT, what->nbytes);
            nxr_stats_moved(what->word_segment, NXR_OP_ATOMIC, nxr_atomic_nbytes(&what->atomic));
            np->is_dirty = true;
            status = append_word(np, what->word_segment, &what->atomic, 0);
            nxr_net_push(np, true);
        }
    }
    net_unlock();
    return status;
}

static void net_atomic_answer(struct net_atomic *word, int status, uint64_t fetched)
{
    nxr_list_remove(&word->link);
    word->fetched = fetched;
    atomic_store_explicit(&word->status, status, memory_order_release);
    nxr_net.must_wake = true;
}

void nxr_net_take_atomic_done(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_atomic_done *done = nxr_net_body(record);
    struct net_move *move = nxr_net_move_find(np, done->ask);
    struct nxr_list *link, *after;

    if (move != NULL && move->how == NET_ATOMIC) {
        int status = nxr_wire_atomic_outcome(&done->what);

        move->user->fetched = done->what.fetched;
        /* Canceled by the owner: a put before it was dropped. */
        nxr_net_move_end(move, status == NIXL_E_CANCELED ? NIXL_E_STALE : status);
        nxr_net.must_wake = true;
        return;
    }

    nxr_list_for_each (link, after, &np->words) {
        struct net_atomic *word = nxr_list_entry(link, struct net_atomic, link);

        if (word->id == done->ask) {
            net_atomic_answer(word, nxr_wire_atomic_outcome(&done->what), done->what.fetched);
            return;
        }
    }
}

void nxr_net_atomics_end(struct net_peer *np, int status)
{
    while (!nxr_list_is_empty(&np->words)) {
        net_atomic_answer(nxr_list_entry(np->words.next, struct net_atomic, link), status, 0);
    }
}
