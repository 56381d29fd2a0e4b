/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on grants: blocks are lent for as long and as often as was said, and what comes later
 * touches nothing. Every rank lends to the next one and uses the blocks of the one before.
 */
#include "exchange.h"
#include "test/op_form.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define TAG_TOKEN 0xe001
#define TAG_NOTE  0xe002

#define BLOCK    ((size_t)4096)
#define N_BLOCKS 64
#define NBYTES   (BLOCK * N_BLOCKS)
#define BLANK    0x5b

struct token {
    char text[NIXL_TOKEN_MAX + 1];
};

/* Give a token to the next rank, and get the one of the rank before. */
static struct token swap_tokens(const struct token *mine)
{
    static struct nixl_note note;
    struct token theirs;

    nixl_note_init(&note);
    MPT_OK(nixl_notify(conf.next, TAG_TOKEN, mine, strlen(mine->text) + 1, MPT_PATIENCE));
    MPT_OK(nixl_notify_recv(conf.prev, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_TRUE(note.nbytes <= sizeof(theirs));
    memcpy(&theirs, note.payload, note.nbytes);
    return theirs;
}

static struct nixl_blocks blocks_of(struct nixl_region *region, const uint64_t *index, uint64_t n)
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    blocks.region = region;
    blocks.block_nbytes = BLOCK;
    blocks.stride = BLOCK;
    blocks.nblocks = n;
    blocks.index = index;
    return blocks;
}

static struct nixl_req *lend(const struct nixl_blocks *blocks, uint32_t rights, uint32_t uses,
                             int64_t lifetime_ns, struct token *token_p)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_req *req = NULL;

    params.rights = rights;
    params.uses = uses;
    params.lifetime_ns = lifetime_ns;
    MPT_STATUS(nixl_grant_create(blocks, &params, token_p->text, sizeof(token_p->text), &req),
               NIXL_INPROGRESS);
    MPT_TRUE(strlen(token_p->text) <= NIXL_TOKEN_MAX);
    return req;
}

/* The first n blocks of a segment. */
static struct nixl_req *lend_first(struct segment *segment, uint64_t n, uint32_t uses,
                                   struct token *token_p)
{
    struct nixl_blocks blocks = blocks_of(segment->region, NULL, n);

    return lend(&blocks, NIXL_GRANT_READ | NIXL_GRANT_WRITE, uses, 0, token_p);
}

static int get_block(int rank, struct segment *segment, const struct token *token, size_t block,
                     void *dst)
{
    const struct nixl_op op = op_grant(token->text);

    return nixl_get_x(rank, segment->region, block * BLOCK, dst, BLOCK, &op, NULL);
}

static int put_block(int rank, struct segment *segment, const struct token *token, size_t block,
                     const void *src)
{
    const struct nixl_op op = op_grant(token->text);

    return nixl_put_x(rank, segment->region, block * BLOCK, src, BLOCK, &op, NULL);
}

/* A use that is refused, in words that say why: nothing is touched. */
static void is_refused(struct segment *segment, const struct token *token, int expected,
                       const char *why)
{
    unsigned char bytes[BLOCK];

    memset(bytes, BLANK, sizeof(bytes));
    MPT_STATUS(get_block(conf.prev, segment, token, 0, bytes), expected);
    if (strstr(nixl_last_error()->text, why) == NULL) {
        mpt_fail(__FILE__, __LINE__, "'%s' does not say '%s'", nixl_last_error()->text, why);
    }
    MPT_CHECK_BYTES(bytes, sizeof(bytes), BLANK);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void blocks_that_are_lent_are_moved(void)
{
    struct segment segment = conf_segment("grant.move", NBYTES);
    unsigned char *local = malloc(BLOCK);

    for (unsigned round = 0; round < conf_rounds(50); round++) {
        struct token mine, theirs;
        struct nixl_req *req = lend_first(&segment, 2, 2, &mine);

        memset(segment.bytes, BLANK, NBYTES);
        mpt_fill(segment.bytes, BLOCK, round + 100u * (unsigned)conf.rank);
        theirs = swap_tokens(&mine);
        MPT_OK(get_block(conf.prev, &segment, &theirs, 0, local));
        MPT_CHECK(local, BLOCK, round + 100u * (unsigned)conf.prev);
        mpt_fill(local, BLOCK, 7u + round);
        MPT_OK(put_block(conf.prev, &segment, &theirs, 1, local));
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        MPT_CHECK(segment.bytes + BLOCK, BLOCK, 7u + round);
        MPT_CHECK_BYTES(segment.bytes + 2 * BLOCK, NBYTES - 2 * BLOCK, BLANK);
        is_refused(&segment, &theirs, NIXL_E_STALE, "all uses");
        mpt_barrier();
    }
    conf_end(&segment);
    free(local);
}

static struct nixl_xfer *xfer_of(enum nixl_xfer_op op, struct nixl_region *region, void *local,
                                 const uint64_t *index, uint64_t n)
{
    struct nixl_blocks here = blocks_of(NULL, NULL, n), there = blocks_of(region, index, n);
    struct nixl_xfer *xfer = NULL;

    here.addr = local;
    MPT_OK(nixl_xfer_create(op, conf.prev, &here, 1, &there, 1, &xfer));
    return xfer;
}

/* Scattered blocks, in another order than they were lent. */
static void prepared_transfers_use_a_grant(void)
{
    struct segment segment = conf_segment("grant.xfer", NBYTES);
    uint64_t lent[N_BLOCKS / 2], used[N_BLOCKS / 2], other[1] = {1};
    unsigned char *local = malloc(NBYTES / 2);
    struct token mine, theirs;
    struct nixl_blocks blocks = blocks_of(segment.region, lent, N_BLOCKS / 2);
    struct nixl_op op;
    struct nixl_xfer *xfer;
    struct nixl_req *req;

    for (uint64_t i = 0; i < N_BLOCKS / 2; i++) {
        lent[i] = 2 * i;
        used[i] = 2 * (N_BLOCKS / 2 - 1 - i);
        mpt_fill(segment.bytes + 2 * i * BLOCK, BLOCK, i + 1000u * (unsigned)conf.rank);
    }
    req = lend(&blocks, NIXL_GRANT_READ, 1, 0, &mine);
    theirs = swap_tokens(&mine);
    op = op_grant(theirs.text);
    xfer = xfer_of(NIXL_XFER_GET, segment.region, local, other, 1);
    MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_ACCESS);
    MPT_OK(nixl_xfer_free(xfer));
    xfer = xfer_of(NIXL_XFER_PUT, segment.region, local, used, 1);
    MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_ACCESS);
    MPT_OK(nixl_xfer_free(xfer));
    xfer = xfer_of(NIXL_XFER_GET, segment.region, local, used, N_BLOCKS / 2);
    MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    for (uint64_t i = 0; i < N_BLOCKS / 2; i++) {
        MPT_CHECK(local + i * BLOCK, BLOCK, N_BLOCKS / 2 - 1 - i + 1000u * (unsigned)conf.prev);
    }
    MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_STALE);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    conf_end(&segment);
    free(local);
}

#define N_SCATTERED 3000

/* More pieces than a page of the owner's table has. */
static void thousands_of_scattered_blocks_are_lent(void)
{
    struct segment segment = conf_segment("grant.pages", (size_t)2 * N_SCATTERED * 64);
    uint64_t *index = malloc(N_SCATTERED * sizeof(*index));
    struct nixl_blocks blocks = blocks_of(segment.region, index, N_SCATTERED);
    struct token mine, theirs;
    unsigned char local[64];
    struct nixl_req *req;
    struct nixl_op op;

    blocks.block_nbytes = blocks.stride = 64;
    for (uint64_t i = 0; i < N_SCATTERED; i++) {
        index[i] = 2 * ((i * 7) % N_SCATTERED);
    }
    mpt_fill(segment.bytes, segment.nbytes, 3);
    for (unsigned round = 0; round < 3; round++) { /* the pages are used again */
        req = lend(&blocks, 0, 0, 0, &mine);
        theirs = swap_tokens(&mine);
        op = op_grant(theirs.text);
        for (uint64_t i = 0; i < 2 * N_SCATTERED; i += 97) {
            int expected = i % 2 == 0 ? NIXL_OK : NIXL_E_ACCESS;

            MPT_STATUS(nixl_get_x(conf.prev, segment.region, i * 64, local, 64, &op, NULL),
                       expected);
        }
        mpt_barrier();
        MPT_OK(nixl_grant_revoke(mine.text, MPT_PATIENCE));
        MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    }
    conf_end(&segment);
    free(index);
}

#define LAYERS 3

/* The same block of every layer, as a KV cache lends it. */
static void blocks_of_every_extent_are_lent(void)
{
    struct nixl_extent extents[LAYERS];
    struct nixl_region *region = NULL;
    struct nixl_blocks here = blocks_of(NULL, NULL, LAYERS), there;
    uint64_t second = 1, third = 2;
    unsigned char *local = malloc(LAYERS * BLOCK);
    struct token mine, theirs;
    struct nixl_xfer *xfer = NULL;
    struct nixl_req *req;
    struct nixl_op op;

    for (int i = 0; i < LAYERS; i++) {
        extents[i] = (struct nixl_extent){malloc(4 * BLOCK), 4 * BLOCK};
        mpt_fill(extents[i].addr, 4 * BLOCK, (uint64_t)i);
    }
    MPT_OK(nixl_region_register_extents("grant.extents", extents, LAYERS, NULL, &region));
    there = blocks_of(region, &second, 1);
    there.nextents = NIXL_ALL_EXTENTS;
    req = lend(&there, NIXL_GRANT_WRITE, 0, 0, &mine);
    theirs = swap_tokens(&mine);
    op = op_grant(theirs.text);
    here.addr = local;
    memset(local, BLANK, LAYERS * BLOCK);
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.prev, &here, 1, &there, 1, &xfer));
    MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_REMOTE, 0, 1, &third));
    MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_ACCESS);
    MPT_OK(nixl_put_x(conf.prev, region, 4 * BLOCK + BLOCK, local, BLOCK, &op, NULL));
    MPT_STATUS(nixl_put_x(conf.prev, region, 4 * BLOCK, local, BLOCK, &op, NULL), NIXL_E_ACCESS);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_flush(conf.prev, MPT_PATIENCE));
    mpt_barrier();
    for (int i = 0; i < LAYERS; i++) {
        MPT_CHECK_BYTES((unsigned char *)extents[i].addr + BLOCK, BLOCK, BLANK);
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    for (int i = 0; i < LAYERS; i++) {
        free(extents[i].addr);
    }
    free(local);
}

/* Large transfers of many starts at once, each with its own notification. */
static void started_transfers_end_with_their_use(void)
{
    enum { N = 4 };
    const size_t nbytes = (size_t)1 << 20;
    struct segment segment = conf_segment("grant.started", N * nbytes);
    struct nixl_blocks blocks = blocks_of(segment.region, NULL, N);
    unsigned char *local = malloc(N * nbytes);
    struct nixl_req *reqs[N] = {NULL}, *req;
    struct token mine, theirs;

    blocks.block_nbytes = blocks.stride = nbytes;
    req = lend(&blocks, NIXL_GRANT_WRITE, N, 0, &mine);
    theirs = swap_tokens(&mine);
    mpt_fill(local, N * nbytes, (uint64_t)conf.rank);
    for (size_t i = 0; i < N; i++) {
        struct nixl_op op = op_note(TAG_NOTE + i, NULL, 0);

        op.flags |= NIXL_OP_GRANT;
        op.grant = theirs.text;
        MPT_TRUE(nixl_put_x(conf.prev, segment.region, i * nbytes, local + i * nbytes, nbytes, &op,
                            &reqs[i]) >= 0);
    }
    for (size_t i = 0; i < N; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
    for (size_t i = 0; i < N; i++) {
        conf_hear(conf.next, TAG_NOTE + i);
    }
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_CHECK(segment.bytes, N * nbytes, (uint64_t)conf.next);
    conf_end(&segment);
    free(local);
}

/* The first use of a token comes after the grant, when its pages tell of another grant's blocks. */
static void a_token_that_is_looked_up_late_is_stale(void)
{
    struct segment segment = conf_segment("grant.late", (size_t)4 * N_SCATTERED * 64);
    uint64_t *index = malloc(N_SCATTERED * sizeof(*index));
    struct nixl_blocks blocks = blocks_of(segment.region, index, N_SCATTERED);
    struct token mine, theirs, other;
    struct nixl_req *req;

    blocks.block_nbytes = blocks.stride = 64;
    for (uint64_t i = 0; i < N_SCATTERED; i++) {
        index[i] = 2 * i;
    }
    req = lend(&blocks, 0, 0, 0, &mine);
    MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
    blocks.offset = (uint64_t)2 * N_SCATTERED * 64;
    req = lend(&blocks, 0, 0, 0, &other);
    theirs = swap_tokens(&mine);
    is_refused(&segment, &theirs, NIXL_E_STALE, "revoked");
    mpt_barrier();
    MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
    conf_end(&segment);
    free(index);
}

/* ---- what is not done ------------------------------------------------------------------------ */

static void rights_and_blocks_are_checked_first(void)
{
    struct segment segment = conf_segment("grant.check", NBYTES),
                   other = conf_segment("grant.other", NBYTES);
    unsigned char bytes[2 * BLOCK];
    struct nixl_blocks blocks = blocks_of(segment.region, NULL, 1);
    struct token mine, theirs, bad;
    struct nixl_req *req, *none = NULL;
    struct nixl_op op;

    blocks.offset = BLOCK;
    req = lend(&blocks, 0, 1, 0, &mine);
    theirs = swap_tokens(&mine);
    op = op_grant(theirs.text);
    memset(bytes, BLANK, sizeof(bytes));
    MPT_STATUS(put_block(conf.prev, &segment, &theirs, 1, bytes), NIXL_E_ACCESS);
    MPT_STATUS(get_block(conf.prev, &segment, &theirs, 0, bytes), NIXL_E_ACCESS);
    MPT_STATUS(get_block(conf.prev, &segment, &theirs, 2, bytes), NIXL_E_ACCESS);
    MPT_STATUS(get_block(conf.prev, &other, &theirs, 1, bytes), NIXL_E_ACCESS);
    MPT_STATUS(nixl_get_x(conf.prev, segment.region, BLOCK, bytes, BLOCK + 1, &op, NULL),
               NIXL_E_ACCESS);
    MPT_STATUS(nixl_get_x(conf.prev, segment.region, BLOCK - 1, bytes, 2, &op, NULL),
               NIXL_E_ACCESS);
    MPT_TRUE(nixl_get_x(conf.prev, segment.region, NBYTES, bytes, BLOCK, &op, &none) < 0);
    MPT_STATUS(get_block(conf.prev, &segment, &(struct token){""}, 1, bytes), NIXL_E_INVALID_ARG);
    if (conf.size > 2) {
        MPT_STATUS(get_block(conf.next, &segment, &theirs, 1, bytes), NIXL_E_INVALID_ARG);
    }
    for (size_t i = 0; i < strlen(theirs.text); i++) {
        bad = theirs;
        bad.text[i] = bad.text[i] == 'A' ? 'B' : 'A';
        MPT_STATUS(get_block(conf.prev, &segment, &bad, 1, bytes), NIXL_E_INVALID_ARG);
        bad.text[i] = '\0';
        MPT_STATUS(get_block(conf.prev, &segment, &bad, 1, bytes), NIXL_E_INVALID_ARG);
    }
    MPT_STATUS(nixl_pair_read(theirs.text, bytes, BLOCK, &none), NIXL_E_INVALID_ARG);
    MPT_CHECK_BYTES(bytes, sizeof(bytes), BLANK);
    MPT_TRUE(none == NULL);
    MPT_OK(get_block(conf.prev, &segment, &theirs, 1, bytes)); /* nothing has used it up */
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    conf_end(&segment);
    conf_end(&other);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void each_end_is_told_from_the_others(void)
{
    struct segment segment = conf_segment("grant.end", NBYTES);
    struct nixl_blocks blocks = blocks_of(segment.region, NULL, 1);
    int32_t outcome = NIXL_OUTCOME_PARTIAL;
    struct token mine, theirs;
    struct nixl_req *req = lend(&blocks, 0, 5, 1, &mine);

    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_EXPIRED);
    theirs = swap_tokens(&mine);
    is_refused(&segment, &theirs, NIXL_E_STALE, "lifetime");
    MPT_STATUS(nixl_grant_renew(theirs.text, MPT_S), NIXL_E_STALE);
    mpt_barrier();

    req = lend(&blocks, 0, 5, 0, &mine);
    theirs = swap_tokens(&mine);
    mpt_barrier();
    MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
    MPT_TRUE(req == NULL && outcome == NIXL_OUTCOME_UNTOUCHED);
    mpt_barrier();
    is_refused(&segment, &theirs, NIXL_E_STALE, "revoked");
    mpt_barrier();

    req = lend(&blocks, 0, 5, 0, &mine);
    MPT_OK(nixl_grant_revoke(mine.text, MPT_PATIENCE));
    MPT_OK(nixl_grant_revoke(mine.text, 0));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    theirs = swap_tokens(&mine);
    is_refused(&segment, &theirs, NIXL_E_STALE, "revoked");
    if (conf.size > 1) {
        MPT_STATUS(nixl_grant_revoke(theirs.text, 0), NIXL_E_INVALID_ARG);
    }
    conf_end(&segment);
}

static void closing_a_region_ends_its_grants(void)
{
    struct segment segment = conf_segment("grant.close", NBYTES);
    struct token mine, theirs;
    struct nixl_req *req = lend_first(&segment, 1, 0, &mine);
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    struct nixl_region *handle;
    const struct nixl_op *op;
    unsigned char byte;

    theirs = swap_tokens(&mine);
    mpt_barrier();
    conf_drop(&segment);
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    mpt_barrier();
    MPT_OK(nixl_grant_query(theirs.text, &info));
    MPT_EQ(info.state, NIXL_GRANT_CLOSED);

    /* A new region of that name, which the old token is not for. */
    segment = conf_segment("grant.close", NBYTES);
    mpt_barrier();
    MPT_OK(nixl_region_open("grant.close", &handle));
    op = &(struct nixl_op){
        .struct_nbytes = sizeof(*op), .flags = NIXL_OP_GRANT, .grant = theirs.text};
    MPT_STATUS(nixl_get_x(conf.prev, handle, 0, &byte, 1, op, NULL), NIXL_E_STALE);
    MPT_OK(nixl_region_close(handle, MPT_PATIENCE));
    conf_end(&segment);
}

static void either_side_renews_and_asks(void)
{
    struct segment segment = conf_segment("grant.renew", NBYTES);
    struct nixl_blocks blocks = blocks_of(segment.region, NULL, 3);
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    struct token mine, theirs;
    struct nixl_req *req = lend(&blocks, NIXL_GRANT_WRITE, 9, 600 * MPT_S, &mine);
    unsigned char bytes[BLOCK] = {0};

    theirs = swap_tokens(&mine);
    MPT_OK(nixl_grant_query(theirs.text, &info));
    MPT_TRUE(info.rank == conf.prev && info.state == NIXL_GRANT_OPEN && info.uses_left == 9 &&
             info.rights == NIXL_GRANT_WRITE && info.nusers == 0 && info.nbytes == 3 * BLOCK);
    MPT_TRUE(info.left_ns > 300 * MPT_S && info.left_ns <= 600 * MPT_S);
    mpt_barrier();
    MPT_OK(nixl_grant_renew(theirs.text, NIXL_FOREVER));
    MPT_OK(put_block(conf.prev, &segment, &theirs, 2, bytes));
    MPT_OK(nixl_flush(conf.prev, MPT_PATIENCE));
    MPT_OK(nixl_grant_query(theirs.text, &info));
    MPT_TRUE(info.uses_left == 8 && info.left_ns == NIXL_FOREVER);
    MPT_STATUS(nixl_grant_renew(theirs.text, 0), NIXL_E_INVALID_ARG);
    mpt_barrier();
    MPT_OK(nixl_grant_renew(mine.text, 1)); /* the owner shortens it */
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_EXPIRED);
    mpt_barrier();
    MPT_OK(nixl_grant_query(theirs.text, &info));
    MPT_TRUE(info.state == NIXL_GRANT_EXPIRED && info.left_ns == 0);
    conf_end(&segment);
}

/* All ranks use one grant at once, which has fewer uses than they make. */
static void uses_are_counted_among_all(void)
{
    struct segment segment = conf_segment("grant.race", NBYTES);
    static struct nixl_note note;
    struct token token;
    struct nixl_req *req = NULL;
    unsigned char bytes[BLOCK];
    unsigned n_won = 0, n_all = 0;

    mpt_fill(segment.bytes, BLOCK, 5);
    nixl_note_init(&note);
    if (conf.rank == 0) {
        req = lend_first(&segment, 1, 10, &token);
        for (int rank = 0; rank < conf.size; rank++) {
            MPT_OK(nixl_notify(rank, TAG_TOKEN, &token, sizeof(token), MPT_PATIENCE));
        }
    }
    MPT_OK(nixl_notify_recv(0, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&token, note.payload, sizeof(token));
    for (int i = 0; i < 11; i++) {
        int status = get_block(0, &segment, &token, 0, bytes);

        n_won += status == NIXL_OK;
        MPT_TRUE(status == NIXL_OK || status == NIXL_E_STALE);
    }
    MPT_OK(nixl_notify(0, TAG_NOTE, &n_won, sizeof(n_won), MPT_PATIENCE));
    for (int rank = 0; conf.rank == 0 && rank < conf.size; rank++) {
        MPT_OK(nixl_notify_recv(rank, TAG_NOTE, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&n_won, note.payload, sizeof(n_won));
        n_all += n_won;
    }
    if (conf.rank == 0) {
        MPT_EQ(n_all, 10);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    }
    conf_end(&segment);
}

/*
 * The owner writes the next user's bytes as soon as the request of a grant has ended, while the
 * holder of the old token reads as fast as it can: it gets the lent bytes, or none.
 */
static void no_byte_of_the_next_owner_is_read(void)
{
    struct segment segment = conf_segment("grant.next", NBYTES);
    struct token mine, theirs;
    unsigned char bytes[BLOCK];

    for (unsigned round = 0; round < conf_rounds(200); round++) {
        struct nixl_req *req;
        int status;

        memset(segment.bytes, 1, BLOCK);
        req = lend_first(&segment, 1, 0, &mine);
        theirs = swap_tokens(&mine);
        if ((unsigned)conf.rank % 2 == round % 2) {
            MPT_OK(nixl_grant_revoke(mine.text, MPT_PATIENCE));
            memset(segment.bytes, 2, BLOCK); /* the next owner's */
        }
        do {
            status = get_block(conf.prev, &segment, &theirs, 0, bytes);
            for (size_t i = 0; status == NIXL_OK && i < BLOCK; i++) {
                MPT_EQ(bytes[i], 1);
            }
        } while (status == NIXL_OK && (unsigned)conf.prev % 2 == round % 2);
        MPT_TRUE(status == NIXL_OK || status == NIXL_E_STALE);
        mpt_barrier();
        MPT_OK(nixl_grant_revoke(mine.text, MPT_PATIENCE));
        MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    }
    conf_end(&segment);
}

const struct guarantee conf_grant[] = {
    {"grant", NULL, 0},
    {"blocks_that_are_lent_are_moved", blocks_that_are_lent_are_moved, 0},
    {"prepared_transfers_use_a_grant", prepared_transfers_use_a_grant, 0},
    {"thousands_of_scattered_blocks_are_lent", thousands_of_scattered_blocks_are_lent, 0},
    {"a_token_that_is_looked_up_late_is_stale", a_token_that_is_looked_up_late_is_stale, 0},
    {"blocks_of_every_extent_are_lent", blocks_of_every_extent_are_lent, 0},
    {"started_transfers_end_with_their_use", started_transfers_end_with_their_use, 0},
    {"rights_and_blocks_are_checked_first", rights_and_blocks_are_checked_first, 0},
    {"each_end_is_told_from_the_others", each_end_is_told_from_the_others, 0},
    {"closing_a_region_ends_its_grants", closing_a_region_ends_its_grants, 0},
    {"either_side_renews_and_asks", either_side_renews_and_asks, 0},
    {"uses_are_counted_among_all", uses_are_counted_among_all, 0},
    {"no_byte_of_the_next_owner_is_read", no_byte_of_the_next_owner_is_read, 0},
    {0},
};
