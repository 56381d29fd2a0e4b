/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what comes out is what went in, wherever an engine breaks the lines between. */
#include "config.h"

#include "launcher/frame.h"

#include "test/unit/unit.h"
#include <stdlib.h>
#include <string.h>

enum { WIRE_NBYTES = 64 * 1024, PIECE_MOST_NBYTES = 1100 };

TestSuite(frame, .timeout = 60);

/* A growing text of a fixed room. */
struct text {
    char data[WIRE_NBYTES];
    size_t used;
};

static void add(struct text *text, const char *data, size_t nbytes)
{
    cr_assert(le(sz, text->used + nbytes, sizeof(text->data)));
    memcpy(text->data + text->used, data, nbytes);
    text->used += nbytes;
}

static void write_frames(struct text *wire, enum frame_kind kind, const char *data, size_t nbytes)
{
    char frame[FRAME_MOST_NBYTES];
    size_t taken;

    for (; nbytes > 0; data += taken, nbytes -= taken) {
        size_t used = frame_write(kind, data, nbytes, frame, &taken);

        cr_assert(gt(sz, taken, 0));
        cr_assert(le(sz, used, sizeof(frame)));
        cr_assert(eq(ptr, memchr(frame, '\n', used), frame + used - 1), "it is not one line");
        cr_assert(eq(ptr, memchr(frame, '[', used), NULL), "an engine may take it for a tag");
        add(wire, frame, used);
    }
}

/* What a reader has made of a wire. */
struct heard {
    struct frame_reader reader;
    struct text output, report;
    int n_reports;
};

static void hear(struct heard *heard, const char *data, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        char c = data[i];

        switch (frame_read(&heard->reader, &c)) {
        case FRAME_IS_OUTPUT:
            add(&heard->output, &c, 1);
            break;
        case FRAME_IS_REPORT_START:
            heard->report.used = 0;
            break;
        case FRAME_IS_REPORT:
            add(&heard->report, &c, 1);
            break;
        case FRAME_IS_REPORT_END:
            heard->n_reports++;
            break;
        case FRAME_IS_NOTHING:
            break;
        }
    }
}

/* Hear it as srun passes it on: messages of some bytes, and each ends with a newline. */
static void hear_broken(struct heard *heard, const struct text *wire, size_t piece_nbytes)
{
    *heard = (struct heard){.n_reports = 0};
    for (size_t at = 0; at < wire->used; at += piece_nbytes) {
        size_t nbytes = wire->used - at < piece_nbytes ? wire->used - at : piece_nbytes;

        hear(heard, wire->data + at, nbytes);
        if (wire->data[at + nbytes - 1] != '\n') {
            hear(heard, "\n", 1);
        }
    }
}

static bool is_same(const struct text *text, const char *data, size_t nbytes)
{
    return text->used == nbytes && memcmp(text->data, data, nbytes) == 0;
}

Test(frame, text_is_the_same_wherever_an_engine_breaks_lines)
{
    enum { N = 7000 };
    static struct text wire;
    static struct heard heard;
    char text[N];

    srand(1);
    for (int i = 0; i < N; i++) {
        text[i] = "ab\n[]\020.nodr"[rand() % 12];
    }
    text[N - 1] = 'x'; /* the last line has no newline */
    write_frames(&wire, FRAME_OUTPUT, text, N);
    for (size_t piece = 1; piece < PIECE_MOST_NBYTES; piece++) {
        hear_broken(&heard, &wire, piece);
        cr_assert(is_same(&heard.output, text, N), "in pieces of %zu bytes", piece);
        cr_assert(eq(int, heard.n_reports, 0));
    }
}

Test(frame, a_line_is_the_same_though_it_goes_in_many_writes)
{
    static struct text wire;
    static struct heard heard;

    for (int i = 0; i < 500; i++) {
        write_frames(&wire, FRAME_OUTPUT, "part ", 5);
    }
    write_frames(&wire, FRAME_OUTPUT, "\n\n", 2);
    for (size_t piece = 1; piece < PIECE_MOST_NBYTES; piece++) {
        hear_broken(&heard, &wire, piece);
        cr_assert(eq(sz, heard.output.used, 2502), "in pieces of %zu bytes", piece);
        cr_assert(eq(ptr, memchr(heard.output.data, '\n', 2502), heard.output.data + 2500));
    }
}

Test(frame, a_report_is_whole_and_no_output_is_taken_for_one)
{
    static const char report[] = "3 a[host] 17 e 0", fake[] = "\020r3 host 17 e 0\020.\n";
    static struct text wire;
    static struct heard heard;

    write_frames(&wire, FRAME_OUTPUT, "half ", 5);
    write_frames(&wire, FRAME_REPORT, report, sizeof(report) - 1);
    write_frames(&wire, FRAME_OUTPUT, fake, sizeof(fake) - 1);
    for (size_t piece = 1; piece < PIECE_MOST_NBYTES; piece++) {
        hear_broken(&heard, &wire, piece);
        cr_assert(eq(int, heard.n_reports, 1), "in pieces of %zu bytes", piece);
        cr_assert(is_same(&heard.report, report, sizeof(report) - 1));
        cr_assert(eq(sz, heard.output.used, 5 + sizeof(fake) - 1));
    }
}

Test(frame, text_outside_of_frames_keeps_its_newlines)
{
    static const char text[] = "cannot run it:\n\nno such file\n";
    static struct text wire;
    static struct heard heard;

    hear(&heard, text, sizeof(text) - 1);
    write_frames(&wire, FRAME_OUTPUT, "a\n", 2);
    hear(&heard, wire.data, wire.used);
    hear(&heard, "killed\n", 7);
    cr_expect(eq(sz, heard.output.used, sizeof(text) - 1 + 2 + 7));
    cr_expect(eq(int, memcmp(heard.output.data + sizeof(text) - 1, "a\nkilled\n", 9), 0));
}
