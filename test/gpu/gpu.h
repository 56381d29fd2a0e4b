/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory for test programs: had in every way that CUDA has, filled and read back. A rank uses
 * the GPU of its number, or the one that GPU_DEVICE names. Failures end the rank (mptest.h).
 */
#ifndef NXR_TEST_GPU_H
#define NXR_TEST_GPU_H

#include "test/cuda/driver.h"
#include "test/mp/mptest.h"

/* How memory is had. The first two are the library's, the others are registered. */
enum gpu_way {
    GPU_HOST,    /* nixl_region_alloc() of host memory */
    GPU_CUDA,    /* nixl_region_alloc() of CUDA memory */
    GPU_VULKAN,  /* nixl_region_alloc() of Vulkan memory */
    GPU_MALLOC,  /* cuMemAlloc */
    GPU_VMM,     /* cuMemCreate, cuMemMap */
    GPU_FABRIC,  /* the same, handed on by a fabric handle and by nothing else */
    GPU_POOL,    /* of a memory pool that can be shared */
    GPU_ASYNC,   /* of the default pool, which cannot */
    GPU_MANAGED, /* cuMemAllocManaged */
    GPU_N_WAYS
};
extern const char *const gpu_way_names[GPU_N_WAYS];

/* A region of this rank, and the memory behind it. */
struct gpu_region {
    struct nixl_region *region;
    enum gpu_way way;
    uintptr_t addr;
    size_t nbytes, mapped_nbytes;
    struct fake_backing *allocation;
    struct fake_pool *pool;
};

/*
 * Start the driver and make the rank's context current; ends the rank with 77 where there is none.
 */
void gpu_start(void);
void gpu_stop(void);
int gpu_device(void); /* of this rank */
int gpu_n_devices(void);

/* Make a region that way. False: the machine has no such memory, and nothing was made. */
bool gpu_region_make(const char *name, enum gpu_way way, size_t nbytes,
                     struct gpu_region *region_p);
void gpu_region_end(struct gpu_region *region);

/* Memory as gpu_region_make() registers it, without a region. Returns as that. */
bool gpu_memory_make(enum gpu_way way, size_t nbytes, struct gpu_region *memory_p);
void gpu_memory_end(struct gpu_region *memory);

/* Between any memory and host memory, waited for. */
void gpu_write(uintptr_t addr, const void *src, size_t nbytes);
void gpu_read(void *dst, uintptr_t addr, size_t nbytes);

/* mpt_fill() and mpt_check() for any memory. */
void gpu_fill(const struct gpu_region *region, uint64_t offset, size_t nbytes, uint64_t seed);
void gpu_check(const char *file, int line, const struct gpu_region *region, uint64_t offset,
               size_t nbytes, uint64_t seed);
#define GPU_CHECK(_region, _offset, _nbytes, _seed)                                                \
    gpu_check(__FILE__, __LINE__, (_region), (_offset), (_nbytes), (_seed))

void gpu_need(const char *file, int line, const char *call, int result);
#define GPU_OK(_call) gpu_need(__FILE__, __LINE__, #_call, (_call))

#endif
