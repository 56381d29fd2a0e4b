/* SPDX-License-Identifier: Apache-2.0 */
/* Caches of handles: what was given back stays readable, and comes again late, the oldest first. */
#include "config.h"

#include "util/handle.h"

#include "test/unit/unit.h"
#include <stdint.h>
#include <stdlib.h>

enum { N_KEPT = 3 };

struct thing {
    _Alignas(64) int value;
    struct nxr_list link;
};

static struct nxr_handle_cache cache = NXR_HANDLE_CACHE(cache, struct thing, link, N_KEPT);

TestSuite(handle, .timeout = 60);

Test(handle, a_new_one_is_zero_and_aligned)
{
    struct thing *thing = nxr_handle_take(&cache);

    cr_assert(ne(ptr, thing, NULL));
    cr_expect(eq(int, thing->value, 0));
    cr_expect(eq(int, (int)((uintptr_t)thing % 64), 0));
    nxr_handle_retire(&cache, thing);
    nxr_handles_free(&cache);
}

Test(handle, one_that_was_given_back_comes_again_behind_n_kept_others)
{
    struct thing *things[N_KEPT + 2];

    for (int i = 0; i < N_KEPT + 2; i++) {
        things[i] = nxr_handle_take(&cache);
        cr_assert(ne(ptr, things[i], NULL));
        things[i]->value = i + 1;
    }
    for (int i = 0; i < N_KEPT; i++) {
        struct thing *other;

        nxr_handle_retire(&cache, things[i]);
        other = nxr_handle_take(&cache);
        cr_expect(eq(int, other->value, 0), "a new one: %d are retired", i + 1);
        free(other);
    }
    nxr_handle_retire(&cache, things[N_KEPT]);
    cr_expect(eq(ptr, nxr_handle_take(&cache), things[0]), "the oldest");
    cr_expect(eq(int, things[0]->value, 1), "as it was left");
    nxr_handle_retire(&cache, things[N_KEPT + 1]);
    cr_expect(eq(ptr, nxr_handle_take(&cache), things[1]));
    nxr_handle_retire(&cache, things[0]);
    nxr_handle_retire(&cache, things[1]);
    nxr_handles_free(&cache);
}

Test(handle, the_cache_is_empty_after_it_was_freed)
{
    struct thing *things[N_KEPT + 1], *thing;

    for (int i = 0; i <= N_KEPT; i++) {
        things[i] = nxr_handle_take(&cache);
        things[i]->value = 1;
    }
    for (int i = 0; i <= N_KEPT; i++) {
        nxr_handle_retire(&cache, things[i]);
    }
    nxr_handles_free(&cache);
    cr_expect(nxr_list_is_empty(&cache.retired));
    thing = nxr_handle_take(&cache);
    cr_expect(eq(int, thing->value, 0), "a new one");
    nxr_handle_retire(&cache, thing);
    nxr_handles_free(&cache);
}
