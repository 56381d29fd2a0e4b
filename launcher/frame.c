/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads frames. The reader takes bytes in any pieces. Newlines inside a frame and
 * between two frames are the engine's; text that did not come through nixlrun-rank, such as a
 * message of the engine under a rank's tag, keeps its newlines.
 */
#include "config.h"

#include "launcher/frame.h"

/* The code of a byte that must not appear in a frame, or 0. */
static char frame_code(char c)
{
    switch (c) {
    case '\n':
        return FRAME_NEWLINE;
    case '[':
        return FRAME_BRACKET;
    case FRAME_ESCAPE:
        return FRAME_IS_ESCAPE;
    default:
        return 0;
    }
}

size_t frame_write(enum frame_kind kind, const char *text, size_t nbytes,
                   char frame[FRAME_MOST_NBYTES], size_t *taken_p)
{
    enum { BYTE_MOST_NBYTES = 2, END_NBYTES = 3 };
    size_t used = 0, i;

    frame[used++] = FRAME_ESCAPE;
    frame[used++] = (char)kind;
    for (i = 0; i < nbytes && used + BYTE_MOST_NBYTES + END_NBYTES <= FRAME_MOST_NBYTES; i++) {
        char code = frame_code(text[i]);

        if (code != 0) {
            frame[used++] = FRAME_ESCAPE;
        }
        frame[used++] = code != 0 ? code : text[i];
    }
    frame[used++] = FRAME_ESCAPE;
    frame[used++] = FRAME_END;
    frame[used++] = '\n';
    *taken_p = i;
    return used;
}

/* The byte after FRAME_ESCAPE. */
static enum frame_meaning read_escaped(struct frame_reader *reader, char *c)
{
    char kind = reader->kind;

    switch (*c) {
    case FRAME_OUTPUT:
    case FRAME_REPORT:
        reader->kind = *c;
        return *c == FRAME_REPORT ? FRAME_IS_REPORT_START : FRAME_IS_NOTHING;
    case FRAME_END:
        reader->kind = 0;
        reader->is_ended = true;
        return kind == FRAME_REPORT ? FRAME_IS_REPORT_END : FRAME_IS_NOTHING;
    case FRAME_NEWLINE:
        *c = '\n';
        break;
    case FRAME_BRACKET:
        *c = '[';
        break;
    default:
        *c = FRAME_ESCAPE;
        break;
    }
    return kind == FRAME_REPORT ? FRAME_IS_REPORT : FRAME_IS_OUTPUT;
}

enum frame_meaning frame_read(struct frame_reader *reader, char *c)
{
    if (*c == '\n' && (reader->kind != 0 || reader->is_escaped || reader->is_ended)) {
        return FRAME_IS_NOTHING;
    }
    reader->is_ended = false;
    if (reader->is_escaped) {
        reader->is_escaped = false;
        return read_escaped(reader, c);
    }
    if (*c == FRAME_ESCAPE) {
        reader->is_escaped = true;
        return FRAME_IS_NOTHING;
    }
    return reader->kind == FRAME_REPORT ? FRAME_IS_REPORT : FRAME_IS_OUTPUT;
}
