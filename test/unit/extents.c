/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of extents: where they begin, and which one holds some bytes. */
#include "region/extents.h"

#include "test/unit/unit.h"

#include <stdlib.h>

static struct nxr_extents *table_of(const uint64_t *sizes, uint32_t n)
{
    struct nxr_extents *extents = nxr_extents_new(n);

    cr_assert(extents != NULL);
    for (uint32_t i = 0; i < n; i++) {
        extents->list[i].place.limit = sizes[i];
    }
    return extents;
}

/* Which one holds them; -1: none does. */
static int find(const struct nxr_extents *extents, uint64_t offset, uint64_t nbytes)
{
    const struct nxr_extent *extent = nxr_extents_find(extents, offset, nbytes);

    return extent != NULL ? (int)(extent - extents->list) : -1;
}

/* Every place in the table, compared with a search from the beginning. */
static void check_table(const uint64_t *sizes, uint32_t n)
{
    struct nxr_extents *extents = table_of(sizes, n);
    uint64_t at = 0;

    cr_assert(nxr_extents_layout(extents));
    for (uint32_t i = 0; i < n; i++) {
        cr_expect(eq(u64, extents->list[i].start, at));
        for (uint64_t offset = 0; offset < sizes[i]; offset++) {
            uint64_t left = sizes[i] - offset;

            cr_assert(eq(int, find(extents, at + offset, 1), (int)i));
            cr_assert(eq(int, find(extents, at + offset, left), (int)i));
            cr_assert(eq(int, find(extents, at + offset, left + 1), -1));
        }
        at += sizes[i];
    }
    cr_expect(eq(u64, extents->nbytes, at));
    cr_expect(eq(int, find(extents, at, 0), (int)n - 1)); /* nothing, at the end */
    cr_expect(eq(int, find(extents, at, 1), -1));
    cr_expect(eq(int, find(extents, at + 1, 0), -1));
    cr_expect(eq(int, find(extents, UINT64_MAX, 1), -1));
    cr_expect(eq(int, find(extents, 1, UINT64_MAX), -1));
    free(extents);
}

Test(extents, alike)
{
    const uint64_t sizes[] = {16, 16, 16, 16, 16};

    for (uint32_t n = 1; n <= 5; n++) {
        check_table(sizes, n);
    }
}

Test(extents, the_first_is_the_smallest)
{
    check_table((const uint64_t[]){1, 100, 3, 64, 2, 33, 7}, 7);
}

Test(extents, the_first_is_the_largest)
{
    check_table((const uint64_t[]){300, 1, 1, 1, 200, 1}, 6);
}

Test(extents, as_many_as_a_region_may_have)
{
    static uint64_t sizes[NIXL_EXTENTS_MAX];

    for (uint32_t i = 0; i < NIXL_EXTENTS_MAX; i++) {
        sizes[i] = 1 + i * 7919u % 5;
    }
    check_table(sizes, NIXL_EXTENTS_MAX);
}

Test(extents, more_than_any_memory_is_refused)
{
    const uint64_t wraps[] = {UINT64_MAX, 2}, exceeds[] = {INT64_MAX, 1},
                   fits[] = {INT64_MAX - 1, 1};
    struct nxr_extents *extents = table_of(wraps, 2);

    cr_expect(not(nxr_extents_layout(extents)));
    free(extents);
    extents = table_of(exceeds, 2);
    cr_expect(not(nxr_extents_layout(extents)));
    free(extents);
    extents = table_of(fits, 2);
    cr_expect(nxr_extents_layout(extents));
    free(extents);
}
