/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incoming bulk: where it goes, and what follows when it has landed. A put goes straight into the
 * own region, or into a buffer posted for it, and the answer to a get straight into the caller's
 * buffer. Lock: nxr_net.lock.
 */
#include "config.h"

#include "net/clients.h"
#include "net/in.h"
#include "net/move.h"

#include <stdlib.h>
#include <string.h>

/* Where a put may land; NULL: nowhere, and the put is refused. */
static void *place_put(struct net_landing *landing, const struct nxr_net_put *put, size_t nbytes)
{
    const struct net_range range = {put->generation, put->offset, nbytes, put->id,
                                    NIXL_ACCESS_NO_PUT};
    int status = NIXL_E_RANGE;
    char *addr = NULL;

    if (nbytes == put->nbytes) {
        addr = nxr_net_hold_begin_host(&range, &landing->hold, &status);
    }
    if (addr != NULL) {
        addr = nxr_net_posted_place(landing, &range, addr);
    } else {
        const struct net_refusal refusal = {put->id, put->generation, put->is_own != 0, status};

        nxr_net_refuse(landing->np, &refusal);
    }
    nxr_net_serve_large(landing->np, nbytes);
    return addr;
}

/* The buffer of an own get, for one answer only; NULL: no get waits for this answer. */
static void *place_got(struct net_landing *landing, const struct nxr_net_got *got, size_t nbytes)
{
    struct net_move *move = nxr_net_move_find(landing->np, got->move);

    if (move == NULL && got->move <= landing->np->last_id) {
        return NULL; /* it was canceled */
    }
    if (move == NULL || move->how != NET_BULK || move->is_at_module ||
        move->user->kind != NXR_OP_GET || move->user->nbytes != nbytes) {
        nxr_net_drop(landing->np->peer->rank, "an answer without a get");
        return NULL;
    }
    move->is_at_module = true;
    landing->move = move;
    return move->user->local;
}

/* Pending records that arrive from now on wait until it has landed. */
static void enlist(struct net_landing *landing, struct net_peer *np)
{
    landing->seq = ++np->landing_seq;
    nxr_net.n_landings++;
    nxr_list_append(&np->landings, &landing->link);
}

struct net_landing *nxr_net_landing_new(struct net_peer *np, struct net_hold *hold)
{
    struct net_landing *landing = calloc(1, sizeof(*landing));

    if (landing != NULL) {
        landing->np = np;
        landing->hold = hold;
        enlist(landing, np);
    }
    return landing;
}

static void *place(struct net_landing *landing, const struct nxr_net_record *record, size_t nbytes)
{
    if (record->type == NXR_NET_BULK_PUT) {
        return place_put(landing, nxr_net_body(record), nbytes);
    }
    if (record->type == NXR_NET_BULK_GOT) {
        return place_got(landing, nxr_net_body(record), nbytes);
    }
    nxr_net_drop(landing->np->peer->rank, "bulk data after a message that has none");
    return NULL;
}

/* Begin to receive bulk: returns where it goes, and the landing in *cookie_p. NULL: nowhere. */
static void *begin_landing(struct net_peer *np, const struct nxr_net_record *record, size_t nbytes,
                           void **cookie_p)
{
    struct net_landing *landing = malloc(sizeof(*landing));
    void *addr;

    if (landing == NULL) {
        nxr_net_give_up(np);
        return NULL;
    }
    *landing = (struct net_landing){.np = np};
    addr = place(landing, record, nbytes);
    if (addr == NULL) {
        free(landing);
        return NULL;
    }
    enlist(landing, np);
    *cookie_p = landing;
    return addr;
}

static void *take_header(struct net_peer *np, const void *header, size_t header_nbytes,
                         size_t nbytes, void **cookie_p)
{
    _Alignas(8) unsigned char message[NXR_NET_HEADER_NBYTES];
    size_t at = sizeof(struct nxr_net_head);
    const struct nxr_net_record *record = NULL;
    const char *why = "bulk data after a message that is too long";
    void *addr;

    if (header_nbytes <= sizeof(message)) {
        memcpy(message, header, header_nbytes);
        record = nxr_net_next_record(message, header_nbytes, &at, &why);
    }
    if (record == NULL) {
        nxr_net_drop(np->peer->rank, why != NULL ? why : "bulk data after an empty message");
        return NULL;
    }
    addr = begin_landing(np, record, nbytes, cookie_p);
    nxr_net_take_records(np, message, header_nbytes, at); /* they were sent after the bulk */
    return addr;
}

void *nxr_net_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p)
{
    int rank = nxr_net_sender(header, header_nbytes);
    struct net_peer *np = rank >= 0 ? net_peer_of(rank) : NULL;

    NXR_ASSERT(nxr_spin_is_mine(&nxr_net.lock));
    if (rank >= 0 && (np == NULL || np->is_dead)) {
        nxr_net_drop(rank, "bulk data before the greeting");
    }
    if (np == NULL || np->is_dead) {
        return NULL;
    }
    return take_header(np, header, header_nbytes, nbytes, cookie_p);
}

void nxr_net_landing(void *cookie, size_t nbytes)
{
    struct net_landing *landing = cookie;

    NXR_ASSERT(nxr_spin_is_mine(&nxr_net.lock));
    nxr_net_lives(landing->np, nbytes);
}

void nxr_net_landed(void *cookie, int status)
{
    struct net_landing *landing = cookie;
    struct net_peer *np = landing->np;

    NXR_ASSERT(nxr_spin_is_mine(&nxr_net.lock));
    nxr_list_remove(&landing->link);
    nxr_net.n_landings--;
    nxr_net_posted_landed(landing, status);
    if (landing->hold != NULL) {
        nxr_net_hold_end(landing->hold);
    }
    if (landing->move != NULL) {
        nxr_net_bulk_left(landing->move, status);
    }
    free(landing);
    nxr_net.must_wake = true;
    if (np->is_dead) {
        return; /* its rank may be another process by now */
    }
    if (status != NIXL_OK) {
        nxr_net_later(NET_LATER_LOST, np->peer->rank, NULL, 0);
    } else {
        nxr_net_run_pending(np);
    }
}
