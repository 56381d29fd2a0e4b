/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA-256 by nettle. No state, no lock. */
#include "config.h"

#include "attach/proof.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>

/* What a proof is about begins with one of these, with its final zero. */
static const char *const of_talk[] = {
    [NXR_PROOF_PUBLISHER] = "nixlrun attach 2 publisher",
    [NXR_PROOF_ATTACHER] = "nixlrun attach 2 attacher",
    [NXR_PROOF_TAKEN] = "nixlrun attach 2 taken",
};
static const char of_entry[] = "nixlrun attach 2 entry";
static const char of_token[] = "nixlrun attach 2 token";

static void proof_begin(struct hmac_sha256_ctx *hmac,
                        const unsigned char secret[NXR_PROOF_SECRET_NBYTES], const char *label)
{
    hmac_sha256_set_key(hmac, NXR_PROOF_SECRET_NBYTES, secret);
    hmac_sha256_update(hmac, strlen(label) + 1, (const uint8_t *)label);
}

static void add_identity(struct hmac_sha256_ctx *hmac, const struct nxr_identity *identity)
{
    unsigned char bytes[NXR_IDENTITY_NBYTES];

    nxr_identity_write(identity, bytes);
    hmac_sha256_update(hmac, sizeof(bytes), bytes);
}

void nxr_proof_of_talk(const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                       enum nxr_proof_kind kind, const struct nxr_proof_talk *talk,
                       const void *contents, size_t nbytes, unsigned char proof[NXR_PROOF_NBYTES])
{
    struct hmac_sha256_ctx hmac;

    proof_begin(&hmac, secret, of_talk[kind]);
    add_identity(&hmac, &talk->attacher);
    add_identity(&hmac, &talk->publisher);
    hmac_sha256_update(&hmac, sizeof(talk->name), (const uint8_t *)talk->name);
    hmac_sha256_update(&hmac, sizeof(talk->asked), talk->asked);
    hmac_sha256_update(&hmac, sizeof(talk->answered), talk->answered);
    hmac_sha256_update(&hmac, nbytes, contents);
    hmac_sha256_digest(&hmac, NXR_PROOF_NBYTES, proof);
}

void nxr_proof_secret_of_token(const void *token, size_t nbytes,
                               unsigned char secret[NXR_PROOF_SECRET_NBYTES])
{
    struct hmac_sha256_ctx hmac;

    hmac_sha256_set_key(&hmac, nbytes, token);
    hmac_sha256_update(&hmac, sizeof(of_token), (const uint8_t *)of_token);
    hmac_sha256_digest(&hmac, NXR_PROOF_SECRET_NBYTES, secret);
}

void nxr_proof_of_entry(const unsigned char secret[NXR_PROOF_SECRET_NBYTES], const void *bytes,
                        size_t nbytes, unsigned char proof[NXR_PROOF_NBYTES])
{
    struct hmac_sha256_ctx hmac;

    proof_begin(&hmac, secret, of_entry);
    hmac_sha256_update(&hmac, nbytes, bytes);
    hmac_sha256_digest(&hmac, NXR_PROOF_NBYTES, proof);
}

bool nxr_proof_fits(const unsigned char expected[NXR_PROOF_NBYTES],
                    const unsigned char told[NXR_PROOF_NBYTES])
{
    return memeql_sec(expected, told, NXR_PROOF_NBYTES) != 0;
}
