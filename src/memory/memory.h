/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory kinds: how memory of each kind is allocated, exported to peers, reached and copied. Each
 * kind has one table: host.c, cuda/cuda.c, vulkan/vulkan.c. kind.c has the list of kinds, which
 * init.c composes. The functions that transports need are declared in transports/transport.h, under
 * "device memory"; kind.c dispatches them to the tables.
 *
 * A driver is loaded and started at the first call that needs it, never before. If the driver
 * cannot be used, its kind's start() says why in words. Functions run in any thread unless they say
 * otherwise; each kind has its own lock, which is taken inside job.lock.
 */
#ifndef NXR_MEMORY_MEMORY_H
#define NXR_MEMORY_MEMORY_H

#include "core/range.h"
#include "nixlrun.h"
#include "transports/transport.h"

/* Memory that was allocated or adopted for a region. */
struct nxr_memory {
    const struct nxr_memory_kind *kind;
    void *addr;
    size_t nbytes;            /* as requested */
    size_t mapped_nbytes;     /* host: rounded up to whole pages of the page size used */
    int fd;                   /* to pass to peers; -1: none is needed */
    uint32_t flags;           /* of enum nixl_mem_flag: those that it has */
    uint32_t access;          /* of enum nixl_access: what peers may not do */
    struct nxr_export export; /* device memory: to pass to peers */
    struct nxr_range *range;  /* device memory; NULL for host memory */
    bool is_registered;       /* the user's */
    char device[48];          /* device memory: which, as "GPU-" and a UUID */
    char note[160];           /* why it is not what was requested; "" if it is */
};

/* What copies achieved when measured; 0: not known. */
struct nxr_copy_rate {
    uint64_t latency_ns; /* of a few bytes */
    uint64_t bandwidth_mbps;
};

/*
 * What a kind does on streams of the user's, besides copies, in the order of the stream; the
 * caller's current context is preserved.
 *
 * All return NIXL_OK if queued; or a failure and one line in `why`: NIXL_E_NO_DEVICE: no driver;
 * NIXL_E_UNSUPPORTED: the device cannot, or the stream is being captured into a graph;
 * NIXL_E_INVALID_ARG: not a stream; NIXL_E_TRANSPORT. Any thread.
 */
struct nxr_memory_streams {
    void *unnamed; /* the stream that a program names by NULL */

    /* A thread of the driver calls it; it must not call the driver and should not block. */
    int (*call)(void *stream, void (*function)(void *), void *argument, char *why,
                size_t why_nbytes);

    /*
     * `word` is device memory that this process reaches, or host memory that was pinned for the
     * kind; aligned. Every observer sees the write after everything that the stream has written
     * before.
     */
    int (*write)(void *stream, void *word, uint64_t value, char *why, size_t why_nbytes);

    /*
     * Wait until the word equals the value or, if not is_equal, until word - value is not negative
     * as a signed number.
     */
    int (*wait)(void *stream, const void *word, uint64_t value, bool is_equal, char *why,
                size_t why_nbytes);
};

/* An operation between storage and memory of a device. */
struct nxr_memory_between {
    const struct nxr_range *storage, *device;
    const void *memory; /* some of the device's */
    bool is_put;        /* into the storage */
    uint64_t nbytes;
};

/* How bytes go between them: the method's name, and why it is not another. */
struct nxr_memory_how {
    char method[24];
    char why[256];
};

/* Why an operation on storage has failed. */
#define NXR_STORAGE_WHY_NBYTES 256
struct nxr_storage_why {
    int error; /* errno; 0: nothing has failed */
    char text[NXR_STORAGE_WHY_NBYTES];
};

struct nxr_memory_kind {
    enum nixl_mem_kind kind;
    const char *name; /* "host", "cuda", "vulkan", "file", "object" */

    /*
     * It is storage (storage/storage.h): nothing lies at its addresses, for any processor or GPU,
     * and it copies only to and from host memory.
     */
    bool is_storage;

    /*
     * Load and start what the kind needs; repeated calls are cheap. NIXL_OK, or NIXL_E_NO_DEVICE
     * and one line in `why`: no driver, a stub, no device...
     */
    int (*start)(char *why, size_t why_nbytes);

    /*
     * The last finalize: no region of the kind is left. May be started again. Not called if memory
     * is kept, unless the kind is storage.
     */
    void (*stop)(void);

    /*
     * Allocate zeroed memory that peers can open, on params->device; for NIXL_MEM_AUTO in
     * params->kind, on a real GPU only. Optional wishes that cannot be met are dropped, with a
     * note. NIXL_OK; or NIXL_E_NO_MEMORY, NIXL_E_NO_DEVICE, NIXL_E_LIMIT or
     * NIXL_E_INVALID_ARG with `why`, and nothing is left behind.
     */
    int (*alloc)(size_t nbytes, const struct nixl_mem_params *params, struct nxr_memory *memory_p,
                 char *why, size_t why_nbytes);

    /*
     * Take memory of the user's for a region. What it really is is determined here; the caller is
     * not trusted. Memory that cannot be exported gets NXR_EXPORT_NONE and a note. Returns as
     * alloc(); NIXL_E_UNSUPPORTED: it is not of this kind, and `why` says what it is.
     */
    int (*adopt)(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                 struct nxr_memory *memory_p, char *why, size_t why_nbytes);

    /* Release it, with the range; no copy is in progress. The publication owns the descriptor. */
    void (*release)(struct nxr_memory *memory);

    /*
     * The same for memory that was not published after all, if there is more to take back than to
     * release; NULL: there is not.
     */
    void (*discard)(struct nxr_memory *memory);

    /*
     * Does that address belong to this kind? Starts nothing: false if the driver is not in the
     * process yet.
     */
    bool (*owns)(const void *addr);

    /* As nxr_device_import() and nxr_device_unimport() of transports/transport.h. */
    int (*import)(struct nxr_segment *segment, int fd);
    void (*unimport)(struct nxr_segment *segment);

    /*
     * Start a copy: returns as nxr_device_copy_begin(). For a copy between Vulkan memory and memory
     * of another kind, Vulkan's function is called.
     */
    int (*copy_start)(struct nxr_device_copy *copy);

    /*
     * NIXL_INPROGRESS; or NIXL_OK or a failure once, at the end. One thread at a time. Of storage:
     * only called after nxr_device_tell_end().
     */
    int (*copy_test)(struct nxr_device_copy *copy);

    /* Of storage: begin what waits since nxr_device_gathers(); NULL: nothing does. */
    void (*copy_go)(void);

    /* Of storage: find out what has ended, before its copies are tested; or NULL. */
    void (*copy_poll)(void);

    /* Of storage: a nxr_sleep_fn, see core/wait.h; or NULL. */
    bool (*copy_sleep)(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);

    /*
     * Polling stops: call nxr_device_ended() when the copy has ended, at once if it already has.
     * Called at most once for a copy, between start and end.
     */
    void (*copy_arm)(struct nxr_device_copy *copy);

    /*
     * The copy is to end soon, with NIXL_E_CANCELED if it has not ended yet: then its memory is not
     * used any more. NULL: what has begun cannot be stopped. As copy_test().
     */
    void (*copy_cancel)(struct nxr_device_copy *copy);

    /*
     * Make host memory accessible to the device, page-locked if possible, so that copies are fast;
     * repeating it is harmless. Copies work even if it fails. Lasts until unpin(), which does
     * nothing for memory that was not pinned.
     */
    void (*pin)(void *addr, size_t nbytes);
    void (*unpin)(void *addr);

    /*
     * The same, but required: start the kind, and page-lock that host memory for all its devices.
     * False and one line in `why`: it failed. NULL: the kind cannot page-lock.
     */
    bool (*page_lock)(void *addr, size_t nbytes, char *why, size_t why_nbytes);

    /*
     * What to expect of copies from or to that memory: with host memory if is_with_host, otherwise
     * with other memory of the kind. `range` is NULL for memory on another host. Starts nothing.
     */
    struct nxr_copy_rate (*expect)(const struct nxr_range *range, bool is_with_host);

    /*
     * For memory that the kind did not make: as in struct nxr_range_drivers (core/range.h). Both
     * NULL: all memory of the kind was made here.
     */
    bool (*is_in_process)(void);
    const struct nxr_range *(*classify)(const void *addr);

    /* The PCI address of the memory's device, such as 0000:3b:00.0; "": not known. */
    const char *(*pci)(const struct nxr_range *range);

    /* For streams of the user's; NULL: the kind has none. */
    const struct nxr_memory_streams *streams;

    /*
     * Of storage that copy_start() may copy from and to device memory: such an operation is staged,
     * as copy_start() wanted it. What stage_begin() returns is given to stage_end(), with the bytes
     * that were moved, 0 if it has failed; NULL: nobody wants to know. NULL: all are staged.
     */
    void *(*stage_begin)(const struct nxr_memory_between *between);
    void (*stage_end)(void *begun, uint64_t nbytes);

    /* How bytes go between it and device memory; is_put and nbytes are not read. Or NULL. */
    void (*how)(const struct nxr_memory_between *between, struct nxr_memory_how *how);

    /*
     * Storage: the last failure of that memory, or with NULL of any of the kind. NULL: it is no
     * storage. Threads: any.
     */
    void (*why)(const struct nxr_range *range, struct nxr_storage_why *why);
};

/* Is it storage? It has no kind if there is none. */
static inline bool nxr_memory_is_storage(const struct nxr_memory *memory)
{
    return memory->kind != NULL && memory->kind->is_storage;
}

/* Always in the list; owns every address that no other kind does. */
extern const struct nxr_memory_kind nxr_memory_host;

/*
 * Add a kind to the list; one that is already there is not added again. A kind that may know
 * another kind's memory must be added after that kind. Called by one thread, before any other call
 * of the kinds.
 */
void nxr_memory_register(const struct nxr_memory_kind *kind);

/* The table of a kind; NULL: none. */
const struct nxr_memory_kind *nxr_memory_kind(enum nixl_mem_kind kind);

/* The last failure of storage of this process, or error 0. Any thread. */
void nxr_memory_why(struct nxr_storage_why *why);

/* Let the kinds of storage find out what has ended. One thread at a time. */
void nxr_memory_poll_storage(void);

/* For kinds of storage: a copy has ended, and copy_test() reports it from now on. Any thread. */
void nxr_device_tell_end(void);

/* The kind to which streams of the user's belong; NULL before nixl_init() only. */
const struct nxr_memory_kind *nxr_memory_stream_kind(void);

/*
 * The last finalize, and whether it has NIXL_OP_KEEP: if so, nothing is unmapped, freed or unpinned
 * any more that the program may have a pointer to. Any thread.
 */
void nxr_memory_keep(bool is_kept);
bool nxr_memory_is_kept(void);

/* Release memory, as its kind does; if it is kept, only storage, to which nobody has a pointer. */
void nxr_memory_release(struct nxr_memory *memory);

/* The last finalize: stop what was started, but no GPU whose memory is kept. */
void nxr_memory_stop_all(void);

/*
 * Device copies: for this process's device memory, and between mapped segments and local device
 * memory.
 */
extern const struct nxr_transport nxr_transport_device;

/* The kind that owns that address: host memory if no other does. */
const struct nxr_memory_kind *nxr_memory_owner(const void *addr);

/* Is that export, which comes from a peer, valid for a segment of `nbytes` and that kind? */
bool nxr_export_is_sound(const struct nxr_export *export, enum nixl_mem_kind kind, uint64_t nbytes);

/* Does a descriptor travel with it? */
bool nxr_export_has_fd(const struct nxr_export *export);

/*
 * Make the pages of mapped private memory now, if the kernel can: huge ones, where it gives them.
 * Devices of storage take only so many scattered pages in one request: with huge pages, staging a
 * put to the file of another host takes 0.6 s of processors per GiB instead of 0.8.
 */
void nxr_memory_host_populate(void *addr, size_t nbytes);

/* Page-lock host memory, by the first kind that can. False and one line in `why`: none could. */
bool nxr_memory_page_lock(void *addr, size_t nbytes, char *why, size_t why_nbytes);

/* Host memory is about to be unmapped: unpin it from all GPUs. */
void nxr_memory_unpin(void *addr);

/*
 * Copies that this thread begins until the end of it may be handed to storage together, which is
 * cheaper. Nothing waits for one of them meanwhile. The struct is the caller's; they may be nested.
 */
struct nxr_device_gather {
    struct nxr_device_gather *outer;
    const struct nxr_memory_kind *kind; /* whose copy_go() is due; NULL: none is */
};
void nxr_device_gather_begin(struct nxr_device_gather *begun);
void nxr_device_gather_end(struct nxr_device_gather *begun);

/* For a kind of storage: may a copy wait for more? Then its copy_go() is called at the end. */
bool nxr_device_gathers(const struct nxr_memory_kind *kind);

extern const struct nxr_subsystem nxr_memory_subsystem;

#endif
