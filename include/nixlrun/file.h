/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/file.h
 * Files and block devices as regions.
 */
#ifndef NIXLRUN_FILE_H
#define NIXLRUN_FILE_H

#include <nixlrun/base.h>
#include <nixlrun/context.h>
#include <nixlrun/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How nixl_region_open_file() opens a file; any of these together, except as said. */
enum nixl_file_flag {
    NIXL_FILE_CREATE = 1,       /**< make the file if there is none, with mode `mode` */
    NIXL_FILE_NEW = 2,          /**< with _CREATE: fail if there is one */
    NIXL_FILE_READ_ONLY = 4,    /**< open it for reading; implies NIXL_ACCESS_NO_PUT */
    NIXL_FILE_EXCLUSIVE = 8,    /**< fail if anyone else has it so (flock; block device: O_EXCL) */
    NIXL_FILE_DIRECT = 16,      /**< past the page cache (O_DIRECT), where the file system can */
    NIXL_FILE_PREALLOCATE = 32, /**< reserve the space of the whole region now */
    NIXL_FILE_TRUNCATE = 64,    /**< at close, cut the file behind the last byte that was put */
};

struct nixl_file_params {
    size_t struct_nbytes;
    uint32_t flags;  /**< of enum nixl_file_flag */
    int32_t fd;      /**< if path is NULL: an open descriptor, which stays the caller's */
    uint64_t nbytes; /**< of the region; 0: up to the end of the file or device */
    uint64_t offset; /**< of the region's first byte in the file or device */
    uint32_t mode;   /**< NIXL_FILE_CREATE: permissions, less the umask; 0: 0600 */
    uint32_t access; /**< of enum nixl_access: what peers may not do */
    struct nixl_context *context; /**< where its name and its events belong; NULL: the default */
};
#define NIXL_FILE_PARAMS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct nixl_file_params), 0, -1, 0, 0, 0, 0, NULL                                   \
    }

/**
 * Open a file or a block device, and publish it under a name: a region of kind NIXL_MEM_FILE.
 *
 * Any rank puts into it and gets from it as from memory, also from GPU memory: on this host, on
 * another one, of an attached job; with notifications, prepared transfers, grants, flush, deadlines
 * and events. The library of its owner, this rank, reads and writes the file; its program takes no
 * part. Other ranks of this host may read it themselves, by a descriptor that the library hands
 * out: if the region is the whole file, and `access` lets peers get. What needs memory that a
 * processor reaches is refused with NIXL_E_UNSUPPORTED: atomics, signals in the file,
 * nixl_region_map(), copies on streams; nixl_region_addr() is NULL.
 *
 * A put has ended, and nixl_flush() covers it, when the owner's kernel has accepted the bytes: they
 * outlive the processes, but not the host. With NIXL_OP_DURABLE, which puts, prepared puts and
 * flushes take, also of blocks that are lent, they are on the medium.
 *
 * A file that is shorter than the region is extended, unless it is only read. Bytes that were never
 * put read as zeros.
 *
 * @param name      as nixl_region_alloc(); NULL: for this rank alone
 * @param path      of a regular file or a block device; NULL: params->fd
 * @param params    NULL: an existing file, all of it, for reading and writing
 * @param region_p  the handle, to be closed with nixl_region_close(), which closes the file
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG  a bad name or params; neither path nor fd; not a file or a block
 *                             device; an empty file and no nbytes
 * @return NIXL_E_RANGE        the device, or the file that is only read, ends before the region
 * @return NIXL_E_NOT_FOUND    there is no such file
 * @return NIXL_E_ACCESS       not permitted, or the file system is mounted for reading only
 * @return NIXL_E_IN_USE       NIXL_FILE_NEW: it is there; NIXL_FILE_EXCLUSIVE: another has it
 * @return NIXL_E_NAME_IN_USE  this rank has an open region of that name
 * @return NIXL_E_LIMIT        no descriptor, no region number, or beyond RLIMIT_FSIZE or RLIMIT_AS
 * @return NIXL_E_NO_MEMORY    for the library's state of the region
 * @return NIXL_E_STORAGE      the system failed otherwise, no space say: nixl_last_error() has path
 *                             and reason, and its native_code the errno
 * Later failures of the file end puts, gets and flushes with NIXL_E_STORAGE at the rank that
 * called, whichever that is, with path and reason. Collective: no. Threads: any.
 */
NIXL_API int nixl_region_open_file(const char *name, const char *path,
                                   const struct nixl_file_params *params,
                                   struct nixl_region **region_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_FILE_H */
