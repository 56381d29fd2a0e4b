/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that their maker knows the secret of a publication: HMAC-SHA-256 over what they are about,
 * and over who makes them, so that the proof of one side is none of the other. No state.
 */
#ifndef NXR_ATTACH_PROOF_H
#define NXR_ATTACH_PROOF_H

#include "core/identity.h"
#include "nixlrun.h"

#define NXR_PROOF_SECRET_NBYTES    32
#define NXR_PROOF_CHALLENGE_NBYTES 32
#define NXR_PROOF_NBYTES           32

/* Who talks about which name, and the random bytes that each has chosen for this talk. */
struct nxr_proof_talk {
    struct nxr_identity attacher, publisher;
    char name[NIXL_PUBLISH_NAME_MAX + 1];
    unsigned char asked[NXR_PROOF_CHALLENGE_NBYTES];    /* by the attacher */
    unsigned char answered[NXR_PROOF_CHALLENGE_NBYTES]; /* by the publisher */
};

/* Who proves what: no proof serves as one of another kind. */
enum nxr_proof_kind {
    NXR_PROOF_PUBLISHER, /* that it knows the secret */
    NXR_PROOF_ATTACHER,  /* the same, and what it asks for */
    NXR_PROOF_TAKEN,     /* what the publisher answers */
};

/* The proof of one of the two for `nbytes` of contents, which nobody on the way has changed. */
void nxr_proof_of_talk(const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                       enum nxr_proof_kind kind, const struct nxr_proof_talk *talk,
                       const void *contents, size_t nbytes, unsigned char proof[NXR_PROOF_NBYTES]);

/* The secret that is made of a token. */
void nxr_proof_secret_of_token(const void *token, size_t nbytes,
                               unsigned char secret[NXR_PROOF_SECRET_NBYTES]);

/* The proof of an entry with these bytes. */
void nxr_proof_of_entry(const unsigned char secret[NXR_PROOF_SECRET_NBYTES], const void *bytes,
                        size_t nbytes, unsigned char proof[NXR_PROOF_NBYTES]);

/* Are they equal? Takes the same time for all wrong ones. */
bool nxr_proof_fits(const unsigned char expected[NXR_PROOF_NBYTES],
                    const unsigned char told[NXR_PROOF_NBYTES]);

#endif
