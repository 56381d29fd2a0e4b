/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad input of grants: parameters, and tokens that are damaged in every way but their checksum.
 *
 *     bad_grant
 *
 * Rank 0 lends a block, rank 1 tries; a job of one does both.
 */
#include "mptest.h"
#include "core/token.h"
#include "test/op_form.h"

#include <string.h>

#define TAG_TOKEN 0xfe02
#define NBYTES    4096
#define BLANK     0x2e

static struct nixl_region *region;
static unsigned char dst[NBYTES];

static void says(const char *why)
{
    if (strstr(nixl_last_error()->text, why) == NULL) {
        mpt_fail(__FILE__, __LINE__, "'%s' does not say '%s'", nixl_last_error()->text, why);
    }
}

/* ---- lending --------------------------------------------------------------------------------- */

static struct nixl_blocks good_blocks(void)
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    blocks.region = region;
    blocks.block_nbytes = NBYTES;
    return blocks;
}

static void is_not_lent(const struct nixl_blocks *blocks, const struct nixl_grant_params *params,
                        int expected, const char *why)
{
    char token[NIXL_TOKEN_MAX + 1] = "";
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_grant_create(blocks, params, token, sizeof(token), &req), expected);
    says(why);
    MPT_TRUE(req == NULL && token[0] == '\0');
}

static void bad_blocks(void)
{
    uint64_t far[2] = {0, 1};
    struct nixl_blocks blocks = good_blocks();

    is_not_lent(NULL, NULL, NIXL_E_INVALID_ARG, "blocks is NULL");
    blocks.region = NULL;
    is_not_lent(&blocks, NULL, NIXL_E_INVALID_ARG, "no region");
    blocks = good_blocks();
    blocks.nblocks = 0;
    is_not_lent(&blocks, NULL, NIXL_E_INVALID_ARG, "no blocks");
    blocks = good_blocks();
    blocks.block_nbytes = 0;
    is_not_lent(&blocks, NULL, NIXL_E_INVALID_ARG, "block_nbytes");
    blocks = good_blocks();
    blocks.addr = dst;
    is_not_lent(&blocks, NULL, NIXL_E_INVALID_ARG, "addr");
    blocks = good_blocks();
    blocks.offset = 1;
    is_not_lent(&blocks, NULL, NIXL_E_RANGE, "outside");
    blocks = good_blocks();
    blocks.nblocks = 2;
    blocks.stride = NBYTES;
    blocks.index = far;
    is_not_lent(&blocks, NULL, NIXL_E_RANGE, "outside");
    blocks = good_blocks();
    blocks.struct_nbytes = 3;
    is_not_lent(&blocks, NULL, NIXL_E_INVALID_ARG, "struct_nbytes");
}

static void bad_params(void)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    const struct nixl_blocks blocks = good_blocks();
    char token[NIXL_TOKEN_MAX + 1] = "";
    struct nixl_req *req = NULL;

    params.rights = 8;
    is_not_lent(&blocks, &params, NIXL_E_INVALID_ARG, "rights 0x8");
    params.rights = 0;
    params.uses = NIXL_GRANT_USES_MAX + 1;
    is_not_lent(&blocks, &params, NIXL_E_INVALID_ARG, "uses is 16777215");
    params.uses = NIXL_GRANT_USES_MAX;
    params.lifetime_ns = -1;
    is_not_lent(&blocks, &params, NIXL_E_INVALID_ARG, "lifetime_ns is -1");
    MPT_STATUS(nixl_grant_create(&blocks, NULL, NULL, 256, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_grant_create(&blocks, NULL, token, 256, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_grant_create(&blocks, NULL, token, 80, &req), NIXL_E_TRUNCATED);
    MPT_TRUE(req == NULL && token[0] == '\0');
}

/* A region that peers may only read is not lent to be written. */
static void access_is_kept(void)
{
    struct nixl_mem_params made = NIXL_MEM_PARAMS_INIT;
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = good_blocks();

    made.access = NIXL_ACCESS_NO_PUT;
    MPT_OK(nixl_region_alloc("bad.kept", NBYTES, &made, &blocks.region));
    params.rights = NIXL_GRANT_READ | NIXL_GRANT_WRITE;
    is_not_lent(&blocks, &params, NIXL_E_ACCESS, "NIXL_ACCESS_NO_PUT");
    MPT_OK(nixl_region_close(blocks.region, MPT_PATIENCE));
    MPT_OK(nixl_region_alloc(NULL, NBYTES, NULL, &blocks.region));
    is_not_lent(&blocks, NULL, NIXL_E_INVALID_ARG, "no name");
    MPT_OK(nixl_region_close(blocks.region, MPT_PATIENCE));
}

/* More grants than there are slots; those that have ended unseen make room. */
static void slots_are_limited(void)
{
    const struct nixl_blocks blocks = good_blocks();
    static struct nixl_req *reqs[4096];
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = NULL;

    for (int round = 0; round < 2; round++) {
        int n = 0, status;

        while ((status = nixl_grant_create(&blocks, NULL, token, sizeof(token), &req)) ==
               NIXL_INPROGRESS) {
            MPT_TRUE(n < 4096);
            reqs[n++] = req;
        }
        MPT_EQ(status, NIXL_E_LIMIT);
        says("4096 grants");
        for (int i = 0; i < n; i++) {
            MPT_OK(nixl_req_cancel(&reqs[i], MPT_PATIENCE, NULL));
        }
    }
}

/* ---- using ----------------------------------------------------------------------------------- */

static void is_refused(const char *token, int expected, const char *why)
{
    const struct nixl_op op = op_grant(token);

    memset(dst, BLANK, sizeof(dst));
    MPT_STATUS(nixl_get_x(0, region, 0, dst, NBYTES, &op, NULL), expected);
    says(why);
    MPT_CHECK_BYTES(dst, NBYTES, BLANK);
}

static void is_forged(const struct nxr_token *token, int expected, const char *why)
{
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    char text[NXR_TOKEN_NBYTES];

    nxr_token_write(token, text);
    is_refused(text, expected, why);
    MPT_TRUE(nixl_grant_query(text, &info) < 0);
    MPT_TRUE(nixl_grant_renew(text, MPT_S) < 0);
    MPT_TRUE(nixl_grant_revoke(text, 0) < 0);
    MPT_EQ(info.state, 0);
}

/* What only the owner's record tells: the size that the token states. */
static void has_another_size(struct nxr_token token)
{
    char text[NXR_TOKEN_NBYTES];

    token.nbytes++;
    nxr_token_write(&token, text);
    is_refused(text, NIXL_E_INVALID_ARG, "size");
}

static void bad_tokens(const char *text)
{
    struct nxr_token good, bad;
    const char *why;

    MPT_OK(nxr_token_parse(text, &good, &why));
    bad = good;
    bad.nonce[15] ^= 1;
    is_forged(&bad, NIXL_E_INVALID_ARG, "nonce");
    bad = good;
    bad.turn++;
    is_forged(&bad, NIXL_E_INVALID_ARG, "never such a grant");
    bad.turn = 0;
    is_forged(&bad, NIXL_E_STALE, "has ended");
    bad = good;
    bad.slot++;
    is_forged(&bad, NIXL_E_INVALID_ARG, "");
    bad.slot = UINT32_MAX;
    is_forged(&bad, NIXL_E_INVALID_ARG, "never such a grant");
    bad = good;
    bad.maker.job++;
    is_forged(&bad, NIXL_E_INVALID_ARG, "job");
    bad = good;
    bad.maker.incarnation++;
    is_forged(&bad, NIXL_E_STALE, "started later");
    bad = good;
    bad.maker.rank = nixl_size();
    is_forged(&bad, NIXL_E_INVALID_ARG, "not in the job");
    has_another_size(good);
    bad = good;
    bad.use = NXR_TOKEN_READ;
    is_forged(&bad, NIXL_E_INVALID_ARG, "not of a grant");
}

/* Flags that the call has no use for, and a field that is not set. */
static void bad_calls(const char *text)
{
    struct nixl_op op = op_grant(NULL);
    uint64_t word = 0;
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_get_x(0, region, 0, dst, 8, &op, NULL), NIXL_E_INVALID_ARG);
    says("NULL");
    op = op_grant(text);
    MPT_STATUS(nixl_flush_x(0, region, &op, NULL), NIXL_E_UNSUPPORTED);
    says("NIXL_OP_GRANT");
    op.flags |= NIXL_OP_SIGNAL;
    op.signal = &word;
    MPT_STATUS(nixl_get_x(0, region, 0, dst, 8, &op, NULL), NIXL_E_UNSUPPORTED);
    op.flags = NIXL_OP_GRANT | NIXL_OP_STREAM;
    MPT_STATUS(nixl_get_x(0, region, 0, dst, 8, &op, &req), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_grant_query(text, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_grant_renew(text, -1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_grant_renew(NULL, 1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_grant_revoke(text, -1), NIXL_E_INVALID_ARG);
    op = op_grant(text);
    MPT_OK(nixl_get_x(0, region, 0, dst, NBYTES, &op, NULL)); /* nothing has used it up */
    MPT_CHECK(dst, NBYTES, 9);
    is_refused(text, NIXL_E_STALE, "all uses");
}

int main(void)
{
    const struct nixl_grant_params once = {.struct_nbytes = sizeof(once), .uses = 1};
    static struct nixl_note note;
    struct nixl_blocks blocks;
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = NULL;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("bad.grant", NBYTES, NULL, &region));
    mpt_fill(nixl_region_addr(region), NBYTES, 9);
    nixl_note_init(&note);
    if (nixl_rank() == 0) {
        bad_blocks();
        bad_params();
        access_is_kept();
        slots_are_limited();
        blocks = good_blocks();
        MPT_STATUS(nixl_grant_create(&blocks, &once, token, sizeof(token), &req), NIXL_INPROGRESS);
        MPT_OK(nixl_notify(nixl_size() - 1, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    }
    if (nixl_rank() == nixl_size() - 1) {
        MPT_OK(nixl_notify_recv(0, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
        bad_tokens((const char *)note.payload);
        bad_calls((const char *)note.payload);
    }
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
