/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages by which an attacher and a publisher introduce themselves, on a socket of their own
 * that keeps message boundaries:
 *     ASK        attacher   who it is, the name that it wants, and a challenge
 *     CHALLENGE  publisher  its proof, and a challenge
 *     PROVE      attacher   its proof, its schema and its card
 *     TAKEN      publisher  its card; or at any step:
 *     REFUSED    publisher  why not; its schema only to an attacher that has proved itself
 * No state.
 */
#ifndef NXR_ATTACH_INTRODUCTION_H
#define NXR_ATTACH_INTRODUCTION_H

#include "attach/entry.h"
#include "attach/proof.h"

#include <sys/socket.h>
#include <sys/un.h>

#define NXR_INTRO_MAGIC   0x4952584eu /* "NXRI" */
#define NXR_INTRO_VERSION 1u

enum nxr_intro_type {
    NXR_INTRO_ASK = 1,
    NXR_INTRO_CHALLENGE,
    NXR_INTRO_PROVE,
    NXR_INTRO_TAKEN,
    NXR_INTRO_REFUSED,
    NXR_INTRO_N_TYPES
};

enum nxr_intro_refusal {
    NXR_INTRO_VERSIONS = 1, /* of the messages between processes of one host */
    NXR_INTRO_NAME,         /* it is not published any more */
    NXR_INTRO_PROOF,
    NXR_INTRO_SCHEMA,
    NXR_INTRO_HOST, /* the two do not share memory */
    NXR_INTRO_ROOM, /* no memory or descriptors for one more */
    NXR_INTRO_N_REFUSALS
};

struct nxr_intro_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;   /* enum nxr_intro_type */
    uint32_t nbytes; /* of the whole message */
    uint32_t flags;  /* of the sender's card: its versions */
    struct nxr_identity from;
};

struct nxr_intro_ask {
    struct nxr_intro_head head;
    unsigned char challenge[NXR_PROOF_CHALLENGE_NBYTES];
    char name[NIXL_PUBLISH_NAME_MAX + 1];
};

struct nxr_intro_challenge {
    struct nxr_intro_head head;
    unsigned char challenge[NXR_PROOF_CHALLENGE_NBYTES];
    unsigned char proof[NXR_PROOF_NBYTES];
};

struct nxr_intro_prove {
    struct nxr_intro_head head;
    unsigned char proof[NXR_PROOF_NBYTES];
    struct nxr_card card;
    uint32_t schema_nbytes;
    uint32_t unused;
    char schema[NIXL_SCHEMA_MAX];
};

struct nxr_intro_taken {
    struct nxr_intro_head head;
    struct nxr_card card;
};

struct nxr_intro_refused {
    struct nxr_intro_head head;
    uint32_t refusal; /* enum nxr_intro_refusal */
    uint32_t schema_nbytes;
    char schema[NIXL_SCHEMA_MAX]; /* NXR_INTRO_SCHEMA: the publisher's; else empty */
};

union nxr_intro_message {
    struct nxr_intro_head head;
    struct nxr_intro_ask ask;
    struct nxr_intro_challenge challenge;
    struct nxr_intro_prove prove;
    struct nxr_intro_taken taken;
    struct nxr_intro_refused refused;
};

/* Make `message` an empty one of this type, from the process of that card. */
void nxr_intro_init(union nxr_intro_message *message, enum nxr_intro_type type,
                    const struct nxr_card *card);

/* Check received bytes. NIXL_OK, or NIXL_E_TRANSPORT and one line in *why_p. */
int nxr_intro_parse(const void *bytes, size_t nbytes, union nxr_intro_message *message_p,
                    const char **why_p);

/* The abstract address of the socket that an entry names. */
socklen_t nxr_intro_address(const unsigned char nonce[NXR_NONCE_NBYTES], struct sockaddr_un *name);

/* Send on a socket that does not block: NIXL_OK, NIXL_E_PEER_LOST (also if it has no room). */
int nxr_intro_send(int fd, const union nxr_intro_message *message);

/* Receive: NIXL_OK; NIXL_E_AGAIN: nothing yet; NIXL_E_PEER_LOST; NIXL_E_TRANSPORT, *why_p. */
int nxr_intro_receive(int fd, union nxr_intro_message *message_p, const char **why_p);

#endif
