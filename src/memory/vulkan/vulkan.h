/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of the Vulkan memory kind: devices, memory, batches of copies, pinned host memory.
 *
 * Memory that is shared between processes is owned by the external queue family while idle: a
 * process that copies acquires the bytes and releases them in the same batch, and notifies others
 * only when the batch has ended. So no process has to know which one copied last.
 *
 * Locks: nxr_vulkan.lock guards starting, the devices and the list of pinned memory; device->lock
 * guards the queue and the batches of one device. The former is never taken inside the latter.
 */
#ifndef NXR_MEMORY_VULKAN_VULKAN_H
#define NXR_MEMORY_VULKAN_VULKAN_H

#include "memory/choose.h"
#include "memory/vulkan/kind.h"
#include "util/list.h"
#include "util/symbol.h"
#include "util/vulkan_dyn.h"

#include <pthread.h>
#include <stdatomic.h>

#define NXR_VULKAN_MAX_DEVICES 16
#define NXR_VULKAN_HANDLE      VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define NXR_VULKAN_USAGE                                                                           \
    (VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |                         \
     VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)

struct nxr_vulkan_device {
    VkPhysicalDevice physical;
    struct nxr_device_id id;
    unsigned char driver[16]; /* UUID of the driver */
    char id_text[NXR_DEVICE_ID_NBYTES];
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    VkPhysicalDeviceType type;
    VkPhysicalDeviceMemoryProperties memory;
    uint64_t max_nbytes;     /* of one allocation */
    uint64_t host_alignment; /* of imported host memory; 0: host memory cannot be imported */
    uint32_t max_allocations;
    uint32_t family;
    bool is_nvidia;
    bool is_dedicated_only; /* exported memory must be a dedicated allocation */

    VkDevice device; /* VK_NULL_HANDLE until it is needed: nxr_vulkan.lock */
    VkQueue queue;
    _Atomic uint32_t n_allocations;
    atomic_bool is_lost;

    pthread_mutex_t lock;
    struct nxr_vulkan_batch *free_batches; /* lock */
};

/* A region's bytes in a memory. */
struct nxr_vulkan_slice {
    uint64_t offset, nbytes;
};

/*
 * Memory with a buffer over all of it. Its address is CUDA's if CUDA knows it; else where it is
 * mapped; else a reserved address that represents it and cannot be accessed. Ranges in it point to
 * this struct.
 */
struct nxr_vulkan_memory {
    struct nxr_vulkan_device *device;
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t nbytes; /* of the allocation */
    uint64_t buffer_nbytes;
    uint64_t serial; /* unique within this process */
    uint32_t type;
    bool is_dedicated;
    bool is_cached; /* mapped, and the processor reads it at the speed of host memory */
    bool has_cuda;
    char *map;             /* NULL: not mapped */
    struct nxr_range cuda; /* the same memory in CUDA, where has_cuda */
    void *reserved;        /* reserved addresses that represent it, or NULL */
    char *base;            /* the address of its first byte */

    /* This process's own memory, if regions share it (vulkan_arena.c): nxr_vulkan.lock. */
    struct nxr_list link;
    bool is_shared;
    int fd;                          /* duplicated for each region */
    uint64_t n_used;                 /* bytes from here on were never used */
    struct nxr_vulkan_slice *slices; /* by offset */
    size_t n_slices, n_room;
};

/* Where a device finds host memory, pinned or a staging buffer. */
struct nxr_vulkan_window {
    VkBuffer buffer;
    uint64_t offset;
};

struct nxr_vulkan {
    pthread_mutex_t lock;
    VkInstance instance;
    struct nxr_vulkan_device devices[NXR_VULKAN_MAX_DEVICES];
    size_t n_devices;
    atomic_bool uses_cuda; /* some memory was imported into CUDA, too */
};
extern NXR_HIDDEN struct nxr_vulkan nxr_vulkan;

/* ---- vulkan_device.c ------------------------------------------------------------------------- */

int nxr_vulkan_start(char *why, size_t why_nbytes);
void nxr_vulkan_stop(void);

/* Does the kind use a GPU, or at least what the user has chosen as a substitute? */
bool nxr_vulkan_is_gpu(void);

/*
 * The device that `wanted` names, opened. NIXL_OK; NIXL_E_NO_DEVICE, NIXL_E_INVALID_ARG,
 * NIXL_E_TRANSPORT and one line in `why`.
 */
int nxr_vulkan_choose(const char *wanted, struct nxr_vulkan_device **device_p, char *why,
                      size_t why_nbytes);

/* The device with these UUIDs, opened. Returns as nxr_vulkan_choose(). */
int nxr_vulkan_find(const unsigned char device[16], const unsigned char driver[16],
                    struct nxr_vulkan_device **device_p, char *why, size_t why_nbytes);

/* ---- vulkan_status.c ------------------------------------------------------------------------- */

/*
 * The status for a result. If the device is lost, everything that it still does fails from now on.
 */
int nxr_vulkan_status(struct nxr_vulkan_device *device, VkResult result);

/* ---- vulkan_look.c --------------------------------------------------------------------------- */

#define NXR_VULKAN_MAX_EXTENSIONS 3

/* The extensions of a device that are required or useful. Returns how many. */
uint32_t nxr_vulkan_extensions(VkPhysicalDevice physical, const char *names[]);

/* Query everything about a device. Is it usable? If not, one line in `why`. */
bool nxr_vulkan_look_at(VkPhysicalDevice physical, struct nxr_vulkan_device *device, char *why,
                        size_t why_nbytes);

/* ---- vulkan_memory.c ------------------------------------------------------------------------- */

/* The purpose of memory, and where it comes from. */
enum nxr_vulkan_purpose {
    NXR_VULKAN_SHARED, /* new, on the device, to be exported */
    NXR_VULKAN_IMPORT, /* imported from `fd` */
    NXR_VULKAN_STAGE,  /* new, in host memory, for this process only */
    NXR_VULKAN_PIN,    /* the host memory at `addr` */
};

struct nxr_vulkan_make {
    struct nxr_vulkan_device *device;
    enum nxr_vulkan_purpose purpose;
    uint64_t nbytes;
    void *addr;
    int fd;            /* owned by the driver, even after a failure */
    uint32_t type;     /* NXR_VULKAN_IMPORT: what the memory was allocated with */
    bool is_dedicated; /* likewise */
};

/*
 * Make memory, with a buffer over it, mapped if possible. NIXL_OK; or NIXL_E_NO_MEMORY,
 * NIXL_E_LIMIT, NIXL_E_INVALID_ARG, NIXL_E_TRANSPORT and one line in `why`.
 */
int nxr_vulkan_make(const struct nxr_vulkan_make *make, struct nxr_vulkan_memory **memory_p,
                    char *why, size_t why_nbytes);
void nxr_vulkan_unmake(struct nxr_vulkan_memory *memory);

/*
 * Give it an address: CUDA's, if CUDA can open it through `fd`, which stays the caller's. is_peer:
 * another process has allocated it. NIXL_OK, or NIXL_E_NO_MEMORY and one line in `why`.
 */
int nxr_vulkan_place(struct nxr_vulkan_memory *memory, int fd, bool is_peer, char *why,
                     size_t why_nbytes);

/* ---- vulkan_arena.c -------------------------------------------------------------------------- */

/* Allocate a zeroed slice of this process's memory. Returns as nxr_vulkan_make(). */
int nxr_vulkan_slice_take(struct nxr_vulkan_device *device, uint64_t nbytes,
                          struct nxr_vulkan_memory **memory_p, uint64_t *offset_p, char *why,
                          size_t why_nbytes);
void nxr_vulkan_slice_give(struct nxr_vulkan_memory *memory, uint64_t offset);

/* No region is left: free what was kept for later regions. Caller holds nxr_vulkan.lock. */
void nxr_vulkan_arena_free(void);

/* ---- vulkan_share.c -------------------------------------------------------------------------- */

/*
 * Make a descriptor of new memory that peers can import. NIXL_OK; or NIXL_E_NO_DEVICE if the
 * driver gives none, NIXL_E_LIMIT, NIXL_E_NO_MEMORY, and one line in `why`.
 */
int nxr_vulkan_export(struct nxr_vulkan_memory *memory, int *fd_p, char *why, size_t why_nbytes);

/*
 * Import `export`; `fd` stays the caller's. Returns as nxr_vulkan_make(); NIXL_E_INVALID_ARG also
 * if the descriptor is not what it should be.
 */
int nxr_vulkan_open(const struct nxr_export *export, uint64_t nbytes, int fd,
                    struct nxr_vulkan_memory **memory_p, char *why, size_t why_nbytes);

int nxr_vulkan_import(struct nxr_segment *segment, int fd);
void nxr_vulkan_unimport(struct nxr_segment *segment);

/* ---- vulkan_batch.c -------------------------------------------------------------------------- */

#define NXR_VULKAN_STAGE_NBYTES (1u << 20)

/* Commands that are submitted together, with the fence that signals their end. */
struct nxr_vulkan_batch {
    struct nxr_vulkan_device *device;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    struct nxr_vulkan_batch *next;   /* of those that are free: device->lock */
    struct nxr_vulkan_memory *stage; /* host memory that the device reaches; NULL until needed */

    /* A copy in rounds: the first piece and byte not done yet, and those before. */
    struct nxr_vulkan_spot {
        size_t piece, offset;
    } from, to;

    /* What the round copies from one buffer to another; the array is kept for the next round. */
    struct nxr_vulkan_region {
        VkBuffer dst, src;
        uint64_t dst_offset, src_offset;
        size_t nbytes;
        void *host;          /* host memory that is staged; NULL: not staged */
        size_t stage_offset; /* its place in the stage */
    } * regions;
    size_t n_regions, n_allocated;

    /* For the watch; guarded by its lock. */
    struct nxr_list watch_link;
    bool is_armed; /* each round is watched */
    bool is_looked_at;
};

/*
 * Take a batch, open for commands. NIXL_OK, NIXL_E_NO_MEMORY, NIXL_E_TRANSPORT. One thread at a
 * time uses it.
 */
int nxr_vulkan_batch_take(struct nxr_vulkan_device *device, struct nxr_vulkan_batch **batch_p);

/* Append a region to the round. NIXL_OK, NIXL_E_NO_MEMORY. */
int nxr_vulkan_batch_add(struct nxr_vulkan_batch *batch, const struct nxr_vulkan_region *region);

/* Submit it to the device. After a failure it has done nothing. */
int nxr_vulkan_batch_submit(struct nxr_vulkan_batch *batch);

/* NIXL_INPROGRESS, NIXL_OK or the failure. */
int nxr_vulkan_batch_test(struct nxr_vulkan_batch *batch);

/* Wait until it ends. NIXL_OK or the failure. */
int nxr_vulkan_batch_wait(struct nxr_vulkan_batch *batch);

/* Open it again for the next commands, after it has ended. NIXL_OK or a failure. */
int nxr_vulkan_batch_reopen(struct nxr_vulkan_batch *batch);

/* Give it back; it has ended, or was not submitted. */
void nxr_vulkan_batch_give(struct nxr_vulkan_batch *batch);

/*
 * Make sure that it has a stage: host memory that the device reaches, NXR_VULKAN_STAGE_NBYTES.
 * NIXL_OK, NIXL_E_NO_MEMORY.
 */
int nxr_vulkan_batch_need_stage(struct nxr_vulkan_batch *batch);

/* Nothing is in progress on the device any more: free all batches. */
void nxr_vulkan_batches_free(struct nxr_vulkan_device *device);

/* ---- vulkan_watch.c -------------------------------------------------------------------------- */

/* Polling of a submitted batch stops: call nxr_device_ended() when it has ended. */
void nxr_vulkan_watch(struct nxr_vulkan_batch *batch);

/* The owner has seen its end: once this returns, the watch does not touch the batch any more. */
void nxr_vulkan_unwatch(struct nxr_vulkan_batch *batch);

/* All batches have ended: stop the thread. */
void nxr_vulkan_watch_stop(void);

/* ---- vulkan_pin.c ---------------------------------------------------------------------------- */

/* The pin() and unpin() slots of the table. */
void nxr_vulkan_pin(void *addr, size_t nbytes);
void nxr_vulkan_unpin(void *addr);
void nxr_vulkan_unpin_all(void);

/* Is that host memory pinned for the device? */
bool nxr_vulkan_pinned(struct nxr_vulkan_device *device, const void *addr, size_t nbytes,
                       struct nxr_vulkan_window *window_p);

/* ---- vulkan_copy.c --------------------------------------------------------------------------- */

/* The copy slots of the table. */
int nxr_vulkan_copy_start(struct nxr_device_copy *copy);
int nxr_vulkan_copy_test(struct nxr_device_copy *copy);
void nxr_vulkan_copy_arm(struct nxr_device_copy *copy);

/* Does the processor copy this memory, as its own? */
bool nxr_vulkan_is_mapped(const struct nxr_vulkan_memory *memory);

/*
 * Fill memory with zeros and release it to the external queue family, which owns it while idle.
 * is_new: no copy has acquired it from there before.
 */
int nxr_vulkan_clear(struct nxr_vulkan_memory *memory, uint64_t offset, uint64_t nbytes,
                     bool is_new);

#endif
