/* SPDX-License-Identifier: Apache-2.0 */
/* Making the names of files durable. No state. */
#ifndef NXR_UTIL_PARENT_H
#define NXR_UTIL_PARENT_H

/*
 * The last name of a path, of a file or a directory that was made just now, is on the medium when
 * this returns: its directory is synced. Directories that may not be read, and file systems that
 * sync none, keep names as they can. 0 or an errno; *what_p: what has failed.
 */
int nxr_parent_sync(const char *path, const char **what_p);

#endif
