/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory, for the files cuda*.c: the devices, and the records of memory.
 *
 * Everything runs in the primary context of a device, which the CUDA runtime uses, too; it is
 * retained when the device is first needed. A call into the driver that needs a context is enclosed
 * by nxr_cuda_enter() and nxr_cuda_leave(), so that the caller's current context is preserved.
 *
 * Lock: nxr_cuda.lock, taken inside job.lock, guards all lists and everything that is not marked
 * otherwise. It is held during calls that allocate, open and close, not during copies.
 */
#ifndef NXR_MEMORY_CUDA_CUDA_H
#define NXR_MEMORY_CUDA_CUDA_H

#include "memory/cuda/kind.h"
#include "util/cuda_dyn.h"
#include "util/list.h"
#include "util/lock.h"
#include "util/symbol.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NXR_CUDA_LANES  12
#define NXR_CUDA_EVENTS 64

/* How a copy is done: each method has its own rate. */
enum nxr_cuda_method {
    NXR_CUDA_BY_ENGINE,
    NXR_CUDA_BY_KERNEL,
    NXR_CUDA_BY_REDUCTION,
    NXR_CUDA_METHODS
};

/*
 * When the large copies of a thread to one other end are expected to end (cuda_expect.c): the
 * thread's two lanes for large copies share the link.
 */
struct nxr_cuda_expected {
    struct nxr_spin lock;
    double rates[NXR_CUDA_METHODS]; /* bytes per nanosecond, the most that was seen; 0: none yet */
    int64_t end_ns;                 /* when all that was started is expected to end; 0: not known */
    int64_t busy_ns;                /* when the present busy period started */
    uint64_t begun, ended;          /* bytes since then */
    enum nxr_cuda_method method;    /* the method of all of them, */
    bool is_mixed;                  /* ... or not */
};

/*
 * A stream for copies. They end in the order in which they started, so only the oldest is queried.
 * The last one has no event after it until another copy, or a sleeper, needs one: it has ended when
 * the stream is empty, so a lone copy costs no event.
 */
struct nxr_cuda_lane {
    pthread_mutex_t lock; /* everything here, and the order of the stream */
    cu_stream stream;     /* made when first needed */
    cu_stream waker;      /* wakes sleepers, so that the stream does not wait for that */
    uint64_t n_begun;
    uint64_t n_ended;             /* all copies up to this number are known to have ended */
    unsigned n_passed;            /* copies that were skipped in queries */
    struct nxr_device_copy *last; /* the last one, if it has no event; NULL: all have one */

    struct nxr_cuda_expected *expected; /* NULL: of small copies, whose end is not predicted */
    struct nxr_cuda_expected own;       /* of both lanes for large ones */
};

/*
 * Page-locked memory for as long as a kernel may use it: pieces that it reads, or flags that its
 * blocks write when they are done.
 */
struct nxr_cuda_list {
    struct nxr_cuda_list *next; /* of the free ones */
    union {
        struct nxr_kernel_piece *pieces; /* [NXR_CUDA_LIST_PARTS] */
        volatile uint64_t *done;
    };
};
#define NXR_CUDA_LIST_PARTS ((size_t)2 * NXR_LIST_MAX)

enum nxr_cuda_kernel_state { NXR_CUDA_KERNEL_UNTRIED, NXR_CUDA_KERNEL_READY, NXR_CUDA_KERNEL_NONE };

/* Files of kernels, and what the one for reductions has a kernel for. */
enum nxr_cuda_kernels { NXR_CUDA_KERNELS_COPY, NXR_CUDA_KERNELS_REDUCE, NXR_CUDA_KERNELS_N };
enum nxr_cuda_number {
    NXR_CUDA_U8,
    NXR_CUDA_U16,
    NXR_CUDA_U32,
    NXR_CUDA_U64,
    NXR_CUDA_F16,
    NXR_CUDA_B16,
    NXR_CUDA_F32,
    NXR_CUDA_F64,
    NXR_CUDA_KERNELS_EACH /* in one file, at most */
};

struct nxr_cuda_kernel_file {
    _Atomic int state; /* the rest is constant once it is READY */
    cu_module module;
    cu_function functions[NXR_CUDA_KERNELS_EACH];
};

struct nxr_cuda_kernel {
    struct nxr_cuda_kernel_file files[NXR_CUDA_KERNELS_N];
    unsigned n_multiprocessors; /* this and peers: constant once a file is READY */
    uint64_t peers;             /* bit per index: devices whose memory loads and stores can reach */
    struct nxr_spin lists_lock;
    struct nxr_cuda_list *lists; /* free ones */
    unsigned n_lists;            /* in all */
};

/* Where memory comes from, which determines how it is released. */
enum nxr_cuda_origin {
    NXR_CUDA_USERS,    /* not released by us */
    NXR_CUDA_MALLOC,   /* cuMemAlloc() */
    NXR_CUDA_VMM,      /* cuMemCreate(), own or a peer's */
    NXR_CUDA_LEGACY,   /* a peer's, by cuIpcOpenMemHandle() */
    NXR_CUDA_POOL,     /* a peer's, by cuMemPoolImportPointer() */
    NXR_CUDA_EXTERNAL, /* Vulkan's */
};

/*
 * Usually one allocation, or adjacent ones, that this process can reach; struct nxr_range's
 * `memory`.
 */
struct nxr_cuda_memory {
    struct nxr_list link;
    struct nxr_cuda_device *device; /* whose context knows it; NULL: none here */
    int home;                       /* index of the device that it is on; -1: not visible here */
    enum nxr_cuda_origin origin;
    bool is_vmm;  /* mapped: other devices need nxr_cu.MemSetAccess() */
    bool is_peer; /* opened here, not this process's own */
    cu_address start;
    size_t nbytes;
    unsigned n_users;          /* regions or parts in it */
    _Atomic uint64_t reachers; /* bit per index: devices that were found to reach it */
    struct nxr_range *range;
};

struct nxr_cuda_device {
    cu_device device;
    int index;                   /* in nxr_cuda.devices; also the driver's ordinal */
    _Atomic(cu_context) context; /* retained; NULL: not used yet */
    unsigned char uuid[16];
    char text[48]; /* "GPU-" and the UUID; "MIG-" for a part of a GPU */
    char name[64];
    char pci[32];
    bool has_vmm;          /* cuMemCreate(), shared by a descriptor */
    bool has_vmm_rdma;     /* ... which network adapters may reach, if that is requested */
    atomic_bool is_broken; /* an error that ends everything in its context */
    atomic_bool no_batch;  /* cuMemcpyBatchAsync() does not work here */

    /* Constant while `context` is not NULL: NXR_CUDA_LANES for each other end of copies. */
    struct nxr_cuda_lane *lanes;

    struct nxr_spin events_lock;
    cu_event events[NXR_CUDA_EVENTS];
    unsigned n_events;
    uint64_t peers; /* bit per index: whose memory its context was allowed to reach */
    uint64_t far;   /* ... of these, those that the driver nevertheless copies through the host */
    struct nxr_cuda_kernel kernel;

    /* All memory of the device that is in no region; constant. */
    struct nxr_cuda_memory loose;
    struct nxr_range loose_range;
};

struct nxr_cuda {
    pthread_mutex_t lock;
    bool is_started;
    atomic_bool is_ready; /* is_started, for readers without the lock */
    struct nxr_cuda_device *devices;
    int n_devices;
    int driver_version;
    struct nxr_list memories; /* struct nxr_cuda_memory, this process's own */
    unsigned n_imports;       /* allocations of peers that are open */
};
extern NXR_HIDDEN struct nxr_cuda nxr_cuda;

/* ---- devices: cuda_device.c ------------------------------------------------------------------ */

/* Load the driver and list the devices. NIXL_OK, or NIXL_E_NO_DEVICE and `why`. */
int nxr_cuda_start(char *why, size_t why_nbytes);

/* The device selected by params->device; NULL with *status_p and `why`. */
struct nxr_cuda_device *nxr_cuda_choose(const char *wanted, int *status_p, char *why,
                                        size_t why_nbytes);

/* The device with that UUID; NULL: not visible here. */
struct nxr_cuda_device *nxr_cuda_find(const unsigned char uuid[16]);

/*
 * The device that this process already uses, else the nearest; for memory that may be on any
 * device.
 */
struct nxr_cuda_device *nxr_cuda_any(void);

/* Retain the context and create what belongs to it. NIXL_OK, or a failure and `why`. Lock held. */
int nxr_cuda_activate(struct nxr_cuda_device *device, char *why, size_t why_nbytes);

/* Make a context current; nxr_cuda_leave() must follow, with the result. */
bool nxr_cuda_enter(cu_context context);
void nxr_cuda_leave(bool was_pushed);

static inline cu_context nxr_cuda_context(struct nxr_cuda_device *device)
{
    return atomic_load_explicit(&device->context, memory_order_acquire);
}

/* Describe a failed call in one line; returns the status for it. */
int nxr_cuda_explain(const char *call, cu_result result, char *why, size_t why_nbytes);

/* An attribute of an address as a number; 0 if the driver does not know it. */
uint64_t nxr_cuda_attribute(cu_address address, cu_pointer_attribute attribute);

/* Make the user's synchronous copies to that memory complete before they return. */
void nxr_cuda_sync_memops(cu_address address);

/* ---- what a device reaches: cuda_reach.c ----------------------------------------------------- */

/* Can the device copy from and to that memory? Enables access if needed. Any thread. */
bool nxr_cuda_reaches(struct nxr_cuda_device *device, struct nxr_cuda_memory *memory);

/* Can the device's loads and stores reach that memory? It can copy from and to it already. */
bool nxr_cuda_is_mapped(struct nxr_cuda_device *device, const struct nxr_cuda_memory *memory);

/* ---- own memory: cuda_alloc.c, cuda_adopt.c -------------------------------------------------- */

int nxr_cuda_alloc(size_t nbytes, const struct nixl_mem_params *params, struct nxr_memory *memory_p,
                   char *why, size_t why_nbytes);
int nxr_cuda_adopt(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                   struct nxr_memory *memory_p, char *why, size_t why_nbytes);
void nxr_cuda_release(struct nxr_memory *memory);
bool nxr_cuda_owns(const void *addr);

/*
 * The range for the user's memory in no region: that of its device, or one for which each copy is
 * NIXL_E_UNSUPPORTED. NULL: it is memory that the processor reads. Called without nxr_cuda.lock.
 */
const struct nxr_range *nxr_cuda_loose_range(const void *addr);

/*
 * Find the entry that memory lies in, with its range, and add a user; several regions may share it.
 * If there is none yet, make it from `fresh`. NULL and `why`: no memory, or it partly overlaps
 * another entry. Lock held.
 */
struct nxr_cuda_memory *nxr_cuda_memory_use(const struct nxr_cuda_memory *fresh, char *why,
                                            size_t why_nbytes);

/* Remove a user. True: it was the last one, and the range is gone; the caller frees. Lock held. */
bool nxr_cuda_memory_unuse(struct nxr_cuda_memory *memory);

/*
 * Reserve addresses, map the allocation there and give the device access; a failure leaves nothing
 * behind.
 */
cu_result nxr_cuda_map(cu_allocation allocation, size_t nbytes, int index, cu_address *start_p);
void nxr_cuda_unmap(cu_address start, size_t nbytes);

/* ---- memory of peers: cuda_export.c, cuda_import.c ------------------------------------------- */

/* What a peer opens: the whole allocation that a region lies in. */
struct nxr_cuda_whole {
    cu_address start;
    size_t nbytes;
    bool is_vmm;
};

/*
 * Fill in how peers open the allocation that `memory` lies in: memory->export and fd, or its note
 * if it cannot be opened. The context is current.
 */
void nxr_cuda_export(const struct nxr_cuda_device *device, const struct nxr_cuda_whole *whole,
                     struct nxr_memory *memory);

int nxr_cuda_import(struct nxr_segment *part, int fd);
void nxr_cuda_unimport(struct nxr_segment *part);

/* ---- Vulkan memory: cuda_external.c ---------------------------------------------------------- */

/* A whole allocation made by Vulkan. */
struct nxr_cuda_external {
    uint64_t nbytes;
    int fd; /* stays the caller's */
    bool is_dedicated;
    bool is_peer; /* another process has allocated it */
};

/*
 * Import it into CUDA for the device with that UUID, at an address of CUDA's. The range is for
 * copies by nxr_memory_cuda.copy_start(), and is not found by its address. NIXL_OK;
 * NIXL_E_NO_DEVICE: CUDA has no such device; or another failure. Failures put one line into
 * `why`.
 */
int nxr_cuda_open_external(const unsigned char uuid[16], const struct nxr_cuda_external *what,
                           struct nxr_range *range_p, char *why, size_t why_nbytes);
void nxr_cuda_close_external(const struct nxr_range *range);

/* ---- copies: cuda_copy.c, cuda_end.c --------------------------------------------------------- */

/* The contents of nxr_device_copy.state, from start to end. */
enum nxr_cuda_state {
    NXR_CUDA_COPY_DEVICE, /* the struct nxr_cuda_device that does it */
    NXR_CUDA_COPY_LANE,   /* struct nxr_cuda_lane; NULL: in a stream of the user's */
    NXR_CUDA_COPY_EVENT,  /* cu_event after it, or NULL */
    NXR_CUDA_COPY_NUMBER, /* in the lane, from 1; for a user's stream: the cu_stream that wakes */
    NXR_CUDA_COPY_END,    /* when its end is expected, in ns of nxr_now_ns(); 0: not known */
    NXR_CUDA_COPY_LIST,   /* struct nxr_cuda_list that a kernel uses, or NULL */
    NXR_CUDA_COPY_NBYTES, /* of a copy whose end is predicted */
    NXR_CUDA_COPY_BLOCKS, /* how many blocks report in the list that they are done; 0: none */
};

int nxr_cuda_copy_start(struct nxr_device_copy *copy);
int nxr_cuda_copy_test(struct nxr_device_copy *copy);
void nxr_cuda_copy_arm(struct nxr_device_copy *copy);

/*
 * Record an event after everything in the stream now, for a copy without one. The context is
 * current.
 */
cu_result nxr_cuda_mark(struct nxr_device_copy *copy, cu_stream stream);

/* A call of a copy has failed: logs one line, and returns the status. */
int nxr_cuda_fail(struct nxr_cuda_device *device, const char *call, cu_result result);

/* ---- expected ends: cuda_expect.c ------------------------------------------------------------ */

/*
 * A copy of that many bytes was started as the last of its lane. The lane is locked, for all three
 * functions.
 */
void nxr_cuda_expect(struct nxr_device_copy *copy, size_t nbytes);

/*
 * A thread goes to sleep until it ends: tell the core when the end is expected, if that is known.
 */
void nxr_cuda_expect_end(const struct nxr_device_copy *copy);

/* It has ended: learn from it, and report when those after it are expected to end. */
void nxr_cuda_expect_next(const struct nxr_device_copy *copy);

/* ---- scattered pieces: cuda_scatter.c -------------------------------------------------------- */

/*
 * Does the copy suit the kernel: many small pieces between memory that the kernel reaches? Loads
 * the kernel when it is first needed. The copy's device is in copy->state.
 */
bool nxr_cuda_scatter_suits(const struct nxr_device_copy *copy, size_t nbytes);

/*
 * Queue it as a kernel. The context is current. False: it has to be done another way; none of it is
 * under way.
 */
bool nxr_cuda_scatter(struct nxr_device_copy *copy, size_t nbytes, cu_stream stream);

/* ---- reductions: cuda_reduce.c --------------------------------------------------------------- */

/* Queue copy->reduction. The context is current. */
cu_result nxr_cuda_reduce(struct nxr_device_copy *copy, cu_stream stream);

/* Have all blocks reported that they are done? False if they do not report. */
bool nxr_cuda_reduce_is_told(const struct nxr_device_copy *copy);

/* ---- kernels: cuda_kernel.c ------------------------------------------------------------------ */

/* Make sure that the kernels are loaded. False: they cannot be, or do not work. */
bool nxr_cuda_kernels_need(struct nxr_cuda_device *device, enum nxr_cuda_kernels which);

/* Record that they do not work. */
void nxr_cuda_kernels_fail(struct nxr_cuda_device *device, enum nxr_cuda_kernels which,
                           const char *call, cu_result result);

/* NULL: there is no memory, or too many are in use. */
struct nxr_cuda_list *nxr_cuda_list_take(struct nxr_cuda_kernel *kernel);

/* The copy has ended: its list, if it has one, is free again. */
void nxr_cuda_list_give(struct nxr_device_copy *copy);

/* Unload the kernels, at the end. The context is current. */
void nxr_cuda_kernels_stop(struct nxr_cuda_device *device);

/* ---- streams and events: cuda_lane.c --------------------------------------------------------- */

/*
 * The lane of this thread for copies of `nbytes` from or to `other`: an index, or one of these.
 * Small copies are not queued behind large ones, and large ones by a kernel alternate between two
 * lanes.
 */
enum { NXR_CUDA_FROM_HOST = -1, NXR_CUDA_TO_HOST = -2 };
struct nxr_cuda_lane *nxr_cuda_lane_of(struct nxr_cuda_device *device, int other, size_t nbytes,
                                       bool is_by_kernel);

/* The lane's stream; NULL: it cannot be made. The lane's lock is held, the context current. */
cu_stream nxr_cuda_lane_stream(struct nxr_cuda_lane *lane);

/* Lanes for all other ends; NULL: no memory. */
struct nxr_cuda_lane *nxr_cuda_lanes_new(int n_devices);

/* An event of the device; NULL: cannot be made. The context is current. */
cu_event nxr_cuda_event_take(struct nxr_cuda_device *device);
void nxr_cuda_event_give(struct nxr_cuda_device *device, cu_event event);

/* Free all lanes and events, at the end. The context is current. */
void nxr_cuda_lanes_free(struct nxr_cuda_device *device);

/* ---- host memory: cuda_pin.c ----------------------------------------------------------------- */

/* nxr_cuda_pin_now(): as the kind's pin(); returns whether it is page-locked now; `why` if not. */
bool nxr_cuda_pin_now(void *addr, size_t nbytes, char *why, size_t why_nbytes);
void nxr_cuda_pin(void *addr, size_t nbytes);
void nxr_cuda_unpin(void *addr);
void nxr_cuda_unpin_all(void);

/* ---- cuda_stream.c --------------------------------------------------------------------------- */

extern const struct nxr_memory_streams nxr_cuda_streams;

#endif
