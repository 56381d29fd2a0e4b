/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's library that reads and writes files for GPUs, libcufile, opened on first use: nothing is
 * linked against it, and no header of it is needed. Sizes and values are those of its ABI.
 */
#ifndef NXR_UTIL_CUFILE_DYN_H
#define NXR_UTIL_CUFILE_DYN_H

#include "util/cuda_types.h"
#include "util/symbol.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef void *cufile_handle; /* a registered file */

struct cufile_error {
    int code; /* CUFILE_OK, or one of cuFile's from 5001 on */
    cu_result cuda;
};

enum cufile_codes { CUFILE_OK = 0, CUFILE_CUDA_FAILED = 5011, CUFILE_ALREADY_OPEN = 5026 };

enum cufile_types { CUFILE_DESCRIPTOR = 1 };

struct cufile_description {
    int type;
    union {
        int fd;
        void *pointer;
    } file;
    const void *operations; /* of file systems in user space */
};

struct cufile_properties {
    struct {
        unsigned major, minor; /* of the kernel's module nvidia-fs; both 0: it is not there */
        size_t poll_nbytes, direct_nbytes;
        unsigned status, control;
    } nvfs;
    unsigned features;
    unsigned cache_kib, buffer_cache_kib, pinned_kib;
    unsigned n_batch, batch_timeout_ms;
    char room[256]; /* for what later versions add */
};

struct nxr_cufile_functions {
    struct cufile_error (*DriverOpen)(void);
    struct cufile_error (*DriverGetProperties)(struct cufile_properties *properties_p);
    struct cufile_error (*GetVersion)(int *version_p); /* NULL before CUDA 12 */
    struct cufile_error (*HandleRegister)(cufile_handle *handle_p, struct cufile_description *file);
    void (*HandleDeregister)(cufile_handle handle);

    /* Bytes moved; -1 and errno; or one of cuFile's codes, negative. */
    ssize_t (*Read)(cufile_handle handle, void *memory, size_t nbytes, off_t offset,
                    off_t memory_offset);
    ssize_t (*Write)(cufile_handle handle, const void *memory, size_t nbytes, off_t offset,
                     off_t memory_offset);
};

/* Filled in by nxr_cufile_load(); constant from then on. */
extern NXR_HIDDEN struct nxr_cufile_functions nxr_cufile;

/*
 * Open the library and fill in nxr_cufile, once; later calls return the same. It opens no driver.
 * NIXL_OK, or NIXL_E_NO_DEVICE and one line in `why`. Never closed again, since it has threads of
 * its own. Threads: any.
 */
int nxr_cufile_load(char *why, size_t why_nbytes);

/* What is loaded, as "cuFile 1.13"; a version that it does not tell is left out. */
void nxr_cufile_name(char *text, size_t text_nbytes);

/* Is nvidia-fs there? Else cuFile copies through host memory, its compatibility mode. */
bool nxr_cufile_has_nvfs(void);

/* A failure in words, never NULL. cuFile's codes may come with either sign. */
const char *nxr_cufile_words(int code);

#endif
