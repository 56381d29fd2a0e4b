/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tags that engines put before the output of ranks. Open MPI and PRRTE tag what they get
 * from one read, not lines: if a rank's text stops in mid-line, that of another follows in the same
 * line, with a tag of its own. So one line may have several pieces, and a rank's line may be spread
 * over several lines. Any text that looks like a tag is taken for one; output of ranks never does
 * (frame.h).
 */
#include "config.h"

#include "launcher/tagged.h"
#include "launcher/xalloc.h"

#include <ctype.h>

enum { TEXT_MOST_NBYTES = 1 << 20, NAME_MOST_NBYTES = 300 };

/* A rank in digits that end at `end_p`; -1: no rank of the job. */
static int read_rank(const struct tagged *tagged, const char *at, const char *end,
                     const char **end_p)
{
    long rank = 0;

    if (at == end || !isdigit((unsigned char)*at)) {
        return -1;
    }
    for (; at < end && isdigit((unsigned char)*at) && rank < tagged->n_ranks; at++) {
        rank = rank * 10 + (*at - '0');
    }
    *end_p = at;
    return rank < tagged->n_ranks ? (int)rank : -1;
}

/* "  3: " at the start of a line. Returns where the text begins, or NULL. */
static const char *read_label(const struct tagged *tagged, const char *at, const char *end,
                              int *rank_p)
{
    const char *behind;

    while (at < end && *at == ' ') {
        at++;
    }
    *rank_p = read_rank(tagged, at, end, &behind);
    if (*rank_p < 0 || behind == end || *behind != ':') {
        return NULL;
    }
    behind++;
    return behind < end && *behind == ' ' ? behind + 1 : behind;
}

/* "[job,3]<stdout>:" anywhere. Returns where the text begins, or NULL. */
static const char *read_bracket(const struct tagged *tagged, const char *at, const char *end,
                                int *rank_p)
{
    static const char *const channels[] = {"]<stdout>:", "]<stderr>:", "]<stddiag>:"};
    const char *most = end - at > NAME_MOST_NBYTES ? at + NAME_MOST_NBYTES : end;
    const char *behind;

    for (at++; at < most && *at != ',' && isgraph((unsigned char)*at) && *at != '['; at++) {
    }
    if (at == most || *at != ',') {
        return NULL;
    }
    *rank_p = read_rank(tagged, at + 1, end, &behind);
    for (size_t i = 0; *rank_p >= 0 && i < sizeof(channels) / sizeof(channels[0]); i++) {
        size_t nbytes = strlen(channels[i]);

        if ((size_t)(end - behind) >= nbytes && memcmp(behind, channels[i], nbytes) == 0) {
            behind += nbytes;
            return tagged->tags == TAGS_BRACKET_BLANK && behind < end && *behind == ' ' ? behind + 1
                                                                                        : behind;
        }
    }
    return NULL;
}

static void give(const struct tagged *tagged, int rank, const char *text, const char *end)
{
    if (end > text) {
        tagged->piece_fn(tagged->arg, rank, text, (size_t)(end - text));
    }
}

/* One line with its newline, or the rest of the stream. */
static void tagged_read_line(const struct tagged *tagged, const char *line, const char *end)
{
    const char *text = line, *at = line, *next;
    int rank = -1, found;

    if (tagged->tags == TAGS_LABEL) {
        next = read_label(tagged, line, end, &found);
        give(tagged, next != NULL ? found : -1, next != NULL ? next : line, end);
        return;
    }
    while ((at = memchr(at, '[', (size_t)(end - at))) != NULL) {
        next = read_bracket(tagged, at, end, &found);
        if (next != NULL) {
            give(tagged, rank, text, at);
            rank = found;
            text = next;
        }
        at = next != NULL ? next : at + 1;
    }
    give(tagged, rank, text, end);
}

static void read_lines(struct tagged *tagged, size_t nbytes)
{
    const char *at = tagged->text, *end = tagged->text + nbytes;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline != NULL ? newline + 1 : end;

        tagged_read_line(tagged, at, next);
        at = next;
    }
    tagged->used -= nbytes;
    memmove(tagged->text, tagged->text + nbytes, tagged->used);
}

void tagged_feed(struct tagged *tagged, const char *data, size_t nbytes)
{
    const char *newline;

    if (tagged->room < tagged->used + nbytes) {
        tagged->room = (tagged->used + nbytes) * 2;
        tagged->text = x_array(tagged->text, tagged->room, 1);
    }
    memcpy(tagged->text + tagged->used, data, nbytes);
    tagged->used += nbytes;
    newline = memrchr(tagged->text + tagged->used - nbytes, '\n', nbytes);
    if (newline != NULL) {
        read_lines(tagged, (size_t)(newline + 1 - tagged->text));
    } else if (tagged->used >= TEXT_MOST_NBYTES) {
        read_lines(tagged, tagged->used);
    }
}

void tagged_end(struct tagged *tagged)
{
    if (tagged->used > 0) {
        read_lines(tagged, tagged->used);
    }
    free(tagged->text);
    tagged->text = NULL;
    tagged->room = 0;
}
