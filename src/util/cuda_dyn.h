/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver, opened on first use: nothing is linked against it, and one build runs with and
 * without it. cuda_dyn.def lists the functions.
 */
#ifndef NXR_UTIL_CUDA_DYN_H
#define NXR_UTIL_CUDA_DYN_H

#include "util/cuda_types.h"

#include <stdbool.h>

struct nxr_cuda_functions {
#define NXR_CU(_name, _version, _need, _arguments) cu_result(*_name) _arguments;
#include "util/cuda_dyn.def"
#include "util/symbol.h"
#undef NXR_CU
};

/* Filled in by nxr_cuda_load(); constant from then on. */
extern NXR_HIDDEN struct nxr_cuda_functions nxr_cu;

/*
 * Open the driver and fill in nxr_cu, once; later calls return the same result, unless the program
 * has loaded a driver meanwhile. Does not initialize the driver: the first cuInit() is the
 * caller's. NIXL_OK, or NIXL_E_NO_DEVICE and one line in `why`. The driver is never closed again.
 * Threads: any.
 */
int nxr_cuda_load(char *why, size_t why_nbytes);

/*
 * Is a driver in this process, whoever loaded it? If so, it is opened here, too; otherwise nothing
 * is loaded. Costs two memory reads if no object has been loaded since the last call. Threads: any.
 */
bool nxr_cuda_is_in_process(void);

enum nxr_cuda_address {
    NXR_CUDA_ADDRESS_HOST,    /* or an address that the driver does not know */
    NXR_CUDA_ADDRESS_MANAGED, /* migrates between device and host; both can read it */
    NXR_CUDA_ADDRESS_DEVICE,  /* the processor cannot read it */
};

/*
 * The driver's classification of an address, and the driver's ordinal of its device, which is
 * written only if the driver knows the address. Works before this library has initialized the
 * driver. HOST if no driver is in the process. Threads: any.
 */
enum nxr_cuda_address nxr_cuda_classify(const void *addr, int *ordinal_p);

/* The name of a result, such as CUDA_ERROR_INVALID_VALUE. Constant text, never NULL. */
const char *nxr_cuda_name(cu_result result);

#endif
