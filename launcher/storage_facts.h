/* SPDX-License-Identifier: Apache-2.0 */
/* By what a rank would read and write storage, for nixlrun --info and --explain. */
#ifndef NIXLRUN_LAUNCHER_STORAGE_FACTS_H
#define NIXLRUN_LAUNCHER_STORAGE_FACTS_H

#include <limits.h>
#include <stdbool.h>

enum { CURL_VERSION_NBYTES = 32 };

struct nixl_region;

/*
 * "by" is "": there is nothing, and "why" says what is missing. Else it says how, or why by that.
 */
struct storage_facts {
    char file_by[16], file_why[160];
    char object_by[16], object_why[160];
    char gpu_by[16], gpu_why[160]; /* between files and memory of GPUs */
};

/* Start what reads and writes them; the library is initialized. */
void storage_facts_find(struct storage_facts *facts);

/* The libcurl that a module of the library has brought in. False: none, or it has no version. */
bool storage_curl_find(char path[PATH_MAX], char version[CURL_VERSION_NBYTES]);

/* A region of a file that has no name, so that nothing is left of it. NULL: nixl_last_error(). */
struct nixl_region *storage_file_open(const char *name);

#endif
