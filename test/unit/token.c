/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: what is written is read again, and nothing else is. */
#include "core/token.h"

#include "test/unit/unit.h"
#include <limits.h>
#include <string.h>

TestSuite(token, .timeout = 120);

static const struct nxr_token example = {
    .use = NXR_TOKEN_WRITE,
    .maker = {.job = 0x0123456789abcdefull, .rank = 3, .incarnation = 2},
    .nbytes = 1ull << 40,
    .slot = 77,
    .turn = 0xfffffe,
    .nonce = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255},
};

static int parse(const char *text, struct nxr_token *token)
{
    const char *why;

    return nxr_token_parse(text, token, &why);
}

/* Other versions and languages read it, too: it never changes but with its version. */
Test(token, its_text_is_fixed)
{
    char text[NXR_TOKEN_NBYTES];

    nxr_token_write(&example, text);
    cr_expect(eq(int,
                 strcmp(text, "TlhUATwAAgADAAAAAgAAAO_Nq4lnRSMBAAAAAAAB"
                              "AABNAAAA_v__AAECAwQFBgcICQoLDA0OD_-P3c2r"),
                 0),
              "%s", text);
}

Test(token, what_is_written_is_read)
{
    struct nxr_token read = {.maker = {.rank = -1}};
    char text[NXR_TOKEN_NBYTES];

    nxr_token_write(&example, text);
    cr_assert(eq(int, parse(text, &read), NIXL_OK));
    cr_expect(read.use == example.use && nxr_identity_is(&read.maker, &example.maker) &&
              read.nbytes == example.nbytes && read.slot == example.slot &&
              read.turn == example.turn);
    cr_expect(eq(int, memcmp(read.nonce, example.nonce, sizeof(read.nonce)), 0));
}

Test(token, every_other_character_is_refused)
{
    char text[NXR_TOKEN_NBYTES];
    struct nxr_token read;

    nxr_token_write(&example, text);
    for (size_t i = 0; i < sizeof(text); i++) {
        char right = text[i];

        for (int other = CHAR_MIN; other <= CHAR_MAX; other++) {
            text[i] = (char)other;
            cr_assert(eq(int, parse(text, &read), other == right ? NIXL_OK : NIXL_E_INVALID_ARG),
                      "character %zu as %d", i, other);
        }
        text[i] = right;
    }
}

/* What cannot be a token is told apart from a damaged one. */
Test(token, what_begins_otherwise_is_no_token)
{
    char text[NXR_TOKEN_NBYTES];
    struct nxr_token read;
    const char *why = "";

    nxr_token_write(&example, text);
    text[0] = 'A';
    cr_expect(eq(int, nxr_token_parse(text, &read, &why), NIXL_E_INVALID_ARG));
    cr_expect(eq(str, (char *)why, (char *)"it does not begin as a token does"));
    nxr_token_write(&example, text);
    text[40] = text[40] == 'A' ? 'B' : 'A';
    cr_expect(eq(int, nxr_token_parse(text, &read, &why), NIXL_E_INVALID_ARG));
    cr_expect(eq(str, (char *)why, (char *)"it is damaged: its checksum is wrong"));
}

static void is_refused(const struct nxr_token *token)
{
    char text[NXR_TOKEN_NBYTES];
    struct nxr_token read = {.maker = {.rank = -7}};
    const char *why = NULL;

    nxr_token_write(token, text);
    cr_expect(eq(int, nxr_token_parse(text, &read, &why), NIXL_E_INVALID_ARG));
    cr_expect(eq(int, read.maker.rank, -7));
    cr_expect(why != NULL && why[0] != '\0');
}

Test(token, what_cannot_be_is_refused)
{
    struct nxr_token token = example;

    token.maker.rank = -1;
    is_refused(&token);
    token = example;
    token.use = (enum nxr_token_use)0;
    is_refused(&token);
    token.use = (enum nxr_token_use)4;
    is_refused(&token);
    token = example;
    token.nbytes = SIZE_MAX;
    is_refused(&token);
}
