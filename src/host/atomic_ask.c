/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking owners to change words. Questions to one owner go through its ring in order; while the
 * ring is full they wait in a list. Answers are collected by waiting threads and by progress.
 *
 * Lock: asked.lock, one per owner, held for a few dozen instructions. job.lock is held to change
 * the list of owners, from which only attached ones are taken before the last finalize.
 */
#include "config.h"

#include "host/atomic_ask.h"
#include "host/conn.h"
#include "host/peer.h"
#include "core/life.h"
#include "core/op_list.h"
#include "host/atomic_ring.h"
#include "host/atomic_serve.h"
#include "util/clock.h"
#include "util/env.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

/*
 * If no thread of the owner answers, its service thread is called: after FIRST_TURN_NS, and then
 * again every LATER_TURN_NS.
 */
#define FIRST_TURN_NS (200 * NXR_US)
#define LATER_TURN_NS (100 * NXR_MS)

/* How long a thread of an owner that polled last time may take between two waits. */
#define BETWEEN_WAITS_NS (2 * NXR_US)

#define DRIVE_EVERY_NS (1 * NXR_MS)  /* the service thread drives this often if nobody else does */
#define PUT_AT_ONCE_NS (10 * NXR_US) /* how long a put waits for a polling thread to answer */

/* The questions to one owner. */
struct nxr_asked {
    struct nxr_spin lock;
    struct nxr_peer *peer;
    struct nxr_atomic_slot *ring;
    atomic_bool was_polled; /* a thread of the owner was polling when it was last called */
    _Atomic uint64_t head;  /* the oldest slot that is not free; lock to write */
    uint64_t tail;          /* the next slot to post in; lock, as all below except next */
    struct nxr_op *ops[NXR_ATOMIC_SLOTS]; /* by slot; NULL: its answer is dropped */
    struct nxr_op_list waiting;           /* for room in the ring */
    struct nxr_asked *_Atomic next;       /* in the list of all; stays when it is taken out */
};

static struct nxr_asked *_Atomic atomic_ask_all;
static _Atomic uint32_t atomic_ask_n_ops; /* questions of all owners that have not ended */

/* ---- questions to an owner: all under its lock ----------------------------------------------- */

static struct nxr_wire_atomic atomic_ask_word_of(const struct nxr_op *op)
{
    struct nxr_wire_atomic word = {
        .generation = op->segment->key.generation, .id = op->segment->id, .atomic = op->atomic};

    if (op->kind == NXR_OP_PUT) {
        word.atomic = (struct nxr_atomic){
            .op = NXR_ATOMIC_STORE, .type = (uint8_t)op->nbytes, .offset = op->offset};
        memcpy(&word.atomic.operand, op->local, op->nbytes);
    }
    return word;
}

/* Post questions that waited for room. Was any posted? */
static bool atomic_ask_post_waiting(struct nxr_asked *asked)
{
    bool has_posted = false;

    while (asked->waiting.first != NULL &&
           asked->tail - atomic_load(&asked->head) < NXR_ATOMIC_SLOTS) {
        struct nxr_op *op = asked->waiting.first;
        struct nxr_wire_atomic word = atomic_ask_word_of(op);

        if (!nxr_atomic_post(nxr_atomic_slot_at(asked->ring, asked->tail), &word)) {
            break;
        }
        nxr_op_list_remove(&asked->waiting, op);
        asked->ops[asked->tail++ % NXR_ATOMIC_SLOTS] = op;
        has_posted = true;
    }
    return has_posted;
}

/* Prepend an ended operation to the list *ended_p. */
static void add_ended(struct nxr_op *op, int status, struct nxr_op **ended_p)
{
    op->failure = status;
    op->next = *ended_p;
    *ended_p = op;
}

static void end_all(struct nxr_asked *asked, int status, struct nxr_op **ended_p)
{
    struct nxr_op *op;

    for (unsigned i = 0; i < NXR_ATOMIC_SLOTS; i++) {
        if (asked->ops[i] != NULL) {
            add_ended(asked->ops[i], status, ended_p);
            asked->ops[i] = NULL;
        }
    }
    while ((op = nxr_op_list_pop(&asked->waiting)) != NULL) {
        add_ended(op, status, ended_p);
    }
}

/* Take all available answers; they arrive in any order. */
static void take_answers(struct nxr_asked *asked, struct nxr_op **ended_p)
{
    uint64_t head = atomic_load_explicit(&asked->head, memory_order_relaxed);
    bool is_oldest = true;

    for (uint64_t at = head; at != asked->tail; at++) {
        struct nxr_atomic_slot *slot = nxr_atomic_slot_at(asked->ring, at);
        struct nxr_op **op = &asked->ops[at % NXR_ATOMIC_SLOTS];
        uint64_t fetched;
        int status;

        if (nxr_atomic_take_answer(slot, &status, &fetched) && *op != NULL) {
            (*op)->fetched = fetched;
            add_ended(*op, status, ended_p);
            *op = NULL;
        }
        is_oldest &= atomic_load_explicit(&slot->state, memory_order_relaxed) == NXR_ATOMIC_FREE;
        head += is_oldest;
    }
    atomic_store_explicit(&asked->head, head, memory_order_relaxed);
}

/* The slot that holds the operation's question; NULL: there is none. */
static struct nxr_atomic_slot *slot_of(struct nxr_asked *asked, const struct nxr_op *op)
{
    for (uint64_t at = atomic_load(&asked->head); at != asked->tail; at++) {
        if (asked->ops[at % NXR_ATOMIC_SLOTS] == op) {
            return nxr_atomic_slot_at(asked->ring, at);
        }
    }
    return NULL;
}

/* Drop the answer to an operation, if one arrives. */
static void forget_op(struct nxr_asked *asked, const struct nxr_op *op)
{
    atomic_fetch_sub(&atomic_ask_n_ops, 1);
    for (unsigned i = 0; i < NXR_ATOMIC_SLOTS; i++) {
        asked->ops[i] = asked->ops[i] == op ? NULL : asked->ops[i];
    }
}

/* ---- owners ---------------------------------------------------------------------------------- */

static struct nxr_asked *asked_new(struct nxr_peer *peer)
{
    struct nxr_asked *asked = calloc(1, sizeof(*asked));

    if (asked == NULL) {
        return NULL;
    }
    asked->peer = peer;
    asked->ring = peer->out.words;
    atomic_store_explicit(&peer->out.credit->has_asked, true, memory_order_relaxed);
    atomic_store(&asked->next, atomic_load(&atomic_ask_all));
    atomic_store_explicit(&atomic_ask_all, asked, memory_order_release);
    atomic_store_explicit(&host_peer_of(peer)->asked, asked, memory_order_release);
    return asked;
}

/* The questions to that owner, created at first use; NULL: no memory. */
static struct nxr_asked *asked_of(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);
    struct nxr_asked *asked = atomic_load_explicit(&hp->asked, memory_order_acquire);

    if (__builtin_expect(asked == NULL, 0)) {
        pthread_mutex_lock(&nxr_job.lock);
        asked = atomic_load_explicit(&hp->asked, memory_order_relaxed);
        asked = asked != NULL ? asked : asked_new(peer);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    return asked;
}

/*
 * Call the owner's service thread. An owner that is short of descriptors closes idle connections;
 * the first send discovers that, and a second one opens a new connection.
 */
static void call_service(struct nxr_peer *peer)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_WORK);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_conn_send(peer, &message);
    if (host_peer_of(peer)->conn == NULL) {
        nxr_conn_send(peer, &message);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/*
 * Does a thread of the owner poll the ring? A thread that polled last time may be between two
 * waits, so this call waits for it briefly, for less time than the service thread would need.
 */
static bool is_polled(struct nxr_asked *asked)
{
    const struct nxr_control *control = asked->peer->control;
    int64_t until = 0;

    while (atomic_load_explicit(&control->n_pollers, memory_order_relaxed) == 0) {
        if (!atomic_load_explicit(&asked->was_polled, memory_order_relaxed) ||
            atomic_load_explicit(&control->sleep_flags, memory_order_relaxed) != 0) {
            return false;
        }
        nxr_pause();
        until = until != 0 ? until : nxr_now_ns() + BETWEEN_WAITS_NS;
        atomic_store_explicit(&asked->was_polled, nxr_now_ns() < until, memory_order_relaxed);
    }
    atomic_store_explicit(&asked->was_polled, true, memory_order_relaxed);
    return true;
}

/*
 * A question was posted: make a thread of the owner look at the ring. A polling thread of the
 * owner is relied upon only if a thread of this process waits for the answer, since it would
 * notice if the polling stopped. Otherwise a sleeping thread of the owner is woken, or its service
 * thread is called.
 */
static void call_owner(struct nxr_asked *asked, bool is_awaited)
{
    struct nxr_control *control = asked->peer->control;

    atomic_fetch_or(&control->atomics_asked, nxr_control_bit(asked->peer->place));
    nxr_fence_full();
    if (!(is_awaited && is_polled(asked)) && !nxr_wake_waiters(control)) {
        call_service(asked->peer);
    }
}

/* ---- asking and collecting ------------------------------------------------------------------- */

static int atomic_ask_ask(struct nxr_asked *asked, struct nxr_op *op, bool is_awaited)
{
    bool has_posted;

    if (nxr_peer_is_lost(asked->peer)) {
        return NIXL_E_PEER_LOST;
    }
    nxr_spin_lock(&asked->lock);
    op->failure = NIXL_OK;
    nxr_op_list_append(&asked->waiting, op);
    has_posted = atomic_ask_post_waiting(asked);
    atomic_fetch_add(&atomic_ask_n_ops, 1);
    nxr_spin_unlock(&asked->lock);
    if (has_posted) {
        call_owner(asked, is_awaited);
    }
    return NIXL_INPROGRESS;
}

/* On the stack of the thread that waits. */
struct word_wait {
    struct nxr_op op;
    struct nxr_asked *asked;
    unsigned n_looks;
    _Atomic int status; /* NIXL_INPROGRESS until answered */
};

static void wait_ended(struct nxr_op *op, int status)
{
    struct word_wait *wait = nxr_list_entry(op, struct word_wait, op);

    atomic_store_explicit(&wait->status, status, memory_order_release);
    nxr_wake_self(); /* another thread may have taken the answer */
}

/* Take answers and post questions that waited for room. Returns how many operations have ended. */
static int atomic_ask_collect(struct nxr_asked *asked)
{
    struct nxr_op *ended = NULL;
    bool has_posted, is_lost = nxr_peer_is_lost(asked->peer);
    int n_ended = 0;

    nxr_spin_lock(&asked->lock);
    take_answers(asked, &ended);
    if (is_lost) {
        end_all(asked, NIXL_E_PEER_LOST, &ended);
    }
    has_posted = atomic_ask_post_waiting(asked);
    nxr_spin_unlock(&asked->lock);
    if (has_posted) {
        call_owner(asked, false);
    }
    while (ended != NULL) {
        struct nxr_op *op = ended;

        ended = op->next;
        n_ended++;
        atomic_fetch_sub(&atomic_ask_n_ops, 1);
        nxr_op_done(op, op->failure);
    }
    return n_ended;
}

/* Withdraw an operation. NIXL_OK: the change was not made and will not be. */
static int atomic_ask_take_back(struct nxr_asked *asked, struct nxr_op *op)
{
    struct nxr_atomic_slot *slot;
    int status = NIXL_INPROGRESS;

    nxr_spin_lock(&asked->lock);
    slot = slot_of(asked, op);
    if (nxr_op_list_has(&asked->waiting, op)) {
        nxr_op_list_remove(&asked->waiting, op);
        atomic_fetch_sub(&atomic_ask_n_ops, 1);
        status = NIXL_OK;
    } else if (slot != NULL && nxr_atomic_revoke(slot)) {
        forget_op(asked, op);
        status = NIXL_OK;
    }
    nxr_spin_unlock(&asked->lock);
    return status;
}

/* ---- calls that wait ------------------------------------------------------------------------- */

static void wait_init(struct word_wait *wait, struct nxr_asked *asked, struct nxr_segment *segment,
                      enum nxr_op_kind kind)
{
    *wait = (struct word_wait){.op = {.segment = segment, .kind = kind, .ended = wait_ended},
                               .asked = asked};
    atomic_init(&wait->status, NIXL_INPROGRESS);
}

/*
 * Usually only the oldest slot is checked; every 16th time all are, since answers arrive in any
 * order.
 */
static bool atomic_ask_is_answered(void *arg)
{
    struct word_wait *wait = arg;
    struct nxr_asked *asked = wait->asked;
    uint64_t head;

    if (atomic_load_explicit(&wait->status, memory_order_acquire) != NIXL_INPROGRESS) {
        return true;
    }
    head = atomic_load_explicit(&asked->head, memory_order_relaxed);
    if (++wait->n_looks % 16 == 0) {
        nxr_life_check(asked->peer);
    } else if (!nxr_atomic_has_answer(nxr_atomic_slot_at(asked->ring, head))) {
        return false;
    }
    atomic_ask_collect(asked);
    return atomic_load_explicit(&wait->status, memory_order_acquire) != NIXL_INPROGRESS;
}

/*
 * The wait has timed out. An answer that arrived meanwhile still counts; if the owner has taken
 * the question but not answered, its answer is not waited for.
 */
static int atomic_ask_give_up(struct word_wait *wait)
{
    struct nxr_asked *asked = wait->asked;

    if (atomic_ask_take_back(asked, &wait->op) == NIXL_OK) {
        return NIXL_E_TIMEOUT;
    }
    nxr_spin_lock(&asked->lock);
    if (slot_of(asked, &wait->op) != NULL) {
        forget_op(asked, &wait->op);
        atomic_store(&wait->status, NIXL_E_TIMEOUT);
    }
    nxr_spin_unlock(&asked->lock);
    for (int i = 0; atomic_load(&wait->status) == NIXL_INPROGRESS; i++) {
        nxr_spin_wait(i); /* another thread took the answer and is about to store it */
    }
    return atomic_load(&wait->status);
}

static int wait_for(struct word_wait *wait)
{
    const struct nxr_reason reason = {.kind = NXR_WAIT_ANSWER, .peer = wait->asked->peer->rank};
    int64_t deadline = nxr_deadline(nxr_env.op_timeout), turn_ns = FIRST_TURN_NS;
    int status;

    for (;;) {
        int64_t left_ns = nxr_left(nxr_env.op_timeout, deadline);

        status = nxr_wait_as(atomic_ask_is_answered, wait, turn_ns < left_ns ? turn_ns : left_ns,
                             nxr_describe_reason, &reason);
        if (status == NIXL_OK) {
            return atomic_load(&wait->status);
        }
        if (turn_ns >= left_ns) {
            return atomic_ask_give_up(wait);
        }
        call_service(wait->asked->peer);
        turn_ns = LATER_TURN_NS;
    }
}

static void set_put(struct nxr_op *op, uint64_t offset, const void *src, size_t nbytes)
{
    op->offset = offset;
    op->local = (void *)src;
    op->nbytes = nbytes;
}

bool nxr_atomic_serves_put(const struct nxr_segment *segment, uint64_t offset, size_t nbytes)
{
    return (segment->method == NXR_METHOD_PROCESS_VM || segment->method == NXR_METHOD_BOUNCE) &&
           segment->key.kind == NIXL_MEM_HOST && nxr_atomic_is_put(nbytes) &&
           ((segment->key.addr + offset) & (nbytes - 1)) == 0;
}

int nxr_atomic_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes)
{
    struct nxr_asked *asked = asked_of(segment->peer);
    struct word_wait wait;
    int status;

    if (asked == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    wait_init(&wait, asked, segment, NXR_OP_PUT);
    set_put(&wait.op, offset, src, nbytes);
    status = atomic_ask_ask(asked, &wait.op, true);
    return status == NIXL_INPROGRESS ? wait_for(&wait) : status;
}

int nxr_atomic_ask(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                   uint64_t *fetched_p)
{
    struct nxr_asked *asked;
    struct word_wait wait;
    int status;

    if (segment->peer->rank == nxr_job.rank) {
        return nxr_atomic_change_device(segment, atomic, fetched_p);
    }
    asked = asked_of(segment->peer);
    if (asked == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    wait_init(&wait, asked, segment, NXR_OP_ATOMIC);
    wait.op.atomic = *atomic;
    status = atomic_ask_ask(asked, &wait.op, true);
    status = status == NIXL_INPROGRESS ? wait_for(&wait) : status;
    if (status == NIXL_OK) {
        *fetched_p = wait.op.fetched;
    }
    return status;
}

/* ---- for transports -------------------------------------------------------------------------- */

/* Wait briefly, without sleeping, for the answer of a polling thread. */
static bool look_briefly(struct word_wait *wait)
{
    int64_t until = nxr_now_ns() + PUT_AT_ONCE_NS;

    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_ask_is_answered(wait)) {
                return true;
            }
        }
        nxr_pause();
    } while (nxr_now_ns() < until);
    return false;
}

/*
 * Ask an owner if one of its threads is polling. NIXL_E_AGAIN: none is, or it did not answer at
 * once.
 */
static int ask_at_once(struct word_wait *wait)
{
    struct nxr_asked *asked = wait->asked;
    int status = is_polled(asked) ? atomic_ask_ask(asked, &wait->op, true) : NIXL_E_AGAIN;

    if (status != NIXL_INPROGRESS || look_briefly(wait)) {
        return status == NIXL_INPROGRESS ? atomic_load(&wait->status) : status;
    }
    return atomic_ask_take_back(asked, &wait->op) == NIXL_OK ? NIXL_E_AGAIN : wait_for(wait);
}

int nxr_atomic_ask_at_once(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                           uint64_t *fetched_p)
{
    struct nxr_asked *asked = asked_of(segment->peer);
    struct word_wait wait;
    int status = NIXL_E_NO_MEMORY;

    if (asked != NULL) {
        wait_init(&wait, asked, segment, NXR_OP_ATOMIC);
        wait.op.atomic = *atomic;
        status = ask_at_once(&wait);
    }
    if (status == NIXL_OK) {
        *fetched_p = wait.op.fetched;
    }
    return status;
}

int nxr_host_atomic_put(struct nxr_segment *segment, uint64_t offset, const void *src,
                        size_t nbytes)
{
    struct nxr_asked *asked = asked_of(segment->peer);
    struct word_wait wait;

    if (asked == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    wait_init(&wait, asked, segment, NXR_OP_PUT);
    set_put(&wait.op, offset, src, nbytes);
    return ask_at_once(&wait);
}

int nxr_host_atomic_start(struct nxr_op *op)
{
    struct nxr_asked *asked = asked_of(op->segment->peer);

    return asked != NULL ? atomic_ask_ask(asked, op, false) : NIXL_E_NO_MEMORY;
}

int nxr_host_atomic_cancel(struct nxr_op *op)
{
    struct nxr_asked *asked = atomic_load(&host_peer_of(op->segment->peer)->asked);

    if (asked == NULL || atomic_ask_take_back(asked, op) != NIXL_OK) {
        return NIXL_INPROGRESS; /* answered, or about to be */
    }
    nxr_op_done(op, NIXL_E_CANCELED);
    return NIXL_OK;
}

int nxr_host_atomic_progress(void)
{
    int n_ended = 0;

    if (atomic_load_explicit(&atomic_ask_n_ops, memory_order_relaxed) == 0) {
        return 0;
    }
    for (struct nxr_asked *asked = atomic_load_explicit(&atomic_ask_all, memory_order_acquire);
         asked != NULL; asked = atomic_load_explicit(&asked->next, memory_order_acquire)) {
        n_ended += atomic_ask_collect(asked);
    }
    return n_ended;
}

int64_t nxr_atomic_tick(int64_t now)
{
    return atomic_load(&atomic_ask_n_ops) == 0 ? INT64_MAX : now + DRIVE_EVERY_NS;
}

void nxr_atomic_unlink(struct nxr_peer *peer)
{
    const struct nxr_asked *asked = atomic_load(&host_peer_of(peer)->asked);
    struct nxr_asked *_Atomic *link = &atomic_ask_all;

    while (asked != NULL && atomic_load(link) != NULL && atomic_load(link) != asked) {
        link = &atomic_load(link)->next;
    }
    if (asked != NULL && atomic_load(link) == asked) {
        atomic_store_explicit(link, atomic_load(&asked->next), memory_order_release);
    }
}

bool nxr_atomic_is_asked_by(const struct nxr_peer *peer)
{
    const struct nxr_asked *asked = atomic_load(&host_peer_of(peer)->asked);
    bool is_asked = false;

    for (unsigned i = 0; asked != NULL && i < NXR_ATOMIC_SLOTS; i++) {
        is_asked |= asked->ops[i] != NULL;
    }
    return is_asked || (asked != NULL && asked->waiting.first != NULL);
}

void nxr_atomic_forget(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    nxr_atomic_unlink(peer);
    free(atomic_load(&hp->asked));
    atomic_store(&hp->asked, NULL);
}
