/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder implements objects of a store, which may be a directory, as a memory kind (memory.h).
 * The memory of such a region is a range of reserved addresses that nothing lies behind; copies
 * between it and host memory are requests to an engine (storage/object.h): that of S3 is a module
 * that is loaded with its first region. Declarations shared by its files, and the locks, are in
 * object.h.
 *
 * Callers use the kind's table, which kind.c provides, and what is below. init.c registers the
 * kind.
 */
#ifndef NXR_MEMORY_OBJECT_KIND_H
#define NXR_MEMORY_OBJECT_KIND_H

#include "memory/memory.h"

extern const struct nxr_memory_kind nxr_memory_object;

/*
 * Open objects as memory. `params` are checked. NIXL_OK; or a failure, with one line in `why`, the
 * errno or 0, and nothing is left behind.
 */
int nxr_objects_open(const char *url, const struct nixl_object_params *params,
                     struct nxr_memory *memory_p, char *why, size_t why_nbytes, int *error_p);

/* Start the engine of directories. As start() of the kind, which starts that of S3. */
int nxr_objects_start_directory(char *why, size_t why_nbytes);

/* The same for the files of a directory. */
int nxr_objects_open_directory(const char *path, const struct nixl_directory_params *params,
                               struct nxr_memory *memory_p, char *why, size_t why_nbytes,
                               int *error_p);

/*
 * The calls about one object. NIXL_OK, NIXL_E_NOT_FOUND, NIXL_E_RANGE, NIXL_E_TIMEOUT,
 * NIXL_E_ACCESS, NIXL_E_STORAGE, NIXL_E_NO_MEMORY or NIXL_E_CANCELED, and one line in `why`. Any
 * thread.
 */
struct nxr_object_answer {
    char why[400];
    int error; /* an errno, or 0 */
};
int nxr_objects_stat(const struct nxr_memory *memory, uint64_t object, int64_t timeout_ns,
                     struct nixl_object_info *info, struct nxr_object_answer *answer);
int nxr_objects_delete(const struct nxr_memory *memory, uint64_t object, int64_t timeout_ns,
                       struct nxr_object_answer *answer);
int nxr_objects_list(const struct nxr_memory *memory, const char *after, int64_t timeout_ns,
                     nixl_object_list_fn *each, void *arg, struct nxr_object_answer *answer);

#endif
