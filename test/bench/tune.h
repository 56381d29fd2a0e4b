/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `nixl_bench tune'. */
#ifndef NXR_BENCH_TUNE_H
#define NXR_BENCH_TUNE_H

#include "nixlrun.h"

#include <stdio.h>

#define TUNE_MAX_ROUNDS  9
#define TUNE_PATH_NBYTES 127 /* of a directory in a line, see launcher/explain_measured.h */
#define EXIT_FAILED      1
#define EXIT_USAGE       2

/* bench_tune.c: end with a line on stderr. */
void tune_fail(int code, const char *format, ...) NIXL_PRINTF(2, 3) NIXL_NORETURN;

/*
 * tune_storage.c: lines of the engines that read and write files of that directory, into `text`,
 * and a word on stderr.
 */
void tune_storage(const char *directory, long n_rounds, FILE *text);

#endif
