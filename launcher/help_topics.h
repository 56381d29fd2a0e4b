/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of the help topics. */
#ifndef NIXLRUN_LAUNCHER_HELP_TOPICS_H
#define NIXLRUN_LAUNCHER_HELP_TOPICS_H

#include <stddef.h>

struct help_topic {
    const char *name;
    const char *before; /* in front of the options that belong to the topic */
    const char *after;  /* after them, or "" */
};

extern const struct help_topic help_topics[];
extern const size_t help_topic_count;

#endif
