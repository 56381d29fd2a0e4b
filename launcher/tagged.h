/* SPDX-License-Identifier: Apache-2.0 */
/* The output of an engine, split again into the pieces of each rank. */
#ifndef NIXLRUN_LAUNCHER_TAGGED_H
#define NIXLRUN_LAUNCHER_TAGGED_H

#include "launcher/engine.h"

#include <stddef.h>

/* A piece of a rank's output, or with rank -1 of the engine's own; with a newline or not. */
typedef void tagged_piece_fn(void *arg, int rank, const char *text, size_t nbytes);

/* One stream of the engine. Zero but for the first members; the text that has no newline yet. */
struct tagged {
    enum engine_tags tags;
    int n_ranks; /* a tag with a higher rank is none */
    tagged_piece_fn *piece_fn;
    void *arg;
    char *text;
    size_t used, room;
};

/* Take bytes; each line that is whole is given out in pieces. */
void tagged_feed(struct tagged *tagged, const char *data, size_t nbytes);

/* The stream has ended: give out the rest. */
void tagged_end(struct tagged *tagged);

#endif
