/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this folder.
 *
 * Locks: engine_lock (file_engine.c) for the choice and start of the engine, inside of job.lock;
 * file_failure_lock (file.c) for failures, a leaf.
 */
#ifndef NXR_MEMORY_FILE_FILE_H
#define NXR_MEMORY_FILE_FILE_H

#include "memory/memory.h"
#include "storage/storage.h"

#include <pthread.h>

/* Direct requests begin, end and lie in memory at multiples of these, or of more. */
#define NXR_FILE_BLOCK_NBYTES  4096u
#define NXR_FILE_MEMORY_NBYTES 512u

struct nxr_file {
    struct nxr_range *range;
    char *base;             /* reserved addresses: they name the places of the file */
    size_t reserved_nbytes; /* of them, whole pages */
    uint64_t start;         /* of the region in the file */
    uint64_t nbytes;
    bool is_block_device, is_read_only;
    bool must_truncate;       /* at close */
    uint64_t first_nbytes;    /* of the file, when it was opened */
    _Atomic uint64_t written; /* the end of the last byte that was put, in the file */
    uint32_t block_nbytes;    /* of direct requests */

    /*
     * Two descriptors of one file: past the page cache go whole blocks, and through it the bytes at
     * unaligned ends, which the kernel merges. So no block is read, changed and written here.
     */
    int fd;        /* through the page cache */
    int direct_fd; /* past it; -1: not asked for, or not possible */
    int slot, direct_slot;

    struct nxr_storage_why why; /* of the last request that failed; file_failure_lock */
    char path[];                /* as it was given, or as the kernel tells it */
};

static inline struct nxr_file *nxr_file_of(const struct nxr_range *range)
{
    return range->memory;
}

/*
 * Start the engine that NIXLRUN_STORAGE asks for, once. NIXL_OK, or NIXL_E_NO_DEVICE and one line
 * in `why`. nxr_file_engine() is NULL until then; *why_p says why it is not io_uring, or "".
 */
int nxr_file_engine_start(char *why, size_t why_nbytes);
void nxr_file_engine_stop(void);
const struct nxr_storage_engine *nxr_file_engine(const char **why_p);

/* Record a failed request, for who asks why. */
void nxr_file_fail(struct nxr_file *file, int error, const char *what, uint64_t nbytes,
                   uint64_t offset);

/* Close a file that no request uses. */
void nxr_file_close(struct nxr_file *file);

/* As in struct nxr_memory_kind. */
int nxr_file_copy_start(struct nxr_device_copy *copy);
void nxr_file_copy_go(void);
void nxr_file_copy_poll(void);
bool nxr_file_copy_sleep(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);
int nxr_file_copy_test(struct nxr_device_copy *copy);
void nxr_file_copy_arm(struct nxr_device_copy *copy);

#endif
