/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder implements CUDA memory as a kind (memory.h). It owns starting the driver, the devices
 * and their contexts, memory that was allocated, adopted or opened here, the streams for copies,
 * the library's own kernels, and page-locked host memory. Declarations shared by its files are in
 * cuda.h, with the lock. cuda_device.c is below all other files, cuda.c above; no file calls
 * upwards.
 *
 * Callers use the kind's table, which kind.c provides. init.c registers it; memory/vulkan has it
 * copy Vulkan's memory (cuda_external.c). No other code includes a header of this folder.
 */
#ifndef NXR_MEMORY_CUDA_KIND_H
#define NXR_MEMORY_CUDA_KIND_H

#include "memory/memory.h"

extern const struct nxr_memory_kind nxr_memory_cuda;

#endif
