/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording the trace of this rank. A thread takes a ring for itself with its first event and gives
 * it back when it ends. The memory of a ring is there from the first call that a thread records: a
 * page fault each 64 events would cost more than the events. Threads that record no calls, such as
 * the library's own, use only the pages that they write. Locks, leaves both: trace_lock while a
 * ring is taken or given back, or a name is added; pair_lock while a pair of clocks is read, which
 * nobody waits for.
 */
#include "config.h"

#include "core/observe.h"
#include "core/trace.h"
#include "util/env.h"
#include "util/file_limit.h"
#include "util/log.h"
#include "util/status.h"
#include "util/symbol.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Ticks from one pair of clocks to the next at first: about a millisecond. */
#define FIRST_PAIR_TICKS (UINT64_C(1) << 21)
#define PAIR_ATTEMPTS    5

/* The most memory of a ring that is there from the beginning: that of rings of the default size. */
#define FILLED_NBYTES (UINT64_C(4) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Names are found by the address of their text. A power of 2, larger than NXR_TRACE_MAX_NAMES. */
#define N_PLACES 1024

static struct nxr_trace_head *trace_head; /* NULL: none */
static atomic_uint trace_generation;      /* another one with each section, and with its end */
static _Atomic uint32_t recorded_kinds;   /* those of nxr_job.trace_kinds that it has */
static uint64_t filled_rings;             /* trace_lock: bits of those whose memory was asked for */
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t trace_key; /* gives a thread's ring back */
static pthread_once_t trace_key_is_made = PTHREAD_ONCE_INIT;

static atomic_flag pair_lock = ATOMIC_FLAG_INIT;
static _Atomic uint64_t next_pair; /* ticks from which on the next pair is wanted */
static uint64_t pair_ticks;        /* pair_lock: from one pair to the next */

static struct {
    const char *_Atomic text;
    uint16_t number;
} trace_names[N_PLACES]; /* trace_lock to change; the text is stored last */

_Static_assert(NXR_TRACE_MAX_THREADS <= 64, "a bit for each ring");

/* What a thread has of the trace. */
struct trace_thread {
    struct nxr_trace_ring *ring;
    struct nxr_trace_event *events;
    uint32_t mask;
    int32_t tid;
    unsigned generation;        /* in which that is right; 0: none */
    unsigned filled_generation; /* in which the memory of the ring is there, too */
};
static __thread struct trace_thread trace_own NXR_TLS_MODEL;

/* ---- clocks ---------------------------------------------------------------------------------- */

/* The most exact of some attempts: that between whose readings the least time passed. */
static struct nxr_tick_pair trace_read_pair(void)
{
    struct nxr_tick_pair pair = {0, 0};
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < PAIR_ATTEMPTS; i++) {
        uint64_t before = nxr_ticks();
        int64_t ns = nxr_now_ns();
        uint64_t after = nxr_ticks();

        if (after - before < best) {
            best = after - before;
            pair = (struct nxr_tick_pair){before + best / 2, ns};
        }
    }
    return pair;
}

/* Keep every second pair, and read half as many from now on. Caller holds pair_lock. */
static void trace_thin_pairs(void)
{
    for (uint32_t i = 1; i < NXR_TRACE_MAX_PAIRS / 2; i++) {
        trace_head->pairs[i] = trace_head->pairs[2 * i];
    }
    pair_ticks *= 2;
    atomic_store_explicit(&trace_head->n_pairs, NXR_TRACE_MAX_PAIRS / 2, memory_order_release);
}

/* Another thread that does it is enough. */
static void trace_add_pair(void)
{
    uint32_t n;

    if (atomic_flag_test_and_set_explicit(&pair_lock, memory_order_acquire)) {
        return;
    }
    if (atomic_load_explicit(&trace_head->n_pairs, memory_order_relaxed) == NXR_TRACE_MAX_PAIRS) {
        trace_thin_pairs();
    }
    n = atomic_load_explicit(&trace_head->n_pairs, memory_order_relaxed);
    trace_head->pairs[n] = trace_read_pair();
    atomic_store_explicit(&trace_head->n_pairs, n + 1, memory_order_release);
    atomic_store_explicit(&next_pair, trace_head->pairs[n].ticks + pair_ticks,
                          memory_order_relaxed);
    atomic_flag_clear_explicit(&pair_lock, memory_order_release);
}

/* ---- the section ----------------------------------------------------------------------------- */

static void trace_give_ring(void *arg)
{
    struct trace_thread *thread = arg;

    if (nxr_is_forked()) {
        return; /* the parent's thread still writes into it */
    }
    pthread_mutex_lock(&trace_lock);
    if (trace_head != NULL && thread->generation == trace_generation) {
        atomic_store_explicit(&thread->ring->is_taken, 0, memory_order_release);
    }
    pthread_mutex_unlock(&trace_lock);
    thread->generation = thread->filled_generation = 0;
}

static void trace_make_key(void)
{
    (void)pthread_key_create(&trace_key, trace_give_ring);
}

/* Bits of the kinds that NIXLRUN_TRACE names, which was checked: "put,get", "^wait", "all". */
static uint32_t trace_kinds_of(const char *list)
{
    const uint32_t all = (1u << NXR_TRACE_N_KINDS) - 1;
    bool is_except = list[0] == '^';
    uint32_t kinds = 0;

    for (list += is_except; list[0] != '\0'; list += list[0] == ',') {
        size_t nbytes = strcspn(list, ",");

        if (nbytes == 3 && memcmp(list, "all", 3) == 0) {
            kinds = all;
        }
        for (uint32_t kind = 0; kind < NXR_TRACE_N_KINDS; kind++) {
            const char *name = nxr_trace_kind_name(kind);

            if (strlen(name) == nbytes && memcmp(list, name, nbytes) == 0) {
                kinds |= 1u << kind;
            }
        }
        list += nbytes;
    }
    return is_except ? all & ~kinds : kinds;
}

/* Beyond that limit the kernel does not refuse more, but kills the process. */
static bool trace_may_have(size_t nbytes)
{
    return nxr_file_may_have(2 * nbytes);
}

/* ---- rings and names ------------------------------------------------------------------------- */

/* One that was given back is written on. Caller holds trace_lock. */
static struct nxr_trace_ring *trace_free_ring(void)
{
    uint32_t n = atomic_load_explicit(&trace_head->n_rings, memory_order_relaxed);

    if (n < NXR_TRACE_MAX_THREADS) {
        atomic_store_explicit(&trace_head->n_rings, n + 1, memory_order_release);
        return &trace_head->rings[n];
    }
    for (n = 0; n < NXR_TRACE_MAX_THREADS; n++) {
        if (atomic_load_explicit(&trace_head->rings[n].is_taken, memory_order_acquire) == 0) {
            return &trace_head->rings[n];
        }
    }
    return NULL;
}

/* An event finds no ring. Caller holds trace_lock. */
static struct nxr_trace_ring *trace_ring_or_lost(void)
{
    struct nxr_trace_ring *ring = NULL;

    if (trace_head != NULL) {
        ring = trace_free_ring();
        if (ring == NULL) {
            atomic_fetch_add_explicit(&trace_head->n_without_ring, 1, memory_order_relaxed);
        }
    }
    return ring;
}

/*
 * Take a ring for the first event of this thread. False: none is free, and the event is counted as
 * lost, or the trace was closed meanwhile, as a thread of the library saw a rank leave, say.
 */
static bool __attribute__((noinline)) trace_take_ring(void)
{
    struct nxr_trace_ring *ring;

    pthread_mutex_lock(&trace_lock);
    ring = trace_ring_or_lost();
    if (ring == NULL) {
        pthread_mutex_unlock(&trace_lock);
        return false;
    }
    atomic_store_explicit(&ring->is_taken, 1, memory_order_relaxed);
    trace_own.ring = ring;
    trace_own.events = nxr_trace_events(trace_head, (uint32_t)(ring - trace_head->rings));
    trace_own.mask = trace_head->n_events - 1;
    trace_own.generation = trace_generation;
    trace_own.tid = (int32_t)syscall(SYS_gettid);
    ring->tid = trace_own.tid;
    (void)pthread_getname_np(pthread_self(), ring->thread, sizeof(ring->thread));
    pthread_mutex_unlock(&trace_lock);
    (void)pthread_setspecific(trace_key, &trace_own);
    return true;
}

/* Have the memory of the events of this thread, up to FILLED_NBYTES; else page faults bring it. */
static void trace_fill_ring(void)
{
    const uintptr_t page = NXR_OBSERVE_PAGE;
    uintptr_t begin = (uintptr_t)trace_own.events & ~(page - 1);
    uintptr_t end = (uintptr_t)(trace_own.events + trace_own.mask + 1);
    size_t nbytes = (end - begin + page - 1) & ~(page - 1);

    nbytes = nbytes < FILLED_NBYTES ? nbytes : FILLED_NBYTES;
    (void)madvise((char *)trace_own.events - ((uintptr_t)trace_own.events - begin), nbytes,
                  MADV_POPULATE_WRITE);
}

/*
 * The same for the first call that this thread records, with memory. A ring that was given back has
 * it already.
 */
static bool __attribute__((noinline)) trace_prepare_call(void)
{
    uint64_t bit = 0;
    bool is_open;

    if (trace_own.generation != atomic_load_explicit(&trace_generation, memory_order_relaxed) &&
        !trace_take_ring()) {
        return false;
    }
    pthread_mutex_lock(&trace_lock);
    is_open = trace_own.generation == trace_generation;
    if (is_open) {
        bit = UINT64_C(1) << (trace_own.ring - trace_head->rings) & ~filled_rings;
        filled_rings |= bit;
    }
    pthread_mutex_unlock(&trace_lock);
    if (bit != 0) {
        trace_fill_ring();
    }
    trace_own.filled_generation = trace_own.generation;
    return is_open;
}

/* Caller holds trace_lock. 0, which is "other": there are too many. */
static uint16_t trace_add_name(const char *text)
{
    uint32_t n = atomic_load_explicit(&trace_head->n_names, memory_order_relaxed);

    if (n == 0) {
        strncpy(trace_head->names[n++], "other", NXR_TRACE_NAME_NBYTES - 1);
    }
    if (n == NXR_TRACE_MAX_NAMES) {
        return 0;
    }
    strncpy(trace_head->names[n], text, NXR_TRACE_NAME_NBYTES - 1);
    atomic_store_explicit(&trace_head->n_names, n + 1, memory_order_release);
    return (uint16_t)n;
}

/* Where that text is, or is to be. */
static unsigned trace_place_of(const char *text)
{
    unsigned place = (unsigned)(((uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
    const char *there;

    while ((there = atomic_load_explicit(&trace_names[place].text, memory_order_acquire)) != text &&
           there != NULL) {
        place = (place + 1) % N_PLACES;
    }
    return place;
}

static uint16_t trace_new_name(const char *text)
{
    unsigned place;

    pthread_mutex_lock(&trace_lock);
    place = trace_place_of(text);
    if (atomic_load_explicit(&trace_names[place].text, memory_order_relaxed) == NULL) {
        uint16_t number = trace_add_name(text);

        if (number == 0) {
            pthread_mutex_unlock(&trace_lock);
            return 0;
        }
        trace_names[place].number = number;
        atomic_store_explicit(&trace_names[place].text, text, memory_order_release);
    }
    pthread_mutex_unlock(&trace_lock);
    return trace_names[place].number;
}

static inline uint16_t trace_number_of(const char *text)
{
    unsigned place = trace_place_of(text);

    return __builtin_expect(
               atomic_load_explicit(&trace_names[place].text, memory_order_relaxed) == text, 1)
               ? trace_names[place].number
               : trace_new_name(text);
}

/* ---- recording ------------------------------------------------------------------------------- */

/* The place of the next event in the ring of this thread, which has one. */
static inline struct nxr_trace_event *trace_next(void)
{
    uint64_t n = atomic_load_explicit(&trace_own.ring->n_written, memory_order_relaxed);

    return &trace_own.events[n & trace_own.mask];
}

/* The event there is written. */
static inline void trace_wrote(uint64_t end)
{
    _Atomic uint64_t *n_written = &trace_own.ring->n_written;

    atomic_store_explicit(n_written, atomic_load_explicit(n_written, memory_order_relaxed) + 1,
                          memory_order_release);
    if (__builtin_expect(end >= atomic_load_explicit(&next_pair, memory_order_relaxed), 0)) {
        trace_add_pair();
    }
}

/* For NVTX events are made that the trace was not asked for. */
static bool trace_is_for_nvtx(uint64_t kind)
{
    return (atomic_load_explicit(&recorded_kinds, memory_order_acquire) & (1u << kind)) == 0;
}

void nxr_trace_record(const struct nxr_traced *traced)
{
    uint64_t end = traced->end != 0 ? traced->end : nxr_ticks();
    struct nxr_trace_event *event;

    if (__builtin_expect(nxr_nvtx_is_on, 0) && trace_is_for_nvtx(traced->kind)) {
        return;
    }
    if (__builtin_expect(trace_own.generation !=
                             atomic_load_explicit(&trace_generation, memory_order_relaxed),
                         0) &&
        !trace_take_ring()) {
        return;
    }
    event = trace_next();
    event->begin = traced->begin;
    event->end = end;
    event->nbytes = traced->nbytes;
    event->tag = traced->tag;
    event->flow = traced->flow;
    event->peer = traced->peer;
    event->tid = trace_own.tid;
    event->object = traced->object;
    event->status = traced->status;
    event->name = trace_number_of(traced->name);
    event->detail = traced->detail != NULL ? trace_number_of(traced->detail) : 0;
    event->kind = (uint8_t)traced->kind;
    event->form = (uint8_t)traced->form;
    trace_wrote(end);
}

int nxr_trace_call(const struct nxr_traced_call *call, int status)
{
    uint64_t end = nxr_ticks();
    struct nxr_trace_event *event;

    if (__builtin_expect(nxr_nvtx_is_on, 0)) {
        nxr_nvtx_pop();
        if (trace_is_for_nvtx(call->about >> 40)) {
            return status;
        }
    }
    /* The last nixl_finalize() may have come meanwhile: it makes another generation. */
    if (__builtin_expect(trace_own.filled_generation !=
                             atomic_load_explicit(&trace_generation, memory_order_relaxed),
                         0) &&
        !trace_prepare_call()) {
        return status;
    }
    event = trace_next();
    event->begin = call->begin;
    event->end = end;
    event->nbytes = call->nbytes;
    event->tag = call->tag;
    event->flow = 0;
    event->peer = (int32_t)(uint32_t)call->about;
    event->tid = trace_own.tid;
    event->object = 0;
    event->status = status;
    event->name = trace_number_of(call->name);
    event->detail = 0;
    event->kind = (uint8_t)(call->about >> 40);
    event->form = (uint8_t)(call->about >> 32);
    trace_wrote(end);
    return status;
}

/* Make the section for these kinds. */
static void trace_open_section(uint32_t kinds)
{
    uint32_t n_events = nxr_trace_ring_events(nxr_env.trace_events);
    size_t nbytes = nxr_trace_section_nbytes(n_events);
    struct nxr_trace_head *head;

    if (!trace_may_have(nbytes)) {
        nxr_warn(CORE,
                 "nothing is traced: rings of %zu bytes exceed half the limit of file sizes "
                 "(ulimit -f); allow more, or set NIXLRUN_TRACE_EVENTS lower",
                 nbytes);
        return;
    }
    head = nxr_observe_add_section(NXR_OBSERVE_TRACE, NXR_TRACE_VERSION, nbytes);
    if (head == NULL) {
        nxr_warn(CORE, "nothing is traced: no shared memory of %zu bytes (NIXLRUN_TRACE_EVENTS)",
                 nbytes);
        return;
    }
    pthread_once(&trace_key_is_made, trace_make_key);
    nxr_trace_section_init(head, n_events, kinds);
    memset(trace_names, 0, sizeof(trace_names));
    trace_head = head;
    filled_rings = 0;
    atomic_fetch_add(&trace_generation, 1);
    pair_ticks = FIRST_PAIR_TICKS;
    trace_add_pair();
    (void)trace_prepare_call();
    atomic_store_explicit(&recorded_kinds, kinds, memory_order_release);
}

void nxr_trace_open(void)
{
    uint32_t kinds = trace_kinds_of(nxr_env.trace);
    bool has_nvtx = nxr_nvtx_open();

    if (kinds != 0) {
        trace_open_section(kinds);
    }
    nxr_job.trace_kinds = has_nvtx ? (1u << NXR_TRACE_N_KINDS) - 1 : atomic_load(&recorded_kinds);
}

void nxr_trace_close(void)
{
    nxr_job.trace_kinds = 0;
    if (trace_head == NULL) {
        return;
    }
    trace_add_pair();
    atomic_store(&recorded_kinds, 0);
    pthread_mutex_lock(&trace_lock);
    atomic_fetch_add(&trace_generation, 1);
    trace_head = NULL;
    pthread_mutex_unlock(&trace_lock);
}

void nxr_trace_instant(enum nxr_trace_kind kind, const char *name, int peer)
{
    if (nxr_trace_has(kind)) {
        const uint64_t now = nxr_ticks();

        nxr_trace_record(&(const struct nxr_traced){.kind = kind,
                                                    .form = NXR_TRACE_INSTANT,
                                                    .name = name,
                                                    .begin = now,
                                                    .end = now,
                                                    .peer = peer});
    }
}

void nxr_trace_job(const char *name, uint64_t began, int status)
{
    if (nxr_trace_has(NXR_TRACE_JOB)) {
        nxr_trace_record(&(const struct nxr_traced){.kind = NXR_TRACE_JOB,
                                                    .form = NXR_TRACE_CALL,
                                                    .name = name,
                                                    .begin = began,
                                                    .peer = -1,
                                                    .status = status});
    }
}

void nxr_trace_meets(enum nxr_trace_meeting_id id)
{
    if (trace_head != NULL) {
        trace_head->meetings[id].begin = nxr_ticks();
    }
}

void nxr_trace_has_met(enum nxr_trace_meeting_id id, int status)
{
    if (trace_head != NULL && status == NIXL_OK) {
        trace_head->meetings[id].end = nxr_ticks();
        trace_add_pair();
    }
}
