/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this folder: a store, which is a directory.
 *
 * Requests that may block run in the threads of one pool for all stores; bytes of files that are
 * open are moved by the storage engine. What of a store they share is constant, but for the tables
 * of descriptors and of what is not durable yet, which have locks of their own.
 */
#ifndef NXR_DIRECTORY_DIRECTORY_H
#define NXR_DIRECTORY_DIRECTORY_H

#include "storage/directory/opened.h"
#include "storage/directory/unsynced.h"
#include "storage/object.h"

struct nxr_object_store {
    int root;
    mode_t file_mode, directory_mode;
    bool is_read_only;
    bool has_unnamed; /* the file system makes files without a name (O_TMPFILE) */
    int direct_error; /* if direct I/O is asked for: why a file that is made cannot have it, or 0 */
    struct nxr_opened_cache opened;
    struct nxr_unsynced unsynced;
    char path[];
};

/* ---- directory.c ----------------------------------------------------------------------------- */

/* Say what has failed, or nothing; and end a request. */
void nxr_directory_fail(struct nxr_object_io *io, const char *what, int error);
void nxr_directory_end(struct nxr_object_io *io);

/* ---- unfinished.c ---------------------------------------------------------------------------- */

/* A file that has no name that anybody looks for, until it is complete. */
struct nxr_unfinished {
    struct nxr_storage_file file;
    char name[32]; /* in the directory; "": none */
};

/*
 * Open the directory in which a name lies, and make it if it is not there. A descriptor, or -errno;
 * *base_p is the last part of the name.
 */
int nxr_directory_parent(struct nxr_object_store *store, const char *name, const char **base_p);

void nxr_directory_parent_close(const struct nxr_object_store *store, int parent);

/* Can files without a name be made there? */
bool nxr_unfinished_can_be_unnamed(int root);

/* All these return 0 or an errno. Only one that was made is published, or else dropped. */
int nxr_unfinished_make(struct nxr_object_store *store, struct nxr_unfinished *unfinished);

/*
 * It becomes the file of that name, in one step for all who look. If it replaces one, then with its
 * bytes on the medium: no failure of the host leaves neither.
 */
int nxr_unfinished_publish(struct nxr_object_store *store, struct nxr_unfinished *unfinished,
                           const char *name);
void nxr_unfinished_drop(struct nxr_object_store *store, struct nxr_unfinished *unfinished);

/* One by the name of its upload, of NXR_OBJECT_UPLOAD_NBYTES. */
void nxr_unfinished_to_upload(const struct nxr_unfinished *unfinished, char *upload);
void nxr_unfinished_of_upload(const struct nxr_object_store *store, const char *upload,
                              struct nxr_unfinished *unfinished);

/* Remove what processes have left that were killed. */
void nxr_unfinished_clean(int root);

/* ---- bytes.c --------------------------------------------------------------------------------- */

/*
 * GET, WRITE and PART that need not block: of what the kernel has in memory, or of a file that is
 * open, by the storage engine.
 */
enum nxr_bytes_begun {
    NXR_BYTES_BLOCK, /* nothing is done: nxr_bytes_move() can do it */
    NXR_BYTES_OVER,  /* all is done, and to be ended */
    NXR_BYTES_BEGUN, /* it ends by itself, or has ended */
};
enum nxr_bytes_begun nxr_bytes_begin(struct nxr_object_io *io);

/* The same by a thread that may block. The file may have to be opened, or made. */
void nxr_bytes_move(struct nxr_object_io *io);

/* Write all bytes of a request into a file without a name. 0, or an errno. */
int nxr_bytes_write(const struct nxr_object_io *io, const struct nxr_unfinished *unfinished);

/* ---- walk.c ---------------------------------------------------------------------------------- */

struct stat;
void nxr_directory_found(const struct stat *stat, struct nxr_object_found *found);

/* LIST: 0 or an errno. */
int nxr_directory_walk(struct nxr_object_store *store, struct nxr_object_io *io);

/* ---- delay.c --------------------------------------------------------------------------------- */

/* End a request of DELAY at its time, or when it is canceled and wake() has been called. */
void nxr_delay_begin(struct nxr_object_io *io);
void nxr_delay_wake(void);
void nxr_delay_stop(void); /* none is left */

#endif
