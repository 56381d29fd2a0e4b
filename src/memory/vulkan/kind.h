/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder is Vulkan memory as a kind (memory.h). It owns the instance, the devices and their
 * queues, memory of regions (small ones share an allocation: vulkan_arena.c), batches of copies,
 * the thread that wakes sleepers at their ends, and host memory that was imported. What its files
 * share stands in vulkan.h, with the locks; vulkan_none.c is the whole folder where Vulkan's
 * headers are not there. Where CUDA knows a device, too, CUDA copies: this folder calls
 * memory/cuda, never the other way round.
 *
 * Who calls: everybody through the kind's table, as kind.c hands it out. init.c registers it.
 * Nobody else includes a header of this folder.
 */
#ifndef NXR_MEMORY_VULKAN_KIND_H
#define NXR_MEMORY_VULKAN_KIND_H

#include "memory/memory.h"

extern const struct nxr_memory_kind nxr_memory_vulkan;

#endif
