/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver's binary interface that the stand-in speaks: layouts, numbers.
 * Written down apart from what the library declares, so that one mistake is not made twice;
 * check_abi.c holds them against cuda.h where the toolkit is.
 */
#ifndef FAKE_CUDA_ABI_H
#define FAKE_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

enum cu_result {
    CU_OK = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_STUB = 34,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_CONTEXT = 201,
    CU_ALREADY_MAPPED = 208,
    CU_PEER_UNSUPPORTED = 217,
    CU_INVALID_HANDLE = 400,
    CU_NOT_FOUND = 500,
    CU_NOT_READY = 600,
    CU_PEER_ENABLED = 704,
    CU_PEER_NOT_ENABLED = 705,
    CU_REGISTERED = 712,
    CU_NOT_REGISTERED = 713,
    CU_NOT_PERMITTED = 800,
    CU_NOT_SUPPORTED = 801,
};

enum cu_pointer_attribute {
    CU_PTR_CONTEXT = 1,
    CU_PTR_MEMORY_TYPE = 2,
    CU_PTR_DEVICE_POINTER = 3,
    CU_PTR_HOST_POINTER = 4,
    CU_PTR_SYNC_MEMOPS = 6,
    CU_PTR_BUFFER_ID = 7,
    CU_PTR_IS_MANAGED = 8,
    CU_PTR_DEVICE_ORDINAL = 9,
    CU_PTR_IS_LEGACY_IPC = 10,
    CU_PTR_RANGE_START = 11,
    CU_PTR_RANGE_SIZE = 12,
    CU_PTR_MAPPED = 13,
    CU_PTR_HANDLE_TYPES = 14,
    CU_PTR_IS_RDMA = 15,
    CU_PTR_MEMPOOL = 17,
    CU_PTR_MAPPING_SIZE = 18,
    CU_PTR_MAPPING_BASE = 19,
};

enum cu_device_attribute {
    CU_DEV_MULTIPROCESSORS = 16,
    CU_DEV_PCI_BUS = 33,
    CU_DEV_PCI_DEVICE = 34,
    CU_DEV_UNIFIED_ADDRESSING = 41,
    CU_DEV_PCI_DOMAIN = 50,
    CU_DEV_MAJOR = 75,
    CU_DEV_MINOR = 76,
    CU_DEV_MANAGED = 83,
    CU_DEV_HOST_REGISTER = 99,
    CU_DEV_VMM = 102,
    CU_DEV_POSIX_FD = 103,
    CU_DEV_VMM_RDMA = 110,
    CU_DEV_POOLS = 115,
    CU_DEV_RDMA = 116,
    CU_DEV_POOL_HANDLE_TYPES = 119,
    CU_DEV_64_BIT_STREAM_OPS = 122,
    CU_DEV_WAIT_NOR = 123,
    CU_DEV_DMA_BUF = 124,
    CU_DEV_IPC_EVENT = 125,
    CU_DEV_FABRIC = 128,
};

enum {
    CU_TYPE_HOST = 1,
    CU_TYPE_DEVICE = 2,
    CU_HANDLE_POSIX_FD = 1,
    CU_HANDLE_FABRIC = 8,
    CU_LOCATION_DEVICE = 1,
    CU_ALLOCATION_PINNED = 1,
    CU_ACCESS_READ_WRITE = 3,
    CU_WAIT_GEQ = 0,
    CU_WAIT_EQ = 1,
    CU_WAIT_AND = 2,
    CU_WAIT_NOR = 3,
    CU_PROC_FOUND = 0,
    CU_PROC_NOT_FOUND = 1,
    CU_PROC_VERSION = 2,
    CU_EXTERNAL_OPAQUE_FD = 1,
};

#define FAKE_STREAM_DEFAULT    ((struct fake_stream *)0)
#define FAKE_STREAM_LEGACY     ((struct fake_stream *)1)
#define FAKE_STREAM_PER_THREAD ((struct fake_stream *)2)

struct cu_uuid {
    unsigned char bytes[16];
};

struct cu_ipc_handle {
    unsigned char bytes[64];
};

struct cu_location {
    int type;
    int id;
};

struct cu_access {
    struct cu_location location;
    int flags;
};

struct cu_allocation_prop {
    int type;
    int handle_types;
    struct cu_location location;
    void *metadata;
    unsigned char flags[8]; /* the second: for GPUDirect RDMA */
};

struct cu_pool_props {
    int type;
    int handle_types;
    struct cu_location location;
    void *attributes;
    size_t max_nbytes;
    unsigned short usage;
    unsigned char reserved[54];
};

struct cu_copy_attributes {
    int order;
    struct cu_location src, dst;
    unsigned flags;
};

struct cu_external_memory {
    int type;
    union {
        int fd;
        void *pointers[2];
    } handle;
    unsigned long long nbytes;
    unsigned flags;
    unsigned reserved[16];
};

struct cu_external_buffer {
    unsigned long long offset, nbytes;
    unsigned flags;
    unsigned reserved[16];
};

#endif
