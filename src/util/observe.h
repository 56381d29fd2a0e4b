/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observation page of a rank: what others may read of it without its help, also while it hangs,
 * is stopped, or has died as long as somebody keeps the descriptor. A memfd named
 * NXR_OBSERVE_NAME, which readers find in /proc/PID/fd and map for reading only. It can grow but
 * never shrink, so a mapping stays valid.
 *
 * It begins with a head and has sections behind it, each of whole pages: the waits (below), and
 * what other parts of the library append (core/observe.h). A reader takes sections that it knows,
 * by id and version, and ignores the rest.
 *
 * The owner alone writes. A reader may see a record half written: those that must be consistent
 * have a counter, odd while they are written, that is compared before and after (nxr_observe_read).
 * Everything in a page is input for its reader: numbers are to be checked, texts may lack an end.
 */
#ifndef NXR_UTIL_OBSERVE_H
#define NXR_UTIL_OBSERVE_H

#include "util/barrier.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_OBSERVE_NAME       "nixlrun-observe"
#define NXR_OBSERVE_MAGIC      0x3153424f58494e58ull
#define NXR_OBSERVE_VERSION    1u
#define NXR_OBSERVE_N_SECTIONS 8
#define NXR_OBSERVE_PAGE       4096 /* sections begin and end at multiples of it */

/* Where the rank is between nixl_init() and nixl_finalize(). */
enum nxr_observe_life {
    NXR_OBSERVE_JOINING, /* in nixl_init(), until all have met */
    NXR_OBSERVE_RUNNING,
    NXR_OBSERVE_LEAVING, /* in nixl_finalize() */
    NXR_OBSERVE_LEFT,
};

enum nxr_observe_section_id {
    NXR_OBSERVE_WAITS = 1, /* struct nxr_observe_waits */
    NXR_OBSERVE_STATS = 2,
    NXR_OBSERVE_TRACE = 3,
    NXR_OBSERVE_ATTACHED = 4, /* struct nxr_observe_attached; from the first attachment on */
};

struct nxr_observe_section {
    uint32_t id, version;
    uint64_t offset, nbytes;
};

struct nxr_observe_head {
    /* Constant after creation. */
    uint64_t magic;
    uint32_t version;
    int32_t pid;  /* as the rank sees it */
    uint64_t job; /* the same for all ranks of a job */
    int32_t rank;
    int32_t size;
    uint32_t incarnation;
    uint32_t mirrored; /* a copy that nixlrun has of a page on another host: the letter of the
                          process's state, as in /proc; 0: the page itself */
    int64_t began_ns;  /* CLOCK_MONOTONIC, as all times here */
    char host[72];

    _Atomic uint32_t life;       /* enum nxr_observe_life */
    _Atomic uint32_t n_sections; /* grows; the sections below it are constant */
    struct nxr_observe_section sections[NXR_OBSERVE_N_SECTIONS];
};
_Static_assert(sizeof(struct nxr_observe_head) <= NXR_OBSERVE_PAGE, "the head fills one page");

/* ---- consistent records ---------------------------------------------------------------------- */

/* Around the writes of a record by its only writer at the time. */
static inline void nxr_observe_write_begin(_Atomic uint32_t *counter)
{
    uint32_t now = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, now + 1, memory_order_relaxed);
    nxr_fence_release();
}

static inline void nxr_observe_write_end(_Atomic uint32_t *counter)
{
    uint32_t now = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, now + 1, memory_order_release);
}

/*
 * Copy a record whose counter lies in its first bytes. False: its writer was busy at each of some
 * attempts, or was stopped or killed while it wrote; the copy is what could be had.
 */
bool nxr_observe_read(void *copy, const void *record, size_t nbytes);

/* ---- waits ----------------------------------------------------------------------------------- */

#define NXR_OBSERVE_WAITS_VERSION 1u
#define NXR_OBSERVE_N_WAITS       48  /* threads of a rank that wait at the same time */
#define NXR_OBSERVE_N_NOTES       16  /* unmatched notifications, the oldest */
#define NXR_OBSERVE_N_FLIGHTS     24  /* peers with requests that have not ended */
#define NXR_OBSERVE_N_MEMBERS     512 /* ranks of which a team's membership is recorded */

/* What a thread waits for. `peer` is the rank that can end the wait; -1: none is known. */
enum nxr_wait_kind {
    NXR_WAIT_NONE,
    NXR_WAIT_START,        /* all other ranks in nixl_init() */
    NXR_WAIT_FINALIZE,     /* all other ranks in nixl_finalize() */
    NXR_WAIT_NOTE,         /* a notification: tag values[0], mask values[1] */
    NXR_WAIT_NOTE_ROOM,    /* room in the queue of notifications to the peer: tag values[0] */
    NXR_WAIT_SIGNAL,       /* words; the first: see enum nxr_wait_signal_value */
    NXR_WAIT_CONNECTION,   /* a connection to the peer */
    NXR_WAIT_REGION,       /* the peer's part of the region `object` */
    NXR_WAIT_REGION_FREE,  /* peers that use the own region `object`, which is to be closed */
    NXR_WAIT_REQUEST,      /* the request that the call `object` has started */
    NXR_WAIT_REQUESTS,     /* any of values[0] requests */
    NXR_WAIT_FLUSH,        /* puts: values[0] have not ended */
    NXR_WAIT_TEAM,         /* a member of the team `team`, in its collective */
    NXR_WAIT_TEAM_IDLE,    /* collectives that were started on it, and have not ended */
    NXR_WAIT_CHANNEL_ROOM, /* a free one of values[0] slots of the channel `object` */
    NXR_WAIT_CHANNEL_ITEM, /* an item of the channel `object` */
    NXR_WAIT_EVENT,        /* an event */
    NXR_WAIT_QUEUE,        /* an entry of a completion queue */
    NXR_WAIT_ANSWER,       /* an answer of the peer's library */
    NXR_WAIT_ATTACH,       /* a process of another job, with the name `object` */
    NXR_WAIT_GRANT,        /* readers of what was granted */
    NXR_WAIT_DEVICE,       /* a copy by a device */
    NXR_WAIT_N_KINDS
};

/* values[] of NXR_WAIT_SIGNAL. */
enum nxr_wait_signal_value {
    NXR_WAIT_SIGNAL_SEEN,
    NXR_WAIT_SIGNAL_WANTED,
    NXR_WAIT_SIGNAL_PLACE,   /* the offset in the region `object`, or the address if it is empty */
    NXR_WAIT_SIGNAL_COMPARE, /* enum nixl_compare, and if the words are signed bit 8 */
    NXR_WAIT_SIGNAL_N_WORDS,
};

/* What one thread waits for. */
struct nxr_wait_record {
    _Alignas(64) _Atomic uint32_t counter;
    _Atomic uint32_t is_used; /* a thread has it; free ones have kind 0 */
    uint32_t kind;            /* enum nxr_wait_kind */
    int32_t tid;
    int64_t since_ns;
    int32_t peer; /* not below the size of the job: of another job, attached */
    int32_t n_members;
    uint64_t values[5];
    uint64_t team;
    char call[32];
    char object[48];
    uint64_t members[NXR_OBSERVE_N_MEMBERS / 64]; /* bits of the ranks in the team */
};

/* The oldest notifications that no call has wanted so far. */
struct nxr_wait_notes {
    _Alignas(64) _Atomic uint32_t counter;
    uint32_t n_listed;
    uint64_t n; /* all */
    struct {
        int32_t rank;
        uint32_t nbytes;
        uint64_t tag;
        int64_t since_ns;
    } listed[NXR_OBSERVE_N_NOTES];
};

/* Operations that have not ended, and notifications that wait for them, by peer. */
struct nxr_wait_flights {
    _Alignas(64) _Atomic uint32_t counter;
    uint32_t n_listed;
    uint64_t n; /* all */
    struct {
        int32_t rank;
        uint32_t n;
    } listed[NXR_OBSERVE_N_FLIGHTS];
};

/* Notes and flights are as they were at listed_ns, which a thread that waits renews each second. */
struct nxr_observe_waits {
    _Atomic uint32_t n_unrecorded; /* threads that wait and have found no free record */
    _Atomic int64_t listed_ns;     /* 0: never */
    struct nxr_wait_notes notes;
    struct nxr_wait_flights flights;
    struct nxr_wait_record records[NXR_OBSERVE_N_WAITS];
};

/* ---- attached processes ---------------------------------------------------------------------- */

#define NXR_OBSERVE_ATTACHED_VERSION 1u
#define NXR_OBSERVE_N_ATTACHED       128 /* that live at the same time and are listed */

/* An attached process that lives. */
struct nxr_attached_record {
    _Alignas(64) _Atomic uint32_t counter;
    uint32_t is_used;
    int32_t number; /* by which the owner's calls name it */
    int32_t rank;   /* in its job */
    uint64_t job;
    uint32_t incarnation;
    uint32_t unused;
    int64_t since_ns;
    char name[64]; /* of the publication by which the two have met, perhaps cut */
    char host[72];
    char transport[16]; /* of what is sent to it */
    char note[224];     /* why not all of it is direct shared memory; "": it is, or another host */
};

struct nxr_observe_attached {
    _Atomic uint32_t n; /* all that live */
    struct nxr_attached_record records[NXR_OBSERVE_N_ATTACHED];
};

/* ---- reading --------------------------------------------------------------------------------- */

/* A page that was mapped for reading. */
struct nxr_observe_page {
    const struct nxr_observe_head *head;
    size_t nbytes;
};

/*
 * Map the page behind a descriptor, whose head was checked. False: it is none, or of another
 * version; nothing is mapped. errno is ENOMEM only if there is no address space left for it.
 */
bool nxr_observe_map(int fd, struct nxr_observe_page *page_p);
void nxr_observe_unmap(const struct nxr_observe_page *page);

/*
 * A section of at least `nbytes` of the page, as far as it was mapped; NULL: the page has none of
 * this id and version.
 */
const void *nxr_observe_find(const struct nxr_observe_page *page, uint32_t id, uint32_t version,
                             size_t nbytes);

#endif
