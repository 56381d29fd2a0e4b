/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder implements Vulkan memory as a kind (memory.h). It owns the instance, the devices and
 * their queues, memory of regions (small ones share an allocation: vulkan_arena.c), batches of
 * copies, the thread that wakes sleepers when batches end, and imported host memory. Declarations
 * shared by its files are in vulkan.h, with the locks. vulkan_none.c replaces the whole folder if
 * Vulkan's headers are missing. If CUDA knows a device, too, CUDA copies: this folder calls
 * memory/cuda, never the reverse.
 *
 * Callers use the kind's table, which kind.c provides. init.c registers it. No other code includes
 * a header of this folder.
 */
#ifndef NXR_MEMORY_VULKAN_KIND_H
#define NXR_MEMORY_VULKAN_KIND_H

#include "memory/memory.h"

extern const struct nxr_memory_kind nxr_memory_vulkan;

#endif
