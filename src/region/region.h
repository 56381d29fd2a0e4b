/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: the handles of this process, and for each the segments of the ranks it was used with.
 *
 * A segment is made when a rank is first named in a call. Its owner is asked for the key, and the
 * segment is opened when the key arrives. From then on it does not change, except that its
 * generation becomes 0 when the owner closes the region or dies, or the handle is closed. If the
 * region is used again after that, it gets a new segment. The memory of regions and segments is
 * type-stable and reused late, so that a call on a closed handle finds a closed handle.
 */
#ifndef NXR_REGION_REGION_H
#define NXR_REGION_REGION_H

#include "control/dispatch.h"
#include "region/publish.h"
#include "core/job.h"
#include "memory/memory.h"

#define NXR_REGION_OPEN 0x6e78722d6f70656eull

#define NXR_SEGMENTS_PER_CHUNK 64

/*
 * The names of the library's own regions begin with one of these bytes: those of teams and tables,
 * and those of windows (transfer/window.h). Programs can neither give nor open such a name, and no
 * event is about these regions.
 */
#define NXR_REGION_INTERNAL '\1'
#define NXR_WINDOW_NAME     '\2'

/*
 * A name in a context other than the default one is preceded by this byte and the context's
 * identity in 16 hexadecimal digits, so that contexts cannot open each other's regions by chance.
 */
#define NXR_SCOPED_NAME  '\3'
#define NXR_SCOPE_NBYTES 17

/* The name as the program gave it. */
const char *nxr_region_label(const char *name);

struct nxr_extents;

enum nxr_segment_state {
    NXR_SEGMENT_ASKING, /* the owner has been asked */
    NXR_SEGMENT_READY,
    NXR_SEGMENT_STALE,  /* was ready; the owner has closed it or died */
    NXR_SEGMENT_FAILED, /* cannot be opened; `status` says why */
};

struct nxr_region_segment {
    _Alignas(
        NXR_LINE_NBYTES) struct nxr_segment segment; /* usable while segment.generation is not 0 */
    _Atomic int state; /* enum nxr_segment_state; all below: job.lock */
    struct nixl_region *region;
    int rank;
    int status;
    uint64_t ask;
    struct nxr_list ask_link; /* of nxr_region_asks() */
    struct nxr_list waiting;  /* struct nixl_req: begin when the segment is ready */
    struct nxr_list link;     /* among the ready ones of a bucket, or the closing or retired ones */
    struct nxr_list map_link; /* of those with n_maps > 0 */
    unsigned n_maps;          /* pointers that nixl_region_map() gave out */
    size_t inherited_nbytes;  /* own memory closed while mapped: freed with the last pointer */
    bool is_open;             /* transport->segment_close() is still to be called */
    bool is_never;            /* the owner leaves without such a region: not READY, FAILED */
    bool is_owner_short;      /* the owner had no memory to answer: FAILED */

    struct nxr_extents *_Atomic extents; /* a whole (extents.h); set before it is READY */
    struct nxr_region_segment *whole;    /* an extent: of this whole; else NULL */
    uint32_t extent;                     /* ... and its number */
    bool is_part;                        /* it was made for an extent: reused for another one */
};

struct nxr_segment_chunk {
    struct nxr_region_segment *_Atomic segments[NXR_SEGMENTS_PER_CHUNK];
};

struct nixl_region {
    _Atomic uint64_t magic;                            /* NXR_REGION_OPEN while open */
    struct nxr_segment_chunk *_Atomic *_Atomic chunks; /* [numbers / 64], NULL until used */

    /* This rank's own memory: constant while open. */
    struct nxr_memory memory;        /* addr is NULL if there is none */
    struct nxr_published *published; /* NULL: none */
    struct nxr_extents *extents;     /* its pieces, if `memory` is none; else NULL */

    bool is_revoked;                 /* nixl_region_close() has started */
    struct nixl_context *context;    /* that its events are for */
    char name[NIXL_NAME_MAX + 1];    /* "": it has none, and is for this rank alone */
    struct nxr_list link;            /* of the open, or the retired ones */
    struct nxr_segment_table *table; /* that holds `chunks` */
};

/* Has it a name, by which peers find it? */
static inline bool nxr_region_is_named(const struct nixl_region *region)
{
    return region->name[0] != '\0';
}

static inline bool nxr_region_is_open(const struct nixl_region *region)
{
    return region != NULL &&
           atomic_load_explicit(&region->magic, memory_order_relaxed) == NXR_REGION_OPEN;
}

/* The place of local memory in an open region of this rank that other processes can open. */
struct nxr_region_location {
    uint64_t generation;
    uint64_t offset;
    char name[NIXL_NAME_MAX + 1];
};

/* The region of this rank that holds those bytes: host memory that was allocated, or device memory
 * that can be exported, and that peers may read and write. False: there is none. Any thread. */
bool nxr_region_find_own(const void *addr, size_t nbytes, struct nxr_region_location *place_p);

/*
 * The segment of a rank if it can be used at once; otherwise NULL, for whatever reason. Any
 * thread.
 */
static inline struct nxr_segment *nxr_region_segment(struct nixl_region *region, int rank)
{
    const unsigned index = (unsigned)rank; /* unsigned, because the division is then one shift */
    struct nxr_segment_chunk *_Atomic *chunks, *chunk;
    struct nxr_region_segment *segment;

    if (__builtin_expect(!nxr_region_is_open(region) || index >= nxr_n_numbers(), 0)) {
        return NULL;
    }
    chunks = atomic_load_explicit(&region->chunks, memory_order_acquire);
    chunk = atomic_load_explicit(&chunks[index / NXR_SEGMENTS_PER_CHUNK], memory_order_acquire);
    if (__builtin_expect(chunk == NULL, 0)) {
        return NULL;
    }
    segment = atomic_load_explicit(&chunk->segments[index % NXR_SEGMENTS_PER_CHUNK],
                                   memory_order_acquire);
    if (__builtin_expect(segment == NULL || atomic_load_explicit(&segment->segment.generation,
                                                                 memory_order_acquire) == 0,
                         0)) {
        return NULL;
    }
    return &segment->segment;
}

/* Is the segment storage, a file say? */
static inline bool nxr_segment_is_storage(const struct nxr_segment *segment)
{
    const struct nxr_memory_kind *kind = nxr_memory_kind((enum nixl_mem_kind)segment->key.kind);

    return kind != NULL && kind->is_storage;
}

/*
 * Call found() for each segment of that rank that is storage and ready: of one region, or for NULL
 * of all that are open here. Takes job.lock, and holds it while found() is called.
 */
void nxr_regions_find_storage(int rank, const struct nixl_region *only,
                              void (*found)(struct nxr_segment *segment, void *arg), void *arg);

/* The name of the method by which the segment is reached. */
const char *nxr_segment_method(const struct nxr_segment *segment);

/* Copy the note that says why no better method is used. Takes job.lock. */
void nxr_segment_copy_note(const struct nxr_segment *segment, char *text, size_t nbytes);

/* Does its owner allow this process what the value `forbidden_by` of enum nixl_access forbids? */
static inline bool nxr_segment_allows(const struct nxr_segment *segment, uint32_t forbidden_by)
{
    return (segment->forbidden & forbidden_by) == 0;
}

/* What forbids a put or a get. */
static inline uint32_t nxr_op_forbidden_by(enum nxr_op_kind kind)
{
    return kind == NXR_OP_PUT ? NIXL_ACCESS_NO_PUT : NIXL_ACCESS_NO_GET;
}

static inline bool nxr_segment_has_range(const struct nxr_segment *segment, uint64_t offset,
                                         size_t nbytes)
{
    return offset <= segment->nbytes && nbytes <= segment->nbytes - offset;
}

/*
 * Ask for a rank's segment, unless that has been done. With `renew` a stale or failed segment is
 * replaced. NIXL_OK: *segment_p is it, in whatever state. NIXL_E_NO_MEMORY; NIXL_E_PEER_LOST: the
 * number was detached. Caller holds job.lock.
 */
int nxr_region_want_segment(struct nixl_region *region, int rank, bool renew,
                            struct nxr_region_segment **segment_p);

/*
 * May a call use this region and this timeout? NIXL_OK, or the failure, recorded for `operation`.
 */
int nxr_region_check(const char *operation, const struct nixl_region *region, int64_t timeout_ns);

/*
 * Wait for a rank's segment. NIXL_OK: *segment_p is ready. NIXL_INPROGRESS: it is not, and
 * timeout_ns is 0. Otherwise the failure, recorded for `operation`.
 */
int nxr_region_resolve(const char *operation, struct nixl_region *region, int rank, bool renew,
                       int64_t timeout_ns, struct nxr_segment **segment_p);

/*
 * Record that the owner of the ready segment does not allow `operation`, which `forbidden_by` names
 * the flags against. Returns NIXL_E_ACCESS.
 */
int nxr_region_fail_access(const char *operation, const struct nixl_region *region,
                           const struct nxr_segment *segment, uint32_t forbidden_by);

/*
 * Record `status` because the segment did not arrive `within` the time of that name; the text
 * names a failed connection if that is the cause. Returns `status`.
 */
int nxr_region_fail_unanswered(int status, const char *operation, const struct nixl_region *region,
                               int rank, const char *within);

/* A handle for any name, including the library's own; NULL: no memory. Caller holds job.lock. */
struct nixl_region *nxr_region_open(const char *name);

/*
 * nixl_region_alloc() of host memory, and nixl_region_open(), that also accept the library's own
 * names.
 */
int nxr_region_alloc_internal(const char *name, size_t nbytes, struct nixl_region **region_p);
int nxr_region_open_internal(const char *name, struct nixl_region **region_p);

/* Record why nxr_region_want_segment() has failed with `status`; returns it. */
int nxr_region_fail_no_segment(const char *operation, int rank, int status);

/* Why a segment is not ready: records the failure of `operation` and returns its status. */
int nxr_region_fail_segment(const char *operation, const struct nxr_region_segment *segment);

/* The owner has closed the region: stop using this segment. Any thread, without job.lock. */
void nxr_region_mark_stale(struct nxr_segment *segment);

/* Count a pointer to the segment that is given out. Caller holds job.lock. */
void nxr_region_take_map(struct nxr_region_segment *segment);

/* Take back a pointer that nixl_region_map() gave out. NIXL_OK, NIXL_E_INVALID_ARG; job.lock. */
int nxr_region_release_map(int rank, const void *addr);

/* The memory of the open region of this rank that contains the address. False: there is none. */
bool nxr_region_own_memory(const void *addr, struct nxr_memory *memory_p);

/* Free this rank's memory, or leave it to a segment that has it mapped. Caller holds job.lock. */
void nxr_region_free_memory(struct nxr_memory *memory);

/* Make room for peers' numbers below n_numbers in all open regions. Caller holds job.lock. */
bool nxr_regions_grow(int n_numbers);

/* Retire the segments of that peer in all open regions. Caller holds job.lock. */
void nxr_regions_forget(int number);

/* Retire the segment at that place of a region, if there is one. Caller holds job.lock. */
void nxr_region_drop_segment(struct nxr_region_segment *_Atomic *place);

/*
 * Retire all segments of a region; their waiting requests end as canceled. Caller holds job.lock.
 */
void nxr_region_drop_segments(struct nixl_region *region);

/* ---- called by the host layer, with job.lock held -------------------------------------------- */

/* The questions that wait for that peer's answer: struct nxr_region_segment by ask_link. */
struct nxr_list *nxr_region_asks(const struct nxr_peer *peer);
void nxr_region_send_ask(struct nxr_list *ask_link);
void nxr_region_published(struct nxr_published *published);
nxr_control_taker nxr_region_take_key;
nxr_control_taker nxr_region_take_probed; /* and passes on what answers nxr_region_probe() */

/*
 * Fail all segments that wait for that peer's answer; nxr_region_peer_lost() also makes its ready
 * segments stale.
 */
void nxr_region_end_asks(struct nxr_peer *peer, int status);
void nxr_region_peer_lost(struct nxr_peer *peer);

/* Unmap stale segments that are no longer used. Returns when to call again. */
int64_t nxr_region_tick(int64_t now);

/* Close all regions (last finalize). Without job.lock. */
void nxr_regions_close_all(void);

extern const struct nxr_subsystem nxr_region_subsystem;
extern const struct nxr_subsystem nxr_storage_subsystem;

#endif
