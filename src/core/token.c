/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens: their bytes, the text that carries them, and their nonces. Lock: nonces_lock guards a
 * stock of random bytes; no lock is taken while it is held.
 */
#include "config.h"

#include "core/token.h"
#include "util/hash.h"
#include "util/random.h"

#include <pthread.h>
#include <string.h>

/* Offsets in the bytes. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 3,
    AT_NBYTES = 4, /* of the token itself */
    AT_USE = 6,
    AT_UNUSED = 7,
    AT_MAKER = 8,
    AT_SIZE = 24,
    AT_SLOT = 32,
    AT_TURN = 36,
    AT_NONCE = 40,
    AT_SUM = 56,
};

#define TEXT_NBYTES (NXR_TOKEN_NBYTES - 1)
_Static_assert(TEXT_NBYTES * 3 == NXR_TOKEN_BINARY_NBYTES * 4, "base64 without a rest");

static const unsigned char magic[AT_VERSION] = {'N', 'X', 'T'};
static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void put_number(unsigned char *bytes, uint64_t value, int nbytes)
{
    for (int i = 0; i < nbytes; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get_number(const unsigned char *bytes, int nbytes)
{
    uint64_t value = 0;

    for (int i = 0; i < nbytes; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

/* Detects truncation, typing errors and mix-ups; what cannot be forged is the nonce. */
static uint32_t token_sum_of(const unsigned char *bytes)
{
    uint64_t sum = nxr_hash(bytes, AT_SUM);

    return (uint32_t)(sum ^ sum >> 32);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void encode(const unsigned char bytes[NXR_TOKEN_BINARY_NBYTES], char text[NXR_TOKEN_NBYTES])
{
    for (int from = 0, to = 0; from < NXR_TOKEN_BINARY_NBYTES; from += 3) {
        uint32_t three = (uint32_t)bytes[from] << 16 | (uint32_t)bytes[from + 1] << 8 |
                         (uint32_t)bytes[from + 2];

        for (int shift = 18; shift >= 0; shift -= 6) {
            text[to++] = digits[three >> shift & 63];
        }
    }
    text[TEXT_NBYTES] = '\0';
}

/* False: wrong length, or a character that is not a digit. Reads nothing after a terminating 0. */
static bool decode(const char *text, unsigned char bytes[NXR_TOKEN_BINARY_NBYTES])
{
    uint32_t four = 0;

    if (strnlen(text, NXR_TOKEN_NBYTES) != TEXT_NBYTES) {
        return false;
    }
    for (int from = 0, to = 0; from < TEXT_NBYTES; from++) {
        const char *digit = strchr(digits, text[from]);

        if (digit == NULL) {
            return false;
        }
        four = four << 6 | (uint32_t)(digit - digits);
        if (from % 4 == 3) {
            bytes[to++] = (unsigned char)(four >> 16);
            bytes[to++] = (unsigned char)(four >> 8);
            bytes[to++] = (unsigned char)four;
        }
    }
    return true;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

void nxr_token_write(const struct nxr_token *token, char text[NXR_TOKEN_NBYTES])
{
    unsigned char bytes[NXR_TOKEN_BINARY_NBYTES] = {0};

    memcpy(bytes + AT_MAGIC, magic, sizeof(magic));
    bytes[AT_VERSION] = NXR_TOKEN_VERSION;
    put_number(bytes + AT_NBYTES, NXR_TOKEN_BINARY_NBYTES, 2);
    bytes[AT_USE] = (unsigned char)token->use;
    nxr_identity_write(&token->maker, bytes + AT_MAKER);
    put_number(bytes + AT_SIZE, token->nbytes, 8);
    put_number(bytes + AT_SLOT, token->slot, 4);
    put_number(bytes + AT_TURN, token->turn, 4);
    memcpy(bytes + AT_NONCE, token->nonce, sizeof(token->nonce));
    put_number(bytes + AT_SUM, token_sum_of(bytes), 4);
    encode(bytes, text);
}

/* Why the bytes are not a token; NULL: they are. */
static const char *fault_of(const unsigned char *bytes)
{
    if (memcmp(bytes + AT_MAGIC, magic, sizeof(magic)) != 0) {
        return "it does not begin as a token does";
    }
    if (bytes[AT_VERSION] != NXR_TOKEN_VERSION ||
        get_number(bytes + AT_NBYTES, 2) != NXR_TOKEN_BINARY_NBYTES) {
        return "it was made by another version of nixlrun";
    }
    if (get_number(bytes + AT_SUM, 4) != token_sum_of(bytes)) {
        return "it is damaged: its checksum is wrong";
    }
    if (bytes[AT_USE] < NXR_TOKEN_READ || bytes[AT_USE] > NXR_TOKEN_GRANT ||
        bytes[AT_UNUSED] != 0 || nxr_identity_read(bytes + AT_MAKER).rank < 0 ||
        get_number(bytes + AT_SIZE, 8) > SIZE_MAX / 2) {
        return "its use, rank or size is impossible";
    }
    return NULL;
}

int nxr_token_parse(const char *text, struct nxr_token *token_p, const char **why_p)
{
    unsigned char bytes[NXR_TOKEN_BINARY_NBYTES];

    *why_p = decode(text, bytes) ? fault_of(bytes) : "it is not 80 characters of A-Z a-z 0-9 - _";
    if (*why_p != NULL) {
        return NIXL_E_INVALID_ARG;
    }
    *token_p = (struct nxr_token){.use = (enum nxr_token_use)bytes[AT_USE],
                                  .maker = nxr_identity_read(bytes + AT_MAKER),
                                  .nbytes = get_number(bytes + AT_SIZE, 8),
                                  .slot = (uint32_t)get_number(bytes + AT_SLOT, 4),
                                  .turn = (uint32_t)get_number(bytes + AT_TURN, 4)};
    memcpy(token_p->nonce, bytes + AT_NONCE, sizeof(token_p->nonce));
    return NIXL_OK;
}

bool nxr_token_make_nonce(unsigned char nonce[NXR_TOKEN_NONCE_NBYTES])
{
    static pthread_mutex_t nonces_lock = PTHREAD_MUTEX_INITIALIZER;
    static unsigned char nonces[16 * NXR_TOKEN_NONCE_NBYTES];
    static size_t n_left;
    bool is_random = true;

    pthread_mutex_lock(&nonces_lock);
    if (n_left == 0) {
        is_random = nxr_random(nonces, sizeof(nonces));
        n_left = is_random ? sizeof(nonces) : 0;
    }
    if (is_random) {
        n_left -= NXR_TOKEN_NONCE_NBYTES;
        memcpy(nonce, nonces + n_left, NXR_TOKEN_NONCE_NBYTES);
    }
    pthread_mutex_unlock(&nonces_lock);
    return is_random;
}
