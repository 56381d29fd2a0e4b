/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: how nixlrun-rank passes text through an engine. A frame is one engine line of at most
 * FRAME_MOST_NBYTES: FRAME_ESCAPE, its kind, the text, FRAME_ESCAPE, FRAME_END and a newline. Its
 * text has no newline, no '[' (some engines' tags begin with it) and no other FRAME_ESCAPE: they
 * are encoded. Engines break long lines (srun) and lose text if many short lines need many tags
 * (Open MPI 4.1); frames avoid both in most cases. If srun breaks one nevertheless, with a newline
 * and a label in the middle, the reader drops that newline.
 */
#ifndef NIXLRUN_LAUNCHER_FRAME_H
#define NIXLRUN_LAUNCHER_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#define FRAME_ESCAPE      '\020' /* the byte behind it is one of the following, or a kind */
#define FRAME_NEWLINE     'n'
#define FRAME_BRACKET     'b'
#define FRAME_IS_ESCAPE   'd' /* the escape itself */
#define FRAME_END         '.'
#define FRAME_MOST_NBYTES 900

enum frame_kind {
    FRAME_OUTPUT = 'o', /* what the rank has written */
    FRAME_REPORT = 'r'  /* a report, always whole in one frame */
};

/*
 * Write one frame with as much of the text as fits. Returns its size; *taken_p is the number of
 * bytes of the text in it.
 */
size_t frame_write(enum frame_kind kind, const char *text, size_t nbytes,
                   char frame[FRAME_MOST_NBYTES], size_t *taken_p);

/* One stream of a rank, as its engine delivers it. Zero at first. */
struct frame_reader {
    char kind;       /* of the frame that has begun; 0: none */
    bool is_escaped; /* the last byte was FRAME_ESCAPE */
    bool is_ended;   /* nothing but newlines has arrived since the last frame */
};

enum frame_meaning {
    FRAME_IS_NOTHING, /* the byte belongs to the frame or to the engine */
    FRAME_IS_OUTPUT,  /* *c is a byte of the rank's output, or of text outside of frames */
    FRAME_IS_REPORT_START,
    FRAME_IS_REPORT,     /* *c is a byte of a report */
    FRAME_IS_REPORT_END, /* the report is complete */
};

/* Take the next byte. */
enum frame_meaning frame_read(struct frame_reader *reader, char *c);

#endif
