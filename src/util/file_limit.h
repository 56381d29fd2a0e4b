/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of file sizes (RLIMIT_FSIZE, "ulimit -f"), which counts for memory files, too. A file
 * that would grow beyond it raises SIGXFSZ in the thread that makes it grow, whose default action
 * ends the process: so the limit is checked before. No state, no lock.
 */
#ifndef NXR_UTIL_FILE_LIMIT_H
#define NXR_UTIL_FILE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* May a file have so many bytes? */
bool nxr_file_may_have(uint64_t nbytes);

/* ftruncate() that fails with EFBIG beyond the limit. 0, or -1 with errno. */
int nxr_file_resize(int fd, uint64_t nbytes);

/* For behind the text of an errno value: what EFBIG comes from; "" for all others. */
const char *nxr_file_limit_note(int error);

#endif
