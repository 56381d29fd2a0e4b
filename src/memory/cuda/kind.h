/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder is CUDA memory as a kind (memory.h). It owns the driver's start, the devices and
 * their contexts, memory that was allocated, adopted or opened here, the streams of copies, the
 * library's own kernels, and host memory that is page-locked. What its files share stands in
 * cuda.h, with the lock. cuda_device.c is below all of them, cuda.c above; no file calls back up.
 *
 * Who calls: everybody through the kind's table, as kind.c hands it out. init.c registers it;
 * memory/vulkan lets it copy Vulkan's memory (cuda_external.c); what works in streams of the
 * user's includes stream.h. Nobody else includes a header of this folder.
 */
#ifndef NXR_MEMORY_CUDA_KIND_H
#define NXR_MEMORY_CUDA_KIND_H

#include "memory/memory.h"

extern const struct nxr_memory_kind nxr_memory_cuda;

#endif
