/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as text and as JSON: alignment, kinds of cells, bytes that neither may have. */
#include "launcher/table.h"

#include "test/unit/unit.h"
#include <stdlib.h>
#include <string.h>

static const struct table_column columns[] = {
    {"name", "name", TABLE_TEXT},
    {"size_nbytes", "bytes", TABLE_NUMBER},
    {"is_up", "up", TABLE_FLAG},
    {NULL, NULL, TABLE_TEXT},
};
static struct table tables[2];
static char *written;
static size_t written_nbytes;

static void make_tables(void)
{
    tables[0] = (struct table){.name = "first", .columns = columns};
    tables[1] = (struct table){.name = "second", .columns = columns};
}

static void drop_tables(void)
{
    table_free(&tables[0]);
    table_free(&tables[1]);
    free(written);
    written = NULL;
}

/* What the first table looks like, under the head "tool 1". */
static const char *print(bool is_json)
{
    struct table_writer writer = {.is_json = is_json};

    free(written);
    writer.out = open_memstream(&written, &written_nbytes);
    cr_assert(writer.out != NULL);
    table_begin(&writer, "tool", "1");
    table_write(&writer, &tables[0], "none");
    table_end(&writer);
    fclose(writer.out);
    return written;
}

static void add(const char *name, const char *size, const char *is_up)
{
    table_add(&tables[0], (const char *const[]){name, size, is_up});
}

static void same(const char *got, const char *wanted)
{
    cr_expect(eq(str, (char *)got, (char *)wanted));
}

/* How one text comes out in JSON. */
static void json_is(const char *text, const char *json)
{
    char wanted[256];

    table_free(&tables[0]);
    add(text, "", "");
    snprintf(wanted, sizeof(wanted),
             "{\n  \"tool\": \"1\",\n  \"first\": [\n    {\"name\": \"%s\", \"size_nbytes\": null, "
             "\"is_up\": null}\n  ]\n}\n",
             json);
    same(print(true), wanted);
}

TestSuite(table, .init = make_tables, .fini = drop_tables, .timeout = 120);

Test(table, empty_ones_are_told)
{
    same(print(false), "tool 1\n\nfirst\n  none\n");
    same(print(true), "{\n  \"tool\": \"1\",\n  \"first\": []\n}\n");
}

Test(table, text_is_aligned)
{
    add("a", "7", "yes");
    add("longer", "1234567", "");
    add("gr\303\274n", NULL, "no");
    add(NULL, "1", NULL);
    same(print(false), "tool 1\n\nfirst\n"
                       "  name      bytes  up\n"
                       "  a             7  yes\n"
                       "  longer  1234567\n"
                       "  gr\303\274n             no\n"
                       "                1\n");
}

Test(table, cells_have_their_kinds_in_json)
{
    add("a", "7", "yes");
    add("b", "0", "no");
    add("c", "-1", NULL);
    add("d", "007", "");
    same(print(true), "{\n  \"tool\": \"1\",\n  \"first\": [\n"
                      "    {\"name\": \"a\", \"size_nbytes\": 7, \"is_up\": true},\n"
                      "    {\"name\": \"b\", \"size_nbytes\": 0, \"is_up\": false},\n"
                      "    {\"name\": \"c\", \"size_nbytes\": null, \"is_up\": null},\n"
                      "    {\"name\": \"d\", \"size_nbytes\": null, \"is_up\": null}\n"
                      "  ]\n}\n");
}

Test(table, texts_are_escaped_in_json)
{
    json_is("say \"a\\b\"", "say \\\"a\\\\b\\\"");
    json_is("\001\t\n\033\177", "\\u0001\\u0009\\u000a\\u001b\\u007f");
    json_is("\303\274 \342\202\254 \360\237\230\200", "\303\274 \342\202\254 \360\237\230\200");
}

/* Not UTF-8: cut, too long, surrogates, beyond the last character. */
Test(table, bytes_that_are_no_text_are_replaced_in_json)
{
    json_is("a\377b", "a\\ufffdb");
    json_is("\303", "\\ufffd");
    json_is("\342\202", "\\ufffd\\ufffd");
    json_is("\300\200", "\\ufffd\\ufffd");
    json_is("\340\200\200", "\\ufffd\\ufffd\\ufffd");
    json_is("\355\240\200", "\\ufffd\\ufffd\\ufffd");
    json_is("\364\220\200\200", "\\ufffd\\ufffd\\ufffd\\ufffd");
    json_is("\365\200", "\\ufffd\\ufffd");
}

Test(table, text_has_no_control_characters)
{
    add("\033[31m\n", "", "");
    same(print(false), "tool 1\n\nfirst\n  name    bytes  up\n  ?[31m?\n");
}

Test(table, lines_are_rows_of_the_table_that_they_name)
{
    char good[] = "second\tx\t5\tyes", other[] = "third\tx\t5\tyes", few[] = "first\tx\t5";
    char many[] = "first\tx\t5\tyes\t", none[] = "", name[] = "first";

    cr_expect(table_add_line(tables, 2, good));
    cr_assert(eq(sz, tables[1].n_rows, 1));
    same(tables[1].rows[0][0], "x");
    same(tables[1].rows[0][2], "yes");
    cr_expect(not(table_add_line(tables, 2, other)));
    cr_expect(not(table_add_line(tables, 2, few)));
    cr_expect(not(table_add_line(tables, 2, many)));
    cr_expect(not(table_add_line(tables, 2, none)));
    cr_expect(not(table_add_line(tables, 2, name)));
    cr_expect(eq(sz, tables[0].n_rows, 0));
}

Test(table, cells_of_lines_have_no_borders)
{
    char text[] = "a\tb\nc";

    same(table_cell(text), "a b c");
}
