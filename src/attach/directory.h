/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of publications. NAME.entry is public, and appears whole: it is written aside, flushed
 * and renamed. NAME.secret can be read by its user alone; the publisher holds a lock on it as long
 * as it lives, so that one process publishes a name, and the next one sees when that has ended.
 *
 * The lock belongs to the process, so that children which it has forked do not keep it, and is lost
 * when it closes any descriptor of the file: a process does not open the secret of a claim of its
 * own, by whatever path. Callers hold no lock.
 */
#ifndef NXR_ATTACH_DIRECTORY_H
#define NXR_ATTACH_DIRECTORY_H

#include "attach/entry.h"

#include <sys/stat.h>

#define NXR_DIRECTORY_WHY_NBYTES 400

/* A folder that stays the same one, whatever its path comes to mean. */
struct nxr_folder {
    int fd;          /* -1: none */
    const char *dir; /* its path when it was opened; the caller's */
    dev_t device;
    ino_t inode;
};

/* Open a folder. NIXL_OK or the failure, as nxr_directory_claim(); *folder_p is none then. */
int nxr_folder_open(const char *dir, struct nxr_folder *folder_p,
                    char why[NXR_DIRECTORY_WHY_NBYTES]);
void nxr_folder_close(struct nxr_folder *folder);

/* Are they one folder? None is not. */
bool nxr_folder_is(const struct nxr_folder *a, const struct nxr_folder *b);

/*
 * Claim a name, with a new secret. NIXL_OK: *lock_fd_p keeps the claim. NIXL_E_IN_USE: a living
 * process has it; NIXL_E_ACCESS, NIXL_E_NOT_FOUND (no folder), NIXL_E_LIMIT, NIXL_E_UNSUPPORTED (no
 * random numbers), NIXL_E_TRANSPORT (other failures). `why` says so in words.
 */
int nxr_directory_claim(const struct nxr_folder *folder, const char *name,
                        unsigned char secret[NXR_PROOF_SECRET_NBYTES], int *lock_fd_p,
                        char why[NXR_DIRECTORY_WHY_NBYTES]);

/* Write the entry of a claimed name. NIXL_OK or the failure, as nxr_directory_claim(). */
int nxr_directory_write(const struct nxr_folder *folder, const struct nxr_entry *entry,
                        char why[NXR_DIRECTORY_WHY_NBYTES]);

/* Remove what a claim has made, and end it. */
void nxr_directory_release(const struct nxr_folder *folder, const char *name, int lock_fd);

/*
 * Read the entry of a name. NIXL_OK; NIXL_E_NOT_FOUND: there is none; NIXL_E_TRANSPORT: damaged;
 * NIXL_E_UNSUPPORTED: of another version; NIXL_E_ACCESS.
 */
int nxr_directory_read(const char *dir, const char *name, struct nxr_entry *entry_p,
                       char why[NXR_DIRECTORY_WHY_NBYTES]);

/*
 * Read the secret of a name that another process has published. NIXL_OK; NIXL_E_NOT_FOUND, also if
 * this process has claimed the name; NIXL_E_ACCESS: it is another user's, or others may read it;
 * NIXL_E_TRANSPORT: damaged.
 */
int nxr_directory_read_secret(const char *dir, const char *name,
                              unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                              char why[NXR_DIRECTORY_WHY_NBYTES]);

/*
 * Call each() for the entries of a folder, by name; what is no entry is left out. NIXL_OK or the
 * failure, as nxr_directory_claim().
 */
int nxr_directory_each(const char *dir, void (*each)(void *arg, const struct nxr_entry *entry),
                       void *arg, char why[NXR_DIRECTORY_WHY_NBYTES]);

/* "a, b, c and 4 more", or "none": the names with an entry in a folder. */
void nxr_directory_list(const char *dir, char *text, size_t nbytes);

#endif
