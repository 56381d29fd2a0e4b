/* SPDX-License-Identifier: Apache-2.0 */
/* The limits between the algorithms of collectives: the variable, the file, and what is refused. */
#include "util/coll_table.h"
#include "nixlrun.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(coll_table, .timeout = 60);

static char why[256];

static int read_text(const char *text, size_t n_ranks, struct nxr_coll_table *table)
{
    why[0] = '\0';
    return nxr_coll_table_read(text, strlen(text), n_ranks, table, why, sizeof(why));
}

/* INVALID_ARG, a line that has both words, and the table as it was. */
static void refused(const char *text, const char *line, const char *allowed)
{
    struct nxr_coll_table table = nxr_coll_table, before = table;

    cr_expect(eq(int, read_text(text, 4, &table), NIXL_E_INVALID_ARG), "'%s' is taken", text);
    cr_expect(strstr(why, line) == why, "'%s' does not begin with '%s'", why, line);
    cr_expect(strstr(why, allowed) != NULL, "'%s' lacks '%s'", why, allowed);
    cr_expect(memcmp(&table, &before, sizeof(table)) == 0, "'%s' has changed the table", text);
}

Test(coll_table, a_line_is_a_comment_a_section_or_a_limit)
{
    struct nxr_coll_table table = nxr_coll_table;

    cr_assert(eq(int, read_text("", 4, &table), NIXL_OK));
    cr_assert(eq(int, read_text("\n# ranks 0\n\t\r\n", 4, &table), NIXL_OK));
    cr_expect(memcmp(&table, &nxr_coll_table, sizeof(table)) == 0);
    cr_assert(eq(int, read_text("  cells_up_to=1024 \r\nflat_up_to=2\n\tring_from=77", 4, &table),
                 NIXL_OK));
    cr_expect(eq(sz, table.cells_up_to, 1024));
    cr_expect(eq(sz, table.flat_up_to, 2));
    cr_expect(eq(sz, table.ring_from, 77));
    cr_expect(eq(sz, table.chain_from, nxr_coll_table.chain_from));
}

Test(coll_table, the_largest_section_that_fits_counts)
{
    static const char text[] = "cells_up_to=100\nflat_up_to=3\nranks 8\ncells_up_to=800\n"
                               "ranks 4\ncells_up_to=400\nranks  8\nflat_up_to=8\n"
                               "ranks 4\ncells_up_to=401\n";
    static const struct {
        size_t n_ranks, cells, flat;
    } wanted[] = {{1, 100, 3}, {3, 100, 3}, {4, 401, 3}, {7, 401, 3}, {8, 800, 8}, {900, 800, 8}};

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        struct nxr_coll_table table = nxr_coll_table;

        cr_assert(eq(int, read_text(text, wanted[i].n_ranks, &table), NIXL_OK));
        cr_expect(eq(sz, table.cells_up_to, wanted[i].cells), "%zu ranks", wanted[i].n_ranks);
        cr_expect(eq(sz, table.flat_up_to, wanted[i].flat), "%zu ranks", wanted[i].n_ranks);
    }
}

Test(coll_table, bad_lines_are_named)
{
    refused("# fine\ncells_up_to=63\n", "line 2 has 'cells_up_to=63'", "cells_up_to=64 to ");
    refused("cells_up_to=99999999999999999999999", "line 1 has", "cells_up_to=64 to ");
    refused("cells_up_to=", "line 1 has 'cells_up_to='", "cells_up_to=64 to ");
    refused("cells_up_to = 64", "line 1 has", "the limits are cells_up_to flat_up_to");
    refused("cells_up_to=64k", "line 1 has", "cells_up_to=64 to ");
    refused("cells=64", "line 1 has 'cells=64'", "the limits are cells_up_to flat_up_to");
    refused("\xef\xbb\xbf"
            "flat_up_to=3",
            "line 1 has '???flat_up_to=3'", "the limits are cells_up_to flat_up_to");
    refused("a\x1b\x7f\x9b=1",
            "line 1 has 'a??"
            "?=1'",
            "the limits are cells_up_to flat_up_to");
    refused("ranks 4\nflat_up_to=16\nranks\n", "line 3 has 'ranks'", "ranks 1 to ");
    refused("ranks 0", "line 1 has 'ranks 0'", "ranks 1 to ");
    refused("ranks 4x", "line 1 has", "ranks 1 to ");
    refused("ranks 123456789", "line 1 has", "ranks 1 to ");
    refused("ranks 900\ncells_up_to=1\n", "line 2 has", "cells_up_to=64 to ");
}

Test(coll_table, a_file_stands_below_the_variable)
{
    char path[] = "/tmp/nixlrun-coll-table.XXXXXX";
    struct nxr_coll_table before = nxr_coll_table;
    uint64_t hash = nxr_coll_table_hash();
    int fd = mkstemp(path);

    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, dprintf(fd, "cells_up_to=256\nflat_up_to=4\n") > 0, 1));
    cr_assert(eq(int, nxr_coll_table_set(path, 4, "flat_up_to=5", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(sz, nxr_coll_table.cells_up_to, 256));
    cr_expect(eq(sz, nxr_coll_table.flat_up_to, 5));
    cr_expect(ne(u64, nxr_coll_table_hash(), hash));
    cr_assert(eq(int, nxr_coll_table_set("", 4, "", why, sizeof(why)), NIXL_OK));
    cr_expect(memcmp(&before, &nxr_coll_table, sizeof(before)) == 0);
    cr_expect(eq(u64, nxr_coll_table_hash(), hash));
    cr_assert(eq(int, dprintf(fd, "what\n") > 0, 1));
    cr_assert(eq(int, nxr_coll_table_set(path, 4, "", why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, path) != NULL && strstr(why, "line 3 has 'what'") != NULL, "%s", why);
    close(fd);
    unlink(path);
    cr_assert(eq(int, nxr_coll_table_set(path, 4, "", why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, path) != NULL, "%s", why);
    cr_expect(memcmp(&before, &nxr_coll_table, sizeof(before)) == 0);
}

Test(coll_table, what_is_no_file_is_refused_at_once)
{
    struct nxr_coll_table table = nxr_coll_table;
    char directory[] = "/tmp/coll_table.XXXXXX", path[64];

    cr_assert(ne(ptr, mkdtemp(directory), NULL));
    snprintf(path, sizeof(path), "%s/pipe", directory);
    cr_assert(eq(int, mkfifo(path, 0600), 0));
    cr_expect(eq(int, nxr_coll_table_load(path, 4, &table, why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, "not a regular file") != NULL, "%s", why);
    cr_expect(
        eq(int, nxr_coll_table_load(directory, 4, &table, why, sizeof(why)), NIXL_E_INVALID_ARG));
    unlink(path);
    rmdir(directory);
}

/* The largest file that is read, and one that has a byte more; all but a limit is blanks. */
Test(coll_table, a_file_has_a_largest_size)
{
    enum { MOST = 64 << 10 };
    char path[] = "/tmp/nixlrun-coll-table.XXXXXX";
    struct nxr_coll_table table = nxr_coll_table;
    int fd = mkstemp(path), n;

    cr_assert(ge(int, fd, 0));
    n = dprintf(fd, "flat_up_to=6\n");
    cr_assert(eq(int, dprintf(fd, "%*s", MOST - n, ""), MOST - n));
    cr_expect(eq(int, nxr_coll_table_load(path, 4, &table, why, sizeof(why)), NIXL_OK), "%s", why);
    cr_expect(eq(sz, table.flat_up_to, 6));
    cr_assert(eq(int, dprintf(fd, " "), 1));
    cr_expect(eq(int, nxr_coll_table_load(path, 4, &table, why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, strerror(EFBIG)) != NULL, "%s", why);
    close(fd);
    unlink(path);
}
