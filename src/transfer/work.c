/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of own device memory for peers on other hosts. They are requested in a round and begin
 * after it, since drivers must not be called under a spin lock; done() of a copy is called under
 * the lock again.
 *
 * Small puts to device memory keep their order, as they do in host memory: those of one peer are
 * gathered in batches, of which one is copied at a time, and pending records that were sent after
 * them wait as they do for bulk. Lock: nxr_net.lock.
 */
#include "config.h"

#include "region/own_atomic.h"
#include "transfer/work.h"
#include "memory/device_atomic.h"
#include "memory/memory.h"
#include "util/clock.h"
#include "util/copy.h"
#include "util/log.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_PIECES 64
#define BATCH_NBYTES ((size_t)64 << 10) /* or one put, if that is longer */
#define END_NS       (10 * NXR_S)       /* how long the last finalize waits for copies */

/* Puts of one peer to one region, in the order of arrival. */
struct net_put_batch {
    struct net_work work;
    struct nxr_list link; /* in put_batches of the peer */
    struct net_peer *np;
    struct net_landing *landing;
    uint64_t generation;
    uint32_t id;
    bool is_own; /* into memory of the library */
    size_t n_pieces;
    size_t nbytes;
    size_t room;
    struct nxr_device_piece pieces[BATCH_PIECES];
    char bytes[];
};

/* A small get. */
struct net_get_work {
    struct net_work work;
    struct net_peer *np;
    struct net_hold *hold;
    struct nxr_net_get get;
    struct nxr_device_piece piece;
    char bytes[];
};

/* A word that a peer changes. */
struct net_atomic_work {
    struct nxr_device_atomic word;
    struct net_peer *np;
    struct net_hold *hold;
    struct nxr_net_atomic asked;
};

/* ---- works ----------------------------------------------------------------------------------- */

static struct nxr_list works = {&works, &works}; /* to begin after the round */
static unsigned n_works;                         /* works and words that have not ended */
static atomic_bool has_works;                    /* read without the lock */
static bool are_taken;                           /* a thread begins them, one after the other */

static void works_run(void);
static void work_ended(struct nxr_device_copy *copy, int status);

void nxr_work_add(struct net_work *work)
{
    work->copy.ended = work_ended;
    n_works++;
    nxr_list_append(&works, &work->link);
    atomic_store_explicit(&has_works, true, memory_order_release);
}

/* Without memory for it, the copy just goes on. */
void nxr_work_stop(const void *owner)
{
    struct net_work *stop = calloc(1, sizeof(*stop));

    if (stop != NULL) {
        stop->is_stop = true;
        stop->copy.owner = owner;
        n_works++;
        nxr_list_append(&works, &stop->link);
        atomic_store_explicit(&has_works, true, memory_order_release);
    }
}

static void work_stop(struct net_work *stop)
{
    nxr_device_copy_cancel(stop->copy.owner);
    nxr_net_lock();
    n_works--;
    nxr_net_unlock();
    free(stop);
}

static void work_finish(struct net_work *work, int status)
{
    nxr_net_lock();
    n_works--;
    work->done(work, status);
    nxr_net_unlock();
    nxr_wake_self();
    nxr_net_tell_ended();
}

static void work_ended(struct nxr_device_copy *copy, int status)
{
    work_finish(nxr_list_entry(copy, struct net_work, copy), status);
    works_run();
}

/*
 * May this thread begin works? One at a time does, in their order, so that a stop finds the copy
 * that it is meant for begun; it takes what is added meanwhile, too.
 */
static bool works_take(void)
{
    bool may;

    if (!atomic_load_explicit(&has_works, memory_order_acquire)) {
        return false;
    }
    nxr_net_lock();
    may = !are_taken;
    are_taken = true;
    nxr_net_unlock();
    return may;
}

static struct net_work *next_work(void)
{
    struct nxr_list *link;

    nxr_net_lock();
    link = nxr_list_pop(&works);
    if (link == NULL) {
        are_taken = false;
        atomic_store_explicit(&has_works, false, memory_order_relaxed);
    }
    nxr_net_unlock();
    return link != NULL ? nxr_list_entry(link, struct net_work, link) : NULL;
}

static void works_run(void)
{
    struct nxr_device_gather gather;
    struct net_work *work;

    nxr_device_atomics_run();
    if (!works_take()) {
        return;
    }
    nxr_device_gather_begin(&gather);
    while ((work = next_work()) != NULL) {
        int status;

        if (work->is_stop) {
            work_stop(work);
            continue;
        }
        if (work->prepare != NULL) {
            work->prepare(work);
        }
        status = nxr_device_copy_begin(&work->copy);
        if (status != NIXL_INPROGRESS) {
            work_finish(work, status);
            nxr_device_atomics_run(); /* words that waited for this copy */
        }
    }
    nxr_device_gather_end(&gather);
}

/* Wait for all copies; no more begin. */
static void works_stop(void)
{
    int64_t until = nxr_now_ns() + END_NS;

    works_run();
    while (n_works > 0 && nxr_now_ns() < until) {
        nxr_device_progress();
    }
    if (n_works > 0) {
        nxr_error(NET, "%u copies of device memory did not end", n_works);
    }
}

bool nxr_works_are_under_way(void)
{
    bool are;

    nxr_net_lock();
    are = n_works > 0;
    nxr_net_unlock();
    return are;
}

/* ---- small puts ------------------------------------------------------------------------------ */

static void batch_copied(struct net_work *work, int status);

static struct nxr_list *batches_of(const struct net_peer *np)
{
    return &work_peer_of(nxr_net_peer(np))->put_batches;
}

/* Begin the next batch, if there is one; from now on nothing is added to it. */
static void begin_batch(const struct net_peer *np)
{
    struct nxr_list *batches = batches_of(np);

    if (!nxr_list_is_empty(batches)) {
        struct net_put_batch *batch = nxr_list_entry(batches->next, struct net_put_batch, link);

        batch->work.copy.pieces = batch->pieces;
        batch->work.copy.n_pieces = batch->n_pieces;
        batch->work.done = batch_copied;
        nxr_work_add(&batch->work);
    }
}

static void batch_copied(struct net_work *work, int status)
{
    struct net_put_batch *batch = nxr_list_entry(work, struct net_put_batch, work);
    struct net_peer *np = batch->np;

    nxr_list_remove(&batch->link);
    if (status != NIXL_OK) {
        const struct net_refusal refusal = {batch->id, batch->generation, batch->is_own, status};

        nxr_net_refuse_at_once(np, &refusal);
    }
    begin_batch(np);
    nxr_net_landed(batch->landing, NIXL_OK);
    free(batch);
}

/* Does the put overlap no other piece of the batch? Pieces of one copy move in any order. */
static bool is_apart(const struct net_put_batch *batch, const char *dst, size_t nbytes)
{
    for (size_t i = 0; i < batch->n_pieces; i++) {
        const char *other = batch->pieces[i].dst;

        if (dst < other + batch->pieces[i].nbytes && other < dst + nbytes) {
            return false;
        }
    }
    return true;
}

/* The last batch if the put may be added to it, or NULL. */
static struct net_put_batch *open_batch(const struct net_peer *np, const struct nxr_net_put *put,
                                        const char *dst, size_t nbytes)
{
    const struct nxr_list *batches = batches_of(np);
    struct net_put_batch *batch;

    if (batches->next == batches->prev) { /* none, or only the one being copied */
        return NULL;
    }
    batch = nxr_list_entry(batches->prev, struct net_put_batch, link);
    return batch->id == put->id && batch->generation == put->generation &&
                   batch->n_pieces < BATCH_PIECES && nbytes <= batch->room - batch->nbytes &&
                   is_apart(batch, dst, nbytes)
               ? batch
               : NULL;
}

static struct net_put_batch *batch_new(struct net_peer *np, const struct nxr_net_put *put,
                                       struct net_hold *hold, size_t nbytes)
{
    size_t room = nbytes > BATCH_NBYTES ? nbytes : BATCH_NBYTES;
    struct net_put_batch *batch;

    if (nxr_list_is_empty(batches_of(np))) {
        room = nbytes; /* it is copied at once */
    }
    batch = malloc(sizeof(*batch) + room);
    if (batch == NULL) {
        return NULL;
    }
    memset(batch, 0, sizeof(*batch));
    batch->np = np;
    batch->landing = nxr_net_landing_new(np, hold);
    if (batch->landing == NULL) {
        free(batch);
        return NULL;
    }
    batch->room = room;
    batch->id = put->id;
    batch->generation = put->generation;
    batch->is_own = put->is_own != 0;
    batch->work.copy.dst = nxr_publish_memory(put->id).range;
    batch->work.copy.origin = nxr_peer_origin(nxr_net_peer(np));
    nxr_list_append(batches_of(np), &batch->link);
    return batch;
}

static void refuse_small_put(struct net_peer *np, const struct nxr_net_put *put, int status)
{
    const struct net_refusal refusal = {put->id, put->generation, put->is_own != 0, status};

    nxr_net_refuse(np, &refusal);
}

static void work_take_put(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_put *put = nxr_net_body(record);
    size_t nbytes;
    const void *payload = nxr_net_payload(record, sizeof(*put), &nbytes);
    const struct net_range range = {put->generation, put->offset, nbytes, put->id,
                                    NIXL_ACCESS_NO_PUT};
    struct net_put_batch *batch;
    struct net_hold *hold;
    int status;
    char *dst = nxr_net_hold_begin(&range, &hold, &status);
    bool is_first = nxr_list_is_empty(batches_of(np));

    if (dst == NULL) {
        refuse_small_put(np, put, status);
        return;
    }
    batch = open_batch(np, put, dst, nbytes);
    if (batch != NULL) {
        nxr_net_hold_end(hold); /* the batch has a hold already */
    } else {
        batch = batch_new(np, put, hold, nbytes);
    }
    if (batch == NULL) {
        nxr_net_hold_end(hold);
        refuse_small_put(np, put, NIXL_E_NO_MEMORY);
        return;
    }
    nxr_copy(batch->bytes + batch->nbytes, payload, nbytes);
    batch->pieces[batch->n_pieces++] =
        (struct nxr_device_piece){dst, batch->bytes + batch->nbytes, nbytes};
    batch->nbytes += nbytes;
    if (is_first) {
        begin_batch(np);
    }
}

/* ---- small gets ------------------------------------------------------------------------------ */

static void get_copied(struct net_work *work, int status)
{
    struct net_get_work *got = nxr_list_entry(work, struct net_get_work, work);

    nxr_net_hold_end(got->hold);
    nxr_net_unkeep(got->np);
    nxr_net_answer_get(got->np, &got->get, got->bytes, status);
    free(got);
}

static void work_take_get(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_get first = nxr_net_answerable(np, nxr_net_body(record)), *get = &first;
    const struct net_range range = {get->generation, get->offset, get->nbytes, get->id,
                                    NIXL_ACCESS_NO_GET};
    struct net_get_work *got;
    struct net_hold *hold;
    int status;
    char *src = nxr_net_hold_begin(&range, &hold, &status);

    if (src == NULL) {
        nxr_net_answer_get(np, get, NULL, status);
        return;
    }
    got = malloc(sizeof(*got) + get->nbytes);
    if (got == NULL) {
        nxr_net_hold_end(hold);
        nxr_net_answer_get(np, get, NULL, NIXL_E_NO_MEMORY);
        return;
    }
    memset(got, 0, sizeof(*got));
    got->np = np;
    got->hold = hold;
    got->get = *get;
    got->piece = (struct nxr_device_piece){got->bytes, src, get->nbytes};
    got->work.copy.pieces = &got->piece;
    got->work.copy.n_pieces = 1;
    got->work.copy.src = nxr_publish_memory(get->id).range;
    got->work.done = get_copied;
    nxr_net_keep(np);
    nxr_work_add(&got->work);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* What makes files durable takes long, and no later record needs it to have ended. */
static bool word_holds_back(const struct net_atomic_work *work)
{
    return work->asked.what.atomic.op != NXR_ATOMIC_SYNC;
}

static void atomic_changed(struct nxr_device_atomic *word, int status)
{
    struct net_atomic_work *work = nxr_list_entry(word, struct net_atomic_work, word);
    uint64_t shown = nxr_own_atomic_shown(work->asked.what.id, word->fetched);
    struct net_peer *np = work->np;

    nxr_net_lock();
    nxr_net_hold_end(work->hold);
    nxr_net_answer_atomic(np, &work->asked, status, shown);
    n_works--;
    nxr_net_unkeep(np);
    if (word_holds_back(work)) {
        nxr_net_word_end(np);
    }
    nxr_net_unlock();
    free(work);
    nxr_wake_self();
    works_run();
}

/* Queue the change of a word that nxr_own_atomic_change() has found. */
static int work_take_atomic(struct net_peer *np, const struct nxr_net_atomic *asked)
{
    const struct nxr_wire_atomic *what = &asked->what;
    const struct net_range range = {what->generation, what->atomic.offset,
                                    nxr_atomic_nbytes(&what->atomic), what->id, 0 /* checked */};
    struct net_atomic_work *work;
    struct net_hold *hold;
    int status;
    char *addr = nxr_net_hold_begin(&range, &hold, &status);

    if (addr == NULL) {
        return status;
    }
    work = calloc(1, sizeof(*work));
    if (work == NULL) {
        nxr_net_hold_end(hold);
        return NIXL_E_NO_MEMORY;
    }
    work->np = np;
    work->hold = hold;
    work->asked = *asked;
    work->word.addr = addr;
    work->word.range = nxr_publish_memory(what->id).range;
    work->word.atomic = what->atomic;
    work->word.ended = atomic_changed;
    n_works++;
    nxr_net_keep(np);
    if (word_holds_back(work)) {
        nxr_net_word_begin(np);
    }
    nxr_device_atomic_add(&work->word);
    return NIXL_INPROGRESS;
}

/* ---- each peer ------------------------------------------------------------------------------- */

struct nxr_peer_slot nxr_work_slot = {.nbytes = sizeof(struct work_peer)};

bool nxr_work_peer_init(struct nxr_peer *peer)
{
    nxr_list_init(&work_peer_of(peer)->put_batches);
    return true;
}

/* ---- for the networks ------------------------------------------------------------------------ */

static const struct net_device work_device = {
    .take_put = work_take_put,
    .take_get = work_take_get,
    .take_word = work_take_atomic,
};
static const struct net_client work_client = {.run = works_run, .stop = works_stop};

void nxr_works_register(void)
{
    nxr_net_device = &work_device;
    nxr_net_add_client(&work_client);
}
