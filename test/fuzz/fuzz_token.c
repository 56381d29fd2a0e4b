/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: what is accepted can be, and is written again as the same text. */
/* sources: src/core/token.c src/core/identity.c */
#include "core/token.h"

#include <stdlib.h>
#include <string.h>

enum { UNTOUCHED = 0x5a };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_accepted(const char *text, const struct nxr_token *token)
{
    char again[NXR_TOKEN_NBYTES];

    if (token->maker.rank < 0 || token->use < NXR_TOKEN_READ || token->use > NXR_TOKEN_GRANT ||
        token->nbytes > SIZE_MAX / 2) {
        abort();
    }
    nxr_token_write(token, again);
    if (strcmp(text, again) != 0) {
        abort();
    }
}

static void check_text(const char *text)
{
    struct nxr_token token;
    const char *why = "";

    memset(&token, UNTOUCHED, sizeof(token));
    if (nxr_token_parse(text, &token, &why) == NIXL_OK) {
        check_accepted(text, &token);
        return;
    }
    for (size_t i = 0; i < sizeof(token); i++) {
        if (((unsigned char *)&token)[i] != UNTOUCHED) {
            abort();
        }
    }
    if (why == NULL || why[0] == '\0' || strchr(why, '\n') != NULL) {
        abort();
    }
}

/* The bytes as a token, right but for what the fuzzer makes of it: the sum hides the rest else. */
static void check_fields(const uint8_t *data, size_t nbytes)
{
    struct nxr_token token = {.use = NXR_TOKEN_READ};
    char text[NXR_TOKEN_NBYTES];

    memcpy(&token, data, nbytes < sizeof(token) ? nbytes : sizeof(token));
    nxr_token_write(&token, text);
    check_text(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char *text = malloc(nbytes + 1);

    if (text == NULL) {
        abort();
    }
    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    check_text(text);
    check_fields(data, nbytes);
    free(text);
    return 0;
}
