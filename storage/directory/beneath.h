/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files beneath a directory, and opening them so that no name leads out of it. No state.
 */
#ifndef NXR_DIRECTORY_BENEATH_H
#define NXR_DIRECTORY_BENEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Files that are being written have such names, in the directory itself, and are no objects. */
#define NXR_UNFINISHED ".nixlrun-"

/*
 * Is that a relative path whose parts are names, none of them "", "." or ".."? If not, one line in
 * `why`.
 */
bool nxr_beneath_is_name(const char *name, char *why, size_t why_nbytes);

/*
 * Open a path beneath a directory: of no symbolic link that leads out of it, or of none at all
 * before Linux 5.6. A descriptor, or -errno; -EXDEV: it would lead out.
 */
int nxr_beneath_open(int root, const char *path, int flags, mode_t mode);

/* Open an entry of a directory, and no link; "." is the directory itself. As above. */
int nxr_beneath_open_entry(int at, const char *entry, int flags, mode_t mode);

/*
 * Open what a descriptor has open once more, past the page cache. A descriptor, or -errno: the file
 * system cannot, or it may not be opened so again.
 */
int nxr_beneath_open_direct(int fd, bool is_writable);

/*
 * Open the directory in which a name lies; *base_p is its last part. With `making`, whose made() is
 * called for each, directories that are not there are made. A descriptor, or -errno; it is `root`
 * itself for a name without directories, which takes no further descriptor, else to be closed.
 */
struct nxr_beneath_making {
    mode_t mode;
    void (*made)(const struct nxr_beneath_making *making, const char *path, size_t path_nbytes);
};
int nxr_beneath_parent(int root, const char *name, const struct nxr_beneath_making *making,
                       const char **base_p);

/* What an errno of these calls means, for people. */
const char *nxr_beneath_why(int error);

#endif
