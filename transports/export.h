/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description by which a peer opens a segment of device memory, or a file, of another process
 * on its host.
 */
#ifndef NXR_TRANSPORTS_EXPORT_H
#define NXR_TRANSPORTS_EXPORT_H

#include <stdint.h>

/* How device memory, or a file, is exported to other processes on its host. */
enum nxr_export_type {
    NXR_EXPORT_NONE,        /* not exported: its owner moves the bytes */
    NXR_EXPORT_CUDA_LEGACY, /* cudaMalloc: `handle` */
    NXR_EXPORT_CUDA_VMM,    /* cuMemCreate: a descriptor */
    NXR_EXPORT_CUDA_FABRIC, /* cuMemCreate: `handle` */
    NXR_EXPORT_CUDA_POOL,   /* a memory pool: its descriptor, and the pointer's `handle` */
    NXR_EXPORT_VULKAN,      /* an opaque descriptor */
    NXR_EXPORT_FILE,        /* a descriptor of the file, for reading */
    NXR_N_EXPORT_TYPES
};

/*
 * What a peer on the same host needs to open device memory or a file, in addition to the key and
 * the descriptor that travel with it. Fixed layout, checked on arrival (memory/export.c); all zeros
 * for host memory.
 */
struct nxr_export {
    uint64_t nbytes;          /* of the whole allocation that is exported */
    uint64_t offset;          /* of the segment's first byte in it */
    uint64_t serial;          /* distinguishes allocations at the same address (CUDA's buffer id) */
    uint32_t memory_type;     /* Vulkan: index of the memory type */
    uint8_t type;             /* enum nxr_export_type */
    uint8_t is_dedicated;     /* Vulkan: a dedicated allocation */
    uint8_t is_direct;        /* files: read past the page cache */
    uint8_t unused;           /* 0 */
    unsigned char device[16]; /* UUIDs of the device and, for Vulkan, of its driver */
    unsigned char driver[16];
    unsigned char handle[64];
};
_Static_assert(sizeof(struct nxr_export) == 128, "fixed on the wire");

#endif
