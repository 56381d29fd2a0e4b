/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of paired operations and of grants as they travel: 60 bytes in fixed places, lowest byte
 * first, with a sum over them, written as 80 characters of base64url. They come from outside the
 * job: all of them pass through nxr_token_parse(), and what it accepts is still checked against the
 * table of the process that made it.
 */
#ifndef NXR_CORE_TOKEN_H
#define NXR_CORE_TOKEN_H

#include "core/identity.h"
#include "nixlrun.h"

#include <stdbool.h>

#define NXR_TOKEN_VERSION       1
#define NXR_TOKEN_NONCE_NBYTES  16
#define NXR_TOKEN_BINARY_NBYTES 60
#define NXR_TOKEN_NBYTES        81 /* as text, with the final zero */
_Static_assert(NXR_TOKEN_NBYTES <= NIXL_TOKEN_MAX + 1, "what callers have room for");

/* What a token is for. */
enum nxr_token_use {
    NXR_TOKEN_READ = NIXL_PAIR_READ, /* an exposed buffer */
    NXR_TOKEN_WRITE = NIXL_PAIR_WRITE,
    NXR_TOKEN_GRANT = 3, /* blocks that are lent; their owner knows for what */
};

struct nxr_token {
    enum nxr_token_use use;
    struct nxr_identity maker;
    uint64_t nbytes;
    uint32_t slot;                               /* in the maker's table */
    uint32_t turn;                               /* how often that slot had been used before */
    unsigned char nonce[NXR_TOKEN_NONCE_NBYTES]; /* random: only holders of the token know it */
};

void nxr_token_write(const struct nxr_token *token, char text[NXR_TOKEN_NBYTES]);

/* NIXL_OK, or NIXL_E_INVALID_ARG, nothing written, and one line in *why_p. */
int nxr_token_parse(const char *text, struct nxr_token *token_p, const char **why_p);

/* A new nonce. False: the system has no random numbers; errno says why. Any thread. */
bool nxr_token_make_nonce(unsigned char nonce[NXR_TOKEN_NONCE_NBYTES]);

/* ---- for calls that use a token (token_use.c) ------------------------------------------------ */

/* Refuse a token of that rank, or of -1: records the failure, and returns `status`. */
int nxr_token_refuse(const char *operation, int rank, int status, const char *why);

/* Is there room for a token? NIXL_OK; NIXL_E_TRUNCATED, recorded. */
int nxr_token_check_room(const char *operation, size_t nbytes);

/*
 * Read a token that a caller gives, and find the number of its maker. NIXL_OK, or the failure of
 * `operation`, recorded; it also fails while the library is not ready.
 */
int nxr_token_read(const char *operation, const char *text, struct nxr_token *token_p, int *rank_p);

/*
 * Is the process of that number, to which this connects, the one that made the token? What another
 * one made has ended with it. NIXL_OK, or the failure of `operation`, recorded.
 */
int nxr_token_check_maker(const char *operation, const struct nxr_token *token, int rank);

#endif
