/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that their maker knows the secret of a publication: HMAC-SHA-256 over what they are about,
 * and over who makes them, so that the proof of one side is none of the other. No state.
 */
#ifndef NXR_ATTACH_PROOF_H
#define NXR_ATTACH_PROOF_H

#include "core/identity.h"

#define NXR_PROOF_SECRET_NBYTES    32
#define NXR_PROOF_CHALLENGE_NBYTES 32
#define NXR_PROOF_NBYTES           32

/* Who talks, and the random bytes that each has chosen for this talk. */
struct nxr_proof_talk {
    struct nxr_identity attacher, publisher;
    unsigned char asked[NXR_PROOF_CHALLENGE_NBYTES];    /* by the attacher */
    unsigned char answered[NXR_PROOF_CHALLENGE_NBYTES]; /* by the publisher */
};

/* The proof of one of the two. */
void nxr_proof_of_talk(const unsigned char secret[NXR_PROOF_SECRET_NBYTES], bool is_publisher,
                       const struct nxr_proof_talk *talk, unsigned char proof[NXR_PROOF_NBYTES]);

/* The proof of an entry with these bytes. */
void nxr_proof_of_entry(const unsigned char secret[NXR_PROOF_SECRET_NBYTES], const void *bytes,
                        size_t nbytes, unsigned char proof[NXR_PROOF_NBYTES]);

/* Are they equal? Takes the same time for all wrong ones. */
bool nxr_proof_fits(const unsigned char expected[NXR_PROOF_NBYTES],
                    const unsigned char told[NXR_PROOF_NBYTES]);

#endif
