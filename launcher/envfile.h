/* SPDX-License-Identifier: Apache-2.0 */
/* Files of variables for --env-file. */
#ifndef NIXLRUN_LAUNCHER_ENVFILE_H
#define NIXLRUN_LAUNCHER_ENVFILE_H

#include "launcher/envlist.h"
#include "launcher/textfile.h"

enum { ENVFILE_CAUSE_NBYTES = TEXTFILE_CAUSE_NBYTES };

/*
 * Add the variables of a file to a list. A line is NAME=VALUE, with "export " before it or not; a
 * value in one pair of ' or " loses the quotes and is otherwise literal. Lines that are empty or
 * begin with # are ignored. Returns 0, or -1 with a text for people in `cause`; variables of lines
 * before the bad one may then be in the list.
 */
int envfile_read(const char *path, struct envlist *list, char cause[ENVFILE_CAUSE_NBYTES]);

/* The same for a text in memory, which is changed. text[nbytes] must be writable. */
int envfile_parse(char *text, size_t nbytes, struct envlist *list,
                  char cause[ENVFILE_CAUSE_NBYTES]);

#endif
