/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages by which an attacher and a publisher introduce themselves, on a connection of their
 * own, a local socket or TCP:
 *     ASK        attacher   who it is, the name that it wants, and a challenge
 *     CHALLENGE  publisher  its proof, a challenge, and which host it is on
 *     PROVE      attacher   its proof, its schema and its card
 *     TAKEN      publisher  its proof and its card; or at any step:
 *     REFUSED    publisher  why not; its schema only to an attacher that has proved itself
 * The proofs cover what comes with them, so that nobody on the way can change it. No state.
 */
#ifndef NXR_ATTACH_INTRODUCTION_H
#define NXR_ATTACH_INTRODUCTION_H

#include "attach/entry.h"
#include "attach/proof.h"

#include <sys/socket.h>
#include <sys/un.h>

#define NXR_INTRO_SOCKET  "attach"    /* what the socket that an entry names is for */
#define NXR_INTRO_MAGIC   0x4952584eu /* "NXRI" */
#define NXR_INTRO_VERSION 3u

enum nxr_intro_type {
    NXR_INTRO_ASK = 1,
    NXR_INTRO_CHALLENGE,
    NXR_INTRO_PROVE,
    NXR_INTRO_TAKEN,
    NXR_INTRO_REFUSED,
    NXR_INTRO_N_TYPES
};

enum nxr_intro_refusal {
    NXR_INTRO_VERSIONS = 1, /* of introductions, or of the messages between processes of one host */
    NXR_INTRO_NAME,         /* it is not published there, not yet or not any more */
    NXR_INTRO_PROOF,
    NXR_INTRO_SCHEMA,
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
    char host[NXR_HOST_NBYTES]; /* this and what follows: of its card */
    char boot_id[NXR_BOOT_ID_NBYTES];
    uint32_t socket_space;
};

struct nxr_intro_prove {
    struct nxr_intro_head head;
    unsigned char proof[NXR_PROOF_NBYTES]; /* of all that follows */
    int32_t number; /* the sender has no living attachment to the publisher with a lower one */
    uint32_t schema_nbytes;
    int32_t job_size; /* of the sender */
    uint32_t unused;
    struct nxr_full_card card;
    char schema[NIXL_SCHEMA_MAX];
};

struct nxr_intro_taken {
    struct nxr_intro_head head;
    unsigned char proof[NXR_PROOF_NBYTES]; /* of all that follows */
    int32_t number;                        /* by which the publisher names the receiver */
    int32_t job_size;                      /* of the publisher */
    struct nxr_full_card card;
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

/* The proof that goes into PROVE or TAKEN. */
void nxr_intro_make_proof(const union nxr_intro_message *message,
                          const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                          const struct nxr_proof_talk *talk, unsigned char proof[NXR_PROOF_NBYTES]);

/*
 * Check received bytes. NIXL_OK; or NIXL_E_UNSUPPORTED: they are of another version of nixlrun;
 * NIXL_E_TRANSPORT; and one line in *why_p.
 */
int nxr_intro_parse(const void *bytes, size_t nbytes, union nxr_intro_message *message_p,
                    const char **why_p);

/* One end of an introduction. */
struct nxr_intro_link {
    int fd;         /* does not block */
    bool is_stream; /* TCP: it keeps no message boundaries */
    size_t n_held;  /* of a message that has not arrived whole */
    unsigned char held[sizeof(union nxr_intro_message)];
};

/* NIXL_OK, or NIXL_E_PEER_LOST, also if there is no room: each step waits for the other end. */
int nxr_intro_send(const struct nxr_intro_link *link, const union nxr_intro_message *message);

/* NIXL_OK; NIXL_E_AGAIN: nothing whole yet; NIXL_E_PEER_LOST; or as nxr_intro_parse(). */
int nxr_intro_receive(struct nxr_intro_link *link, union nxr_intro_message *message_p,
                      const char **why_p);

#endif
