/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of paired operations as they travel: 60 bytes in fixed places, lowest byte first, with a
 * sum over them, written as 80 characters of base64url. They come from outside the job: all of them
 * pass through nxr_token_parse(), and what it accepts is still checked against the exposer's table.
 */
#ifndef NXR_PAIR_PAIR_TOKEN_H
#define NXR_PAIR_PAIR_TOKEN_H

#include "core/identity.h"
#include "nixlrun.h"

#define NXR_TOKEN_VERSION       1
#define NXR_TOKEN_NONCE_NBYTES  16
#define NXR_TOKEN_BINARY_NBYTES 60
#define NXR_TOKEN_NBYTES        81 /* as text, with the final zero */
_Static_assert(NXR_TOKEN_NBYTES <= NIXL_TOKEN_MAX + 1, "what callers have room for");

struct nxr_token {
    enum nixl_pair_use use;
    struct nxr_identity exposer;
    uint64_t nbytes;
    uint32_t slot;                               /* in the exposer's table */
    uint32_t turn;                               /* how often that slot had been used before */
    unsigned char nonce[NXR_TOKEN_NONCE_NBYTES]; /* random: only holders of the token know it */
};

void nxr_token_write(const struct nxr_token *token, char text[NXR_TOKEN_NBYTES]);

/* NIXL_OK, or NIXL_E_INVALID_ARG, nothing written, and one line in *why_p. */
int nxr_token_parse(const char *text, struct nxr_token *token_p, const char **why_p);

#endif
