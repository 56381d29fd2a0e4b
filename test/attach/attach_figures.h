/* SPDX-License-Identifier: Apache-2.0 */
/* What a process has, which attachments must not let grow. */
#ifndef TEST_ATTACH_FIGURES_H
#define TEST_ATTACH_FIGURES_H

#include <stdbool.h>

struct figures {
    long descriptors, mappings, kib;
};

/* They are printed, too. */
struct figures figures_now(const char *when);

/* Descriptors and mappings; a few more mappings are allowed. */
bool figures_are_within(const struct figures *goal, long more_mappings);

bool figures_heap_is_within(const struct figures *goal);

/* Nothing has grown in n attachments but the tables of numbers: a few bytes for each. */
void figures_check_growth(const struct figures *before, const struct figures *after, long n);

#endif
