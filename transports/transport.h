/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport interface: all that the core and the transports share.
 *
 * A transport moves bytes between this process and a peer's part of a region. It is one constant
 * table of functions, registered in transport.c. It includes this header and src/util, nothing else
 * of the core and nothing of another transport. No slot is NULL: what a transport cannot do is one
 * of the typed nxr_no_* functions at the end.
 *
 * What holds for all: functions return NIXL_OK, NIXL_INPROGRESS or NIXL_ERR_*; they log where the
 * error is decided; they never exit, fork, install a signal handler or write to stdout; every
 * descriptor is CLOEXEC. put and get run in any number of threads at once; the others under the
 * core's lock unless they say so.
 */
#ifndef NXR_TRANSPORT_H
#define NXR_TRANSPORT_H

#include "nixlrun.h"
#include "util/barrier.h"
#include "util/word.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NXR_TRANSPORT_ABI 1

struct nxr_control;
struct nxr_guard_slot;
struct nxr_peer;

/* ---- a part of a region ---------------------------------------------------------------------- */

/* How the owner's part is reached, chosen when the key is opened. */
enum nxr_method { NXR_METHOD_NONE, NXR_METHOD_MEMCPY, NXR_METHOD_PROCESS_VM, NXR_METHOD_BOUNCE };

/*
 * What a peer needs to reach a region: travels in control messages, together with a descriptor for
 * allocated memory. Fixed layout, checked on arrival.
 */
struct nxr_key {
    uint64_t generation; /* not 0 */
    uint64_t nbytes;     /* not 0 */
    uint64_t addr;       /* in the owner's address space */
    uint32_t id;         /* region number in the owner's generation table */
    uint8_t kind;        /* enum nixl_mem_kind */
    uint8_t strategy;    /* enum nixl_mem_strategy, what was really done */
    uint8_t is_registered;
    uint8_t unused;
};
_Static_assert(sizeof(struct nxr_key) == 32, "fixed on the wire");

/*
 * One rank's part of a region, as this process reaches it. The memory of a part is never given back
 * while the library runs, so that a thread with a stale pointer reads a closed part and no freed
 * one.
 */
struct nxr_part {
    /* Read on every put and get; constant while `generation` is not 0. */
    const struct nxr_transport *transport;
    uint64_t nbytes;
    char *addr;                             /* METHOD_MEMCPY: the part, mapped here */
    _Atomic uint64_t generation;            /* of the key; 0: not usable */
    const _Atomic uint64_t *generation_now; /* the owner's own word for this region */
    uint32_t id;
    uint32_t guard_index; /* of the peer, in every thread's table of in-flight slots */
    bool full_fence;      /* this process or the owner lacks membarrier */
    enum nxr_method method;

    struct nxr_peer *peer;
    struct nxr_key key;
    size_t mapped_nbytes; /* METHOD_MEMCPY */
    pid_t pid;            /* METHOD_PROCESS_VM: the owner, proven */
    char note[160];       /* why the method is not a better one */
};

/* ---- in-flight slots: close is safe ---------------------------------------------------------- */

/*
 * Every thread that copies from or to a peer's part announces the region in its slot of the owner's
 * control page, then reads the owner's generation word; the closer clears that word first and then
 * waits until no slot names the region. Store-then-load on both sides: the copying thread pays a
 * light barrier, the closer a heavy one (util/barrier.h), so that at least one of them sees the
 * other. Leaving is a release store, paired with the closer's acquire load: its bytes were written
 * before.
 */
struct nxr_guard_slots {
    struct nxr_guard_slot **slots; /* by guard index; NULL where none is claimed yet */
    uint32_t n_slots;
};
extern __thread struct nxr_guard_slots nxr_guard_slots __attribute__((tls_model("initial-exec")));

/* The word of a slot: struct nxr_guard_slot begins with it. */
typedef _Atomic uint32_t nxr_guard_word;

/* Claim a slot for this thread in the page of the part's owner; NULL where all are taken. */
nxr_guard_word *nxr_guard_claim(const struct nxr_part *part);

/*
 * Enter a part. NIXL_OK: the copy may start, and nxr_guard_leave(*word_p) must follow it.
 * NIXL_ERR_STALE: the owner closed it. NIXL_ERR_LIMIT: no slot.
 */
static inline int nxr_guard_enter(const struct nxr_part *part, nxr_guard_word **word_p)
{
    nxr_guard_word *word = NULL;
    uint64_t generation;

    if (__builtin_expect(part->guard_index < nxr_guard_slots.n_slots, 1)) {
        word = (nxr_guard_word *)nxr_guard_slots.slots[part->guard_index];
    }
    if (__builtin_expect(word == NULL, 0)) {
        word = nxr_guard_claim(part);
        if (word == NULL) {
            return NIXL_ERR_LIMIT;
        }
    }
    atomic_store_explicit(word, part->id + 1, memory_order_relaxed);
    nxr_barrier_light(part->full_fence);
    /* 0: this process has given the part up; the owner's word may be 0, too. */
    generation = atomic_load_explicit(&part->generation, memory_order_relaxed);
    if (__builtin_expect(generation == 0 ||
                             atomic_load_explicit(part->generation_now, memory_order_acquire) !=
                                 generation,
                         0)) {
        atomic_store_explicit(word, 0, memory_order_release);
        return NIXL_ERR_STALE;
    }
    *word_p = word;
    return NIXL_OK;
}

static inline void nxr_guard_leave(nxr_guard_word *word)
{
    atomic_store_explicit(word, 0, memory_order_release);
}

/* ---- operations that take time --------------------------------------------------------------- */

enum nxr_op_kind { NXR_OP_PUT, NXR_OP_GET };

/* One operation that a transport has accepted and will complete later, exactly once. */
struct nxr_op {
    struct nxr_part *part;
    enum nxr_op_kind kind;
    uint64_t offset;
    void *local; /* source of a put, destination of a get */
    size_t nbytes;
    void *stream; /* CUDA stream that the operation starts behind; NULL: none */
    size_t nbytes_done;
    bool is_cancelled;   /* the transport's: start nothing more of it */
    int failure;         /* the transport's: of one of its pieces */
    struct nxr_op *next; /* the transport's, while it has the operation */
};

/* The transport tells the core that an operation has ended. From progress() or cancel() only. */
void nxr_op_done(struct nxr_op *op, int status);

/* ---- services of the host layer that transports use ------------------------------------------ */

/* The pid of a same-host peer, from the kernel; 0 where it is not known. */
pid_t nxr_peer_pid(const struct nxr_peer *peer);

/* Where the owner has its control page mapped, and the nonce in it: to prove a pid. */
uint64_t nxr_peer_nonce_addr(const struct nxr_peer *peer);
const unsigned char *nxr_peer_nonce(const struct nxr_peer *peer);

/*
 * Map a peer's allocated memory of `nbytes` behind `fd`, which may be hostile: it must be a sealed
 * memfd of that size. NIXL_OK, NIXL_ERR_TRANSPORT, NIXL_ERR_NO_MEMORY.
 */
int nxr_memory_host_map(int fd, size_t nbytes, void **addr_p, size_t *mapped_nbytes_p);
void nxr_memory_host_free(void *addr, size_t mapped_nbytes);

/*
 * Append a notification to the peer's ring. NIXL_OK, NIXL_ERR_AGAIN: no room, NIXL_ERR_PEER_LOST.
 */
int nxr_host_notify(struct nxr_peer *peer, uint64_t tag, const void *msg, size_t nbytes);

/* The bounce buffer, served by the owner's service thread: see src/host/bounce.h. */
int nxr_host_bounce_start(struct nxr_op *op);
int nxr_host_bounce_cancel(struct nxr_op *op);
int nxr_host_bounce_progress(void);

/* ---- the table ------------------------------------------------------------------------------- */

struct nxr_transport {
    uint32_t abi;     /* NXR_TRANSPORT_ABI */
    const char *name; /* as NIXLRUN_TRANSPORTS takes it */
    unsigned cost;    /* of a small put, in ns: the cheapest that can reach a peer is taken */

    /*
     * May this transport be used on this machine? Cheap, starts nothing.
     * NIXL_OK, or NIXL_ERR_UNSUPPORTED with one line in `why`.
     */
    int (*probe)(char *why, size_t why_nbytes);

    /*
     * Can it reach a peer of that scope? Pure, and the same answer at both ends.
     * NIXL_OK, or NIXL_ERR_UNSUPPORTED with one line in `why`.
     */
    int (*reach)(enum nixl_scope scope, char *why, size_t why_nbytes);

    /*
     * Make a part usable: part->peer and part->key are set; fills addr, method, pid and note. `fd`
     * is the memory of an allocated region or -1; it stays the caller's. May map and make system
     * calls.
     */
    int (*part_open)(struct nxr_part *part, int fd);

    /* Undo part_open. Nothing is in flight any more. Never fails. */
    void (*part_close)(struct nxr_part *part);

    /*
     * Move bytes at once; the range was checked. NIXL_OK: done, for a put visible at the target to
     * whom sees a later notification. NIXL_ERR_AGAIN: cannot be done at once, nothing happened: use
     * start(). Other: failed; bytes of the range may have been written. Threads: any.
     */
    int (*put)(struct nxr_part *part, uint64_t offset, const void *src, size_t nbytes);
    int (*get)(struct nxr_part *part, uint64_t offset, void *dst, size_t nbytes);

    /* Begin an operation that ends with nxr_op_done(). NIXL_INPROGRESS; other: nothing began. */
    int (*start)(struct nxr_op *op);

    /*
     * Stop an operation that was started. NIXL_OK: no byte of it moves any more, and nxr_op_done()
     * was called. NIXL_INPROGRESS: what has begun is being finished, nxr_op_done() will follow.
     */
    int (*cancel)(struct nxr_op *op);

    /* Drive started operations; never blocks. How many things moved: 0 lets the caller sleep. */
    int (*progress)(void);

    /*
     * Tag and payload into the peer's queue, behind all puts that returned NIXL_OK. NIXL_ERR_AGAIN:
     * no room, nothing happened. The caller holds the peer's send lock.
     */
    int (*notify)(struct nxr_peer *peer, uint64_t tag, const void *msg, size_t nbytes);

    /* Order, and visibility, of puts that returned NIXL_OK; may not block: NIXL_INPROGRESS. */
    int (*fence)(struct nxr_peer *peer);
    int (*flush)(struct nxr_peer *peer);

    /*
     * A word in a part that is not mapped here (else the core changes it in place): fetch it and
     * combine it with the operand, in one atomicity domain with all other accesses of the library.
     * The word is in range and aligned. NIXL_OK; NIXL_ERR_AGAIN: not from here, the core asks the
     * owner by a message; other: nothing happened. Threads: any.
     */
    int (*atomic)(struct nxr_part *part, const struct nxr_atomic *atomic, uint64_t *fetched_p);

    /* The same, behind all puts that returned NIXL_OK; and whoever waits for the word is woken. */
    int (*signal)(struct nxr_part *part, const struct nxr_atomic *atomic);

    /* A message between the libraries, outside of the notification order. */
    int (*control)(struct nxr_peer *peer, const void *msg, size_t nbytes);

    /*
     * A descriptor that is readable when progress() has work, and whether sleeping on it is safe.
     */
    int (*event_fd)(void);
    int (*arm)(void);
};

/* The registered transports, cheapest first, and how many. */
extern const struct nxr_transport *const nxr_transports[];
extern const size_t nxr_n_transports;

/* Typed fillers. */
int nxr_no_start(struct nxr_op *op);
int nxr_no_cancel(struct nxr_op *op);
int nxr_no_progress(void);
int nxr_no_order(struct nxr_peer *peer); /* fence, flush: nothing is ever outstanding */
int nxr_no_atomic(struct nxr_part *part, const struct nxr_atomic *atomic, uint64_t *fetched_p);
int nxr_no_signal(struct nxr_part *part, const struct nxr_atomic *atomic);
int nxr_no_control(struct nxr_peer *peer, const void *msg, size_t nbytes);
int nxr_no_event_fd(void);
int nxr_no_arm(void);

#endif
