/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library declares of NVIDIA's driver, held against the toolkit's headers by the compiler,
 * where they are installed: values, layouts, and the type of every function in the version that is
 * asked for.
 */
#include "util/cuda_types.h"

#if defined(__has_include)
#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>
#endif
#endif

#if defined(CUDA_VERSION) && CUDA_VERSION >= 12080

#define SAME(_ours, _theirs) _Static_assert((int)(_ours) == (int)(_theirs), #_ours)
SAME(CU_OK, CUDA_SUCCESS);
SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(CU_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CU_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(CU_DEVICE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_DEVICE_VMM_SUPPORTED, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(CU_DEVICE_POSIX_FD_SUPPORTED, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(CU_DEVICE_RDMA_WITH_VMM_SUPPORTED,
     CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CU_POINTER_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(CU_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(CU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(CU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(CU_POINTER_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(CU_POINTER_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(CU_POINTER_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(CU_POINTER_POOL, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(CU_POINTER_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
SAME(CU_POINTER_MAPPING_START, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
SAME(CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(CU_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CU_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_EXTERNAL_OPAQUE_FD, CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
SAME(CU_EXTERNAL_DEDICATED, CUDA_EXTERNAL_MEMORY_DEDICATED);
SAME(CU_STREAM_IS_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(CU_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(CU_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(CU_REGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CU_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CU_COPY_IN_STREAM_ORDER, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);

#define SAME_PLACE(_ours, _member, _theirs, _their_member)                                         \
    SAME(offsetof(_ours, _member), offsetof(_theirs, _their_member))
SAME(sizeof(cu_uuid), sizeof(CUuuid));
SAME(sizeof(cu_ipc_handle), sizeof(CUipcMemHandle));
SAME(sizeof(cu_fabric_handle), sizeof(CUmemFabricHandle));
SAME(sizeof(cu_pool_pointer), sizeof(CUmemPoolPtrExportData));
SAME(sizeof(cu_access), sizeof(CUmemAccessDesc));
SAME_PLACE(cu_access, flags, CUmemAccessDesc, flags);
SAME(sizeof(cu_allocation_props), sizeof(CUmemAllocationProp));
SAME_PLACE(cu_allocation_props, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(cu_allocation_props, location, CUmemAllocationProp, location);
SAME_PLACE(cu_allocation_props, flags, CUmemAllocationProp, allocFlags);
SAME(sizeof(cu_copy_attributes), sizeof(CUmemcpyAttributes));
SAME_PLACE(cu_copy_attributes, flags, CUmemcpyAttributes, flags);
SAME(sizeof(cu_external_handle), sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC));
SAME_PLACE(cu_external_handle, size, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
SAME_PLACE(cu_external_handle, flags, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags);
SAME(sizeof(cu_external_buffer), sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC));
SAME_PLACE(cu_external_buffer, flags, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags);

/* The list of functions again, with the toolkit's types instead of this project's. */
#define cu_result            CUresult
#define cu_device            CUdevice
#define cu_address           CUdeviceptr
#define cu_allocation        CUmemGenericAllocationHandle
#define cu_external_memory   CUexternalMemory
#define cu_host_function     CUhostFn
#define cu_device_attribute  CUdevice_attribute
#define cu_pointer_attribute CUpointer_attribute
#define cu_handle_type       CUmemAllocationHandleType
#define cu_granularity       CUmemAllocationGranularity_flags
#define cu_capture           CUstreamCaptureStatus
#define cu_uuid              CUuuid
#define cu_ipc_handle        CUipcMemHandle
#define cu_pool_pointer      CUmemPoolPtrExportData
#define cu_access            CUmemAccessDesc
#define cu_allocation_props  CUmemAllocationProp
#define cu_copy_attributes   CUmemcpyAttributes
#define cu_external_handle   CUDA_EXTERNAL_MEMORY_HANDLE_DESC
#define cu_external_buffer   CUDA_EXTERNAL_MEMORY_BUFFER_DESC
#define NXR_CU(_name, _version, _need, _arguments)                                                 \
    _Static_assert(                                                                                \
        __builtin_types_compatible_p(cu_result(*) _arguments, PFN_cu##_name##_v##_version),        \
        "cu" #_name);
#include "util/cuda_dyn.def"
#undef NXR_CU

#endif
