/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory for test programs. One thread uses it. */
#include "test/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const gpu_way_names[GPU_N_WAYS] = {"host",       "cuda",         "vulkan",
                                               "cuMemAlloc", "cuMemMap",     "fabric",
                                               "pool",       "default pool", "managed"};

static struct fake_context *context;
static int device, n_devices;

void gpu_need(const char *file, int line, const char *call, int result)
{
    if (result != CU_OK) {
        mpt_fail(file, line, "%s: CUDA error %d", call, result);
    }
}

void gpu_start(void)
{
    const char *why = cuda_load("libcuda.so.1"), *wish = getenv("GPU_DEVICE");

    if (why != NULL) {
        mpt_skip("%s", why);
    }
    GPU_OK(cu.cuDeviceGetCount(&n_devices));
    device = wish != NULL ? atoi(wish) : nixl_rank() % n_devices;
    GPU_OK(cu.cuDevicePrimaryCtxRetain(&context, device));
    GPU_OK(cu.cuCtxPushCurrent(context));
}

void gpu_stop(void)
{
    GPU_OK(cu.cuCtxPopCurrent(&context));
    GPU_OK(cu.cuDevicePrimaryCtxRelease(device));
}

int gpu_device(void)
{
    return device;
}

int gpu_n_devices(void)
{
    return n_devices;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* What a fabric handle needs beside the device is known when memory is asked for. */
static bool has_fabric(void)
{
    int has = 0;

    if (cu.cuDeviceGetAttribute(&has, CU_DEV_FABRIC, device) != CU_OK || has == 0) {
        printf("# skip: the device has no fabric handles (cuDeviceGetAttribute)\n");
    }
    return has != 0;
}

static bool make_vmm(size_t nbytes, int handle_types, struct gpu_region *memory)
{
    const struct cu_allocation_prop props = {.type = CU_ALLOCATION_PINNED,
                                             .handle_types = handle_types,
                                             .location = {CU_LOCATION_DEVICE, device}};
    const struct cu_access access = {{CU_LOCATION_DEVICE, device}, CU_ACCESS_READ_WRITE};
    size_t unit;
    int result;

    GPU_OK(cu.cuMemGetAllocationGranularity(&unit, &props, 0));
    memory->mapped_nbytes = (nbytes + unit - 1) / unit * unit;
    result = cu.cuMemCreate(&memory->allocation, memory->mapped_nbytes, &props, 0);
    if (result != CU_OK && handle_types == CU_HANDLE_FABRIC) {
        printf("# skip: the driver makes no fabric memory here: CUDA error %d\n", result);
        return false;
    }
    GPU_OK(result);
    GPU_OK(cu.cuMemAddressReserve(&memory->addr, memory->mapped_nbytes, 0, 0, 0));
    GPU_OK(cu.cuMemMap(memory->addr, memory->mapped_nbytes, 0, memory->allocation, 0));
    GPU_OK(cu.cuMemSetAccess(memory->addr, memory->mapped_nbytes, &access, 1));
    return true;
}

static void make_pool(size_t nbytes, struct gpu_region *memory)
{
    const struct cu_pool_props props = {.type = CU_ALLOCATION_PINNED,
                                        .handle_types = CU_HANDLE_POSIX_FD,
                                        .location = {CU_LOCATION_DEVICE, device}};

    GPU_OK(cu.cuMemPoolCreate(&memory->pool, &props));
    GPU_OK(cu.cuMemAllocFromPoolAsync(&memory->addr, nbytes, memory->pool, FAKE_STREAM_DEFAULT));
    GPU_OK(cu.cuStreamSynchronize(FAKE_STREAM_DEFAULT));
}

bool gpu_memory_make(enum gpu_way way, size_t nbytes, struct gpu_region *memory_p)
{
    *memory_p = (struct gpu_region){.way = way, .nbytes = nbytes};
    switch (way) {
    case GPU_MALLOC:
        GPU_OK(cu.cuMemAlloc(&memory_p->addr, nbytes));
        break;
    case GPU_VMM:
        return make_vmm(nbytes, CU_HANDLE_POSIX_FD, memory_p);
    case GPU_FABRIC:
        return has_fabric() && make_vmm(nbytes, CU_HANDLE_FABRIC, memory_p);
    case GPU_POOL:
        make_pool(nbytes, memory_p);
        break;
    case GPU_ASYNC:
        GPU_OK(cu.cuMemAllocAsync(&memory_p->addr, nbytes, FAKE_STREAM_DEFAULT));
        GPU_OK(cu.cuStreamSynchronize(FAKE_STREAM_DEFAULT));
        break;
    case GPU_MANAGED:
        GPU_OK(cu.cuMemAllocManaged(&memory_p->addr, nbytes, 1));
        break;
    default:
        mpt_fail(__FILE__, __LINE__, "%s memory is the library's", gpu_way_names[way]);
    }
    return true;
}

void gpu_memory_end(struct gpu_region *memory)
{
    switch (memory->way) {
    case GPU_MALLOC:
    case GPU_MANAGED:
        GPU_OK(cu.cuMemFree(memory->addr));
        break;
    case GPU_VMM:
    case GPU_FABRIC:
        GPU_OK(cu.cuMemUnmap(memory->addr, memory->mapped_nbytes));
        GPU_OK(cu.cuMemAddressFree(memory->addr, memory->mapped_nbytes));
        GPU_OK(cu.cuMemRelease(memory->allocation));
        break;
    case GPU_POOL:
    case GPU_ASYNC:
        GPU_OK(cu.cuMemFreeAsync(memory->addr, FAKE_STREAM_DEFAULT));
        GPU_OK(cu.cuStreamSynchronize(FAKE_STREAM_DEFAULT));
        if (memory->pool != NULL) {
            GPU_OK(cu.cuMemPoolDestroy(memory->pool));
        }
        break;
    default:
        break;
    }
}

/* ---- regions --------------------------------------------------------------------------------- */

static bool is_allocated(enum gpu_way way)
{
    return way <= GPU_VULKAN;
}

/* The rank's GPU, as all kinds of memory call it. */
static void find_uuid(char text[40])
{
    struct cu_uuid uuid;

    GPU_OK(cu.cuDeviceGetUuid(&uuid, device));
    for (int i = 0; i < 16; i++) {
        snprintf(text + 2 * (size_t)i, 3, "%02x", (unsigned char)uuid.bytes[i]);
    }
}

/* Of the rank's GPU, if that kind of memory knows it. */
static bool allocate(const char *name, struct gpu_region *region)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    char uuid[40];
    int status;

    find_uuid(uuid);
    params.kind = region->way == GPU_HOST   ? NIXL_MEM_HOST
                  : region->way == GPU_CUDA ? NIXL_MEM_CUDA
                                            : NIXL_MEM_VULKAN;
    params.device = region->way == GPU_HOST ? NULL : uuid;
    status = nixl_region_alloc(name, region->nbytes, &params, &region->region);
    if (status == NIXL_E_NO_DEVICE && region->way == GPU_VULKAN) {
        return false;
    }
    MPT_OK(status);
    region->addr = (uintptr_t)nixl_region_addr(region->region);
    return true;
}

bool gpu_region_make(const char *name, enum gpu_way way, size_t nbytes, struct gpu_region *region_p)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    if (is_allocated(way)) {
        *region_p = (struct gpu_region){.way = way, .nbytes = nbytes};
        return allocate(name, region_p);
    }
    if (!gpu_memory_make(way, nbytes, region_p)) {
        return false;
    }
    params.kind = NIXL_MEM_AUTO;
    MPT_OK(nixl_region_register(name, (void *)region_p->addr, nbytes, &params, &region_p->region));
    return true;
}

void gpu_region_end(struct gpu_region *region)
{
    MPT_OK(nixl_region_close(region->region, MPT_PATIENCE));
    gpu_memory_end(region);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The driver returns when it has taken the bytes, which may be before they are there. */
void gpu_write(uintptr_t addr, const void *src, size_t nbytes)
{
    GPU_OK(cu.cuMemcpyHtoD(addr, src, nbytes));
    GPU_OK(cu.cuStreamSynchronize(FAKE_STREAM_DEFAULT));
}

void gpu_read(void *dst, uintptr_t addr, size_t nbytes)
{
    GPU_OK(cu.cuMemcpyDtoH(dst, addr, nbytes));
}

static void *scratch(size_t nbytes)
{
    void *memory = malloc(nbytes);

    MPT_TRUE(memory != NULL);
    return memory;
}

/* Vulkan's addresses belong to the library alone: its bytes go through a put to oneself. */
void gpu_fill(const struct gpu_region *region, uint64_t offset, size_t nbytes, uint64_t seed)
{
    void *bytes = scratch(nbytes);

    mpt_fill(bytes, nbytes, seed);
    if (region->way == GPU_VULKAN) {
        MPT_OK(nixl_put(nixl_rank(), region->region, offset, bytes, nbytes));
    } else if (region->way == GPU_HOST) {
        memcpy((char *)region->addr + offset, bytes, nbytes);
    } else {
        gpu_write(region->addr + offset, bytes, nbytes);
    }
    free(bytes);
}

void gpu_check(const char *file, int line, const struct gpu_region *region, uint64_t offset,
               size_t nbytes, uint64_t seed)
{
    void *bytes = scratch(nbytes);

    if (region->way == GPU_VULKAN) {
        MPT_OK(nixl_get(nixl_rank(), region->region, offset, bytes, nbytes));
    } else if (region->way == GPU_HOST) {
        memcpy(bytes, (char *)region->addr + offset, nbytes);
    } else {
        gpu_read(bytes, region->addr + offset, nbytes);
    }
    mpt_check(file, line, bytes, nbytes, seed);
    free(bytes);
}
