/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options: numbers, times, words; and how a value is shown in an error line. */
#ifndef NIXLRUN_LAUNCHER_VALUES_H
#define NIXLRUN_LAUNCHER_VALUES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Parse a decimal integer from lowest to highest. Returns 0, or -1 with *value_p untouched. */
int value_count(const char *text, int lowest, int highest, int *value_p);

/* Parse a time: 10, 1.5, 2m, 250ms; without a unit, seconds. Returns 0, or -1, *ns_p untouched. */
int value_time(const char *text, int64_t *ns_p);

/* Index of `text` in the words of `list`, which are separated by one blank; -1: not one of them. */
int value_word(const char *text, const char *list);

enum { VALUE_WORD_NBYTES = 32 };

/*
 * The word of `list` that `text` was probably meant to be: if one is less than `near` edits away,
 * it is copied into `nearest`. Returns the edits of that word, else `near`.
 */
unsigned value_nearest(const char *text, const char *list, unsigned near,
                       char nearest[VALUE_WORD_NBYTES]);

/* With this many edits or more it is a different word. */
static inline unsigned value_near(const char *text)
{
    return (unsigned)strnlen(text, 63) / 3 + 1;
}

enum { VALUE_SHOWN_NBYTES = 72 };

/* `text` in quotes, on one line and cut if long: for error lines. Writes to and returns `shown`. */
const char *value_show(const char *text, char shown[VALUE_SHOWN_NBYTES]);

#endif
