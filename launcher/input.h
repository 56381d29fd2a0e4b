/* SPDX-License-Identifier: Apache-2.0 */
/* stdin of nixlrun, to one rank, all or none. */
#ifndef NIXLRUN_LAUNCHER_INPUT_H
#define NIXLRUN_LAUNCHER_INPUT_H

#include "launcher/loop.h"

#include <stdbool.h>
#include <stddef.h>

/* The stdin of one rank: a pipe and the data that does not fit in it yet. */
struct inlet {
    struct loop_fd watch; /* fd -1: the rank has no stdin from us */
    char *data;
    size_t head, used, room;
    bool ends; /* close when empty */
    struct inlet *next;
};

/* Returns the descriptor that the rank gets as stdin (the caller closes it), or -1 with errno. */
int inlet_open(struct inlet *inlet, bool is_fed);

/* Add bytes for the rank. Returns false if it has no stdin or is too far behind. */
bool inlet_add(struct inlet *inlet, const char *data, size_t nbytes);

/* No more bytes will follow. */
void inlet_end(struct inlet *inlet);

/* The rank is gone. */
void inlet_close(struct inlet *inlet);

/* Start reading our stdin for all inlets that are fed. Returns 0 or -errno. */
int input_open(void);

/* An inlet was opened after input_open(): it gets what follows, if anything does. */
void input_join(struct inlet *inlet);

/* Something has changed: an inlet is gone or empty, or we are now in our terminal's foreground. */
void input_continue(void);

#endif
