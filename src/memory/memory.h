/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory kinds: how memory of each kind is allocated, handed to peers, reached and copied. Each has
 * one table: host.c, cuda/cuda.c, vulkan/vulkan.c. kind.c has the list of them, which init.c
 * composes. What transports need of them stands in transports/transport.h, under "device memory";
 * kind.c passes it on to the tables.
 *
 * A driver is loaded and started at the first call that needs it, never before, and its kind's
 * start() tells in words why it cannot be used. Functions run in any thread unless they say
 * otherwise; each kind has its own lock, which is inside of job.lock.
 */
#ifndef NXR_MEMORY_MEMORY_H
#define NXR_MEMORY_MEMORY_H

#include "core/range.h"
#include "nixlrun.h"
#include "transports/transport.h"

/* Memory that was allocated, or adopted, for a region. */
struct nxr_memory {
    const struct nxr_memory_kind *kind;
    void *addr;
    size_t nbytes;                   /* as asked for */
    size_t mapped_nbytes;            /* host: rounded up to whole pages of whatever size */
    int fd;                          /* to hand to peers; -1: none is needed */
    enum nixl_mem_strategy strategy; /* what was really done */
    struct nxr_export export;        /* device memory: to hand to peers */
    struct nxr_range *range;         /* device memory; NULL for host memory */
    bool is_registered;              /* the user's */
    char device[48];                 /* device memory: which, as "GPU-" and a UUID */
    char note[160];                  /* why not what was asked for; "" otherwise */
};

/* What copies were measured to reach; 0: not known. */
struct nxr_copy_rate {
    uint64_t latency_ns; /* of a few bytes */
    uint64_t bandwidth_mbps;
};

struct nxr_memory_kind {
    enum nixl_mem_kind kind;
    const char *name; /* "host", "cuda", "vulkan" */

    /*
     * Load and start what the kind needs; again and again is cheap. NIXL_OK, or NIXL_ERR_NO_DEVICE
     * and one line in `why`: no driver, a stub, no device...
     */
    int (*start)(char *why, size_t why_nbytes);

    /* The last finalize: no region of the kind is left. May be started again. */
    void (*stop)(void);

    /*
     * Allocate zeroed memory that peers can open, of params->device; where params->kind is
     * NIXL_MEM_AUTO, of a real GPU only. What was asked for and can be done without falls back,
     * with a note. NIXL_OK; NIXL_ERR_NO_MEMORY,
     * NIXL_ERR_NO_DEVICE, NIXL_ERR_LIMIT, NIXL_ERR_INVALID_ARG with `why`, and nothing is left.
     */
    int (*alloc)(size_t nbytes, const struct nixl_mem_params *params, struct nxr_memory *memory_p,
                 char *why, size_t why_nbytes);

    /*
     * Take memory of the user's for a region: found out what it really is, not trusted. Memory that
     * cannot be exported gets NXR_EXPORT_NONE and a note. Returns as alloc(); NIXL_ERR_UNSUPPORTED:
     * it is not of this kind, `why` says what it is.
     */
    int (*adopt)(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                 struct nxr_memory *memory_p, char *why, size_t why_nbytes);

    /* Give it back, with the range; no copy is under way. The descriptor is the publication's. */
    void (*release)(struct nxr_memory *memory);

    /*
     * Does that address belong to this kind? Starts nothing: false where the driver is not in the
     * process yet.
     */
    bool (*owns)(const void *addr);

    /* As nxr_device_import() and nxr_device_unimport() of transports/transport.h. */
    int (*import)(struct nxr_part *part, int fd);
    void (*unimport)(struct nxr_part *part);

    /*
     * Start a copy: returns as nxr_device_copy_begin(). Where Vulkan memory and memory of another
     * kind meet, Vulkan's is asked.
     */
    int (*copy_start)(struct nxr_device_copy *copy);

    /* NIXL_INPROGRESS; or NIXL_OK or a failure once, at the end. One thread at a time. */
    int (*copy_test)(struct nxr_device_copy *copy);

    /*
     * Nobody is going to look any more: call nxr_device_ended() when the copy is over, at once if
     * it is. Once for a copy, between start and end.
     */
    void (*copy_arm)(struct nxr_device_copy *copy);

    /*
     * Make host memory known to the device, page-locked where that can be, so that copies are fast;
     * again is harmless. Where it cannot be done copies work all the same. Until unpin(), which
     * does nothing where nothing was pinned.
     */
    void (*pin)(void *addr, size_t nbytes);
    void (*unpin)(void *addr);

    /*
     * The same as a must: start the kind, and page-lock that host memory for all its devices. False
     * and one line in `why`: it could not. NULL: the kind cannot page-lock.
     */
    bool (*page_lock)(void *addr, size_t nbytes, char *why, size_t why_nbytes);

    /*
     * What to expect of copies from or to that memory: with host memory, or, if not is_with_host,
     * with other memory of the kind. `range` is NULL for memory of another host. Starts nothing.
     */
    struct nxr_copy_rate (*expect)(const struct nxr_range *range, bool is_with_host);

    /*
     * Memory that the kind did not make: as in struct nxr_range_drivers (core/range.h). NULL, both:
     * all memory of the kind was made here.
     */
    bool (*is_in_process)(void);
    const struct nxr_range *(*classify)(const void *addr);

    /* The PCI address of the device that has that memory, as 0000:3b:00.0; "": not known. */
    const char *(*pci)(const struct nxr_range *range);
};

/* Always in the list, and the last that owns an address. */
extern const struct nxr_memory_kind nxr_memory_host;

/*
 * Add a kind to the list; one that is there already is not added again. A kind that may know memory
 * of another one comes behind that. One thread, before any other call of the kinds.
 */
void nxr_memory_register(const struct nxr_memory_kind *kind);

/* The table of a kind; NULL: there is none. */
const struct nxr_memory_kind *nxr_memory_kind(enum nixl_mem_kind kind);

/* The last finalize: stop what was started. */
void nxr_memory_stop_all(void);

/* Device copies: for own device memory, and where mapped parts meet local device memory. */
extern const struct nxr_transport nxr_transport_device;

/* The kind that owns that address: host memory where no other does. */
const struct nxr_memory_kind *nxr_memory_owner(const void *addr);

/* Is that export sound, for a part of `nbytes` and a kind? It comes from a peer. */
bool nxr_export_is_sound(const struct nxr_export *export, enum nixl_mem_kind kind, uint64_t nbytes);

/* Does a descriptor come with it? */
bool nxr_export_has_fd(const struct nxr_export *export);

/* Page-lock host memory, by the first kind that can. False and one line in `why`: none could. */
bool nxr_memory_page_lock(void *addr, size_t nbytes, char *why, size_t why_nbytes);

/* Host memory is about to be unmapped: no GPU knows it any more. */
void nxr_memory_unpin(void *addr);

extern const struct nxr_subsystem nxr_memory_subsystem;

#endif
