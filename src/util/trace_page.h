/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of a rank, a section of its observation page (util/observe.h): a ring of events for
 * each thread, and what they have in common, which a wrap of the rings does not lose. Only there
 * with NIXLRUN_TRACE. Memory is used only where something was recorded.
 *
 * The owner alone writes, each ring by one thread at a time: first the event, then the number of
 * events written. A ring keeps the last n_events; of these the oldest may be half overwritten and
 * does not count. What is read is checked.
 */
#ifndef NXR_UTIL_TRACE_PAGE_H
#define NXR_UTIL_TRACE_PAGE_H

#include "util/ticks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_TRACE_VERSION      1u
#define NXR_TRACE_MAX_THREADS  64
#define NXR_TRACE_MAX_NAMES    256
#define NXR_TRACE_NAME_NBYTES  32
#define NXR_TRACE_MAX_PAIRS    256
#define NXR_TRACE_LEAST_EVENTS 64
#define NXR_TRACE_MOST_EVENTS  16777216

/* What an event is about; NIXLRUN_TRACE chooses among them by name, in this order. */
enum nxr_trace_kind {
    NXR_TRACE_PUT,
    NXR_TRACE_GET,
    NXR_TRACE_ATOMIC,
    NXR_TRACE_NOTE,
    NXR_TRACE_SIGNAL,
    NXR_TRACE_CHANNEL,
    NXR_TRACE_COLLECTIVE,
    NXR_TRACE_XFER,
    NXR_TRACE_WAIT,   /* calls that wait for what was started, and times asleep in any call */
    NXR_TRACE_REGION, /* regions, pairs, grants */
    NXR_TRACE_JOB,    /* start and end, teams, attaching, ranks that have joined, left or died */
    NXR_TRACE_N_KINDS
};
#define NXR_TRACE_WORDS                                                                            \
    "put, get, atomic, note, signal, channel, collective, xfer, wait, region, job"

/* How an event is shown. */
enum nxr_trace_form {
    NXR_TRACE_CALL = 1,  /* from begin to end in a thread; calls and steps nest */
    NXR_TRACE_STEP,      /* a part of a call, such as a phase of a collective */
    NXR_TRACE_ASLEEP,    /* a part of a call, in which the thread did not run; tag: why, enum
                            nxr_wait_kind (util/observe.h) */
    NXR_TRACE_OPERATION, /* from begin to end, beside what threads do; they overlap */
    NXR_TRACE_SENT,      /* at `begin`; an arrow starts here */
    NXR_TRACE_TAKEN,     /* at `begin`; an arrow ends here */
    NXR_TRACE_INSTANT,   /* at `begin` */
};

/* One cache line. */
struct nxr_trace_event {
    uint64_t begin, end; /* ticks */
    uint64_t nbytes;
    uint64_t tag;  /* of a notification; or a value of that kind */
    uint64_t flow; /* SENT, TAKEN: the number of what was sent, from 1, on its way to that peer */
    int32_t peer;  /* -1: none */
    int32_t tid;
    uint32_t object; /* the object that it concerns: a channel, by a hash of its name; 0: none */
    int32_t status;  /* enum nixl_status */
    uint16_t name;   /* in names[] */
    uint16_t detail; /* likewise, of the transport; 0: none */
    uint8_t kind, form;
    uint8_t unused[2];
};
_Static_assert(sizeof(struct nxr_trace_event) == 64, "a cache line");

struct nxr_trace_ring {
    _Alignas(64) _Atomic uint64_t n_written;
    _Atomic uint32_t is_taken; /* by a thread; else the next one may write on */
    int32_t tid;               /* of that thread, or of the last one, and its name */
    char thread[16];
};

/* A moment at which all ranks wait for each other: no rank ends it before the last one begins. */
struct nxr_trace_meeting {
    uint64_t begin, end; /* ticks; 0: not yet */
};

enum nxr_trace_meeting_id { NXR_TRACE_START, NXR_TRACE_END, NXR_TRACE_N_MEETINGS };

struct nxr_trace_head {
    uint32_t n_events;               /* of each ring, a power of 2 */
    uint32_t kinds;                  /* bits of what is recorded */
    uint64_t events_at;              /* bytes from the beginning of the section; ring by ring */
    uint64_t nbytes;                 /* of the section */
    _Atomic uint64_t n_without_ring; /* events of threads that found no ring: they are lost */
    _Atomic uint32_t n_names, n_pairs, n_rings;
    struct nxr_trace_meeting meetings[NXR_TRACE_N_MEETINGS];
    struct nxr_tick_pair pairs[NXR_TRACE_MAX_PAIRS]; /* in the order of time */
    char names[NXR_TRACE_MAX_NAMES][NXR_TRACE_NAME_NBYTES];
    struct nxr_trace_ring rings[NXR_TRACE_MAX_THREADS];
};

/* The least power of 2 that is not below it, within the limits. */
uint32_t nxr_trace_ring_events(uint64_t wanted);

/* The size of a section with such rings. */
size_t nxr_trace_section_nbytes(uint32_t n_events);

/* Fill in the head of a section that is all zeros and has that size. */
void nxr_trace_section_init(struct nxr_trace_head *head, uint32_t n_events, uint32_t kinds);

static inline struct nxr_trace_event *nxr_trace_events(const struct nxr_trace_head *head,
                                                       uint32_t ring)
{
    return (struct nxr_trace_event *)((char *)head + head->events_at) +
           (size_t)ring * head->n_events;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Do the arrays lie within the section of nbytes? */
bool nxr_trace_is_section(const struct nxr_trace_head *head, size_t nbytes);

/*
 * The events of a ring that are whole: the first in *first_p, their number returned. Event i lies
 * in slot i % n_events.
 */
uint64_t nxr_trace_ring_range(const struct nxr_trace_head *head, uint32_t ring, uint64_t *first_p);

/* The name of a kind: "put", "get"... */
const char *nxr_trace_kind_name(uint32_t kind);

#endif
