/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this folder. A file is of a region of this rank (file_open.c), or that of
 * a peer which this rank reads (file_share.c).
 *
 * Locks: engine_lock (file_engine.c) for the choice and start of the engine, inside of job.lock;
 * armed_lock (file_engine.c) and file_failure_lock (file.c) for failures, leaves.
 */
#ifndef NXR_MEMORY_FILE_FILE_H
#define NXR_MEMORY_FILE_FILE_H

#include "memory/file/engine.h"
#include "memory/memory.h"
#include "storage/move.h"

#include <pthread.h>
#include <sys/types.h>

struct nxr_file {
    struct nxr_range *range;
    char *base;             /* reserved addresses: they name the places of the file */
    size_t reserved_nbytes; /* of them, whole pages; a peer's: 0, and `base` is none */
    uint64_t start;         /* of the region in the file */
    uint64_t nbytes;
    bool is_block_device, is_read_only;
    bool is_locked;           /* for NIXL_FILE_EXCLUSIVE */
    bool must_truncate;       /* at close */
    char *made_as;            /* NULL; or the path, without links at its end, of one */
    bool was_made;            /* ... that was made by this open, */
    bool was_extended;        /* ... or made longer, to the end of the region */
    uint64_t first_nbytes;    /* of the file, when it was opened */
    _Atomic int sync_error;   /* of the first fdatasync that failed; 0: none */
    _Atomic uint64_t written; /* the end of the last byte that was put, in the file */
    struct nxr_storage_file opened;

    /* For memory of GPUs (file_gpu.c), from the first operation with it on; lock: choices_lock. */
    _Atomic int cufile_slot;           /* or one of enum nxr_file_cufile */
    struct nxr_storage_file by_cufile; /* constant while there is a slot */
    dev_t device;                      /* that the file system is on */
    char cufile_why[160];              /* why it was refused */

    struct nxr_storage_why why; /* of the last request that failed; file_failure_lock */
    char path[];                /* as it was given, or as the kernel tells it */
};

enum nxr_file_cufile { NXR_FILE_REFUSED = -1, NXR_FILE_UNTRIED = -2 }; /* no slots */

static inline struct nxr_file *nxr_file_of(const struct nxr_range *range)
{
    return range->memory;
}

/* Record a failed request, for who asks why. */
void nxr_file_fail(struct nxr_file *file, int error, const char *what, uint64_t nbytes,
                   uint64_t offset);

/* A new file with the path, which has nothing open; NULL: no memory. */
struct nxr_file *nxr_file_new(const char *path);

/* The path of an open descriptor, as the kernel tells it. */
void nxr_file_path_of(int fd, char *path, size_t path_nbytes);

/*
 * Open what a descriptor has open once more, so that the two share neither flags nor locks. As
 * open(2): -1 and errno also if there is no /proc.
 */
int nxr_file_reopen(int fd, int flags);

/*
 * Open it past the page cache, too. Whether the file system can is known when it has opened it so:
 * false, and errno.
 */
bool nxr_file_open_direct(struct nxr_file *file, int flags);

/* Have the engine, which is started, move its bytes; and no more. */
void nxr_file_use_engine(struct nxr_file *file);
void nxr_file_leave_engine(const struct nxr_file *file);

/* Close a file that no request uses. */
void nxr_file_close(struct nxr_file *file);

/* The same for one whose region was not published after all: the file is left as it was. */
void nxr_file_discard(struct nxr_file *file);

/*
 * Make an open file so long that it ends there or later, whoever else does the same: never shorter.
 * *before_p: its size before. 0 or an errno; EBUSY: another process holds its size.
 */
int nxr_file_grow(int fd, uint64_t end, uint64_t *before_p);

/* Cut an open file that ends at `from`, and not elsewhere by now, to `to`. 0 or an errno. */
int nxr_file_cut(int fd, uint64_t from, uint64_t to);

/* As in struct nxr_memory_kind. */
int nxr_file_import(struct nxr_segment *segment, int fd);
void nxr_file_unimport(struct nxr_segment *segment);
int nxr_file_copy_start(struct nxr_device_copy *copy);
int nxr_file_copy_test(struct nxr_device_copy *copy);
void nxr_file_copy_arm(struct nxr_device_copy *copy);

#endif
