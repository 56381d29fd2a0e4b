/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVIDIA's driver interface that is used, declared here so that no toolkit is needed to
 * build. Sizes and values are the driver's, fixed forever by its ABI. If a toolkit is installed,
 * test/unit/cuda_abi.c checks all of it against cuda.h at compile time.
 */
#ifndef NXR_UTIL_CUDA_TYPES_H
#define NXR_UTIL_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned cu_result; /* enum cu_results, or a value that a newer driver added */
typedef int cu_device;
typedef unsigned long long cu_address;    /* of device memory */
typedef unsigned long long cu_allocation; /* what cuMemCreate() made */
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUmemPoolHandle_st *cu_pool;
typedef struct CUextMemory_st *cu_external_memory;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef void (*cu_host_function)(void *argument);

enum cu_results {
    CU_OK = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_DEINITIALIZED = 4,
    CU_STUB_LIBRARY = 34,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_CONTEXT = 201,
    CU_NOT_READY = 600,
    CU_PEER_ACCESS_ALREADY_ENABLED = 704,
    CU_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CU_NOT_SUPPORTED = 801,
    CU_SYSTEM_DRIVER_MISMATCH = 803,
};

typedef unsigned cu_device_attribute;
enum cu_device_attributes {
    CU_DEVICE_MULTIPROCESSORS = 16,
    CU_DEVICE_VMM_SUPPORTED = 102,
    CU_DEVICE_POSIX_FD_SUPPORTED = 103,
    CU_DEVICE_RDMA_WITH_VMM_SUPPORTED = 110,
    CU_DEVICE_RDMA_WRITES_ORDERING = 118,
};

/*
 * Values of CU_DEVICE_RDMA_WRITES_ORDERING: RDMA writes are ordered for no device, for the device
 * itself (the one declared here), or for all devices.
 */
enum cu_rdma_writes_orderings { CU_RDMA_WRITES_ORDERED_FOR_OWNER = 100 };

typedef unsigned cu_pointer_attribute;
enum cu_pointer_attributes {
    CU_POINTER_MEMORY_TYPE = 2,      /* unsigned, enum cu_memory_types */
    CU_POINTER_SYNC_MEMOPS = 6,      /* unsigned, to be set */
    CU_POINTER_BUFFER_ID = 7,        /* unsigned long long, unique in the process */
    CU_POINTER_IS_MANAGED = 8,       /* unsigned */
    CU_POINTER_DEVICE_ORDINAL = 9,   /* int */
    CU_POINTER_RANGE_START = 11,     /* cu_address */
    CU_POINTER_RANGE_SIZE = 12,      /* size_t */
    CU_POINTER_HANDLE_TYPES = 14,    /* uint64_t, bits of enum cu_handle_types */
    CU_POINTER_IS_RDMA_CAPABLE = 15, /* unsigned char */
    CU_POINTER_POOL = 17,            /* cu_pool; NULL for other memory */
    CU_POINTER_MAPPING_SIZE = 18,    /* size_t */
    CU_POINTER_MAPPING_START = 19,   /* cu_address */
};

enum cu_memory_types { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };

typedef unsigned cu_handle_type;
enum cu_handle_types { CU_HANDLE_NONE = 0, CU_HANDLE_POSIX_FD = 1, CU_HANDLE_FABRIC = 8 };

typedef unsigned cu_granularity;
enum cu_granularities { CU_GRANULARITY_MINIMUM = 0 };

typedef unsigned cu_capture;
enum cu_captures { CU_CAPTURE_NONE = 0 };

enum {
    CU_ALLOCATION_PINNED = 1,
    CU_LOCATION_DEVICE = 1,
    CU_ACCESS_READ_WRITE = 3,
    CU_EXTERNAL_OPAQUE_FD = 1,
    CU_EXTERNAL_DEDICATED = 1,
};

/* Flags of functions. */
enum {
    CU_STREAM_IS_NON_BLOCKING = 1,
    CU_EVENT_NO_TIMING = 2,
    CU_IPC_LAZY_PEER_ACCESS = 1,
    CU_REGISTER_PORTABLE = 1,
    CU_REGISTER_DEVICEMAP = 2,
    CU_HOST_PORTABLE = 1,
    CU_HOST_DEVICEMAP = 2,
    CU_COPY_IN_STREAM_ORDER = 1, /* when the source is read */
};

/* Predefined streams. */
#define CU_STREAM_LEGACY     ((cu_stream)0x1)
#define CU_STREAM_PER_THREAD ((cu_stream)0x2)

typedef struct cu_uuid {
    char bytes[16];
} cu_uuid;

typedef struct cu_ipc_handle {
    char bytes[64];
} cu_ipc_handle;

typedef struct cu_fabric_handle {
    unsigned char bytes[64];
} cu_fabric_handle;

typedef struct cu_pool_pointer {
    unsigned char bytes[64];
} cu_pool_pointer;

typedef struct cu_location {
    unsigned type; /* CU_LOCATION_DEVICE */
    int id;
} cu_location;

typedef struct cu_access {
    cu_location location;
    unsigned flags; /* CU_ACCESS_READ_WRITE */
} cu_access;

typedef struct cu_allocation_props {
    unsigned type;         /* CU_ALLOCATION_PINNED */
    unsigned handle_types; /* enum cu_handle_types */
    cu_location location;
    void *unused;
    struct {
        unsigned char compression;
        unsigned char is_gpu_direct_rdma;
        unsigned short usage;
        unsigned char unused[4];
    } flags;
} cu_allocation_props;

typedef struct cu_copy_attributes {
    unsigned order; /* CU_COPY_IN_STREAM_ORDER */
    cu_location src_hint;
    cu_location dst_hint;
    unsigned flags;
} cu_copy_attributes;

typedef struct cu_external_handle {
    unsigned type; /* CU_EXTERNAL_OPAQUE_FD */
    union {
        int fd;
        void *pointers[2];
    } handle;
    unsigned long long size;
    unsigned flags; /* CU_EXTERNAL_DEDICATED */
    unsigned unused[16];
} cu_external_handle;

typedef struct cu_external_buffer {
    unsigned long long offset;
    unsigned long long size;
    unsigned flags;
    unsigned unused[16];
} cu_external_buffer;

#endif
