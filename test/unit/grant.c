/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants without ranks: how their words change, what pieces blocks make, and what is no table.
 */
#include "fake_job.h"

#include "grant/grant.h"
#include "region/publish.h"
#include "test/unit/unit.h"
#include <stdlib.h>

TestSuite(grant, .timeout = 120);

/* ---- words ----------------------------------------------------------------------------------- */

Test(grant, a_word_is_of_its_turn_only)
{
    uint64_t word = nxr_grant_word(7, 3, NIXL_GRANT_OPEN);

    cr_expect(eq(int, nxr_grant_word_state(word, 7), NIXL_GRANT_OPEN));
    cr_expect(eq(int, nxr_grant_word_state(word, 6), 0));
    cr_expect(eq(int, nxr_grant_word_state(word, 8), 0));
    cr_expect(eq(int, nxr_grant_word_state(0, 0), 0));
    cr_expect(eq(int, nxr_grant_word_state(word | 0xff, 7), 0));
}

Test(grant, uses_are_counted_down)
{
    uint64_t word = nxr_grant_word(UINT32_MAX, 2, NIXL_GRANT_OPEN);

    word = nxr_grant_word_used(word);
    cr_expect(eq(int, nxr_grant_word_state(word, UINT32_MAX), NIXL_GRANT_OPEN));
    cr_expect(eq(u32, nxr_grant_word_uses(word), 1));
    word = nxr_grant_word_used(word);
    cr_expect(eq(int, nxr_grant_word_state(word, UINT32_MAX), NIXL_GRANT_USED));
}

Test(grant, any_number_of_uses_stays_any)
{
    uint64_t word = nxr_grant_word(1, NXR_GRANT_ANY_USES, NIXL_GRANT_OPEN);

    cr_expect(eq(u64, nxr_grant_word_used(word), word));
    word = nxr_grant_word(1, NIXL_GRANT_USES_MAX, NIXL_GRANT_OPEN);
    cr_expect(eq(u32, nxr_grant_word_uses(nxr_grant_word_used(word)), NIXL_GRANT_USES_MAX - 1));
}

Test(grant, an_end_keeps_turn_and_uses)
{
    uint64_t open = nxr_grant_word(9, 4, NIXL_GRANT_OPEN);

    for (int state = NIXL_GRANT_EXPIRED; state <= NIXL_GRANT_CLOSED; state++) {
        uint64_t word = nxr_grant_word_ended(open, (enum nixl_grant_state)state);

        cr_expect(eq(int, nxr_grant_word_state(word, 9), state));
        cr_expect(eq(u32, nxr_grant_word_uses(word), 4));
    }
}

Test(grant, a_place_names_its_user)
{
    for (int user = 0; user < 3; user++) {
        cr_expect(ne(u64, nxr_grant_place(1, user), 0));
        cr_expect(eq(int, nxr_grant_place_user(nxr_grant_place(UINT32_MAX, user)), user));
    }
    cr_expect(eq(int, nxr_grant_place_user(0), -1));
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static struct nxr_grant_pieces make(const struct nxr_blocks *blocks)
{
    struct nxr_grant_pieces pieces = {0};

    cr_assert(eq(int, nxr_grant_pieces_make(blocks, &pieces), NIXL_OK));
    return pieces;
}

static struct nxr_blocks indexed(const uint64_t *index, uint64_t n)
{
    return (struct nxr_blocks){
        .block_nbytes = 10, .stride = 10, .nblocks = n, .index = index, .n_rounds = 1};
}

Test(grant, blocks_that_adjoin_are_one_piece)
{
    const uint64_t index[] = {7, 3, 2, 9, 8, 3};
    const struct nxr_blocks blocks = indexed(index, 6);
    struct nxr_grant_pieces pieces = make(&blocks);

    cr_assert(eq(u32, pieces.n, 2));
    cr_expect(eq(u64, pieces.list[0].start, 20));
    cr_expect(eq(u64, pieces.list[0].end, 40));
    cr_expect(eq(u64, pieces.list[1].start, 70));
    cr_expect(eq(u64, pieces.list[1].end, 100));
    free(pieces.list);
}

Test(grant, any_number_of_adjoining_blocks_is_lent)
{
    const struct nxr_blocks all = {.offset = 5,
                                   .block_nbytes = 1ull << 20,
                                   .stride = 1ull << 20,
                                   .nblocks = 1ull << 30,
                                   .n_rounds = 1};
    struct nxr_blocks apart = all;
    struct nxr_grant_pieces pieces = make(&all);

    cr_assert(eq(u32, pieces.n, 1));
    cr_expect(eq(u64, pieces.list[0].end, 5 + (1ull << 50)));
    free(pieces.list);
    apart.stride++;
    cr_expect(eq(int, nxr_grant_pieces_make(&apart, &pieces), NIXL_E_LIMIT));
    apart.nblocks = NIXL_GRANT_PIECES_MAX;
    pieces = make(&apart);
    cr_expect(eq(u32, pieces.n, NIXL_GRANT_PIECES_MAX));
    free(pieces.list);
}

/* Against a plain search, for every range of a small memory. */
Test(grant, bytes_are_found_as_by_a_plain_search)
{
    const uint64_t index[] = {1, 4, 5, 8};
    const struct nxr_blocks blocks = indexed(index, 4);
    struct nxr_grant_pieces pieces = make(&blocks);
    bool is_lent[100] = {false};

    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 10; k++) {
            is_lent[index[i] * 10 + k] = true;
        }
    }
    for (size_t start = 0; start < 100; start++) {
        bool all = true;

        for (size_t nbytes = 1; start + nbytes <= 100; nbytes++) {
            all = all && is_lent[start + nbytes - 1];
            cr_assert(eq(int, nxr_grant_pieces_have(&pieces, NULL, start, nbytes), all),
                      "%zu bytes at %zu", nbytes, start);
        }
    }
    cr_expect(nxr_grant_pieces_have(&pieces, NULL, UINT64_MAX, 0));
    cr_expect(not(nxr_grant_pieces_have(&pieces, NULL, UINT64_MAX, 1)));
    cr_expect(not(nxr_grant_pieces_have(&pieces, NULL, 10, UINT64_MAX)));
    free(pieces.list);
}

/* Three extents of 100 bytes. */
static struct nxr_extents *three_extents(void)
{
    struct nxr_extents *extents = nxr_extents_new(3);

    for (uint32_t i = 0; i < 3; i++) {
        extents->list[i].place.limit = 100;
        extents->list[i].memory.nbytes = 100;
        extents->list[i].start = (uint64_t)i * 100;
    }
    extents->nbytes = 300;
    return extents;
}

/* Lent by extents or not, used by extents or not: the same bytes are allowed. */
Test(grant, extents_are_lent_as_they_are_used)
{
    const uint64_t second = 1, third = 2;
    struct nxr_extents *extents = three_extents();
    struct nxr_blocks blocks = indexed(&second, 1), used;
    struct nxr_grant_pieces by_extents, whole;
    uint64_t at;

    blocks.extents = extents;
    whole = make(&blocks);
    blocks.first_extent = 1;
    blocks.n_extents = blocks.n_rounds = 2;
    by_extents = make(&blocks);
    cr_expect(nxr_grant_pieces_have(&by_extents, extents, 110, 10));
    cr_expect(nxr_grant_pieces_have(&by_extents, extents, 210, 10));
    cr_expect(not(nxr_grant_pieces_have(&by_extents, extents, 10, 10)));
    cr_expect(nxr_grant_pieces_have_blocks(&by_extents, &blocks, &at));
    cr_expect(nxr_grant_pieces_have(&whole, extents, 10, 10));
    cr_expect(not(nxr_grant_pieces_have_blocks(&whole, &blocks, &at)));
    used = blocks;
    used.index = &third;
    cr_expect(not(nxr_grant_pieces_have_blocks(&by_extents, &used, &at)));
    used = blocks;
    used.first_extent = 0;
    cr_expect(not(nxr_grant_pieces_have_blocks(&by_extents, &used, &at)));
    used.n_extents = used.n_rounds = 1;
    cr_expect(nxr_grant_pieces_have_blocks(&whole, &used, &at));
    used.n_extents = 0;
    used.offset = 100;
    cr_expect(nxr_grant_pieces_have_blocks(&by_extents, &used, &at));
    free(whole.list);
    free(by_extents.list);
    free(extents);
}

/* ---- tables of a broken owner ---------------------------------------------------------------- */

static void publish_table(size_t nbytes)
{
    const struct nxr_memory memory = {.kind = &nxr_memory_host,
                                      .addr = calloc(1, nbytes),
                                      .nbytes = nbytes,
                                      .fd = -1,
                                      .is_registered = true};
    struct nxr_published *published;

    fake_job_start(0);
    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(eq(int, nxr_publish(NXR_GRANT_TABLE, &memory, &published), NIXL_OK));
    pthread_mutex_unlock(&nxr_job.lock);
}

static void expect_table(int status)
{
    struct nxr_segment *table;

    for (int i = 0; i < 3; i++) {
        cr_expect(eq(int, nxr_grant_table_of("grant", 0, &table), status), "use %d", i);
    }
}

Test(grant, a_table_that_is_too_small_is_never_used)
{
    publish_table(sizeof(struct nxr_grant_table) - 1);
    expect_table(NIXL_E_RANGE);
}

Test(grant, a_table_that_is_only_read_is_never_used)
{
    struct nxr_segment *table;

    publish_table(sizeof(struct nxr_grant_table));
    expect_table(NIXL_OK);
    cr_assert(eq(int, nxr_grant_table_of("grant", 0, &table), NIXL_OK));
    table->forbidden = NIXL_ACCESS_NO_PUT;
    expect_table(NIXL_E_ACCESS);
}
