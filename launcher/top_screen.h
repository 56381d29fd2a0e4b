/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal of nixlrun top: its alternate screen, keys one by one, its size. Whatever ends the
 * program, by a signal, too, leaves the terminal as it was.
 */
#ifndef NIXLRUN_LAUNCHER_TOP_SCREEN_H
#define NIXLRUN_LAUNCHER_TOP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

struct top_screen {
    int columns, rows;
    bool has_color;
};

enum top_key { TOP_KEY_NONE, TOP_KEY_QUIT, TOP_KEY_UP, TOP_KEY_DOWN, TOP_KEY_VIEW, TOP_KEY_SIZE };

/* False: standard input or output is no terminal, or one that cannot do it. */
bool top_screen_open(struct top_screen *screen);
void top_screen_close(void);

/* Show a text from the upper left corner; lines end with "\n", what is behind them is cleared. */
void top_screen_show(const char *text);

/* The next key, or a new size; TOP_KEY_NONE: none until then. */
enum top_key top_screen_wait(struct top_screen *screen, int64_t until_ns);

#endif
