/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options: what is taken, what is refused, and what is left alone then. */
#include "config.h"

#include "launcher/textfile.h"
#include "launcher/values.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(values, .timeout = 120);

static void takes_count(const char *text, int wanted)
{
    int value = -7;

    cr_expect(eq(int, value_count(text, 0, INT_MAX, &value), 0), "'%s' is refused", text);
    cr_expect(eq(int, value, wanted), "'%s'", text);
}

static void refuses_count(const char *text)
{
    int value = -7;

    cr_expect(eq(int, value_count(text, 1, 100, &value), -1), "'%s' is taken", text);
    cr_expect(eq(int, value, -7), "'%s' has changed the output", text);
}

Test(values, counts_are_whole_and_within_limits)
{
    takes_count("0", 0);
    takes_count("007", 7);
    takes_count("2147483647", INT_MAX);
    refuses_count("");
    refuses_count("0");
    refuses_count("101");
    refuses_count("-1");
    refuses_count("+1");
    refuses_count(" 1");
    refuses_count("1 ");
    refuses_count("1.0");
    refuses_count("0x1");
    refuses_count("4294967297");
    refuses_count("18446744073709551617");
    refuses_count("99999999999999999999999999999999999999");
}

static void takes_time(const char *text, int64_t wanted)
{
    int64_t ns = -7;

    cr_expect(eq(int, value_time(text, &ns), 0), "'%s' is refused", text);
    cr_expect(eq(i64, ns, wanted), "'%s'", text);
}

static void refuses_time(const char *text)
{
    int64_t ns = -7;

    cr_expect(eq(int, value_time(text, &ns), -1), "'%s' is taken", text);
    cr_expect(eq(i64, ns, -7), "'%s' has changed the output", text);
}

Test(values, times_have_units_and_fractions)
{
    takes_time("0", 0);
    takes_time("10", 10 * NXR_S);
    takes_time("1.5", 3 * NXR_S / 2);
    takes_time("1.5s", 3 * NXR_S / 2);
    takes_time("250ms", 250 * NXR_MS);
    takes_time("0.5us", 500);
    takes_time("2m", 120 * NXR_S);
    takes_time("1.25h", 4500 * NXR_S);
    takes_time("0.000000001", 1);
    takes_time("0.0000000009", 0);
    takes_time("9223372036.854775807", INT64_MAX);
}

Test(values, bad_times_are_refused)
{
    refuses_time("");
    refuses_time(".");
    refuses_time(".5");
    refuses_time("5.");
    refuses_time("5.s");
    refuses_time("1.2.3");
    refuses_time("-1");
    refuses_time("+1");
    refuses_time("1 s");
    refuses_time("s");
    refuses_time("1S");
    refuses_time("1d");
    refuses_time("1e3");
    refuses_time("0x1");
    refuses_time("inf");
    refuses_time("nan");
    refuses_time("9223372036.854775808");
    refuses_time("9223372037");
    refuses_time("2562048h");
    refuses_time("99999999999999999999999999999999999999");
}

Test(values, words_are_found_whole)
{
    cr_expect(eq(int, value_word("core", "none core numa"), 1));
    cr_expect(eq(int, value_word("numa", "none core numa"), 2));
    cr_expect(eq(int, value_word("cor", "none core numa"), -1));
    cr_expect(eq(int, value_word("cores", "none core numa"), -1));
    cr_expect(eq(int, value_word("core numa", "none core numa"), -1));
    cr_expect(eq(int, value_word("", "none core numa"), -1));
    cr_expect(eq(int, value_word("", ""), -1));
}

static void nearest_is(const char *text, const char *list, const char *wanted)
{
    char nearest[VALUE_WORD_NBYTES] = "";

    value_nearest(text, list, value_near(text), nearest);
    cr_expect(eq(str, nearest, (char *)wanted), "'%s'", text);
}

Test(values, the_nearest_word_is_near)
{
    nearest_is("timout", "tag-output timeout", "timeout");
    nearest_is("tag", "timeout tag-output", "tag-output");
    nearest_is("xyzzy", "timeout tag-output", "");
    nearest_is("q", "n x", "");
    nearest_is("", "n x", "");
}

Test(values, shown_values_are_short_and_on_one_line)
{
    char shown[VALUE_SHOWN_NBYTES], text[5001];

    cr_expect(strcmp(value_show("a b", shown), "'a b'") == 0, "%s", shown);
    cr_expect(strcmp(value_show("", shown), "''") == 0, "%s", shown);
    cr_expect(strcmp(value_show("a\n\x1b[m\x7f", shown), "'a\\x0a\\x1b[m\\x7f'") == 0, "%s", shown);
    for (size_t nbytes = 0; nbytes < sizeof(text) - 1; nbytes++) {
        text[nbytes] = nbytes % 2 == 0 ? 'a' : '\n';
        text[nbytes + 1] = '\0';
        cr_assert(lt(sz, strlen(value_show(text, shown)), (size_t)VALUE_SHOWN_NBYTES));
        cr_assert(eq(chr, shown[strlen(shown) - 1], '\''));
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *count_line(char *line, void *arg)
{
    ++*(int *)arg;
    return strcmp(line, "bad") == 0 ? "is bad" : NULL;
}

Test(values, a_file_is_read_whole_and_given_back)
{
    char path[] = "/tmp/nixlrun-values.XXXXXX", cause[TEXTFILE_CAUSE_NBYTES];
    int fd = mkstemp(path), n_lines = 0, status = 0;
    size_t used[3];

    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, (int)write(fd, "a\nb\nbad\nc\n", 10), 10));
    for (int i = 0; i < 3; i++) {
        n_lines = 0;
        status = textfile_read(path, count_line, &n_lines, cause);
        used[i] = mallinfo2().uordblks + mallinfo2().hblkhd;
    }
    cr_expect(eq(int, status, -1));
    cr_expect(eq(int, n_lines, 3));
    cr_expect(ne(ptr, strstr(cause, "3"), NULL), "'%s' names the line", cause);
    cr_expect(eq(sz, used[2], used[1]));
    close(fd);
    unlink(path);
    cr_expect(eq(int, textfile_read(path, count_line, &n_lines, cause), -1));
}

/* ---- closing a file that was written --------------------------------------------------------- */

/* A disk that takes so many bytes, and then fails, perhaps only when the file is closed. */
struct disk {
    size_t room;
    bool fails_late;
};

static ssize_t disk_write(void *cookie, const char *bytes, size_t nbytes)
{
    struct disk *disk = cookie;

    (void)bytes;
    if (nbytes > disk->room) {
        errno = ENOSPC;
        return 0;
    }
    disk->room -= nbytes;
    return (ssize_t)nbytes;
}

static int disk_close(void *cookie)
{
    const struct disk *disk = cookie;

    errno = EDQUOT;
    return disk->fails_late ? -1 : 0;
}

static int written_to(struct disk disk, int n_lines)
{
    FILE *file =
        fopencookie(&disk, "w", (cookie_io_functions_t){.write = disk_write, .close = disk_close});

    for (int i = 0; i < n_lines; i++) {
        fputs("a line that is long enough to fill a buffer at some time\n", file);
    }
    return textfile_close(file);
}

Test(values, a_file_is_written_only_if_its_close_succeeds)
{
    cr_expect(eq(int, written_to((struct disk){.room = 1 << 20}, 1000), 0));
    cr_expect(eq(int, written_to((struct disk){.room = 1000}, 1000), ENOSPC));
    cr_expect(eq(int, written_to((struct disk){.room = 10}, 1), ENOSPC));
    cr_expect(eq(int, written_to((struct disk){.room = 1 << 20, .fails_late = true}, 1), EDQUOT));
}
