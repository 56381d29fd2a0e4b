/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control page: the shared memory of one rank, a sealed memfd that same-host peers map.
 *
 * It begins with a fixed head (identity, life, doorbell, in-flight slots, generations), then has
 * one credit line and two rings, of notifications and of words, for each rank of the job. The file
 * is sparse: unused parts take no memory. Peers map the head with the credit lines, and their own
 * rings.
 *
 * The owner writes everything, with these exceptions:
 *   - slots and n_slots_used: written by the peer threads that claim them;
 *   - rings: those of r are written by rank r, and by the owner where atomic_ring.h says so;
 *   - atomics_asked, and has_asked in the credit lines: by peers that ask for words;
 *   - announced, and announced_by in the credit lines: by ranks that connect;
 *   - sleep_flags and doorbell: also by peers that wake the owner;
 *   - the waiters bit of the robust mutex: by peers that want to be notified of the owner's death.
 */
#ifndef NXR_CORE_CONTROL_H
#define NXR_CORE_CONTROL_H

#include "core/identity.h"
#include "util/ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_NONCE_NBYTES     16
#define NXR_CONTROL_MAGIC    0x314c52584958494eull /* "NIXIXRL1" */
#define NXR_CONTROL_VERSION  6u
#define NXR_N_INFLIGHT_SLOTS 2048  /* peer threads that have put to or got from this rank */
#define NXR_N_REGION_IDS     16384 /* open regions of one rank */
#define NXR_ATOMIC_SLOTS     64    /* per asker; a power of two */

#define NXR_CONTROL_CARD_NBYTES 192

/* The in-flight slot of one peer thread: what it is copying from or to right now. */
struct nxr_inflight_slot {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t busy; /* region id + 1, or 0 */
    _Atomic uint32_t claimed_by;                     /* rank + 1 of the claimer, or 0 */
};

/* Bits of sleep_flags: how to wake the owner. */
enum nxr_sleep_flag {
    NXR_SLEEP_FUTEX = 1,    /* a thread waits on the doorbell */
    NXR_SLEEP_EVENT_FD = 2, /* the event fd is armed */
};

/* Values of `life`. */
enum nxr_life { NXR_LIFE_STARTING = 0, NXR_LIFE_RUNNING = 1, NXR_LIFE_FINISHED = 2 };

struct nxr_control {
    /* Constant after creation. */
    uint64_t magic;
    uint32_t version;
    int32_t size;
    struct nxr_identity owner;
    uint32_t needs_full_fence; /* the owner has no membarrier: see util/barrier.h */
    uint64_t self_addr;        /* where the owner has this page mapped */
    unsigned char nonce[NXR_NONCE_NBYTES];
    _Alignas(8) unsigned char card[NXR_CONTROL_CARD_NBYTES]; /* struct nxr_card: no addresses */

    /* Robust, held by the owner's service thread as long as it lives. */
    _Alignas(NXR_LINE_NBYTES) pthread_mutex_t alive;
    _Atomic uint32_t life; /* enum nxr_life */

    /* Written by peers to wake the owner, by the owner before it sleeps. */
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t doorbell;
    _Atomic uint32_t sleep_flags; /* enum nxr_sleep_flag */

    /* What peers ask for; host/atomic_serve.h and host/announce.h describe the protocols. */
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t atomics_asked; /* nxr_control_bit() of the askers */
    _Atomic uint64_t announced;                               /* of ranks that connect */
    _Atomic uint32_t n_pollers; /* threads of the owner that poll both */

    /* In-flight slots; those from n_slots_used on have never been claimed. */
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t n_slots_used;
    struct nxr_inflight_slot slots[NXR_N_INFLIGHT_SLOTS];

    /* generations[id]: generation of the open region with that id; 0: no such region. */
    _Alignas(NXR_LINE_NBYTES) _Atomic uint64_t generations[NXR_N_REGION_IDS];

    struct nxr_ring_credit credits[]; /* [size], then the rings */
};

_Static_assert(sizeof(struct nxr_inflight_slot) == NXR_LINE_NBYTES, "a slot fills its cache line");

#define NXR_ATOMICS_NBYTES (NXR_ATOMIC_SLOTS * NXR_LINE_NBYTES)

/* Ranks share the bits of atomics_asked and announced; their credit lines tell which are meant. */
#define NXR_CONTROL_BITS 64

static inline uint64_t nxr_control_bit(int rank)
{
    return UINT64_C(1) << (rank % NXR_CONTROL_BITS);
}

/* Size of the head with the credit lines, and of the whole file, for a job of `size` ranks. */
size_t nxr_control_head_nbytes(int size);
size_t nxr_control_nbytes(int size);

/*
 * Does this process have a control page? If this copy of the library has made none, it belongs to
 * another copy. The page is found by its descriptor, so not after closefrom().
 */
bool nxr_control_is_in_process(void);

/*
 * Make this rank's control page and map all of it. The mutex is initialized, but not yet locked.
 * Returns NIXL_OK, NIXL_E_NO_MEMORY, NIXL_E_LIMIT.
 */
int nxr_control_create(const struct nxr_identity *owner, int size,
                       const unsigned char nonce[NXR_NONCE_NBYTES], struct nxr_control **control_p,
                       int *fd_p);
void nxr_control_destroy(struct nxr_control *control, int fd);

/*
 * Map a peer's control head from `fd`, after checking that it cannot shrink under us and is what
 * `owner` in a job of `size` with that nonce must have. Size 0: the owner is of another job, and
 * its credit lines are left out. Does not close fd.
 * Returns NIXL_OK, NIXL_E_TRANSPORT (not a control page, not that peer's), NIXL_E_NO_MEMORY.
 */
int nxr_control_map(int fd, const struct nxr_identity *owner, int size,
                    const unsigned char nonce[NXR_NONCE_NBYTES], struct nxr_control **control_p);
void nxr_control_unmap(struct nxr_control *control, int size);

/* Map the rings that rank `sender` writes in the page behind `fd`. NULL: no memory. */
struct nxr_ring_slot *nxr_control_map_ring(int fd, int size, int sender);
void nxr_control_unmap_ring(struct nxr_ring_slot *ring);

/* The ring of words that follows a ring of notifications. */
struct nxr_atomic_slot;
struct nxr_atomic_slot *nxr_control_words(struct nxr_ring_slot *ring);

/* ---- rings ----------------------------------------------------------------------------------- */

/* What one sender writes in its receiver's memory, with the credit line; ring NULL: none. */
struct nxr_rings {
    struct nxr_ring_credit *credit;
    struct nxr_ring_slot *ring;    /* of notifications */
    struct nxr_atomic_slot *words; /* of words */
};

/* Those of rank `sender` in this rank's own page. */
struct nxr_rings nxr_control_own_rings(struct nxr_control *control, int sender);

/*
 * A page of rings: a sealed memfd with those of a single sender, which is not of the receiver's
 * job, so that the receiver's control page has no room for it.
 */
size_t nxr_rings_page_nbytes(void);

/* Make and map one. NIXL_OK, NIXL_E_NO_MEMORY, NIXL_E_LIMIT. */
int nxr_rings_page_create(struct nxr_rings *rings_p, int *fd_p);

/* Map one that a peer has made. NIXL_OK; NIXL_E_TRANSPORT: it is none; NIXL_E_NO_MEMORY. */
int nxr_rings_page_map(int fd, struct nxr_rings *rings_p);
void nxr_rings_page_unmap(const struct nxr_rings *rings);

/* Is `fd` a memfd of at least `nbytes` that can never shrink? A page that shrinks would kill us. */
bool nxr_memfd_is_safe(int fd, size_t nbytes);

/* The futex word of the mutex: the owner's thread id and FUTEX_* bits. */
static inline _Atomic uint32_t *nxr_control_alive_word(struct nxr_control *control)
{
    return (_Atomic uint32_t *)&control->alive.__data.__lock;
}

/*
 * Has the thread that held the mutex died? One load: the kernel marks a robust mutex when its owner
 * ends. False for a page whose owner has finalized normally.
 */
static inline bool nxr_control_is_dead(const struct nxr_control *control)
{
    const _Atomic int *word = (const _Atomic int *)&control->alive.__data.__lock;
    const int owner_died = 0x40000000; /* FUTEX_OWNER_DIED */

    return (atomic_load_explicit(word, memory_order_relaxed) & owner_died) != 0;
}

#endif
