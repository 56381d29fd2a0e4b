/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder implements files and block devices as a memory kind (memory.h). The memory of a
 * file's region is a range of reserved addresses that nothing lies behind; copies between it and
 * host memory are requests to a storage engine (storage/storage.h), which this folder chooses and
 * starts when the first file is opened. Declarations shared by its files, and the locks, are in
 * file.h.
 *
 * Callers use the kind's table, which kind.c provides, and nxr_file_open(). init.c registers the
 * kind.
 */
#ifndef NXR_MEMORY_FILE_KIND_H
#define NXR_MEMORY_FILE_KIND_H

#include "memory/memory.h"

extern const struct nxr_memory_kind nxr_memory_file;

/*
 * Open a file as memory. `params` are checked, and `path` may be NULL. NIXL_OK; or a failure, with
 * one line in `why`, the errno or 0, and nothing is left behind.
 */
int nxr_file_open(const char *path, const struct nixl_file_params *params,
                  struct nxr_memory *memory_p, char *why, size_t why_nbytes, int *error_p);

/* Let ranks of this host read the file of such memory themselves, if that gives away no more. */
void nxr_file_share(struct nxr_memory *memory);

#endif
