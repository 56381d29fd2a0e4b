/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/directory.h
 * Files of a directory as one region.
 */
#ifndef NIXLRUN_DIRECTORY_H
#define NIXLRUN_DIRECTORY_H

#include <nixlrun/base.h>
#include <nixlrun/context.h>
#include <nixlrun/object.h>
#include <nixlrun/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How nixl_region_open_directory() opens a directory; any of these together, except as said. */
enum nixl_directory_flag {
    NIXL_DIRECTORY_CREATE = 1,    /**< make the directory, not its parents, if there is none */
    NIXL_DIRECTORY_READ_ONLY = 2, /**< only get; implies NIXL_ACCESS_NO_PUT; not with _CREATE or
                                       _IN_PLACE */
    NIXL_DIRECTORY_IN_PLACE = 4,  /**< puts write any range of a file, at once; see below */
    NIXL_DIRECTORY_DIRECT = 8,    /**< past the page cache (O_DIRECT), where the file system can */
};

struct nixl_directory_params {
    size_t struct_nbytes;
    uint32_t flags;  /**< of enum nixl_directory_flag */
    uint32_t access; /**< of enum nixl_access: what peers may not do */

    uint64_t nobjects;       /**< files in the region; 0: all that are there now */
    uint64_t object_nbytes;  /**< room of each in the region; 0: of the largest that is there */
    const char *const *keys; /**< nobjects paths in the directory; NULL: see below */

    uint32_t mode;         /**< permissions of files that are made, less the umask; 0: 0600 */
    uint32_t ndescriptors; /**< files that stay open, at most; 0: 256 */

    struct nixl_context *context; /**< where its name and its events belong; NULL: the default */
};
#define NIXL_DIRECTORY_PARAMS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct nixl_directory_params), 0, 0, 0, 0, NULL, 0, 0, NULL                         \
    }

/**
 * Publish files of a directory under a name, as one region of kind NIXL_MEM_OBJECT: what
 * nixl_region_open_object() does with the objects of a store, this call does with files. All that
 * is said there holds, but for what follows.
 *
 * The region is a table of `nobjects` files with `object_nbytes` bytes of room: file i lies at the
 * offsets from i * object_nbytes on. Its path in the directory is keys[i], which may lie in
 * directories of its own, or without keys i as 16 hexadecimal digits. With nobjects 0 the table has
 * all files that are there, in the order of the bytes of their paths; nixl_object_list() and
 * nixl_object_stat() tell which. No path leads out of the directory, neither by "..", nor by
 * symbolic links.
 *
 * A put of all object_nbytes of a file, in whatever pieces by one rank, replaces the file in one
 * step: who reads it sees the former one or the new one, whatever process dies. Files that are
 * replaced are kept open by those who read them. With NIXL_DIRECTORY_IN_PLACE puts write any range,
 * into the file that is there, or that is made then; who reads meanwhile sees any part of that.
 *
 * A put has ended when the owner's kernel has accepted the bytes and the name. NIXL_OP_DURABLE:
 * they are on the medium, with the directories in which the name lies. A file that replaces another
 * one is on the medium before it does: a failure of the host leaves one of them. One that is new,
 * and was not put durably, may be there with other bytes after that.
 *
 * What could not be written to the medium is lost: Linux tells that once, and then forgets the
 * bytes. So each later durable put or flush fails with the same error and name. That ends when a
 * put as a whole replaces the file, or when it is removed; a put into it, in place, does not heal
 * it. If a directory or the whole file system failed, it ends when the region is closed. Of a file
 * that is not open any more (ndescriptors), Linux tells the first who asks: if another process had
 * it synced before, that process has the error, and this region does not.
 *
 * Gets read any range of a file up to its own end, which may come before object_nbytes.
 *
 * Bytes are moved by what moves those of nixl_region_open_file(), as NIXLRUN_STORAGE says; with
 * NIXL_DIRECTORY_DIRECT past the page cache, for which places, sizes and memory need no alignment.
 * The region's note says if the file system has no direct I/O.
 *
 * @param name      as nixl_region_alloc(); NULL: for this rank alone
 * @param path      of the directory
 * @param params    NULL: all files that are there
 * @param region_p  the handle, to be closed with nixl_region_close()
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG  a bad name, path, key or params; not a directory; one without files
 *                             and no nobjects; all files are empty and no object_nbytes
 * @return NIXL_E_NOT_FOUND    no such directory; without object_nbytes: no such file
 * @return NIXL_E_ACCESS       not permitted, or the file system is mounted for reading only
 * @return NIXL_E_NAME_IN_USE  this rank has an open region of that name
 * @return NIXL_E_RANGE        more bytes than a region can have
 * @return NIXL_E_NO_DEVICE    NIXLRUN_STORAGE asks for io_uring, and there is none
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY
 * @return NIXL_E_STORAGE      the system failed otherwise: nixl_last_error() has path and reason,
 *                             and its native_code the errno
 * Later failures end puts, gets and flushes with NIXL_E_STORAGE at the rank that called, with path
 * and reason, and the errno as native_code. Collective: no. Threads: any.
 */
NIXL_API int nixl_region_open_directory(const char *name, const char *path,
                                        const struct nixl_directory_params *params,
                                        struct nixl_region **region_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_DIRECTORY_H */
