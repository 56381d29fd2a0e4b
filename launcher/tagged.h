/* SPDX-License-Identifier: Apache-2.0 */
/* The output of an engine, split again into the pieces of each rank. */
#ifndef NIXLRUN_LAUNCHER_TAGGED_H
#define NIXLRUN_LAUNCHER_TAGGED_H

#include "launcher/engine.h"

#include <stddef.h>

/* A piece of a rank's output, or, with rank -1, of the engine's own; with or without a newline. */
typedef void tagged_piece_fn(void *arg, int rank, const char *text, size_t nbytes);

/*
 * One stream of the engine, with the text that has no newline yet. Zero but for the first members.
 */
struct tagged {
    enum engine_tags tags;
    int n_ranks; /* a tag with a higher rank is not a tag */
    tagged_piece_fn *piece_fn;
    void *arg;
    char *text;
    size_t used, room;
};

/* Take bytes; each complete line is passed on in pieces. */
void tagged_feed(struct tagged *tagged, const char *data, size_t nbytes);

/* The stream has ended: pass on the rest. */
void tagged_end(struct tagged *tagged);

#endif
