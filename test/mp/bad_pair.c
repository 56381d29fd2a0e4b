/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that cannot be exposed, and forged tokens: each is refused by name, nothing is
 * touched, and the token that they were made from is still good.
 */
#include "mptest.h"

#include "core/job.h"
#include "core/token.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NBYTES 256
#define BLANK  0x3c

static struct nixl_region *region;

static void bad_offers(void)
{
    static const int ranks[] = {-2, -3, 1000, INT_MAX, INT_MIN};
    struct nixl_region *opened;
    char token[NIXL_TOKEN_MAX + 1] = "untouched";
    struct nixl_req *none = NULL;
    const int any = NIXL_ANY_RANK;

    MPT_OK(nixl_region_open("bad.pair", &opened));
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        MPT_STATUS(nixl_pair_expose(ranks[i], region, 0, 1, NIXL_PAIR_READ, 1, token, sizeof(token),
                                    &none),
                   NIXL_E_INVALID_ARG);
    }
    for (int use = -1; use < 5; use += use == 0 ? 3 : 1) { /* -1, 0, 3, 4 */
        MPT_STATUS(nixl_pair_expose(any, region, 0, 1, (enum nixl_pair_use)use, 1, token,
                                    sizeof(token), &none),
                   NIXL_E_INVALID_ARG);
    }
    MPT_STATUS(nixl_pair_expose(any, NULL, 0, 1, NIXL_PAIR_READ, 1, token, sizeof(token), &none),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_expose(any, opened, 0, 0, NIXL_PAIR_READ, 1, token, sizeof(token), &none),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_expose(any, region, 0, 1, NIXL_PAIR_READ, 0, token, sizeof(token), &none),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_expose(any, region, 0, 1, NIXL_PAIR_READ, -1, token, sizeof(token), &none),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_expose(any, region, 0, 1, NIXL_PAIR_READ, 1, NULL, sizeof(token), &none),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_expose(any, region, 0, 1, NIXL_PAIR_READ, 1, token, sizeof(token), NULL),
               NIXL_E_INVALID_ARG);
    for (size_t room = 0; room < NXR_TOKEN_NBYTES; room++) {
        MPT_STATUS(nixl_pair_expose(any, region, 0, 1, NIXL_PAIR_READ, 1, token, room, &none),
                   NIXL_E_TRUNCATED);
    }
    MPT_TRUE(strstr(nixl_last_error()->text, "NIXL_TOKEN_MAX") != NULL);
    MPT_STATUS(nixl_pair_expose(any, region, 0, NBYTES + 1, NIXL_PAIR_READ, 1, token, sizeof(token),
                                &none),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_pair_expose(any, region, NBYTES + 1, 0, NIXL_PAIR_READ, 1, token, sizeof(token),
                                &none),
               NIXL_E_RANGE);
    MPT_STATUS(
        nixl_pair_expose(any, region, 1, SIZE_MAX, NIXL_PAIR_READ, 1, token, sizeof(token), &none),
        NIXL_E_RANGE);
    MPT_STATUS(nixl_pair_expose(any, region, UINT64_MAX, 1, NIXL_PAIR_READ, 1, token, sizeof(token),
                                &none),
               NIXL_E_RANGE);
    MPT_TRUE(none == NULL);
    MPT_TEXT(token, "untouched");
    MPT_OK(nixl_region_close(opened, MPT_PATIENCE));
}

/* No call takes that text, and all leave their outputs alone. */
static void refuses(const char *text, int expected)
{
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    unsigned char local[NBYTES];
    struct nixl_req *none = NULL;

    memset(local, BLANK, sizeof(local));
    if (expected == NIXL_E_INVALID_ARG) {
        MPT_STATUS(nixl_pair_write(text, local, NBYTES, &none), expected);
    }
    MPT_STATUS(nixl_pair_read(text, local, NBYTES, &none), expected);
    MPT_CHECK_BYTES(local, sizeof(local), BLANK);
    MPT_TRUE(none == NULL && info.rank == 0 && info.nbytes == 0);
}

static void refuses_token(const struct nxr_token *token, int expected)
{
    char text[NIXL_TOKEN_MAX + 1];

    nxr_token_write(token, text);
    refuses(text, expected);
    MPT_STATUS(nixl_pair_decline(text), expected);
}

/* The reason of the last refusal. */
static void says(const char *why)
{
    if (strstr(nixl_last_error()->text, why) == NULL) {
        mpt_fail(__FILE__, __LINE__, "'%s' does not say '%s'", nixl_last_error()->text, why);
    }
}

/* A token that this rank has made, if the rank were started again meanwhile. */
static void as_a_later_process(const struct nxr_token *token)
{
    struct nxr_peer *self = nxr_peer_get(nixl_rank());

    self->identity.incarnation++;
    refuses_token(token, NIXL_E_STALE);
    says("an earlier process of that rank");
    self->identity.incarnation--;
}

static void texts_that_are_none(void)
{
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    static const char *const texts[] = {
        NULL,
        "",
        "A",
        "TlhUAQ",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "////////////////////////////////////////////////////////////////////////////////",
        "TlhUAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        refuses(texts[i], NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_pair_decline(texts[i]), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_pair_query(texts[i], &info), NIXL_E_INVALID_ARG);
    }
}

/* Well formed, and each wrong in one thing. */
static void forged_tokens(void)
{
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    char text[NIXL_TOKEN_MAX + 1];
    unsigned char local[NBYTES];
    struct nxr_token good, bad;
    struct nixl_req *req, *move = NULL;
    const char *why;
    int status;

    mpt_fill(nixl_region_addr(region), NBYTES, 9);
    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, region, 0, NBYTES, NIXL_PAIR_READ, NIXL_FOREVER,
                                text, sizeof(text), &req),
               NIXL_INPROGRESS);
    MPT_OK(nxr_token_parse(text, &good, &why));
    bad = good;
    bad.maker.job++;
    refuses_token(&bad, NIXL_E_INVALID_ARG);
    says("another job");
    bad = good;
    bad.maker.rank = nixl_size();
    refuses_token(&bad, NIXL_E_INVALID_ARG);
    bad = good;
    bad.slot = UINT32_MAX;
    refuses_token(&bad, NIXL_E_INVALID_ARG);
    bad = good;
    bad.nonce[0] ^= 1;
    refuses_token(&bad, NIXL_E_STALE);
    bad = good;
    bad.slot++;
    refuses_token(&bad, NIXL_E_STALE);
    bad = good;
    bad.turn++;
    refuses_token(&bad, NIXL_E_STALE);
    bad = good;
    bad.maker.incarnation++;
    refuses_token(&bad, NIXL_E_STALE);
    says("started later as that rank");
    as_a_later_process(&good);
    bad = good;
    bad.nbytes = NBYTES / 2;
    nxr_token_write(&bad, text);
    MPT_STATUS(nixl_pair_read(text, local, NBYTES / 2, &move), NIXL_E_INVALID_ARG);
    bad = good;
    bad.use = NXR_TOKEN_WRITE;
    nxr_token_write(&bad, text);
    MPT_STATUS(nixl_pair_write(text, local, NBYTES, &move), NIXL_E_INVALID_ARG);
    MPT_CHECK(nixl_region_addr(region), NBYTES, 9);

    nxr_token_write(&good, text);
    MPT_STATUS(nixl_pair_query(text, NULL), NIXL_E_INVALID_ARG);
    info.struct_nbytes--;
    MPT_STATUS(nixl_pair_query(text, &info), NIXL_E_INVALID_ARG);
    status = nixl_pair_read(text, local, NBYTES, &move);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&move, MPT_PATIENCE) : status);
    MPT_CHECK(local, NBYTES, 9);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    refuses_token(&good, NIXL_E_STALE);
}

/* As many as there may be, then one more; and none is lost by the refusal. */
static void too_many_are_refused(void)
{
    enum { LIMIT = 4096 };
    struct nixl_req **reqs = calloc(LIMIT, sizeof(struct nixl_req *)), *none = NULL;
    char text[NIXL_TOKEN_MAX + 1];

    MPT_TRUE(reqs != NULL);
    for (int i = 0; i < LIMIT; i++) {
        MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, region, 0, 8, NIXL_PAIR_READ, NIXL_FOREVER, text,
                                    sizeof(text), &reqs[i]),
                   NIXL_INPROGRESS);
    }
    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, region, 0, 8, NIXL_PAIR_READ, NIXL_FOREVER, text,
                                sizeof(text), &none),
               NIXL_E_LIMIT);
    for (int i = 0; i < LIMIT; i++) {
        MPT_OK(nixl_req_cancel(&reqs[i], MPT_PATIENCE, NULL));
    }
    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, region, 0, 8, NIXL_PAIR_READ, NIXL_FOREVER, text,
                                sizeof(text), &none),
               NIXL_INPROGRESS);
    MPT_OK(nixl_req_cancel(&none, MPT_PATIENCE, NULL));
    free(reqs);
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("bad.pair", NBYTES, NULL, &region));
    bad_offers();
    texts_that_are_none();
    forged_tokens();
    too_many_are_refused();
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
