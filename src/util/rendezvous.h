/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks meet that an engine starts and that nixlrun-rank starts again when they fail. Engines
 * end a job in which a process has died that uses PMIx, and know no second process of a rank. So
 * these ranks do not use PMIx: nixlrun listens, and each rank connects to it, once in each
 * nixl_init(), and keeps the connection until it leaves. The end of the connection without
 * NXR_RV_LEFT is the end of the process.
 *
 *     the rank               nixlrun
 *     NXR_RV_COME       ->                   who it is, where
 *                       <-   NXR_RV_PLACES   when all ranks have come once: which share a host
 *     NXR_RV_CARD       ->
 *                       <-   NXR_RV_MET      when all living ranks have sent one, or at once if
 *                                            they had met before: all cards
 *                       <-   NXR_RV_ENDED    another one has ended
 *                       <-   NXR_RV_JOINED   another process has joined as a rank: its card
 *     NXR_RV_LEFT       ->
 *
 * NIXLRUN_RENDEZVOUS is KEY,PORT,ADDRESS[,ADDRESS...]. Who does not know the key is told nothing.
 * Numbers are in the byte order of the host, as in cards.
 */
#ifndef NXR_UTIL_RENDEZVOUS_H
#define NXR_UTIL_RENDEZVOUS_H

#include <stdint.h>

#define NXR_RV_MAGIC      0x5652584eu /* "NXRV" */
#define NXR_RV_VERSION    1u
#define NXR_RV_KEY_NBYTES 16
#define NXR_RV_HOST_MAX   64
#define NXR_RV_GIVEN_MAX  8192 /* bytes behind a head that a rank sends */

enum nxr_rv_kind {
    NXR_RV_COME = 1, /* struct nxr_rv_come */
    NXR_RV_PLACES,   /* struct nxr_rv_places, then a host's number for each rank: int32 */
    NXR_RV_CARD,     /* the card */
    NXR_RV_MET,      /* `value`: the latest change; the cards, each behind a struct nxr_meet_head */
    NXR_RV_ENDED,    /* `rank`; `value`: the number of the change */
    NXR_RV_JOINED,   /* the same, and its card */
    NXR_RV_LEFT,     /* nothing */
    NXR_RV_REFUSED,  /* a text: why */
};

struct nxr_rv_head {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;
    int32_t rank;
    uint32_t nbytes; /* behind this head */
    uint64_t value;
};

struct nxr_rv_come {
    unsigned char key[NXR_RV_KEY_NBYTES];
    uint32_t incarnation;
    int32_t pid;
    char host[NXR_RV_HOST_MAX]; /* as its card will name it */
};

struct nxr_rv_places {
    int32_t size;    /* ranks of the job */
    int32_t program; /* of this rank, among the programs of the job */
};

#endif
