/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests between files and memory of NVIDIA's GPUs, by cuFile (GPUDirect Storage): threads that
 * call cuFileRead() and cuFileWrite(). It stands beside the engine for host memory, and takes the
 * same requests (struct nxr_storage_io), of which `memory` is device memory, `slot` what
 * nxr_cufile_add() returned, and `fd` a descriptor of the same file through the page cache.
 *
 * A request that cuFile fails is done again through host memory, in the same thread: only if that
 * fails, too, does it fail, with the errno of that. So nothing is lost by trying cuFile, and who
 * asks nxr_cufile_has_failed() stops.
 *
 * cuFile's driver is opened once, and stays open until the process ends: the program may use it,
 * too, and would lose it. Locks: see cufile.c.
 */
#ifndef NXR_STORAGE_CUFILE_CUFILE_H
#define NXR_STORAGE_CUFILE_CUFILE_H

#include "storage/storage.h"

enum nxr_cufile_state {
    NXR_CUFILE_CLOSED, /* nobody has asked for it */
    NXR_CUFILE_OPENING,
    NXR_CUFILE_READY,
    NXR_CUFILE_NONE, /* not installed, or its driver does not open */
};

/*
 * Open cuFile, unless that was done before, and return its state. This takes long: a thread does
 * it, and the call waits for that thread only if must_wait. CUDA's driver is in use; `memory` is
 * device memory. Any thread.
 */
enum nxr_cufile_state nxr_cufile_open(const void *memory, bool must_wait);

/* As "cuFile 1.13 in compatibility mode (no nvidia-fs)"; or the reason why it is not used. */
void nxr_cufile_tell(char *text, size_t text_nbytes);

/* No request is under way and no file is registered. It may be opened again. */
void nxr_cufile_stop(void);

/* Register a descriptor for direct I/O, which stays open. A slot; or -1 and one line in `why`. */
int nxr_cufile_add(int fd, char *why, size_t why_nbytes);
void nxr_cufile_remove(int slot); /* -1: nothing */

/* The engine: it has submit() only, and calls `ended` in threads of its own. */
extern const struct nxr_storage_engine nxr_storage_cufile;

/* Has cuFile failed for that file? Then one line in `why` says how. */
bool nxr_cufile_has_failed(int slot, char *why, size_t why_nbytes);

#endif
