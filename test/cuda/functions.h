/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the stand-in, and the list of the names that cuGetProcAddress knows, each with
 * the version that it has. One name has two forms; its second one stands below the list.
 */
#ifndef FAKE_CUDA_FUNCTIONS_H
#define FAKE_CUDA_FUNCTIONS_H

#include "test/cuda/fake.h"

struct fake_external;
struct fake_kernel;
struct fake_module;
struct fake_pool;

int fake_pid(void);
void fake_pool_free(struct fake_range *range); /* under the lock */

/* clang-format off */
#define FAKE_FUNCTIONS(_x)                                                                         \
    _x(cuInit, 2000, cuInit)                                                                       \
    _x(cuDriverGetVersion, 2020, cuDriverGetVersion)                                               \
    _x(cuGetErrorName, 6000, cuGetErrorName)                                                       \
    _x(cuGetErrorString, 6000, cuGetErrorString)                                                   \
    _x(cuDeviceGetCount, 2000, cuDeviceGetCount)                                                   \
    _x(cuDeviceGet, 2000, cuDeviceGet)                                                             \
    _x(cuDeviceGetName, 2000, cuDeviceGetName)                                                     \
    _x(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2)                                                 \
    _x(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId)                                             \
    _x(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2)                                                \
    _x(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute)                                           \
    _x(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)                                   \
    _x(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)                             \
    _x(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState)                               \
    _x(cuCtxGetCurrent, 4000, cuCtxGetCurrent)                                                     \
    _x(cuCtxSetCurrent, 4000, cuCtxSetCurrent)                                                     \
    _x(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2)                                                \
    _x(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2)                                                  \
    _x(cuCtxGetDevice, 2000, cuCtxGetDevice)                                                       \
    _x(cuCtxGetId, 12000, cuCtxGetId)                                                              \
    _x(cuCtxSynchronize, 2000, cuCtxSynchronize)                                                   \
    _x(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer)                                         \
    _x(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute)                                     \
    _x(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess)                                         \
    _x(cuMemAlloc, 3020, cuMemAlloc_v2)                                                            \
    _x(cuMemFree, 3020, cuMemFree_v2)                                                              \
    _x(cuMemGetInfo, 3020, cuMemGetInfo_v2)                                                        \
    _x(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2)                                        \
    _x(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle)                                                 \
    _x(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2)                                           \
    _x(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle)                                             \
    _x(cuMemAllocManaged, 6000, cuMemAllocManaged)                                                 \
    _x(cuMemHostAlloc, 2020, cuMemHostAlloc)                                                       \
    _x(cuMemFreeHost, 2000, cuMemFreeHost)                                                         \
    _x(cuMemHostRegister, 6050, cuMemHostRegister_v2)                                              \
    _x(cuMemHostUnregister, 4000, cuMemHostUnregister)                                             \
    _x(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2)                              \
    _x(cuPointerGetAttribute, 4000, cuPointerGetAttribute)                                         \
    _x(cuPointerGetAttributes, 7000, cuPointerGetAttributes)                                       \
    _x(cuPointerSetAttribute, 6000, cuPointerSetAttribute)                                         \
    _x(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity)                        \
    _x(cuMemCreate, 10020, cuMemCreate)                                                            \
    _x(cuMemRelease, 10020, cuMemRelease)                                                          \
    _x(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle)                            \
    _x(cuMemGetAllocationPropertiesFromHandle, 10020, cuMemGetAllocationPropertiesFromHandle)      \
    _x(cuMemExportToShareableHandle, 10020, cuMemExportToShareableHandle)                          \
    _x(cuMemImportFromShareableHandle, 10020, cuMemImportFromShareableHandle)                      \
    _x(cuMemAddressReserve, 10020, cuMemAddressReserve)                                            \
    _x(cuMemAddressFree, 10020, cuMemAddressFree)                                                  \
    _x(cuMemMap, 10020, cuMemMap)                                                                  \
    _x(cuMemUnmap, 10020, cuMemUnmap)                                                              \
    _x(cuMemSetAccess, 10020, cuMemSetAccess)                                                      \
    _x(cuMemPoolCreate, 11020, cuMemPoolCreate)                                                    \
    _x(cuMemPoolDestroy, 11020, cuMemPoolDestroy)                                                  \
    _x(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool)                                \
    _x(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool)                                              \
    _x(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute)                                        \
    _x(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess)                                              \
    _x(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync)                                    \
    _x(cuMemAllocAsync, 11020, cuMemAllocAsync)                                                    \
    _x(cuMemFreeAsync, 11020, cuMemFreeAsync)                                                      \
    _x(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle)                  \
    _x(cuMemPoolImportFromShareableHandle, 11020, cuMemPoolImportFromShareableHandle)              \
    _x(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer)                                      \
    _x(cuMemPoolImportPointer, 11020, cuMemPoolImportPointer)                                      \
    _x(cuStreamCreate, 2000, cuStreamCreate)                                                       \
    _x(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority)                               \
    _x(cuStreamDestroy, 4000, cuStreamDestroy_v2)                                                  \
    _x(cuStreamQuery, 2000, cuStreamQuery)                                                         \
    _x(cuStreamSynchronize, 2000, cuStreamSynchronize)                                             \
    _x(cuStreamGetCtx, 9020, cuStreamGetCtx)                                                       \
    _x(cuStreamIsCapturing, 10000, cuStreamIsCapturing)                                            \
    _x(cuEventCreate, 2000, cuEventCreate)                                                         \
    _x(cuEventDestroy, 4000, cuEventDestroy_v2)                                                    \
    _x(cuEventRecord, 2000, cuEventRecord)                                                         \
    _x(cuEventQuery, 2000, cuEventQuery)                                                           \
    _x(cuEventSynchronize, 2000, cuEventSynchronize)                                               \
    _x(cuStreamWaitEvent, 3020, cuStreamWaitEvent)                                                 \
    _x(cuMemcpyAsync, 4000, cuMemcpyAsync)                                                         \
    _x(cuMemcpy, 4000, cuMemcpy)                                                                   \
    _x(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2)                                                        \
    _x(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2)                                                        \
    _x(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2)                                              \
    _x(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync)                                                 \
    _x(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync)                                              \
    _x(cuMemsetD8Async, 3020, cuMemsetD8Async)                                                     \
    _x(cuMemsetD8, 3020, cuMemsetD8_v2)                                                            \
    _x(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2)                                       \
    _x(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2)                                       \
    _x(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2)                                         \
    _x(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2)                                         \
    _x(cuLaunchHostFunc, 10000, cuLaunchHostFunc)                                                  \
    _x(cuImportExternalMemory, 10000, cuImportExternalMemory)                                      \
    _x(cuExternalMemoryGetMappedBuffer, 10000, cuExternalMemoryGetMappedBuffer)                    \
    _x(cuDestroyExternalMemory, 10000, cuDestroyExternalMemory)                                    \
    _x(cuModuleLoadData, 2000, cuModuleLoadData)                                                   \
    _x(cuModuleUnload, 2000, cuModuleUnload)                                                       \
    _x(cuModuleGetFunction, 2000, cuModuleGetFunction)                                             \
    _x(cuLaunchKernel, 4000, cuLaunchKernel)
#define FAKE_SECOND_FORMS(_x) _x(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2)
/* clang-format on */

/* setup.c */
FAKE_API int cuInit(unsigned flags);
FAKE_API int cuDriverGetVersion(int *version_p);
FAKE_API int cuGetErrorName(int result, const char **name_p);
FAKE_API int cuGetErrorString(int result, const char **text_p);
FAKE_API int cuGetProcAddress_v2(const char *name, void **function_p, int version, uint64_t flags,
                                 int *status_p);
FAKE_API int cuGetProcAddress(const char *name, void **function_p, int version, uint64_t flags);

/* device.c */
FAKE_API int cuDeviceGetCount(int *count_p);
FAKE_API int cuDeviceGet(int *device_p, int ordinal);
FAKE_API int cuDeviceGetName(char *name, int nbytes, int device);
FAKE_API int cuDeviceGetUuid_v2(struct cu_uuid *uuid_p, int device);
FAKE_API int cuDeviceGetPCIBusId(char *text, int nbytes, int device);
FAKE_API int cuDeviceTotalMem_v2(size_t *nbytes_p, int device);
FAKE_API int cuDeviceGetAttribute(int *value_p, int attribute, int device);
FAKE_API int cuDevicePrimaryCtxRetain(struct fake_context **context_p, int device);
FAKE_API int cuDevicePrimaryCtxRelease_v2(int device);
FAKE_API int cuDevicePrimaryCtxGetState(int device, unsigned *flags_p, int *is_active_p);
FAKE_API int cuCtxGetCurrent(struct fake_context **context_p);
FAKE_API int cuCtxSetCurrent(struct fake_context *context);
FAKE_API int cuCtxPushCurrent_v2(struct fake_context *context);
FAKE_API int cuCtxPopCurrent_v2(struct fake_context **context_p);
FAKE_API int cuCtxGetDevice(int *device_p);
FAKE_API int cuCtxGetId(struct fake_context *context, unsigned long long *id_p);
FAKE_API int cuCtxSynchronize(void);
FAKE_API int cuDeviceCanAccessPeer(int *can_p, int device, int peer);
FAKE_API int cuDeviceGetP2PAttribute(int *value_p, int attribute, int device, int peer);
FAKE_API int cuCtxEnablePeerAccess(struct fake_context *peer, unsigned flags);

/* memory.c */
FAKE_API int cuMemAlloc_v2(uintptr_t *addr_p, size_t nbytes);
FAKE_API int cuMemFree_v2(uintptr_t addr);
FAKE_API int cuMemGetInfo_v2(size_t *free_p, size_t *total_p);
FAKE_API int cuMemGetAddressRange_v2(uintptr_t *addr_p, size_t *nbytes_p, uintptr_t addr);
FAKE_API int cuIpcGetMemHandle(struct cu_ipc_handle *handle_p, uintptr_t addr);
FAKE_API int cuIpcOpenMemHandle_v2(uintptr_t *addr_p, struct cu_ipc_handle handle, unsigned flags);
FAKE_API int cuIpcCloseMemHandle(uintptr_t addr);
FAKE_API int cuMemAllocManaged(uintptr_t *addr_p, size_t nbytes, unsigned flags);
FAKE_API int cuMemHostAlloc(void **addr_p, size_t nbytes, unsigned flags);
FAKE_API int cuMemFreeHost(void *addr);
FAKE_API int cuMemHostRegister_v2(void *addr, size_t nbytes, unsigned flags);
FAKE_API int cuMemHostUnregister(void *addr);
FAKE_API int cuMemHostGetDevicePointer_v2(uintptr_t *device_p, void *addr, unsigned flags);

/* attribute.c */
FAKE_API int cuPointerGetAttribute(void *data, int attribute, uintptr_t addr);
FAKE_API int cuPointerGetAttributes(unsigned n, const int *attributes, void **data, uintptr_t addr);
FAKE_API int cuPointerSetAttribute(const void *value, int attribute, uintptr_t addr);

/* vmm.c */
FAKE_API int cuMemGetAllocationGranularity(size_t *nbytes_p, const struct cu_allocation_prop *prop,
                                           int option);
FAKE_API int cuMemCreate(struct fake_backing **handle_p, size_t nbytes,
                         const struct cu_allocation_prop *prop, unsigned long long flags);
FAKE_API int cuMemRelease(struct fake_backing *backing);
FAKE_API int cuMemRetainAllocationHandle(struct fake_backing **handle_p, void *addr);
FAKE_API int cuMemGetAllocationPropertiesFromHandle(struct cu_allocation_prop *prop_p,
                                                    struct fake_backing *backing);
FAKE_API int cuMemExportToShareableHandle(void *shareable_p, struct fake_backing *backing, int type,
                                          unsigned long long flags);
FAKE_API int cuMemImportFromShareableHandle(struct fake_backing **handle_p, void *shareable,
                                            int type);
FAKE_API int cuMemAddressReserve(uintptr_t *addr_p, size_t nbytes, size_t alignment, uintptr_t wish,
                                 unsigned long long flags);
FAKE_API int cuMemAddressFree(uintptr_t addr, size_t nbytes);
FAKE_API int cuMemMap(uintptr_t addr, size_t nbytes, size_t offset, struct fake_backing *backing,
                      unsigned long long flags);
FAKE_API int cuMemUnmap(uintptr_t addr, size_t nbytes);
FAKE_API int cuMemSetAccess(uintptr_t addr, size_t nbytes, const struct cu_access *access,
                            size_t n);

/* pool.c */
FAKE_API int cuMemPoolCreate(struct fake_pool **pool_p, const struct cu_pool_props *props);
FAKE_API int cuMemPoolDestroy(struct fake_pool *pool);
FAKE_API int cuDeviceGetDefaultMemPool(struct fake_pool **pool_p, int device);
FAKE_API int cuDeviceGetMemPool(struct fake_pool **pool_p, int device);
FAKE_API int cuMemPoolSetAttribute(struct fake_pool *pool, int attribute, void *value);
FAKE_API int cuMemPoolSetAccess(struct fake_pool *pool, const struct cu_access *access, size_t n);
FAKE_API int cuMemAllocFromPoolAsync(uintptr_t *addr_p, size_t nbytes, struct fake_pool *pool,
                                     struct fake_stream *stream);
FAKE_API int cuMemAllocAsync(uintptr_t *addr_p, size_t nbytes, struct fake_stream *stream);
FAKE_API int cuMemFreeAsync(uintptr_t addr, struct fake_stream *stream);
FAKE_API int cuMemPoolExportToShareableHandle(void *shareable_p, struct fake_pool *pool, int type,
                                              unsigned long long flags);
FAKE_API int cuMemPoolImportFromShareableHandle(struct fake_pool **pool_p, void *shareable,
                                                int type, unsigned long long flags);
FAKE_API int cuMemPoolExportPointer(struct cu_ipc_handle *data_p, uintptr_t addr);
FAKE_API int cuMemPoolImportPointer(uintptr_t *addr_p, struct fake_pool *pool,
                                    const struct cu_ipc_handle *handle);

/* stream.c */
FAKE_API int cuStreamCreate(struct fake_stream **stream_p, unsigned flags);
FAKE_API int cuStreamCreateWithPriority(struct fake_stream **stream_p, unsigned flags,
                                        int priority);
FAKE_API int cuStreamDestroy_v2(struct fake_stream *stream);
FAKE_API int cuStreamQuery(struct fake_stream *stream);
FAKE_API int cuStreamSynchronize(struct fake_stream *stream);
FAKE_API int cuStreamGetCtx(struct fake_stream *stream, struct fake_context **context_p);
FAKE_API int cuStreamIsCapturing(struct fake_stream *stream, int *status_p);

/* event.c */
FAKE_API int cuEventCreate(struct fake_event **event_p, unsigned flags);
FAKE_API int cuEventDestroy_v2(struct fake_event *event);
FAKE_API int cuEventRecord(struct fake_event *event, struct fake_stream *stream);
FAKE_API int cuEventQuery(struct fake_event *event);
FAKE_API int cuEventSynchronize(struct fake_event *event);
FAKE_API int cuStreamWaitEvent(struct fake_stream *stream, struct fake_event *event,
                               unsigned flags);

/* copy.c */
FAKE_API int cuMemcpyAsync(uintptr_t dst, uintptr_t src, size_t nbytes, struct fake_stream *stream);
FAKE_API int cuMemcpy(uintptr_t dst, uintptr_t src, size_t nbytes);
FAKE_API int cuMemcpyHtoD_v2(uintptr_t dst, const void *src, size_t nbytes);
FAKE_API int cuMemcpyDtoH_v2(void *dst, uintptr_t src, size_t nbytes);
FAKE_API int cuMemcpyDtoDAsync_v2(uintptr_t dst, uintptr_t src, size_t nbytes,
                                  struct fake_stream *stream);
FAKE_API int cuMemcpyPeerAsync(uintptr_t dst, struct fake_context *dst_context, uintptr_t src,
                               struct fake_context *src_context, size_t nbytes,
                               struct fake_stream *stream);
FAKE_API int cuMemcpyBatchAsync_v2(uintptr_t *dsts, uintptr_t *srcs, size_t *sizes, size_t n,
                                   struct cu_copy_attributes *attributes, size_t *indices,
                                   size_t n_attributes, struct fake_stream *stream);
FAKE_API int cuMemcpyBatchAsync(uintptr_t *dsts, uintptr_t *srcs, size_t *sizes, size_t n,
                                struct cu_copy_attributes *attributes, size_t *indices,
                                size_t n_attributes, size_t *failed_p, struct fake_stream *stream);
FAKE_API int cuMemsetD8Async(uintptr_t addr, unsigned char value, size_t nbytes,
                             struct fake_stream *stream);
FAKE_API int cuMemsetD8_v2(uintptr_t addr, unsigned char value, size_t nbytes);
FAKE_API int cuStreamWriteValue64_v2(struct fake_stream *stream, uintptr_t addr, uint64_t value,
                                     unsigned flags);
FAKE_API int cuStreamWriteValue32_v2(struct fake_stream *stream, uintptr_t addr, uint32_t value,
                                     unsigned flags);
FAKE_API int cuStreamWaitValue64_v2(struct fake_stream *stream, uintptr_t addr, uint64_t value,
                                    unsigned flags);
FAKE_API int cuStreamWaitValue32_v2(struct fake_stream *stream, uintptr_t addr, uint32_t value,
                                    unsigned flags);
FAKE_API int cuLaunchHostFunc(struct fake_stream *stream, void (*function)(void *), void *data);

/* external.c */
FAKE_API int cuImportExternalMemory(struct fake_external **external_p,
                                    const struct cu_external_memory *memory);
FAKE_API int cuExternalMemoryGetMappedBuffer(uintptr_t *addr_p, struct fake_external *external,
                                             const struct cu_external_buffer *buffer);
FAKE_API int cuDestroyExternalMemory(struct fake_external *external);

/* kernel.c */
FAKE_API int cuModuleLoadData(struct fake_module **module_p, const void *image);
FAKE_API int cuModuleUnload(struct fake_module *module);
FAKE_API int cuModuleGetFunction(const struct fake_kernel **function_p, struct fake_module *module,
                                 const char *name);
FAKE_API int cuLaunchKernel(const struct fake_kernel *function, unsigned grid_x, unsigned grid_y,
                            unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared, struct fake_stream *stream, void **arguments,
                            void **extra);

#endif
