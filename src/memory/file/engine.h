/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage engine of the process (storage/storage.h), for all kinds whose bytes are in files:
 * this folder's, and directories of src/memory/object/. It is started with the first file and
 * stopped by the last finalize.
 */
#ifndef NXR_MEMORY_FILE_ENGINE_H
#define NXR_MEMORY_FILE_ENGINE_H

#include "storage/storage.h"

/*
 * Start the engine that NIXLRUN_STORAGE asks for, once. NIXL_OK, or NIXL_E_NO_DEVICE and one line
 * in `why`. nxr_file_engine() is NULL until then; *why_p says why it is not io_uring, or "".
 */
int nxr_file_engine_start(char *why, size_t why_nbytes);
void nxr_file_engine_stop(void);
const struct nxr_storage_engine *nxr_file_engine(const char **why_p);

/* copy_go(), copy_poll() and copy_sleep() of kinds that use it. Nothing if it is not started. */
void nxr_file_engine_go(void);
void nxr_file_engine_poll(void);
bool nxr_file_engine_sleep(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);

/*
 * Have it wake the library when a request has ended, until as many calls have said that this is no
 * longer needed. It is started.
 */
void nxr_file_engine_arm(void);
void nxr_file_engine_disarm(void);

#endif
