/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver, opened when it is first asked for: nothing is linked against it, and one build
 * runs with and without it. The functions are those of cuda_dyn.def.
 */
#ifndef NXR_UTIL_CUDA_DYN_H
#define NXR_UTIL_CUDA_DYN_H

#include "util/cuda_types.h"

#include <stdbool.h>

struct nxr_cuda_functions {
#define NXR_CU(_name, _version, _need, _arguments) cu_result(*_name) _arguments;
#include "util/cuda_dyn.def"
#undef NXR_CU
};

/* Filled in by nxr_cuda_load(); constant from then on. */
extern struct nxr_cuda_functions nxr_cu;

/*
 * Open the driver and fill in nxr_cu, once; later calls give the same answer. Starts nothing: the
 * first cuInit() is the caller's. NIXL_OK, or NIXL_ERR_NO_DEVICE and one line in `why`. The driver
 * is never closed again. Threads: any.
 */
int nxr_cuda_load(char *why, size_t why_nbytes);

/*
 * Is a driver in this process, whoever has loaded it? Then it is opened here, too; else nothing is.
 * Costs two reads of memory where nothing has been loaded since. Threads: any.
 */
bool nxr_cuda_is_in_process(void);

enum nxr_cuda_address {
    NXR_CUDA_ADDRESS_HOST,    /* or nothing that the driver knows */
    NXR_CUDA_ADDRESS_MANAGED, /* moves between device and host, and both read it */
    NXR_CUDA_ADDRESS_DEVICE,  /* the processor cannot read it */
};

/*
 * What the driver says of an address, also before any call of this library's has started it, and
 * the driver's number of its device. HOST where no driver is in the process. Threads: any.
 */
enum nxr_cuda_address nxr_cuda_classify(const void *addr, int *ordinal_p);

/* The name of a result, as CUDA_ERROR_INVALID_VALUE. Constant text, never NULL. */
const char *nxr_cuda_name(cu_result result);

#endif
