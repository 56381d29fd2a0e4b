/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/region.h
 * Named memory: allocated or registered by its owner, looked up by its peers.
 */
#ifndef NIXLRUN_REGION_H
#define NIXLRUN_REGION_H

#include <nixlrun/base.h>
#include <nixlrun/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A named segment of memory of this rank, and access to the segments of its peers. */
struct nixl_region;

struct nixl_op;

/** Kinds of memory. */
enum nixl_mem_kind {
    NIXL_MEM_NONE = 0,   /**< no segment here (nixl_region_open); in params: NIXL_MEM_HOST */
    NIXL_MEM_HOST = 1,   /**< host memory */
    NIXL_MEM_CUDA = 2,   /**< memory of an NVIDIA GPU, by CUDA */
    NIXL_MEM_VULKAN = 3, /**< memory of a GPU, by Vulkan; CUDA copies it if it can */
    NIXL_MEM_AUTO = 4,   /**< alloc: GPU memory if there is any, else host; register: detect */
    NIXL_MEM_FILE = 5,   /**< a file or a block device: nixl_region_open_file() */
    NIXL_MEM_OBJECT = 6, /**< objects of an S3 store, or files of a directory */
};

/**
 * How nixl_region_alloc() gets host memory; any of these together. Without a flag, pages appear at
 * first touch, near the thread that touches them. What the machine does not have is left out:
 * nixl_region_query() reports which flags the memory has, and why others are missing.
 */
enum nixl_mem_flag {
    NIXL_MEM_NUMA = 1,     /**< bound to NUMA node `numa_node`, which must exist */
    NIXL_MEM_HUGE = 2,     /**< huge pages: reserved ones, else transparent ones */
    NIXL_MEM_PINNED = 4,   /**< page-locked and known to the GPU */
    NIXL_MEM_POPULATE = 8, /**< touch every page now: slower to allocate, no page faults later */
};

/**
 * What peers may not do with a rank's segment; either, or both together. 0: they may do everything.
 * The rank itself is never restricted. Calls that are not allowed return NIXL_E_ACCESS, at the
 * caller, before anything happens:
 *
 *     NO_PUT  puts, by whatever call, signals, and atomics but NIXL_ATOMIC_FETCH
 *     NO_GET  gets, by whatever call, and atomics, which all return the former value
 *
 * Who stops a process that does not keep to its library's rules: the owner's process, for all that
 * goes through messages, bulk, or a bounce buffer; the adapter, where a network reads and writes by
 * itself (method rma) through libfabric. Nobody does where a process of this host has the memory
 * mapped (memcpy, device) or is permitted to read and write its owner's (process_vm), nor where UCX
 * uses RDMA. A segment with NO_PUT in shared memory is mapped for reading only, so that a stray
 * store ends the process that makes it.
 */
enum nixl_access {
    NIXL_ACCESS_NO_PUT = 1, /**< peers change nothing */
    NIXL_ACCESS_NO_GET = 2, /**< peers read nothing */
};

/**
 * Vulkan memory of the caller, for nixl_region_register(): an exported VkDeviceMemory. The caller
 * keeps the descriptor; the other fields must be those that the memory was allocated with.
 */
struct nixl_vulkan_memory {
    int fd;                        /**< of vkGetMemoryFdKHR(), OPAQUE_FD */
    uint32_t memory_type;          /**< memoryTypeIndex */
    uint64_t allocation_nbytes;    /**< allocationSize of the whole VkDeviceMemory */
    uint64_t offset;               /**< of the region's first byte in it */
    int is_dedicated;              /**< 1: VkMemoryDedicatedAllocateInfo was used */
    unsigned char device_uuid[16]; /**< VkPhysicalDeviceIDProperties */
    unsigned char driver_uuid[16];
};

struct nixl_mem_params {
    size_t struct_nbytes;
    int32_t kind;   /**< enum nixl_mem_kind; 0: NIXL_MEM_HOST */
    uint32_t flags; /**< of enum nixl_mem_flag: host memory of nixl_region_alloc(); else ignored */
    int32_t numa_node;  /**< only with NIXL_MEM_NUMA */
    const char *device; /**< GPU memory: "nearest" (or NULL), a number, or a UUID */
    const struct nixl_vulkan_memory *vulkan; /**< to register Vulkan memory; else NULL */
    struct nixl_context *context; /**< where its name and its events belong; NULL: the default */
    uint32_t access; /**< of enum nixl_access: what peers may not do; 0: they may do everything */
};
#define NIXL_MEM_PARAMS_INIT                                                                       \
    {                                                                                              \
        sizeof(struct nixl_mem_params), NIXL_MEM_HOST, 0, 0, NULL, NULL, NULL, 0                   \
    }

/**
 * Allocate memory and publish it under a name.
 *
 * The fastest kind of region: same-host peers map it. The memory is zeroed and page aligned. Host
 * memory is taken when it is touched, and a process that touches more than there is gets killed.
 * Options that touch all of it here (NIXL_MEM_POPULATE, _HUGE, _PINNED) are refused if the host
 * does not have that much available.
 *
 * @param name      1 .. NIXL_NAME_MAX bytes, the first byte neither 1 nor 2; unique among this
 *                  rank's open regions. NULL: for this rank alone, see below
 * @param nbytes    > 0
 * @param params    NULL for default host memory
 * @param region_p  the handle, to be closed with nixl_region_close()
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG     name empty, too long or reserved for the library; nbytes 0; bad
 *                                params
 * @return NIXL_E_NAME_IN_USE     this rank has an open region of that name
 * @return NIXL_E_NO_MEMORY       the system does not have that much (the detail says which limit)
 * @return NIXL_E_NO_DEVICE       no such NUMA node (the detail says which exist)
 * @return NIXL_E_LIMIT           no descriptor, or no free region number
 * Without a name it is local memory: prepared once for whatever the rank's puts, gets and transfers
 * need of it (recognized as the memory of its device, registered with the network), and known by
 * nixl_region_of(). It is not published: no peer can open it, and `access` of @p params is ignored.
 * As a handle it reaches the rank's own segment; with any other rank, calls fail with
 * NIXL_E_INVALID_ARG.
 * Collective: no. Threads: any.
 */
NIXL_API int nixl_region_alloc(const char *name, size_t nbytes,
                               const struct nixl_mem_params *params,
                               struct nixl_region **region_p) NIXL_MUST_CHECK;

/**
 * Publish memory that the caller has (malloc, a stack, a file mapping) under a name. The memory
 * must stay valid until nixl_region_close() has returned NIXL_OK; otherwise copies of peers fail,
 * or SIGSEGV kills this process. Peers on this host reach it by process_vm_readv/writev, or through
 * a shared bounce buffer if the kernel forbids that. For peers on other hosts allocated and
 * registered memory are alike.
 * Parameters and returns as nixl_region_alloc(); @p addr may have any alignment.
 */
NIXL_API int nixl_region_register(const char *name, void *addr, size_t nbytes,
                                  const struct nixl_mem_params *params,
                                  struct nixl_region **region_p) NIXL_MUST_CHECK;

/** A piece of the caller's memory. Like POSIX's struct iovec, this struct never grows. */
struct nixl_extent {
    void *addr;    /**< any alignment */
    size_t nbytes; /**< > 0 */
};

#define NIXL_EXTENTS_MAX                                                                           \
    4096 /**< of one region; each also counts as a region in the rank's limit */

/**
 * Register many pieces of the caller's memory as one region: the K and V tensors of all layers of a
 * KV cache, say.
 *
 * Offsets go through the extents in order, as if they were one memory: extent i begins where extent
 * i - 1 ends. A put, get, atomic or signal lies within one extent (else NIXL_E_RANGE: like a memory
 * key of an RDMA adapter, an operation has one target); so does each block of a prepared transfer,
 * which may name the same blocks of every extent by one entry, see struct nixl_blocks. Extents may
 * be of different size and of different kinds of memory (NIXL_MEM_AUTO detects each), may touch or
 * overlap, and are reached each by the best method for its memory. Another rank's region of the
 * same name may have other extents, or none. At first use a rank asks for all of them together.
 *
 * @param extents   array; read during the call. The memory must stay valid as for
 *                  nixl_region_register()
 * @param nextents  1 .. NIXL_EXTENTS_MAX
 * @param params    NULL for host memory; all of it is of that kind. Not NIXL_MEM_VULKAN
 * Other parameters and returns as nixl_region_register(); NIXL_E_UNSUPPORTED: Vulkan memory. The
 * detail of a failure names the extent. Pointers are not given out: nixl_region_addr() is NULL and
 * nixl_region_map() NIXL_E_UNSUPPORTED. Threads: any.
 */
NIXL_API int nixl_region_register_extents(const char *name, const struct nixl_extent *extents,
                                          size_t nextents, const struct nixl_mem_params *params,
                                          struct nixl_region **region_p) NIXL_MUST_CHECK;

/**
 * A handle without a segment of this rank, only to reach others' segments. Contacts no other
 * rank: the name is looked up at first use. A name may be opened more than once, also if this
 * rank has a region of that name. Returns as nixl_region_alloc(). Threads: any.
 */
NIXL_API int nixl_region_open(const char *name, struct nixl_region **region_p) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_region_open(): of a name in a context. Of struct nixl_op, only
 * `context` is used. In a context other than the default one, names have up to NIXL_NAME_MAX - 17
 * bytes.
 */
NIXL_API int nixl_region_open_x(const char *name, const struct nixl_op *op,
                                struct nixl_region **region_p) NIXL_MUST_CHECK;

/**
 * Close a region: revoke this rank's segment, if there is one, and free the handle.
 *
 * @param timeout_ns  how long to wait for copies of peers that are in flight
 * @return NIXL_OK           no byte of the segment is read or written by a peer any more;
 *                           registered
 *                           memory may be freed; allocated memory is unmapped; the handle is freed
 * @return NIXL_E_TIMEOUT    (NIXL_INPROGRESS with 0) revoked: peers get NIXL_E_STALE, but a copy
 *                           is still in flight; the handle stays valid: call again before the
 *                           memory is freed
 * @return NIXL_E_INVALID_ARG    not an open region
 * Copies of dead peers are not waited for. Threads: any, but no other call may use the handle.
 */
NIXL_API int nixl_region_close(struct nixl_region *region, int64_t timeout_ns);

/** First byte of this rank's segment; NULL if there is none, or it is storage. Threads: any. */
NIXL_API void *nixl_region_addr(const struct nixl_region *region);

/** Bytes of this rank's segment; 0 if there is none. Threads: any. */
NIXL_API uint64_t nixl_region_nbytes(const struct nixl_region *region);

/**
 * The caller's open region whose own segment contains an address, and the offset in it. If several
 * overlap, the smallest. Works for any kind of memory.
 * @return NIXL_OK, NIXL_E_NOT_FOUND (no open region of the caller contains it),
 *         NIXL_E_INVALID_ARG
 * Threads: any.
 */
NIXL_API int nixl_region_of(const void *addr, struct nixl_region **region_p,
                            uint64_t *offset_p) NIXL_MUST_CHECK;

/** What is known of a rank's segment of a region. */
struct nixl_region_info {
    size_t struct_nbytes;
    uint64_t nbytes;
    int32_t kind;            /**< enum nixl_mem_kind */
    uint32_t flags;          /**< of enum nixl_mem_flag: those that the memory has */
    int is_registered;       /**< 1: the owner's own memory; 0: allocated by the library */
    char transport[16];      /**< as in nixl_route_query_segment() */
    char method[24];         /**< memcpy, process_vm, bounce...; own storage: its engine */
    char note[160];          /**< why a flag is missing or a method fell back; "" if it did not */
    uint64_t latency_ns;     /**< expected: a small put_notify, one way; 0: not known */
    uint64_t bandwidth_mbps; /**< expected: MB/s of a large put; 0: not known */
    char device[48];         /**< GPU memory: "GPU-" and a UUID; storage: its engine; or "" */
    uint32_t access;         /**< of enum nixl_access: what the owner's peers may not do */
    uint64_t offset;         /**< nixl_region_query_extent(): where the extent begins; else 0 */
    uint32_t nextents;       /**< of the segment; 1: it is one piece of memory */
};
#define NIXL_REGION_INFO_INIT                                                                      \
    {                                                                                              \
        sizeof(struct nixl_region_info), 0, 0, 0, 0, "", "", "", 0, 0, "", 0, 0, 0                 \
    }

/**
 * Query a rank's segment of the region; waits until the owner has published it. Forgets a stale
 * segment, so that the region can be used again after its owner made a new one of the same name.
 * @return NIXL_OK, NIXL_E_TIMEOUT or NIXL_INPROGRESS (0),
 *         NIXL_E_PEER_LOST (the rank has died or left; or it is in nixl_finalize(), and has not
 *         published the region), NIXL_E_INVALID_ARG (also: another rank, and the region has no
 *         name),
 *         NIXL_E_UNSUPPORTED (no transport reaches that rank; the detail says why)
 * Threads: any.
 */
NIXL_API int nixl_region_query(int rank, struct nixl_region *region, int64_t timeout_ns,
                               struct nixl_region_info *info_p) NIXL_MUST_CHECK;

/**
 * Query one extent of a rank's segment: its size and offset, and how it is reached. A segment that
 * is one piece of memory has extent 0, which is all of it. For a segment of extents,
 * nixl_region_query() tells the size of all, and the rest of its first extent.
 * @param extent  0 .. nextents - 1 of nixl_region_query()
 * Returns as nixl_region_query(), and NIXL_E_RANGE (there is no such extent). Threads: any.
 */
NIXL_API int nixl_region_query_extent(int rank, struct nixl_region *region, size_t extent,
                                      int64_t timeout_ns,
                                      struct nixl_region_info *info_p) NIXL_MUST_CHECK;

/**
 * Has the rank published its segment of the region at this moment? Waits for the rank's answer,
 * but not, unlike nixl_region_query(), until the segment is published. If the segment is already
 * known here, and not known to be closed, the rank is not queried again.
 * @return NIXL_OK             it has
 * @return NIXL_E_NOT_FOUND    it has not, or has closed it; or the region has no name
 * @return NIXL_E_TIMEOUT      no answer in time (NIXL_INPROGRESS with 0: it would have to be
 *                             queried)
 * @return NIXL_E_PEER_LOST, NIXL_E_UNSUPPORTED, NIXL_E_INVALID_ARG  as nixl_region_query()
 * Threads: any.
 */
NIXL_API int nixl_region_is_published(int rank, struct nixl_region *region,
                                      int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * A pointer to a rank's segment: for direct loads and stores if it is shared memory of this host,
 * or for kernels if it is CUDA memory that this process has open. Pins shared pages: after the
 * owner's close they stay with the holders of such pointers, the owner among them if it has one,
 * and after the last nixl_finalize() to the end of the process. For CUDA memory the close waits
 * for these holders.
 * A segment that its owner has made with NIXL_ACCESS_NO_PUT is mapped for reading only.
 * @return NIXL_OK, NIXL_E_UNSUPPORTED (registered host memory of another rank, extents, Vulkan
 *         memory, a remote rank), NIXL_E_ACCESS (NIXL_ACCESS_NO_GET; CUDA memory with
 *         NIXL_ACCESS_NO_PUT), and as nixl_put()
 * Threads: any.
 */
NIXL_API int nixl_region_map(int rank, struct nixl_region *region, void **addr_p) NIXL_MUST_CHECK;

/**
 * Release a pointer of nixl_region_map(), also after the close of the handle that it came from.
 * @return NIXL_OK or NIXL_E_INVALID_ARG. Threads: any.
 */
NIXL_API int nixl_region_unmap(int rank, const struct nixl_region *region, const void *addr);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_REGION_H */
