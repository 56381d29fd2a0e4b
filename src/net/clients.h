/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layers above use: their hooks, their records, remote peers, and own regions as peers
 * access them. An access holds the region from nxr_net_hold_begin() to nxr_net_hold_end(), and a
 * close waits for it. Caller holds the lock of this folder, nxr_net_lock(), unless stated
 * otherwise; handlers of records are called with it.
 */
#ifndef NXR_NET_CLIENTS_H
#define NXR_NET_CLIENTS_H

#include "net/wire.h"
#include "util/symbol.h"
#include "core/request.h"

struct net_peer;    /* a peer, as one of the networks reaches it */
struct net_hold;    /* an access to an own region */
struct net_landing; /* data that is still arriving */

/* Handles a record that nxr_net_next_record() has validated. */
typedef void net_take_fn(struct net_peer *np, const struct nxr_net_record *record);

/* ---- clients.c: the layers above ------------------------------------------------------------- */

/*
 * Access to own device memory, which a layer above copies. Each function gets only records that
 * were found to address such a region.
 */
struct net_device {
    net_take_fn *take_put;
    net_take_fn *take_get;

    /* NIXL_INPROGRESS: it is answered later. */
    int (*take_word)(struct net_peer *np, const struct nxr_net_atomic *word);
};
extern NXR_HIDDEN const struct net_device *nxr_net_device;

/* Hooks of a layer above; each may be NULL. */
struct net_client {
    void (*run)(void);  /* after a round, without the lock */
    void (*stop)(void); /* nothing more arrives; without the lock */
};

/* Register permanently, before the networks are started; a second call changes nothing. */
void nxr_net_add_client(const struct net_client *client);

/*
 * Send a record about a segment to its owner, body_nbytes after the header. Takes the lock.
 * NIXL_OK: it is sent before what is sent next; NIXL_E_STALE, NIXL_E_PEER_LOST, NIXL_E_NO_MEMORY.
 */
int nxr_net_ask_owner(const struct nxr_segment *segment, enum nxr_net_type type, const void *body,
                      size_t body_nbytes);

/* Send a record that the peer waits for: if there is no memory, the peer is given up. */
void nxr_net_answer(struct net_peer *np, enum nxr_net_type type, const void *body,
                    size_t body_nbytes);

/* A record has ended what a thread may wait for: wake this process's threads after the round. */
void nxr_net_wake_after_round(void);

/* The lock that guards the records of peers; for short work only. */
void nxr_net_lock(void);
void nxr_net_unlock(void);

/* What records of a peer come from, NULL if no network was chosen for it; and the reverse. */
struct net_peer *nxr_net_remote(const struct nxr_peer *peer);
struct nxr_peer *nxr_net_peer(const struct net_peer *np);

/* The largest put, or get, of host memory that goes inside a message to a connected peer. */
size_t nxr_net_inside_nbytes(const struct nxr_peer *peer, enum nxr_op_kind kind);

/* A word in device memory is being changed: pending records wait. Caller holds the lock. */
void nxr_net_word_begin(struct net_peer *np);
void nxr_net_word_end(struct net_peer *np);

/* Work refers to the peer, which stays, but holds no record back. Caller holds the lock. */
void nxr_net_keep(struct net_peer *np);
void nxr_net_unkeep(struct net_peer *np);

void nxr_net_clients_run(void);
void nxr_net_clients_stop(void);

/* ---- in.c ------------------------------------------------------------------------------------ */

/*
 * Register the function that takes records of a type; is_after_bulk: only after the bulk that was
 * sent before them has landed. Call it before the networks are started, without the lock.
 */
void nxr_net_register(enum nxr_net_type type, net_take_fn *take, bool is_after_bulk);

/* ---- later.c --------------------------------------------------------------------------------- */

/* Count and report what is dropped: `why` in the name of that rank (-1: of none). */
void nxr_net_drop(int rank, const char *why);

/* ---- move.c ---------------------------------------------------------------------------------- */

/* Complete the requests of ended moves; without the lock. */
void nxr_net_tell_ended(void);

/* ---- bulk.c ---------------------------------------------------------------------------------- */

/*
 * Begin a landing for data that arrives piece by piece: pending records that arrive from now on
 * wait until it has landed, and until then it keeps `hold`. NULL: no memory.
 */
struct net_landing *nxr_net_landing_new(struct net_peer *np, struct net_hold *hold);

/* Data has landed, or never will. */
void nxr_net_landed(void *landing, int status);

/* ---- own.c: own regions, as accessed by peers ------------------------------------------------ */

/* Bytes of an own region, as a peer names them, for an access of that peer. */
struct net_range {
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes;
    uint32_t id;
    uint32_t forbidden_by; /* the value of enum nixl_access that forbids it */
};

/* Is it in an own region of device memory that the processor does not read and write? */
bool nxr_net_is_device(const struct net_range *range);

/*
 * Enter an own region for bulk of a peer; returns its address, and nxr_net_hold_end() must follow.
 * NULL and the reason: NIXL_E_STALE, NIXL_E_RANGE, NIXL_E_ACCESS, NIXL_E_LIMIT.
 */
char *nxr_net_hold_begin(const struct net_range *range, struct net_hold **hold_p, int *status_p);
void nxr_net_hold_end(struct net_hold *hold);

/*
 * The same for callers that read or write the bytes with the processor: device memory is
 * NIXL_E_UNSUPPORTED.
 */
char *nxr_net_hold_begin_host(const struct net_range *range, struct net_hold **hold_p,
                              int *status_p);

/* ---- posted.c: buffers for puts that are expected -------------------------------------------- */

/*
 * The next put of exactly these bytes of an own region may go into the buffer instead. The caller
 * owns all of it and lets it be until nxr_net_unpost(); landing and has_landed are the folder's.
 */
struct nxr_net_posted {
    struct nxr_list link;
    uint64_t generation; /* of the region, as in its key */
    uint32_t id;
    uint64_t offset; /* in the region */
    uint64_t nbytes;
    char *buffer;                /* host memory of that size */
    struct net_landing *landing; /* that writes into it */
    bool has_landed;
};

/* Post a buffer. Takes the lock. */
void nxr_net_post(struct nxr_net_posted *posted);

/*
 * Take it back: from now on nothing writes into it. True: the put is in it; false: it is in the
 * region, or not there yet. Takes the lock.
 */
bool nxr_net_unpost(struct nxr_net_posted *posted);

/*
 * A put or signal of the peer is dropped: what the peer sent after it is marked as late, what it
 * sent before is not. nxr_net_refuse_at_once() also marks the records that wait for bulk now.
 */
struct net_refusal {
    uint32_t id;
    uint64_t generation;
    bool is_own; /* into memory of the library: its parts end in any order */
    int status;
};
void nxr_net_refuse(struct net_peer *np, const struct net_refusal *refusal);
void nxr_net_refuse_at_once(struct net_peer *np, const struct net_refusal *refusal);

/* Tell the peer how many of its puts and signals were dropped, if that is news. */
void nxr_net_tell_refusal(struct net_peer *np);
net_take_fn nxr_net_take_put;
void nxr_net_take_get(struct net_peer *np, const struct nxr_net_get *get);

/*
 * The part of a get that one message can answer: this end may send over a different network than
 * the peer, one with shorter messages. The peer asks for the rest.
 */
struct nxr_net_get nxr_net_answerable(const struct net_peer *np, const struct nxr_net_get *get);
net_take_fn nxr_net_take_atomic;

/* Answer a get inside a message: with the bytes, or with a failure. */
void nxr_net_answer_get(struct net_peer *np, const struct nxr_net_get *get, const char *addr,
                        int status);

/* Answer a word. A signal (ask 0) gets no answer; if it failed, it is refused. */
void nxr_net_answer_atomic(struct net_peer *np, const struct nxr_net_atomic *word, int status,
                           uint64_t fetched);

#endif
