/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the command line's parser: what options.c and option_set.c share. */
#ifndef NIXLRUN_LAUNCHER_PARSER_H
#define NIXLRUN_LAUNCHER_PARSER_H

#include "launcher/envlist.h"
#include "launcher/option_table.h"
#include "launcher/options.h"
#include "nixlrun.h"

struct parser {
    struct options *options;
    char **word; /* the next one */
    char **end;  /* after the last one */
    char *why;
    size_t why_nbytes;
    const char *given; /* the option as the user wrote it, without =VALUE */
    int given_nbytes;
    struct envlist env;    /* of the next program */
    struct launch_app app; /* the same program */
    bool is_np_given;      /* of any program */
    bool is_bind_given;
    enum { OVERSUBSCRIBE_DEFAULT, OVERSUBSCRIBE_YES, OVERSUBSCRIBE_NO } oversubscribe;
};

enum { ALLOWED_NBYTES = 128 };

/* Describe a mistake. Returns -1. */
int parser_fail(struct parser *parser, const char *format, ...) NIXL_PRINTF(2, 3);

/* The allowed values of an option, as text. Writes to `text` or returns a constant. */
const char *option_allowed(const struct option *option, char text[ALLOWED_NBYTES]);

/* Set an option of the job or of the next program. `value` is NULL if there is none. */
int option_set(struct parser *parser, const struct option *option, const char *value);

#endif
