/* SPDX-License-Identifier: Apache-2.0 */
/* Public structs of callers whose header is older or newer than the library. */
#include "util/struct.h"

#include "test/unit/unit.h"
#include <stdint.h>
#include <string.h>

/* What the library has, and the structs of two callers. */
struct thing {
    size_t struct_nbytes;
    uint64_t first, second, third;
};
struct newer_thing {
    struct thing known;
    uint64_t added[2];
};
#define OLDER_NBYTES (sizeof(struct thing) - sizeof(uint64_t))

static const struct nxr_struct_type type = NXR_STRUCT_TYPE(thing, THING_INIT, first);

TestSuite(struct, .timeout = 120);

static int read_thing(const void *theirs, struct thing *ours)
{
    memset(ours, 0xa5, sizeof(*ours));
    return nxr_struct_read("op", "params", &type, theirs, ours);
}

Test(struct, same_size_is_copied)
{
    struct thing theirs = {sizeof(theirs), 1, 2, 3}, ours;

    cr_expect(eq(int, read_thing(&theirs, &ours), NIXL_OK));
    cr_expect(eq(u64, ours.first + ours.second + ours.third, 6));
}

Test(struct, fields_of_an_older_caller_are_zero)
{
    struct thing theirs = {OLDER_NBYTES, 1, 2, 3}, ours;

    cr_expect(eq(int, read_thing(&theirs, &ours), NIXL_OK));
    cr_expect(eq(u64, ours.first, 1));
    cr_expect(eq(u64, ours.second, 2));
    cr_expect(eq(u64, ours.third, 0), "read beyond the caller's size");
    theirs.struct_nbytes = type.smallest;
    cr_expect(eq(int, read_thing(&theirs, &ours), NIXL_OK));
    cr_expect(eq(u64, ours.second, 0));
}

Test(struct, only_another_size_is_viewed_as_a_copy)
{
    struct thing same = {sizeof(same), 1, 2, 3}, older = {OLDER_NBYTES, 1, 2, 3}, ours;
    const struct thing *seen;
    int status = NIXL_OK;

    cr_expect(
        eq(ptr, (void *)nxr_struct_view("op", "params", &type, &same, &ours, &status), &same));
    memset(&ours, 0xa5, sizeof(ours));
    seen = nxr_struct_view("op", "params", &type, &older, &ours, &status);
    cr_expect(eq(ptr, (void *)seen, &ours));
    cr_expect(eq(u64, seen->second, 2));
    cr_expect(eq(u64, seen->third, 0), "read beyond the caller's size");
    cr_expect(eq(int, status, NIXL_OK));
    older.struct_nbytes = 1;
    cr_expect(
        eq(ptr, (void *)nxr_struct_view("op", "params", &type, &older, &ours, &status), NULL));
    cr_expect(eq(int, status, NIXL_E_INVALID_ARG));
    cr_expect(eq(ptr, (void *)nxr_struct_view("op", "params", &type, NULL, &ours, &status), NULL));
    cr_expect(eq(int, status, NIXL_E_INVALID_ARG));
}

Test(struct, newer_caller_may_set_only_what_is_known)
{
    struct newer_thing theirs = {{sizeof(theirs), 1, 2, 3}, {0, 0}};
    struct thing ours;

    cr_expect(eq(int, read_thing(&theirs, &ours), NIXL_OK));
    cr_expect(eq(u64, ours.third, 3));
    ((unsigned char *)theirs.added)[sizeof(theirs.added) - 1] = 1;
    cr_expect(eq(int, read_thing(&theirs, &ours), NIXL_E_UNSUPPORTED));
    cr_expect(
        ne(ptr, strstr(nixl_last_error()->text, "newer header: byte 47 of struct thing"), NULL),
        "%s", nixl_last_error()->text);
}

Test(struct, sizes_that_no_header_has_are_refused)
{
    static const size_t bad[] = {0,
                                 1,
                                 sizeof(size_t),
                                 15,
                                 17,
                                 sizeof(struct thing) - 1,
                                 33,
                                 NXR_STRUCT_MAX + sizeof(size_t),
                                 SIZE_MAX - 7,
                                 SIZE_MAX};
    struct thing theirs = {0, 1, 2, 3}, ours;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        theirs.struct_nbytes = bad[i];
        cr_expect(eq(int, read_thing(&theirs, &ours), NIXL_E_INVALID_ARG), "%zu", bad[i]);
        cr_expect(eq(int, nxr_struct_check("op", "info_p", &type, &theirs), NIXL_E_INVALID_ARG));
        cr_expect(ne(ptr, strstr(nixl_last_error()->text, "from 16 to 4096"), NULL));
        cr_expect(ne(ptr, strstr(nixl_last_error()->text, "THING_INIT"), NULL));
    }
    cr_expect(eq(int, read_thing(NULL, &ours), NIXL_E_INVALID_ARG));
    cr_expect(eq(int, nxr_struct_check("op", "info_p", &type, NULL), NIXL_E_INVALID_ARG));
}

Test(struct, least_size_that_is_named_is_allowed)
{
    struct thing theirs = {0, 1, 2, 3};
    const struct nxr_struct_type odd = {
        .name = "struct thing", .initializer = "THING_INIT", .nbytes = 32, .smallest = 20};

    cr_expect(eq(int, nxr_struct_check("op", "info_p", &odd, &theirs), NIXL_E_INVALID_ARG));
    cr_expect(ne(ptr, strstr(nixl_last_error()->text, "from 24 to 4096"), NULL), "%s",
              nixl_last_error()->text);
    theirs.struct_nbytes = 24;
    cr_expect(eq(int, nxr_struct_check("op", "info_p", &odd, &theirs), NIXL_OK));
}

Test(struct, stride_of_an_array_is_the_size_of_its_entries)
{
    struct newer_thing newer[3] = {{{sizeof(*newer), 1, 2, 3}, {0, 0}},
                                   {{sizeof(*newer), 4, 5, 6}, {0, 0}},
                                   {{sizeof(struct thing), 7, 8, 9}, {0, 0}}};
    struct thing same[2] = {{sizeof(*same), 1, 2, 3}, {sizeof(*same), 4, 5, 6}}, ours;
    uint64_t older[2][3] = {{OLDER_NBYTES, 1, 2}, {OLDER_NBYTES, 4, 5}};

    cr_expect(eq(int, nxr_struct_read_entry("op", "local", &type, same, 1, &ours), NIXL_OK));
    cr_expect(eq(u64, ours.third, 6));
    cr_expect(eq(int, nxr_struct_read_entry("op", "local", &type, older, 1, &ours), NIXL_OK));
    cr_expect(eq(u64, ours.second, 5));
    cr_expect(eq(u64, ours.third, 0));
    cr_expect(eq(int, nxr_struct_read_entry("op", "local", &type, newer, 1, &ours), NIXL_OK));
    cr_expect(eq(u64, ours.third, 6));
    cr_expect(
        eq(int, nxr_struct_read_entry("op", "local", &type, newer, 2, &ours), NIXL_E_INVALID_ARG));
    cr_expect(ne(ptr, strstr(nixl_last_error()->text, "local entry 2"), NULL));
    newer[1].added[0] = 1;
    cr_expect(
        eq(int, nxr_struct_read_entry("op", "local", &type, newer, 1, &ours), NIXL_E_UNSUPPORTED));
}

Test(struct, outputs_stay_within_the_size_of_the_caller)
{
    const struct thing ours = {sizeof(ours), 1, 2, 3};
    struct newer_thing newer = {{sizeof(newer), 0, 0, 0}, {7, 7}};
    struct thing older = {OLDER_NBYTES, 0, 0, 7}, same = {sizeof(same), 0, 0, 0};

    nxr_struct_write(&type, &ours, &same);
    cr_expect(eq(u64, same.third, 3));
    nxr_struct_write(&type, &ours, &older);
    cr_expect(eq(sz, older.struct_nbytes, OLDER_NBYTES));
    cr_expect(eq(u64, older.second, 2));
    cr_expect(eq(u64, older.third, 7), "written beyond the caller's size");
    nxr_struct_write(&type, &ours, &newer);
    cr_expect(eq(sz, newer.known.struct_nbytes, sizeof(newer)));
    cr_expect(eq(u64, newer.known.third, 3));
    cr_expect(eq(u64, newer.added[0] + newer.added[1], 0));
}
