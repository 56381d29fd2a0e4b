/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own regions as accessed by peers on other hosts. Every access enters the region like one of a
 * same-host peer, with an in-flight slot of this rank's own page. It either finds the region
 * closed or stays inside it, and a close waits for the slots. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/clients.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "region/own_atomic.h"
#include "util/copy.h"
#include "util/log.h"

#include <stdlib.h>

static bool is_possible(const struct net_range *range)
{
    return range->id < NXR_N_REGION_IDS && range->generation != 0;
}

/*
 * The address of the bytes in a region that was entered; NULL and the reason: they are outside it,
 * or it does not allow the access.
 */
static char *find_bytes(const struct net_range *range, int *status_p)
{
    struct nxr_own_memory own = nxr_publish_memory(range->id);

    *status_p = (own.access & range->forbidden_by) != 0 ? NIXL_E_ACCESS
                : range->offset <= own.nbytes && range->nbytes <= own.nbytes - range->offset
                    ? NIXL_OK
                    : NIXL_E_RANGE;
    return *status_p == NIXL_OK ? own.addr + range->offset : NULL;
}

/*
 * Enter a region for an access that ends before the lock is released; net_own_leave() must follow.
 * NULL and the reason.
 */
static char *net_own_enter(const struct net_range *range, int *status_p)
{
    char *addr;

    if (nxr_net.guard == NULL) {
        nxr_net.guard = nxr_inflight_claim_own();
    }
    if (nxr_net.guard == NULL) {
        *status_p = NIXL_E_LIMIT;
        return NULL;
    }
    if (!is_possible(range) ||
        !nxr_inflight_enter_own(nxr_net.guard, range->id, range->generation)) {
        *status_p = NIXL_E_STALE;
        return NULL;
    }
    addr = find_bytes(range, status_p);
    if (addr == NULL) {
        nxr_inflight_leave(&nxr_net.guard->busy);
    }
    return addr;
}

static void net_own_leave(void)
{
    nxr_inflight_leave(&nxr_net.guard->busy);
}

/* Is that region, which was entered, memory that the processor does not read and write? */
static bool net_own_is_device(uint32_t id)
{
    const struct nxr_range *range = nxr_publish_memory(id).range;

    return range != NULL && !range->is_mapped;
}

bool nxr_net_is_device(const struct net_range *range)
{
    int status;
    bool is_found = net_own_enter(range, &status) != NULL;

    if (is_found) {
        is_found = net_own_is_device(range->id);
        net_own_leave();
    }
    return is_found;
}

/* ---- bulk ------------------------------------------------------------------------------------ */

static struct net_hold *find_hold(uint32_t id)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &nxr_net.holds) {
        struct net_hold *hold = nxr_list_entry(link, struct net_hold, link);

        if (hold->id == id) {
            return hold;
        }
    }
    return NULL;
}

static struct net_hold *new_hold(uint32_t id)
{
    struct net_hold *hold = calloc(1, sizeof(*hold));

    if (hold != NULL) {
        hold->id = id;
        hold->slot = nxr_inflight_claim_own();
        if (hold->slot == NULL) {
            free(hold);
            return NULL;
        }
        nxr_list_append(&nxr_net.holds, &hold->link);
    }
    return hold;
}

/*
 * While the slot is entered, the region's id means this region: a close waits before the id is
 * freed.
 */
static bool net_own_is_open(const struct net_hold *hold, uint64_t generation)
{
    return hold->n_users > 1 ? atomic_load(&nxr_job.control->generations[hold->id]) == generation
                             : nxr_inflight_enter_own(hold->slot, hold->id, generation);
}

char *nxr_net_hold_begin(const struct net_range *range, struct net_hold **hold_p, int *status_p)
{
    struct net_hold *hold;
    char *addr;

    *status_p = NIXL_E_STALE;
    if (!is_possible(range)) {
        return NULL;
    }
    hold = find_hold(range->id);
    if (hold == NULL) {
        hold = new_hold(range->id);
    }
    if (hold == NULL) {
        *status_p = NIXL_E_LIMIT;
        return NULL;
    }
    hold->n_users++;
    if (!net_own_is_open(hold, range->generation)) {
        nxr_net_hold_end(hold);
        return NULL;
    }
    addr = find_bytes(range, status_p);
    if (addr == NULL) {
        nxr_net_hold_end(hold);
    }
    *hold_p = hold;
    return addr;
}

char *nxr_net_hold_begin_host(const struct net_range *range, struct net_hold **hold_p,
                              int *status_p)
{
    char *addr = nxr_net_hold_begin(range, hold_p, status_p);

    if (addr != NULL && net_own_is_device(range->id)) {
        nxr_net_hold_end(*hold_p);
        *status_p = NIXL_E_UNSUPPORTED;
        return NULL;
    }
    return addr;
}

void nxr_net_hold_end(struct net_hold *hold)
{
    if (--hold->n_users == 0) {
        nxr_list_remove(&hold->link);
        nxr_inflight_give_own(hold->slot);
        free(hold);
    }
}

/* ---- puts ------------------------------------------------------------------------------------ */

/*
 * What the sender sends from now on must not look as if its put had arrived. So its notifications
 * are marked and its words are left alone until it answers that its program was told: it reads that
 * answer and what follows in the order in which they were sent.
 */
void nxr_net_tell_refusal(struct net_peer *np)
{
    struct nxr_net_refused *refused;

    if (!np->is_late || np->refusal.n_dropped == np->n_dropped) {
        return;
    }
    np->refusal.n_dropped = np->n_dropped;
    refused = nxr_net_begin_answer(np, NXR_NET_REFUSED, sizeof(*refused));
    if (refused != NULL) {
        *refused = np->refusal;
        nxr_net_push(np, false);
    }
}

/*
 * Of the puts to a closed region only the first is reported at once: the sender may have sent
 * thousands before it hears of the close. The rest is reported with its next flush.
 */
static void take_refusal(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_refused *refused = nxr_net_body(record);
    bool is_news = !np->is_late || refused->status != NIXL_E_STALE;

    np->refusal.generation = refused->generation;
    np->refusal.id = refused->id;
    np->refusal.status = refused->status;
    np->n_dropped++;
    np->is_late = true;
    if (is_news) {
        nxr_net_tell_refusal(np);
    }
}

static const char *what_refused(int status)
{
    return status == NIXL_E_RANGE    ? "an access outside a region"
           : status == NIXL_E_ACCESS ? "an access that a region forbids"
                                     : "an access that cannot be served";
}

static void refuse(struct net_peer *np, const struct net_refusal *refusal, bool is_after_bulk)
{
    struct {
        struct nxr_net_record record;
        struct nxr_net_refused refused;
    } made = {
        .record = {.type = NXR_NET_REFUSED, .nbytes = sizeof(struct nxr_net_refused)},
        .refused = {refusal->generation, refusal->id, refusal->status, 0},
    };

    if (refusal->status != NIXL_E_STALE && refusal->status != NIXL_E_STORAGE) {
        nxr_net_drop(np->peer->rank, what_refused(refusal->status));
    } else if (refusal->is_own && refusal->status == NIXL_E_STALE) {
        return;
    }
    if (is_after_bulk) {
        nxr_net_take_after_bulk(np, &made.record, take_refusal);
    } else {
        take_refusal(np, &made.record);
    }
}

void nxr_net_refuse(struct net_peer *np, const struct net_refusal *refusal)
{
    refuse(np, refusal, true);
}

void nxr_net_refuse_at_once(struct net_peer *np, const struct net_refusal *refusal)
{
    refuse(np, refusal, false);
}

static void refuse_put(struct net_peer *np, const struct nxr_net_put *put, int status)
{
    const struct net_refusal refusal = {put->id, put->generation, put->is_own != 0, status};

    nxr_net_refuse(np, &refusal);
}

void nxr_net_take_put(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_put *put = nxr_net_body(record);
    size_t nbytes;
    const void *payload = nxr_net_payload(record, sizeof(*put), &nbytes);
    const struct net_range range = {put->generation, put->offset, nbytes, put->id,
                                    NIXL_ACCESS_NO_PUT};
    int status;
    char *addr = net_own_enter(&range, &status);

    if (addr == NULL) {
        refuse_put(np, put, status);
        return;
    }
    if (__builtin_expect(net_own_is_device(put->id), 0)) {
        net_own_leave();
        nxr_net_device->take_put(np, record);
        return;
    }
    nxr_copy(addr, payload, nbytes);
    net_own_leave();
    nxr_net.must_wake = true; /* a thread may wait for a word that was put */
}

/* ---- gets ------------------------------------------------------------------------------------ */

void nxr_net_answer_get(struct net_peer *np, const struct nxr_net_get *get, const char *addr,
                        int status)
{
    size_t nbytes = status == NIXL_OK ? get->nbytes : 0;
    struct nxr_net_got *got = nxr_net_begin_answer(np, NXR_NET_GOT, sizeof(*got) + nbytes);

    if (got != NULL) {
        *got = (struct nxr_net_got){.move = get->move, .status = status};
        nxr_copy(got + 1, addr, nbytes);
        nxr_net_push(np, true);
    }
}

static void own_bulk_left(void *hold, int status)
{
    (void)status;
    nxr_net_hold_end(hold);
}

/* Send the bytes straight from the region, which stays entered until they have left. */
static void answer_bulk(struct net_peer *np, const struct nxr_net_get *get)
{
    const struct net_range range = {get->generation, get->offset, get->nbytes, get->id,
                                    NIXL_ACCESS_NO_GET};
    struct nxr_net_got got = {.move = get->move, .nbytes = get->nbytes};
    struct net_bulk bulk = {.nbytes = get->nbytes, .left = own_bulk_left};
    struct net_hold *hold;
    int status;

    nxr_net_serve_large(np, get->nbytes);
    bulk.bytes = nxr_net_hold_begin_host(&range, &hold, &status);
    if (bulk.bytes != NULL) {
        bulk.arg = hold;
        status = nxr_net_send_bulk(np, NXR_NET_BULK_GOT, &got, sizeof(got), &bulk);
        if (status != NIXL_OK) {
            nxr_net_hold_end(hold);
        }
    }
    if (status != NIXL_OK) {
        nxr_net_answer_get(np, get, NULL, status);
    }
}

struct nxr_net_get nxr_net_answerable(const struct net_peer *np, const struct nxr_net_get *get)
{
    struct nxr_net_get first = *get;

    first.nbytes = get->nbytes < np->piece_max ? get->nbytes : np->piece_max;
    return first;
}

void nxr_net_take_get(struct net_peer *np, const struct nxr_net_get *get)
{
    const struct nxr_net_get first = nxr_net_answerable(np, get);
    const struct net_range range = {first.generation, first.offset, first.nbytes, first.id,
                                    NIXL_ACCESS_NO_GET};
    char *addr;
    int status;

    if (get->is_bulk != 0 && np->messages->attr->has_bulk) {
        answer_bulk(np, get);
        return;
    }
    addr = net_own_enter(&range, &status);
    nxr_net_answer_get(np, &first, addr, status);
    if (addr != NULL) {
        net_own_leave();
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

void nxr_net_answer_atomic(struct net_peer *np, const struct nxr_net_atomic *asked, int status,
                           uint64_t fetched)
{
    struct nxr_net_atomic_done *done;

    if (asked->ask == 0) {
        if (status != NIXL_OK) {
            const struct net_refusal refusal = {asked->what.id, asked->what.generation,
                                                asked->what.is_own != 0, status};

            nxr_net_refuse_at_once(np, &refusal);
        }
        return;
    }
    done = nxr_net_begin_answer(np, NXR_NET_ATOMIC_DONE, sizeof(*done));
    if (done != NULL) {
        *done = (struct nxr_net_atomic_done){
            .ask = asked->ask,
            .what = {.fetched = fetched, .status = status},
        };
        nxr_net_push(np, false);
    }
}

/* All words of device memory are changed there, mapped or not: peers may not have it mapped. */
void nxr_net_take_atomic(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_atomic *asked = nxr_net_body(record);
    uint64_t fetched = 0;
    int status;

    if (np->is_late && asked->what.is_own == 0) {
        if (asked->ask != 0) { /* of a signal the refusal of the put tells enough */
            bool is_sync = asked->what.atomic.op == NXR_ATOMIC_SYNC;

            nxr_net_answer_atomic(np, asked, is_sync ? np->refusal.status : NIXL_E_CANCELED, 0);
        }
        return;
    }
    status = nxr_own_atomic_change(&nxr_net.guard, &asked->what, &fetched);
    nxr_net.must_wake |= status == NIXL_OK;
    if (status == NIXL_INPROGRESS) {
        status = nxr_net_device->take_word(np, asked);
    }
    if (status != NIXL_INPROGRESS) {
        nxr_net_answer_atomic(np, asked, status, fetched);
    }
}
