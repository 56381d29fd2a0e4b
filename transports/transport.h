/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport interface: all that the core and the transports share.
 *
 * A transport moves bytes between this process and a peer's segment of a region. It is one constant
 * table of functions, registered by nxr_transport_register(). It includes this header and src/util,
 * but nothing else of the core and nothing of another transport. No slot but `expect` and `notify`
 * is NULL: for what a transport cannot do, it has one of the typed nxr_no_* functions at the end of
 * this header.
 *
 * Common rules: functions return NIXL_OK, NIXL_INPROGRESS or NIXL_E_*; they log where the error
 * is decided; they never exit, fork, install a signal handler or write to stdout; every
 * descriptor is CLOEXEC.
 *
 * Threads: probe() is called once, before other threads run. segment_open(), segment_close() and
 * segment_is_busy() are called with the core's lock held, and so by one thread at a time. All other
 * functions may be called by any number of threads at once: put, get, move_list, start, start_list,
 * cancel and progress without the core's lock, the rest with or without it.
 *
 * Builds with --enable-debug assert what each side promises to the other.
 */
#ifndef NXR_TRANSPORT_H
#define NXR_TRANSPORT_H

#include "nixlrun.h"
#include "transports/export.h"
#include "transports/host_paths.h"
#include "util/barrier.h"
#include "util/debug.h"
#include "util/loader.h"
#include "util/ring.h"
#include "util/stats_page.h"
#include "util/atomic.h"
#include "util/symbol.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct net_segment;
struct nxr_control;
struct nxr_inflight_slot;
struct nxr_import;
struct nxr_memory_kind;
struct nxr_peer;
struct nxr_remote_key;

/* ---- a segment of a region ------------------------------------------------------------------- */

/* How the owner's segment is reached, chosen when the key is opened. */
enum nxr_method {
    NXR_METHOD_NONE,
    NXR_METHOD_MEMCPY,
    NXR_METHOD_PROCESS_VM,
    NXR_METHOD_BOUNCE,
    NXR_METHOD_MESSAGE, /* the owner's library places and fetches the bytes */
    NXR_METHOD_RMA,     /* the network moves them, if the transfer is large */
    NXR_METHOD_DEVICE,  /* a GPU copies, or what stands in for one */

    /* By what storage is read and written: for reports, never the method of a segment. */
    NXR_METHOD_URING,
    NXR_METHOD_THREADS,
    NXR_METHOD_S3,
    NXR_METHOD_CUFILE, /* of single operations with GPU memory */
    NXR_N_METHODS
};

/*
 * What a peer needs to reach a region. It travels in control messages, together with a descriptor
 * for allocated memory. Fixed layout, checked on arrival.
 */
struct nxr_key {
    uint64_t generation; /* not 0 */
    uint64_t nbytes;     /* not 0 */
    uint64_t addr;       /* in the owner's address space; EXTENTS: their number */
    uint32_t id;         /* region number in the owner's generation table */
    uint8_t kind;        /* enum nixl_mem_kind */
    uint8_t flags;       /* of enum nixl_mem_flag: those that the memory has */
    uint8_t marks;       /* of enum nxr_key_mark */
    uint8_t access;      /* of enum nixl_access: what peers may not do */
};
_Static_assert(sizeof(struct nxr_key) == 32, "fixed on the wire");

enum nxr_key_mark {
    NXR_KEY_REGISTERED = 1, /* the owner's own memory, which has no descriptor */
    NXR_KEY_OWN = 2,        /* the library's: no call of the program names it */
    NXR_KEY_EXTENTS = 4, /* no memory: it says how many extents the region has (region/extents.h) */
    NXR_KEY_STORAGE = 7 << 3, /* of storage: nxr_key_storage(); 0: not known */
};
#define NXR_KEY_STORAGE_SHIFT 3

/* All that there are. */
#define NXR_MEM_FLAGS  (NIXL_MEM_NUMA | NIXL_MEM_HUGE | NIXL_MEM_PINNED | NIXL_MEM_POPULATE)
#define NXR_ACCESS_ALL (NIXL_ACCESS_NO_PUT | NIXL_ACCESS_NO_GET)
#define NXR_KEY_MARKS  (NXR_KEY_REGISTERED | NXR_KEY_OWN | NXR_KEY_EXTENTS | NXR_KEY_STORAGE)

/* The word of an in-flight slot: struct nxr_inflight_slot begins with it. */
typedef _Atomic uint32_t nxr_inflight_word;

#define NXR_ANY_NBYTES UINT32_MAX

/* A call that does not wait always copies this much itself: about 10 us. */
#define NXR_AT_ONCE_NBYTES (128ul << 10)

/*
 * One rank's segment of a region, as this process reaches it. The memory of a segment is never
 * freed while the library runs, so a thread with a stale pointer reads a closed segment, not
 * freed memory.
 */
struct nxr_segment {
    /* Read on every put and get; constant while `generation` is not 0. */
    const struct nxr_transport *transport;
    uint64_t nbytes;
    char *addr;                             /* METHOD_MEMCPY: the segment, mapped here */
    _Atomic uint64_t generation;            /* of the key; 0: not usable */
    const _Atomic uint64_t *generation_now; /* the owner's own word for this region */
    uint32_t id;
    uint32_t inflight_index; /* of the peer, in every thread's table of in-flight slots */
    bool full_fence;         /* this process or the owner lacks membarrier */
    uint8_t forbidden;       /* of enum nixl_access: what this process may not do; own memory: 0 */
    _Atomic enum nxr_method method; /* changes only from PROCESS_VM to BOUNCE */

    /*
     * put() and get() answer NIXL_E_AGAIN to larger transfers, so the core starts them without
     * asking where it can.
     */
    uint32_t put_at_once, get_at_once; /* NXR_ANY_NBYTES: no limit */
    uint32_t copied_at_once;           /* METHOD_MEMCPY: within a call that does not wait; else 0 */

    struct nxr_peer *peer;
    struct nxr_key key;
    size_t mapped_nbytes;              /* METHOD_MEMCPY */
    pid_t pid;                         /* METHOD_PROCESS_VM: the owner's, verified */
    _Atomic uint64_t generation_there; /* on another host: the last value its owner reported */
    struct net_segment *net;           /* on another host: the networks' state for it */
    bool is_in_pieces;                 /* on another host, and reached by small messages only */
    char note[160];                    /* why the method is not a better one; job.lock */

    /* Device memory on this host (METHOD_DEVICE): `addr` is where this process reaches it. */
    struct nxr_export export;
    struct nxr_import *import; /* the memory kind's; NULL: own memory */
    nxr_inflight_word *hold;   /* keeps the owner from freeing what is open here; NULL: own */
    _Atomic uint32_t n_copies; /* device copies in progress */
    atomic_bool is_pinned;     /* METHOD_MEMCPY: the mapping is pinned for the GPU, or cannot be */
    const struct nxr_range *range; /* own memory of METHOD_DEVICE, while it is open; else NULL */

    /*
     * A file of a peer on this host that this process reads itself (METHOD_BOUNCE): a range that no
     * address lies in, as whose first byte `addr` counts, and by what it is read. NULL: the owner
     * reads it.
     */
    const struct nxr_range *readable;
    enum nxr_method read_by;
};

/* ---- what an operation does ------------------------------------------------------------------ */

enum nxr_op_kind { NXR_OP_PUT, NXR_OP_GET, NXR_OP_ATOMIC };

/* ---- in-flight slots: close is safe ---------------------------------------------------------- */

/*
 * Every thread that copies from or to a peer's segment announces the region in its slot of the
 * owner's control page, then reads the owner's generation word; the closer clears that word first
 * and then waits until no slot names the region. Store-then-load on both sides: the copying
 * thread pays a light barrier, the closer a heavy one (util/barrier.h), so that at least one of
 * them sees the other. Leaving is a release store, paired with the closer's acquire load: the
 * bytes were written before it.
 */
struct nxr_inflight_slots {
    struct nxr_inflight_slot **slots; /* by guard index; NULL where none is claimed yet */
    struct nxr_stats_lane **lanes;    /* by the same; set where a slot is */
    uint32_t n_slots;
};
extern NXR_HIDDEN __thread struct nxr_inflight_slots nxr_inflight_slots NXR_TLS_MODEL;

/*
 * Claim a slot for this thread in the page of the segment's owner; *word_p is its word. NIXL_OK,
 * NIXL_E_LIMIT: all are taken; NIXL_E_NO_MEMORY.
 */
int nxr_inflight_claim(const struct nxr_segment *segment, nxr_inflight_word **word_p);

/* The word of this thread's slot in the page of the segment's owner; NULL: none is claimed yet. */
static inline nxr_inflight_word *nxr_inflight_word_of(const struct nxr_segment *segment)
{
    return __builtin_expect(segment->inflight_index < nxr_inflight_slots.n_slots, 1)
               ? (nxr_inflight_word *)nxr_inflight_slots.slots[segment->inflight_index]
               : NULL;
}

/* nxr_inflight_enter() with the word that this thread has. */
static inline int nxr_inflight_enter_word(const struct nxr_segment *segment,
                                          nxr_inflight_word *word)
{
    uint64_t generation;

    NXR_ASSERT(atomic_load_explicit(word, memory_order_relaxed) ==
               0); /* a thread enters one at a time */
    atomic_store_explicit(word, segment->id + 1, memory_order_relaxed);
    nxr_barrier_light(segment->full_fence);
    /* 0: this process has given up the segment; the owner's word may be 0, too. */
    generation = atomic_load_explicit(&segment->generation, memory_order_relaxed);
    if (__builtin_expect(generation == 0 ||
                             atomic_load_explicit(segment->generation_now, memory_order_acquire) !=
                                 generation,
                         0)) {
        atomic_store_explicit(word, 0, memory_order_release);
        return NIXL_E_STALE;
    }
    return NIXL_OK;
}

/*
 * Enter a segment. NIXL_OK: the copy may start, and nxr_inflight_leave(*word_p) must follow it,
 * by the same thread and before it enters another segment of that peer. NIXL_E_STALE: the owner
 * closed it. NIXL_E_LIMIT: no slot. NIXL_E_NO_MEMORY.
 */
static inline int nxr_inflight_enter(const struct nxr_segment *segment, nxr_inflight_word **word_p)
{
    nxr_inflight_word *word = nxr_inflight_word_of(segment);

    if (__builtin_expect(word == NULL, 0)) {
        int status = nxr_inflight_claim(segment, &word);

        if (status != NIXL_OK) {
            return status;
        }
    }
    *word_p = word;
    return nxr_inflight_enter_word(segment, word);
}

static inline void nxr_inflight_leave(nxr_inflight_word *word)
{
    atomic_store_explicit(word, 0, memory_order_release);
}

/* Count what this thread has copied since it has entered that segment, which is mapped here. */
static inline void nxr_stats_lane_count(const struct nxr_segment *segment,
                                        enum nxr_stats_lane_counter ops, size_t nbytes)
{
    struct nxr_stats_lane *lane = nxr_inflight_slots.lanes[segment->inflight_index];

    nxr_stats_add(&lane->n[ops], 1);
    nxr_stats_add(&lane->n[ops + 1], nbytes);
}

/*
 * Count a put or a get that was done within the call otherwise than through mapped memory: by its
 * transport, once it has succeeded.
 */
void nxr_stats_moved(const struct nxr_segment *segment, enum nxr_op_kind kind, size_t nbytes);

/* The same, by another method than the segment's; NONE: by that. */
void nxr_stats_moved_by(const struct nxr_segment *segment, enum nxr_op_kind kind, size_t nbytes,
                        enum nxr_method by);

/*
 * The same with a slot that belongs to no thread, for whatever outlives the call: a copy that
 * continues, or device memory that is open here and must not be freed before it is closed.
 * nxr_inflight_release() must follow, from any thread. Returns as nxr_inflight_enter().
 */
int nxr_inflight_hold(const struct nxr_segment *segment, nxr_inflight_word **word_p);
void nxr_inflight_release(nxr_inflight_word *word);

/* ---- operations that take time --------------------------------------------------------------- */

/*
 * One of the pieces of a list: bytes that lie together on both sides. A list has at most
 * NXR_LIST_MAX pieces, all of one segment; they may be moved in any order. The local sides of a
 * list all lie in memory of one kind and device.
 */
struct nxr_piece {
    uint64_t offset; /* in the segment; in range */
    void *local;     /* source of a put, destination of a get */
    size_t nbytes;   /* > 0 */
};
#define NXR_LIST_MAX 4096

static inline uint64_t nxr_pieces_nbytes(const struct nxr_piece *pieces, size_t n_pieces)
{
    uint64_t nbytes = 0;

    for (size_t i = 0; i < n_pieces; i++) {
        nbytes += pieces[i].nbytes;
    }
    return nbytes;
}

/*
 * One operation that a transport has accepted and will complete later, exactly once. If it came by
 * start_list(), it is a list: `pieces` says what to move where, and offset and local are those of
 * the first piece.
 */
struct nxr_op {
    const struct nxr_transport *_Atomic transport; /* the one that has accepted it; see `serves` */
    struct nxr_segment *segment;
    enum nxr_op_kind kind;
    uint64_t offset;
    void *local;                    /* source of a put, destination of a get */
    size_t nbytes;                  /* in all */
    const struct nxr_piece *pieces; /* NULL: a single piece; valid until nxr_op_done() */
    size_t n_pieces;
    void (*ended)(struct nxr_op *op, int status); /* the core's: called by nxr_op_done() */
    void *stream;     /* CUDA stream whose earlier work the operation waits for; NULL: none */
    bool is_host;     /* the core's: `local` is known to be host memory */
    bool takes_time;  /* the core's: put() or get() has answered NIXL_E_AGAIN */
    bool is_waited;   /* the core's: a blocking call, which nothing of the program can follow yet */
    bool is_followed; /* the core sends something right after this put, or makes progress */
    bool may_trail;   /* the core's: a put whose bytes may arrive after it was canceled */
    bool is_durable;  /* the core's: a put after which its storage is made durable */
    bool has_synced;  /* the transport's: the bytes are there, and it has tried that, too */
    struct nxr_atomic atomic; /* NXR_OP_ATOMIC: the change; local: where the user wants `fetched` */
    uint64_t fetched;         /* ... the old value, once it has ended */
    bool is_signal;           /* ... the old value is not wanted */
    bool is_unordered;        /* ... the core's: it waits for no earlier puts */
    struct nxr_stats_entry *stats; /* the core's: where it is counted when it ends; NULL: nowhere */
    int64_t began_ns;              /* ... and when it was started, if it is timed; else 0 */
    uint64_t began_ticks;          /* ... if it is traced; else 0 */
    size_t nbytes_done;
    bool is_cancelled;   /* the transport's: start no further pieces */
    int failure;         /* the transport's: the status of a failed piece */
    struct nxr_op *next; /* the transport's, while it has the operation */
#ifdef NXR_DEBUG
    atomic_bool has_ended; /* nxr_op_done() was called */
#endif
};

/*
 * Called by the transport, once, when an operation that it has accepted has ended: from
 * progress(), cancel(), a thread of its own, or from start() itself, which returns
 * NIXL_INPROGRESS all the same. The operation may be freed when the call returns. `status` is the
 * outcome: neither NIXL_INPROGRESS nor NIXL_E_AGAIN. Caller holds no lock: the core starts and
 * sends what waited for that.
 */
void nxr_op_done(struct nxr_op *op, int status);

/*
 * Called by the transport, from start(): notifications sent from now on arrive after this put, so
 * the core need not hold them back until the put has ended.
 */
void nxr_op_ordered(struct nxr_op *op);

/* A put with the notification that follows it. */
struct nxr_put_notify {
    uint64_t offset;
    const void *src;
    size_t nbytes;
    struct nxr_message message;
};

/* A put with the change of a word that follows it: a signal, in a segment of the same peer. */
struct nxr_put_signal {
    uint64_t offset;
    const void *src;
    size_t nbytes;
    const struct nxr_segment *word_segment;
    struct nxr_atomic atomic;

    /*
     * Until when the call may wait for `src` to be free, by CLOCK_MONOTONIC; what is under way then
     * arrives later, or never. 0: for NIXLRUN_OP_TIMEOUT, and no byte arrives after the call.
     */
    int64_t until_ns;
};

/* ---- device memory --------------------------------------------------------------------------- */

/*
 * The address tells which kind of memory it is: an address that is not host memory lies in one of
 * these ranges. A range is a region of this process or a peer's segment that is open here. Ranges
 * are made and removed by the memory kinds; the owner of a range keeps it while it is used. The
 * user's device memory that is in no region has a range, too: all such memory of one device
 * shares it, and only the device's driver knows which memory that is.
 */
struct nxr_range {
    uintptr_t addr;
    uint64_t nbytes;
    const struct nxr_memory_kind *kind;
    void *memory; /* the kind's */

    /*
     * is_mapped: the processor reads and writes it at this address, as fast as its own memory.
     * is_direct: an adapter can read and write it, and what the adapter has written is visible to
     * the device, too, by the time anyone is notified.
     */
    bool is_mapped, is_direct;

    bool is_loose; /* in no region: only a driver can use it */
};

/*
 * All ranges lie within these bounds, in units of 32 MiB: the first in the low half, how many in
 * the high one. They share one word so that both are read together. If a driver is loaded in the
 * process, the bounds cover all addresses.
 */
extern NXR_HIDDEN _Atomic uint64_t nxr_range_bounds;
#define NXR_RANGE_UNIT_BITS 25

/*
 * The range that `addr` lies in; NULL: memory that the processor reads and writes. A driver that
 * was loaded into the process in the meantime is noticed. Threads: any, but not with locks of
 * memory kinds held.
 */
const struct nxr_range *nxr_range_find(const void *addr);

/* The range of the local side of an operation. */
static inline const struct nxr_range *nxr_op_range(const struct nxr_op *op)
{
    return op->is_host ? NULL : nxr_range_find(op->local);
}

/* Takes a number, because compilers treat a pointer argument as an access to what it points to. */
bool nxr_range_is_device_at(uintptr_t addr);

/* False: it is not device memory. Costs every put and get two compares if there is no driver. */
static inline bool nxr_range_may_be_device(const void *addr)
{
    uint64_t bounds = atomic_load_explicit(&nxr_range_bounds, memory_order_relaxed);
    uint32_t unit = (uint32_t)((uintptr_t)addr >> NXR_RANGE_UNIT_BITS);

    return __builtin_expect(
        unit - (uint32_t)bounds < (uint32_t)(bounds >> 32) || nxr_loader_has_news(), 0);
}

static inline bool nxr_range_is_device(const void *addr)
{
    return nxr_range_may_be_device(addr) && nxr_range_is_device_at((uintptr_t)addr);
}

/* Is one of them? Both are compared with one reading of the bounds. */
static inline bool nxr_range_has_device(const void *one, const void *other)
{
    uint64_t bounds = atomic_load_explicit(&nxr_range_bounds, memory_order_relaxed);
    uint32_t first = (uint32_t)bounds, n_units = (uint32_t)(bounds >> 32);

    if (__builtin_expect((uint32_t)((uintptr_t)one >> NXR_RANGE_UNIT_BITS) - first >= n_units &&
                             (uint32_t)((uintptr_t)other >> NXR_RANGE_UNIT_BITS) - first >=
                                 n_units &&
                             !nxr_loader_has_news(),
                         1)) {
        return false;
    }
    return nxr_range_is_device_at((uintptr_t)one) || nxr_range_is_device_at((uintptr_t)other);
}

enum nixl_mem_kind nxr_range_kind(const struct nxr_range *range); /* NIXL_MEM_HOST for NULL */

/* Part of a device copy. */
struct nxr_device_piece {
    void *dst;
    const void *src;
    size_t nbytes;
};

#define NXR_COPY_ROOM_NBYTES 176 /* of a kind's own record, within a copy */

/*
 * A copy that a GPU does. Each side lies in one range, or is host memory that this process can read
 * and write; at least one side is device memory. The struct is the caller's and stays valid until
 * the copy has ended.
 */
struct nxr_device_copy {
    const struct nxr_device_piece *pieces; /* in any order, not overlapping; stay valid, too */
    size_t n_pieces;
    const struct nxr_range *dst, *src; /* NULL: host memory */
    void *stream;                      /* a CUDA stream of the user's; NULL: one of our own */
    void *state[8];                    /* the kind's, from start to end */
    size_t nbytes_touched;             /* the kind's: if it fails, what it may have moved */
    enum nxr_method by;                /* the kind's: by what, if not as the segment's key says */

    /* If not NULL: not a copy but this reduction, by the device of dst (src/memory/reduce.h). */
    const struct nxr_device_reduction *reduction;

    /* Not a copy: make durable what was written before to dst, which is storage. No pieces. */
    bool is_sync;

    /* Do that, too, when all pieces are in dst; has_synced: the kind's, that it has tried to. */
    bool is_durable, has_synced;

    /*
     * On whose behalf it writes to dst: nxr_peer_origin() of a peer, or 0 for this rank itself.
     * Storage that is written as a whole keeps the bytes of several apart.
     */
    uint64_t origin;

    const void *owner; /* for nxr_device_copy_cancel(); NULL: nobody cancels it */
    bool is_of_op;     /* its operation is already counted as started and at a device */

    /* Set by the caller of nxr_device_copy_begin(): called once, from whichever thread polls. */
    void (*ended)(struct nxr_device_copy *copy, int status);
    bool is_unattended; /* no thread waits for it: the GPU must wake this process at its end */

    /* The core's. */
    const struct nxr_memory_kind *engine; /* which does it; its copy_start() may name another */
    bool is_armed;
    int status;
    int64_t began_ns;    /* of a GPU's */
    uint32_t began_turn; /* the service thread's, by number */
    struct nxr_device_copy *next;

    /* The kind's, from start to end: its own record of a short copy. */
    _Alignas(void *) unsigned char room[NXR_COPY_ROOM_NBYTES];
};

/*
 * Begin a copy. NIXL_OK: it is done, and the bytes are visible to anyone notified later; `ended` is
 * not called. NIXL_INPROGRESS: `ended` follows, from nxr_device_progress(). NIXL_E_UNSUPPORTED:
 * no direct copy between these two is possible, nothing happened; NIXL_E_NO_MEMORY,
 * NIXL_E_TRANSPORT. Threads: any.
 */
int nxr_device_copy_begin(struct nxr_device_copy *copy);

/*
 * Let the copies of that owner end early, if their kind can do that: with NIXL_E_CANCELED, or as
 * they would have. What cannot be stopped goes on. Threads: any.
 */
void nxr_device_copy_cancel(const void *owner);

/* The same, and wait until it has ended. */
int nxr_device_copy(const struct nxr_range *dst_range, void *dst, const struct nxr_range *src_range,
                    const void *src, size_t nbytes);

/* For memory kinds: an armed copy has ended, sleepers must poll. Any thread, also a driver's. */
void nxr_device_ended(void);

/*
 * For memory kinds: an armed copy is expected to end at that time of nxr_now_ns(). A thread that
 * sleeps until the copy has ended wakes up shortly before that time and polls, because drivers
 * report ends 100 us late or more. A hint: nxr_device_ended() follows, whenever that is. Threads:
 * any.
 */
void nxr_device_ends_at(int64_t end_ns);

/*
 * Open a peer's device memory here: segment->export says what it is, `fd` came with it and stays
 * the caller's. Fills addr and import, of files addr, readable and read_by. A bad handle, a device
 * that is not visible here or a missing driver is a failure: one line in segment->note, and nothing
 * is left behind. Under the core's lock.
 */
int nxr_device_import(struct nxr_segment *segment, int fd);
void nxr_device_unimport(struct nxr_segment *segment);

/*
 * Keep a peer's device memory open here, so that a GPU may use the memory at the segment's addr.
 * False: it is closed, or was not opened here.
 */
bool nxr_device_segment_hold(struct nxr_segment *segment);
void nxr_device_segment_release(struct nxr_segment *segment);

/*
 * put, get, start, start_list, cancel and segment_is_busy of the table below, by device copies:
 * for segments with METHOD_DEVICE, and for mapped segments where the local side is device memory.
 * put and get wait until the copy has ended.
 */
bool nxr_device_segment_is_busy(const struct nxr_segment *segment);
int nxr_device_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes);
int nxr_device_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes);
int nxr_device_start(struct nxr_op *op);
int nxr_device_cancel(struct nxr_op *op);

/* Poll all device copies; never blocks. Returns how many have ended. */
int nxr_device_progress(void);

#ifdef NXR_DEBUG
/* ---- for assertions, provided by the core (core/contract.c) ---------------------------------- */

/* Does the calling thread hold the core's lock? */
bool nxr_core_is_locked(void);

/* Has the core filled what it must before segment_open()? The core's lock is held. */
bool nxr_segment_may_be_opened(const struct nxr_segment *segment);

/* May segment_close() and segment_is_busy() be called? */
bool nxr_segment_may_be_closed(const struct nxr_segment *segment);

/* Are these bytes in the segment, at least one, and the core's lock not held? */
bool nxr_segment_may_move(const struct nxr_segment *segment, uint64_t offset, const void *local,
                          size_t nbytes);

/* The same for the pieces of a list. */
bool nxr_list_may_move(const struct nxr_segment *segment, enum nxr_op_kind kind,
                       const struct nxr_piece *pieces, size_t n_pieces);

/* May start() or start_list() be called? */
bool nxr_op_may_start(const struct nxr_op *op);
#endif

/* ---- the table ------------------------------------------------------------------------------- */

struct nxr_transport {
    const char *name; /* as NIXLRUN_TRANSPORTS takes it */
    unsigned cost;    /* of a small put, in ns: the cheapest that can reach a peer is used */

    /*
     * Can this transport be used on this machine? Cheap, and starts nothing. NIXL_OK, or
     * NIXL_E_UNSUPPORTED with one line in `why`.
     */
    int (*probe)(char *why, size_t why_nbytes);

    /*
     * Can it reach memory of that kind, of a peer of that scope? Pure, with the same answer at both
     * ends. NIXL_OK, or NIXL_E_UNSUPPORTED with one line in `why`. If a certain segment cannot be
     * reached after all, segment_open() fails, and the next transport is tried; device memory that
     * none opens, with those that reach host memory.
     */
    int (*reach)(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why, size_t why_nbytes);

    /*
     * Make a segment usable: segment->peer and segment->key are set, with what follows from the
     * key; fills addr, method, pid and note, and lowers put_at_once and get_at_once. `fd` is the
     * memory of an allocated region or -1; it stays the caller's. `remote` is what the owner's
     * network adds to the key; NULL: the owner is on this host. May map and make system calls. A
     * failure leaves nothing behind but its reason in `note`; the segment may then be opened by
     * another transport. METHOD_BOUNCE: its owner copies.
     */
    int (*segment_open)(struct nxr_segment *segment, int fd, const struct nxr_remote_key *remote);

    /*
     * May that device memory be the local side of operations on this segment? The answer for a kind
     * of memory does not change; a network may ask its library at the first. If so, a network takes
     * it as it is, and within a host the core uses device copies. If not, or if such a copy
     * turns out to be NIXL_E_UNSUPPORTED, the bytes go through host memory.
     */
    bool (*serves)(const struct nxr_segment *segment, const struct nxr_range *range);

    /*
     * Undo segment_open. Called once, when nothing is in flight any more: segment_is_busy() has
     * said so under the same lock, and the generation of the segment is 0. Never fails.
     */
    void (*segment_close)(struct nxr_segment *segment);

    /* Does the transport have operations under way on it, beyond what the in-flight slots show? */
    bool (*segment_is_busy)(const struct nxr_segment *segment);

    /*
     * Move bytes at once; the range was checked. NIXL_OK: done; a put is visible at the target to
     * any thread that sees a later notification. NIXL_E_AGAIN: cannot be done at once, nothing
     * happened: use start(). Other: failed; bytes of the range may have been written. Threads: any.
     */
    int (*put)(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes);
    int (*get)(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes);

    /*
     * A put and its notification in one trip. NIXL_E_AGAIN: nothing happened; the core does one
     * after the other. One thread at a time for one peer.
     */
    int (*put_notify)(struct nxr_segment *segment, const struct nxr_put_notify *what);

    /* The same with a signal; its word was checked as for signal(). */
    int (*put_signal)(struct nxr_segment *segment, const struct nxr_put_signal *what);

    /*
     * put() or get() of all pieces of a list. *n_done_p, whatever the return: how many pieces are
     * done, counted from the first. NIXL_OK: all. NIXL_E_AGAIN: the next one cannot be done at
     * once; the core takes start_list() or start() for the rest. Other: failed, as for put(). The
     * core passes no more at once than may be copied without a pause (some MiB); total_nbytes is
     * what the transfer moves in all, of which the list is a part. Threads: any.
     */
    int (*move_list)(struct nxr_segment *segment, enum nxr_op_kind kind,
                     const struct nxr_piece *pieces, size_t n_pieces, uint64_t total_nbytes,
                     size_t *n_done_p);

    /*
     * Begin an operation that ends with nxr_op_done(). NIXL_INPROGRESS: accepted, and perhaps
     * ended already. NIXL_OK: a word was changed at once. Any other status: nothing began.
     * Operations that put() and get() could do are started, too, if they take long and no thread
     * waits for them.
     */
    int (*start)(struct nxr_op *op);

    /*
     * The same for a whole list (op->pieces) in one submission: a batch of copies, one kernel, one
     * command buffer. One nxr_op_done() for all; cancel() as after start(). NIXL_E_UNSUPPORTED:
     * this list cannot be submitted; the core starts the first piece alone, then tries the rest as
     * a list; if device copies were to move it, they cannot move its pieces, either, and the core
     * stages the list.
     */
    int (*start_list)(struct nxr_op *op);

    /*
     * Stop an operation that was started. NIXL_OK: no more of its bytes move, and nxr_op_done() was
     * called. NIXL_INPROGRESS: copies under way are being finished, and nxr_op_done() will follow;
     * or it was called while another thread canceled. The caller keeps the operation valid during
     * the call. May be called again.
     */
    int (*cancel)(struct nxr_op *op);

    /*
     * What to expect of a segment that is reached by that method: 8 bytes one way, and the rate of
     * 1 MiB; 0: not known. `peer` is NULL where a transport of one host is asked in general. NULL:
     * nothing is known.
     */
    void (*expect)(const struct nxr_peer *peer, enum nxr_method method, uint64_t *latency_ns_p,
                   uint64_t *bandwidth_mbps_p);

    /*
     * Drive started operations; never blocks. How many things moved: 0 lets the caller sleep. Not
     * called from nxr_op_done().
     */
    int (*progress)(void);

    /*
     * Send a notification to the peer's queue, after all puts that returned NIXL_OK; if its is_late
     * is set, one of these failed, and the receiver learns it. NIXL_E_AGAIN: no room, nothing
     * happened. One thread at a time for one peer. If the slot is NULL, the core writes into the
     * ring in the peer's control page.
     */
    int (*notify)(struct nxr_peer *peer, const struct nxr_message *message);

    /* Order and visibility of the puts that returned NIXL_OK; must not block: NIXL_INPROGRESS. */
    int (*fence)(struct nxr_peer *peer);
    int (*flush)(struct nxr_peer *peer);

    /*
     * A word in a segment that is not mapped here (else the core changes it in place): fetch it and
     * combine it with the operand, in one atomicity domain with all other accesses of the library.
     * The word is in range and aligned. NIXL_OK; NIXL_E_AGAIN: not possible from here, the core
     * asks the owner by a message; other: nothing happened. Threads: any.
     */
    int (*atomic)(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                  uint64_t *fetched_p);

    /*
     * The same, after all puts that returned NIXL_OK; and any thread waiting for the word is woken.
     */
    int (*signal)(struct nxr_segment *segment, const struct nxr_atomic *atomic);
};

/*
 * The registered transports, cheapest first, and their number. Constant once the library has
 * started.
 */
#define NXR_MAX_TRANSPORTS 16u
extern NXR_HIDDEN const struct nxr_transport *nxr_transports[NXR_MAX_TRANSPORTS];
extern NXR_HIDDEN size_t nxr_n_transports;

/*
 * Add a transport at the end of the list; one that is already there is not added again. Called by
 * one thread, before the library starts.
 */
void nxr_transport_register(const struct nxr_transport *transport);

/* move_list() for a segment that is mapped at `base` and was entered. */
void nxr_copy_list(char *base, enum nxr_op_kind kind, const struct nxr_piece *pieces,
                   size_t n_pieces, uint64_t total_nbytes);

/* Typed fillers. */
bool nxr_no_serves(const struct nxr_segment *segment, const struct nxr_range *range);
/* Always true: takes every range. */
bool nxr_device_serves(const struct nxr_segment *segment, const struct nxr_range *range);
bool nxr_no_segment_is_busy(const struct nxr_segment *segment);
int nxr_no_put_notify(struct nxr_segment *segment, const struct nxr_put_notify *what);
int nxr_no_put_signal(struct nxr_segment *segment, const struct nxr_put_signal *what);
int nxr_no_move_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                     const struct nxr_piece *pieces, size_t n_pieces, uint64_t total_nbytes,
                     size_t *n_done_p);
int nxr_no_start(struct nxr_op *op);
int nxr_no_start_list(struct nxr_op *op);
int nxr_no_cancel(struct nxr_op *op);
int nxr_no_progress(void);
int nxr_no_order(struct nxr_peer *peer); /* fence, flush: nothing is ever outstanding */
int nxr_no_atomic(struct nxr_segment *segment, const struct nxr_atomic *atomic,
                  uint64_t *fetched_p);
int nxr_no_signal(struct nxr_segment *segment, const struct nxr_atomic *atomic);

#endif
