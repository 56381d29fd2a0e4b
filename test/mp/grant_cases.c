/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The five ways in which a decode engine got the wrong bytes, or would have (vllm#52234, where two
 * of them ended with garbage and one with the answer to another prompt): with a grant none moves a
 * byte of another request, and each ends with an error that says why.
 *
 *     grant_cases
 *
 * Rank 0 is the prefill engine, which owns the cache; rank 1 reads it.
 */
#include "mptest.h"
#include "core/token.h"
#include "test/op_form.h"

#include <string.h>

#define TAG_TOKEN 0xfe01
#define BLOCK     ((size_t)16 << 10)
#define N_BLOCKS  8
#define BLANK     0x2d
#define LIFETIME  (20 * MPT_MS)

static struct nixl_region *cache;
static unsigned char dst[BLOCK];

/* ---- the prefill engine ---------------------------------------------------------------------- */

/* A request's blocks, filled for that prompt and lent for one read. */
static struct nixl_req *serve(uint64_t block, unsigned prompt, int64_t lifetime_ns,
                              char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    struct nixl_req *req = NULL;

    mpt_fill((unsigned char *)nixl_region_addr(cache) + block * BLOCK, BLOCK, prompt);
    blocks.region = cache;
    blocks.block_nbytes = blocks.stride = BLOCK;
    blocks.index = &block;
    params.uses = 1;
    params.lifetime_ns = lifetime_ns;
    MPT_STATUS(nixl_grant_create(&blocks, &params, token, NIXL_TOKEN_MAX + 1, &req),
               NIXL_INPROGRESS);
    MPT_OK(nixl_notify(1, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    return req;
}

/* The blocks go to another prompt. */
static void reuse(uint64_t block, unsigned prompt)
{
    mpt_fill((unsigned char *)nixl_region_addr(cache) + block * BLOCK, BLOCK, prompt);
    mpt_barrier();
}

static void prefill(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = serve(1, 101, 0, token);

    mpt_barrier(); /* unknown; out of range; and the right one */
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    mpt_barrier(); /* consumed, and reused at once */
    reuse(1, 999); /* stale, after the blocks were given away */
    mpt_barrier();
    req = serve(2, 102, LIFETIME, token);
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_EXPIRED);
    reuse(2, 998); /* the lease is over */
    mpt_barrier();
}

/* ---- the decode engine ----------------------------------------------------------------------- */

static void hear(char token[NIXL_TOKEN_MAX + 1])
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(token, note.payload, note.nbytes);
}

static int load(const char *token, uint64_t block)
{
    const struct nixl_op op = op_grant(token);

    memset(dst, BLANK, sizeof(dst));
    return nixl_get_x(0, cache, block * BLOCK, dst, BLOCK, &op, NULL);
}

static void is_refused(const char *token, uint64_t block, int expected, const char *why)
{
    MPT_STATUS(load(token, block), expected);
    if (strstr(nixl_last_error()->text, why) == NULL) {
        mpt_fail(__FILE__, __LINE__, "'%s' does not say '%s'", nixl_last_error()->text, why);
    }
    MPT_CHECK_BYTES(dst, BLOCK, BLANK);
}

/* A request that the prefill engine does not know, although all of it looks right. */
static void unknown_request(const char *token)
{
    struct nxr_token unknown;
    char text[NXR_TOKEN_NBYTES];
    const char *why;

    MPT_OK(nxr_token_parse(token, &unknown, &why));
    unknown.slot += 5;
    nxr_token_write(&unknown, text);
    is_refused(text, 1, NIXL_E_INVALID_ARG, "never such a grant");
}

static void decode(void)
{
    char token[NIXL_TOKEN_MAX + 1];

    hear(token);
    unknown_request(token);
    is_refused(token, 3, NIXL_E_ACCESS, "has lent");            /* another request's block */
    is_refused(token, N_BLOCKS + 3, NIXL_E_ACCESS, "has lent"); /* no block at all */
    MPT_OK(load(token, 1));
    MPT_CHECK(dst, BLOCK, 101);
    mpt_barrier();
    is_refused(token, 1, NIXL_E_STALE, "all uses");
    mpt_barrier();
    mpt_barrier();
    is_refused(token, 1, NIXL_E_STALE, "all uses");
    mpt_barrier();
    hear(token);
    mpt_barrier();
    is_refused(token, 2, NIXL_E_STALE, "lifetime");
    mpt_barrier();
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_alloc("kv", BLOCK * N_BLOCKS, NULL, &cache));
        prefill();
    } else {
        MPT_OK(nixl_region_open("kv", &cache));
        decode();
    }
    MPT_OK(nixl_region_close(cache, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
