/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics and raising signals: the public calls. A word in memory that is mapped here is changed in
 * place. Otherwise its transport changes it, or its owner does, on request by a message
 * (host/atomic_ask.c). No lock of its own.
 */
#include "config.h"

#include "core/stats.h"
#include "core/trace.h"
#include "host/atomic_ask.h"
#include "region/region.h"
#include "transfer/transfer.h"
#include "sync/atomic.h"
#include "util/copy.h"
#include "util/status.h"
#include "core/wait.h"

#include <string.h>

/* ---- changing a word ------------------------------------------------------------------------- */

/* Has the peer puts under way that the word must not overtake? */
static inline bool has_pending(const struct nxr_peer *peer)
{
    return atomic_load_explicit(&peer->n_pending, memory_order_acquire) != 0;
}

/* What a word is for. One of the library's own follows its own data, not the program's puts. */
enum word_use { WORD_ATOMIC, WORD_SIGNAL, WORD_INTERNAL };

/* The segment, if the word is in range, aligned and can be changed in place now; else NULL. */
static inline __attribute__((always_inline)) struct nxr_segment *
atomic_usable_segment(int rank, struct nixl_region *region, const struct nxr_atomic *atomic,
                      enum word_use use)
{
    uint32_t forbidden_by = use == WORD_ATOMIC ? NXR_ACCESS_ALL : NIXL_ACCESS_NO_PUT;
    struct nxr_segment *segment = nxr_region_segment(region, rank);
    size_t nbytes = nxr_type_nbytes(atomic->type);

    if (__builtin_expect(segment == NULL || segment->method != NXR_METHOD_MEMCPY ||
                             !nxr_segment_has_range(segment, atomic->offset, nbytes) ||
                             !nxr_segment_allows(segment, forbidden_by) ||
                             (((uintptr_t)segment->addr + atomic->offset) & (nbytes - 1)) != 0 ||
                             (use != WORD_INTERNAL && has_pending(segment->peer)),
                         0)) {
        return NULL;
    }
    return segment;
}

/* The address of the segment at its owner, or here: both have the same alignment. */
static uint64_t segment_addr(const struct nxr_segment *segment)
{
    return segment->method == NXR_METHOD_MEMCPY ? (uintptr_t)segment->addr : segment->key.addr;
}

/* A signal does not tell the former value, and a fetch changes nothing. */
static uint32_t atomic_forbidden_by(const struct nxr_atomic *atomic, bool is_signal)
{
    return is_signal                         ? NIXL_ACCESS_NO_PUT
           : atomic->op == NIXL_ATOMIC_FETCH ? NIXL_ACCESS_NO_GET
                                             : NXR_ACCESS_ALL;
}

int nxr_atomic_find_segment(const char *operation, int rank, struct nixl_region *region,
                            struct nxr_atomic *atomic, bool is_signal,
                            struct nxr_segment **segment_p)
{
    size_t nbytes = nxr_type_nbytes(atomic->type);
    int status =
        nxr_transfer_find_segment(operation, rank, region, atomic_forbidden_by(atomic, is_signal),
                                  &atomic->offset, nbytes, segment_p);

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_segment_is_storage(*segment_p)) {
        return nxr_fail(NIXL_E_UNSUPPORTED, operation, rank, (*segment_p)->transport->name, 0,
                        "region '%s' of %s is a file or objects, where no processor changes words; "
                        "allowed: atomics and signals in regions of memory, and notifications",
                        nxr_region_label(region->name), nxr_rank_name(rank));
    }
    if (((segment_addr(*segment_p) + atomic->offset) & (nbytes - 1)) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, (*segment_p)->transport->name, 0,
                        "the word at offset %llu of region '%s' is not aligned to its %zu bytes",
                        (unsigned long long)atomic->offset, nxr_region_label(region->name), nbytes);
    }
    return NIXL_OK;
}

/* The slow path: first use, bad arguments, earlier puts that are under way. */
static int atomic_find_segment(const char *operation, int rank, struct nixl_region *region,
                               struct nxr_atomic *atomic, enum word_use use,
                               struct nxr_segment **segment_p)
{
    int status =
        nxr_atomic_find_segment(operation, rank, region, atomic, use != WORD_ATOMIC, segment_p);

    if (use == WORD_INTERNAL) {
        return status;
    }
    if (status == NIXL_OK && has_pending((*segment_p)->peer)) {
        status = nxr_transfer_fence(operation, (*segment_p)->peer);
    }
    return status == NIXL_OK && ((*segment_p)->key.marks & NXR_KEY_OWN) == 0
               ? nxr_transfer_report_refusal(operation, (*segment_p)->peer)
               : status;
}

/* Change a mapped word by a public operation, and wake threads that wait for it. */
static inline __attribute__((always_inline)) int
change_mapped(struct nxr_segment *segment, const struct nxr_atomic *atomic, uint64_t *fetched_p)
{
    nxr_inflight_word *word;
    int status = nxr_inflight_enter(segment, &word);

    NXR_ASSERT(atomic->op <= NXR_ATOMIC_COMPARE_SWAP);
    if (__builtin_expect(status == NIXL_OK, 1)) {
        nxr_stats_lane_count(segment, NXR_LANE_ATOMICS, nxr_type_nbytes(atomic->type));
        *fetched_p = nxr_atomic_apply(segment->addr + atomic->offset, atomic);
        nxr_inflight_leave(word);
        if (atomic->op != NIXL_ATOMIC_FETCH) {
            nxr_wake_peer(segment->peer);
        }
    }
    return status;
}

/* The same by a thread for whose first use of that peer there is no memory. */
static __attribute__((noinline, cold)) int
change_held(struct nxr_segment *segment, const struct nxr_atomic *atomic, uint64_t *fetched_p)
{
    nxr_inflight_word *word;
    int status = nxr_inflight_hold(segment, &word);

    if (status == NIXL_OK) {
        *fetched_p = nxr_atomic_apply(segment->addr + atomic->offset, atomic);
        nxr_inflight_release(word);
        nxr_wake_peer(segment->peer);
    }
    return status;
}

int nxr_atomic_change(struct nxr_segment *segment, const struct nxr_atomic *atomic, bool is_signal,
                      uint64_t *fetched_p)
{
    int status;

    if (segment->method == NXR_METHOD_MEMCPY) {
        status = change_mapped(segment, atomic, fetched_p);
        return status == NIXL_E_NO_MEMORY ? change_held(segment, atomic, fetched_p) : status;
    }
    status = is_signal ? segment->transport->signal(segment, atomic)
                       : segment->transport->atomic(segment, atomic, fetched_p);
    if (status == NIXL_E_AGAIN) {
        status = nxr_atomic_ask(segment, atomic, fetched_p);
    }
    if (status == NIXL_OK) {
        nxr_stats_moved(segment, NXR_OP_ATOMIC, nxr_atomic_nbytes(atomic));
    }
    return status;
}

/* By value, so that the caller's stays in registers unless this is called. */
static __attribute__((noinline, cold)) int change_slow(const char *operation, int rank,
                                                       struct nixl_region *region,
                                                       struct nxr_atomic placed, enum word_use use,
                                                       uint64_t *fetched_p)
{
    struct nxr_segment *segment;
    int status = atomic_find_segment(operation, rank, region, &placed, use, &segment);

    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_atomic_change(segment, &placed, use != WORD_ATOMIC, fetched_p);
    /* A put was dropped: it is not this region's failure. */
    if (status == NIXL_E_CANCELED && use != WORD_INTERNAL) {
        status = nxr_transfer_report(operation, segment->peer);
        return status != NIXL_OK
                   ? status
                   : nxr_fail(NIXL_E_STALE, operation, rank, "", 0,
                              "an earlier put to %s was dropped", nxr_peer_name(segment->peer));
    }
    return status == NIXL_OK ? status : nxr_transfer_fail(operation, status, region, segment);
}

static inline __attribute__((always_inline)) int
atomic_change(const char *operation, int rank, struct nixl_region *region,
              const struct nxr_atomic *atomic, enum word_use use, uint64_t *fetched_p)
{
    struct nxr_segment *segment = atomic_usable_segment(rank, region, atomic, use);

    if (__builtin_expect(segment != NULL && change_mapped(segment, atomic, fetched_p) == NIXL_OK,
                         1)) {
        return NIXL_OK;
    }
    return change_slow(operation, rank, region, *atomic, use, fetched_p);
}

/* ---- atomics --------------------------------------------------------------------------------- */

int nxr_atomic_of_swap(const char *operation, int rank, uint64_t offset, enum nixl_type type,
                       const void *expected, const void *desired, struct nxr_atomic *atomic_p)
{
    if (!nxr_atomic_is_valid(type, NXR_ATOMIC_COMPARE_SWAP)) {
        *atomic_p = (struct nxr_atomic){0};
        return nxr_atomic_fail(operation, rank, type, 0);
    }
    if (expected == NULL || desired == NULL) {
        *atomic_p = (struct nxr_atomic){0};
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "the %s value is NULL",
                        expected == NULL ? "expected" : "desired");
    }
    *atomic_p = (struct nxr_atomic){
        .op = NXR_ATOMIC_COMPARE_SWAP,
        .type = (uint8_t)type,
        .offset = offset,
        .compare = nxr_atomic_load_value(expected, nxr_type_nbytes(type)),
        .operand = nxr_atomic_load_value(desired, nxr_type_nbytes(type)),
    };
    return NIXL_OK;
}

/* Apply the atomic, and store the previous value of the word where the caller wants it. */
static inline __attribute__((always_inline)) int change_and_fetch(const char *operation, int rank,
                                                                  struct nixl_region *region,
                                                                  const struct nxr_atomic *atomic,
                                                                  void *fetched_p)
{
    uint64_t fetched = 0;
    int status = atomic_change(operation, rank, region, atomic, WORD_ATOMIC, &fetched);

    if (status == NIXL_OK && fetched_p != NULL) {
        nxr_atomic_store_value(fetched_p, fetched, nxr_type_nbytes(atomic->type));
    }
    return status;
}

/* Not inlined: what a trace keeps would have to be saved by calls without a trace, too. */
static __attribute__((noinline)) int call_atomic(int rank, struct nixl_region *region,
                                                 uint64_t offset, enum nixl_type type,
                                                 enum nixl_atomic_op op, const void *operand,
                                                 void *fetched_p)
{
    struct nxr_atomic atomic;
    int status = nxr_atomic_of("nixl_atomic", rank, offset, type, op, operand, &atomic);

    return status == NIXL_OK ? change_and_fetch("nixl_atomic", rank, region, &atomic, fetched_p)
                             : status;
}

static __attribute__((noinline)) int atomic_traced(int rank, struct nixl_region *region,
                                                   uint64_t offset, enum nixl_type type,
                                                   enum nixl_atomic_op op, const void *operand,
                                                   void *fetched_p)
{
    return NXR_TRACED(NXR_TRACE_ATOMIC, "nixl_atomic", rank, 0, 0,
                      call_atomic(rank, region, offset, type, op, operand, fetched_p));
}

/*
 * Change the word if it is mapped and this thread has copied to that peer before: no function is
 * called before it is done, so what it needs stays in registers. False: nothing happened.
 */
static inline __attribute__((always_inline)) bool change_at_once(int rank,
                                                                 struct nixl_region *region,
                                                                 const struct nxr_atomic *atomic,
                                                                 void *fetched_p)
{
    struct nxr_segment *segment = atomic_usable_segment(rank, region, atomic, WORD_ATOMIC);
    nxr_inflight_word *word = segment != NULL ? nxr_inflight_word_of(segment) : NULL;
    size_t nbytes = nxr_type_nbytes(atomic->type);
    uint64_t before;

    if (__builtin_expect(word == NULL || nxr_inflight_enter_word(segment, word) != NIXL_OK, 0)) {
        return false;
    }
    nxr_stats_lane_count(segment, NXR_LANE_ATOMICS, nbytes);
    before = nxr_atomic_apply(segment->addr + atomic->offset, atomic);
    nxr_inflight_leave(word);
    if (fetched_p != NULL) {
        nxr_atomic_store_value(fetched_p, before, nbytes);
    }
    if (atomic->op != NIXL_ATOMIC_FETCH) {
        nxr_wake_peer(segment->peer);
    }
    return true;
}

/*
 * The same, by the arguments of the call. A word of 64 bits whose type is a constant needs no other
 * function, so no registers are saved; addition, what most atomics do, not even one of its own.
 */
static inline __attribute__((always_inline)) bool call_at_once(int rank, struct nixl_region *region,
                                                               uint64_t offset, enum nixl_type type,
                                                               enum nixl_atomic_op op,
                                                               const void *operand, void *fetched_p)
{
    struct nxr_atomic atomic;

    return nxr_atomic_has_args(type, op, operand) &&
           nxr_atomic_of("nixl_atomic", rank, offset, type, op, operand, &atomic) == NIXL_OK &&
           change_at_once(rank, region, &atomic, fetched_p);
}

static __attribute__((noinline)) bool integer_at_once(int rank, struct nixl_region *region,
                                                      uint64_t offset, enum nixl_atomic_op op,
                                                      const void *operand, void *fetched_p)
{
    return call_at_once(rank, region, offset, NIXL_TYPE_UINT64, op, operand, fetched_p);
}

static __attribute__((noinline)) bool other_at_once(int rank, struct nixl_region *region,
                                                    uint64_t offset, enum nixl_type type,
                                                    enum nixl_atomic_op op, const void *operand,
                                                    void *fetched_p)
{
    return call_at_once(rank, region, offset, type, op, operand, fetched_p);
}

static inline __attribute__((always_inline)) bool
atomic_at_once(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
               enum nixl_atomic_op op, const void *operand, void *fetched_p)
{
    if (type != NIXL_TYPE_UINT64 && type != NIXL_TYPE_INT64) {
        return other_at_once(rank, region, offset, type, op, operand, fetched_p);
    }
    return op == NIXL_ATOMIC_ADD ? call_at_once(rank, region, offset, NIXL_TYPE_UINT64,
                                                NIXL_ATOMIC_ADD, operand, fetched_p)
                                 : integer_at_once(rank, region, offset, op, operand, fetched_p);
}

int nixl_atomic(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                enum nixl_atomic_op op, const void *operand, void *fetched_p)
{
    if (nxr_trace_has(NXR_TRACE_ATOMIC)) {
        return atomic_traced(rank, region, offset, type, op, operand, fetched_p);
    }
    return atomic_at_once(rank, region, offset, type, op, operand, fetched_p)
               ? NIXL_OK
               : call_atomic(rank, region, offset, type, op, operand, fetched_p);
}

static int call_atomic_post(int rank, struct nixl_region *region, uint64_t offset,
                            enum nixl_type type, enum nixl_atomic_op op, const void *operand)
{
    static const char operation[] = "nixl_atomic_post";
    struct nxr_atomic atomic;
    uint64_t before;
    int status = nxr_atomic_of(operation, rank, offset, type, op, operand, &atomic);

    if (status == NIXL_OK && op == NIXL_ATOMIC_FETCH) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "NIXL_ATOMIC_FETCH (%d) changes nothing; allowed: NIXL_ATOMIC_ADD (0) to "
                        "NIXL_ATOMIC_SET (%d), or nixl_atomic()",
                        NIXL_ATOMIC_FETCH, NIXL_ATOMIC_SET);
    }
    return status == NIXL_OK ? atomic_change(operation, rank, region, &atomic, WORD_SIGNAL, &before)
                             : status;
}

int nixl_atomic_post(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                     enum nixl_atomic_op op, const void *operand)
{
    return NXR_TRACED(NXR_TRACE_ATOMIC, "nixl_atomic_post", rank, 0, 0,
                      call_atomic_post(rank, region, offset, type, op, operand));
}

static int call_atomic_compare_swap(int rank, struct nixl_region *region, uint64_t offset,
                                    enum nixl_type type, const void *expected, const void *desired,
                                    void *fetched_p)
{
    static const char operation[] = "nixl_atomic_compare_swap";
    struct nxr_atomic atomic;
    int status = nxr_atomic_of_swap(operation, rank, offset, type, expected, desired, &atomic);

    if (status != NIXL_OK || change_at_once(rank, region, &atomic, fetched_p)) {
        return status;
    }
    return change_and_fetch(operation, rank, region, &atomic, fetched_p);
}

int nixl_atomic_compare_swap(int rank, struct nixl_region *region, uint64_t offset,
                             enum nixl_type type, const void *expected, const void *desired,
                             void *fetched_p)
{
    return NXR_TRACED(
        NXR_TRACE_ATOMIC, "nixl_atomic_compare_swap", rank, 0, 0,
        call_atomic_compare_swap(rank, region, offset, type, expected, desired, fetched_p));
}

/* ---- raising signals ------------------------------------------------------------------------- */

int nxr_signal_fail_op(const char *operation, int rank, unsigned op)
{
    return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                    "signal operation %u; allowed: NIXL_SIGNAL_ADD (%d) or NIXL_SIGNAL_SET (%d)",
                    op, NIXL_SIGNAL_ADD, NIXL_SIGNAL_SET);
}

static inline int raise_signal(const char *operation, int rank, struct nixl_region *region,
                               uint64_t offset, enum nixl_signal_op op, uint64_t value)
{
    const struct nxr_atomic atomic = nxr_signal_atomic(offset, op, value);
    uint64_t before;

    return atomic_change(operation, rank, region, &atomic, WORD_SIGNAL, &before);
}

int nxr_internal_set(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     uint64_t value)
{
    const struct nxr_atomic atomic = nxr_signal_atomic(offset, NIXL_SIGNAL_SET, value);
    uint64_t before;

    return atomic_change(operation, rank, region, &atomic, WORD_INTERNAL, &before);
}

int nixl_signal_set(int rank, struct nixl_region *region, uint64_t offset, uint64_t value)
{
    return NXR_TRACED(
        NXR_TRACE_SIGNAL, "nixl_signal_set", rank, 0, value,
        raise_signal("nixl_signal_set", rank, region, offset, NIXL_SIGNAL_SET, value));
}

int nixl_signal_add(int rank, struct nixl_region *region, uint64_t offset, uint64_t value)
{
    return NXR_TRACED(
        NXR_TRACE_SIGNAL, "nixl_signal_add", rank, 0, value,
        raise_signal("nixl_signal_add", rank, region, offset, NIXL_SIGNAL_ADD, value));
}

int nxr_atomic_put_in_one_trip(int rank, struct nixl_region *region,
                               const struct nxr_put_signal *what, bool is_internal)
{
    const struct nxr_segment *word_segment = what->word_segment;
    struct nxr_put_signal placed = *what;
    struct nxr_segment *segment = nxr_region_segment_at(region, rank, &placed.offset, what->nbytes);

    if (segment == NULL || what->src == NULL || what->nbytes == 0 ||
        nxr_range_is_device(what->src) ||
        !nxr_segment_has_range(segment, placed.offset, what->nbytes) ||
        !nxr_segment_allows(segment, NIXL_ACCESS_NO_PUT) ||
        word_segment->transport != segment->transport || segment->method < NXR_METHOD_MESSAGE ||
        nxr_peer_has_refusal(segment->peer) ||
        (!is_internal && has_pending(segment->peer))) { /* the signal must not overtake them */
        return NIXL_E_AGAIN;
    }
    return segment->transport->put_signal(segment, &placed);
}

/* A signal that follows a put. */
struct signal {
    const char *operation;
    int rank;
    struct nixl_region *region;
    const struct nxr_atomic *atomic;
    enum word_use use;
};

static int raise_behind(void *arg)
{
    const struct signal *signal = arg;
    uint64_t before;

    return change_slow(signal->operation, signal->rank, signal->region, *signal->atomic,
                       signal->use, &before);
}

/* For a word that cannot be changed in place at once. If the signal is invalid, no data moves. */
static int put_signal_slow(const char *operation, int rank, struct nixl_region *region,
                           struct nixl_region *signal_region, const struct nxr_put_signal *what,
                           enum word_use use)
{
    const struct nxr_piece piece = {what->offset, (void *)what->src, what->nbytes};
    struct signal signal = {operation, rank, signal_region, &what->atomic, use};
    struct nxr_put_signal placed = *what;
    struct nxr_segment *segment;
    int status = atomic_find_segment(operation, rank, signal_region, &placed.atomic, use, &segment);

    if (status != NIXL_OK) {
        return status;
    }
    placed.word_segment = segment;
    return nxr_atomic_put_in_one_trip(rank, region, &placed, use == WORD_INTERNAL) == NIXL_OK
               ? NIXL_OK
               : nxr_transfer_put_then(operation, rank, region, &piece, what->until_ns,
                                       raise_behind, &signal);
}

/*
 * Data and word are in one mapped segment: check and guard it once for both. False: nothing
 * happened.
 */
static inline bool put_signal_in_place(struct nxr_segment *segment,
                                       const struct nxr_put_signal *what)
{
    nxr_inflight_word *word;

    if (__builtin_expect(what->src == NULL || what->nbytes == 0 ||
                             !nxr_segment_has_range(segment, what->offset, what->nbytes) ||
                             nxr_range_is_device(what->src) ||
                             nxr_inflight_enter(segment, &word) != NIXL_OK,
                         0)) {
        return false;
    }
    nxr_copy(segment->addr + what->offset, what->src, what->nbytes);
    (void)nxr_atomic_apply(segment->addr + what->atomic.offset, &what->atomic);
    nxr_stats_lane_count(segment, NXR_LANE_PUTS, what->nbytes);
    nxr_stats_lane_count(segment, NXR_LANE_ATOMICS, nxr_atomic_nbytes(&what->atomic));
    nxr_inflight_leave(word);
    nxr_wake_peer(segment->peer);
    return true;
}

bool nxr_atomic_put_at_once(int rank, struct nixl_region *region, struct nixl_region *signal_region,
                            const struct nxr_put_signal *what)
{
    struct nxr_segment *segment =
        atomic_usable_segment(rank, signal_region, &what->atomic, WORD_SIGNAL);
    uint64_t before;

    if (segment == NULL) {
        return false;
    }
    return region == signal_region
               ? put_signal_in_place(segment, what)
               : nxr_transfer_put_mapped(rank, region, what->offset, what->src, what->nbytes) &&
                     change_mapped(segment, &what->atomic, &before) == NIXL_OK;
}

bool nxr_atomic_change_at_once(int rank, struct nixl_region *region,
                               const struct nxr_atomic *atomic, bool is_signal, uint64_t *fetched_p)
{
    struct nxr_segment *segment =
        atomic_usable_segment(rank, region, atomic, is_signal ? WORD_SIGNAL : WORD_ATOMIC);

    return segment != NULL && change_mapped(segment, atomic, fetched_p) == NIXL_OK;
}

static inline __attribute__((always_inline)) int
put_signal(const char *operation, int rank, struct nixl_region *region,
           struct nixl_region *signal_region, const struct nxr_put_signal *what, enum word_use use)
{
    struct nxr_segment *segment = atomic_usable_segment(rank, signal_region, &what->atomic, use);
    uint64_t before;
    int status;

    if (__builtin_expect(segment == NULL, 0)) {
        return put_signal_slow(operation, rank, region, signal_region, what, use);
    }
    if (__builtin_expect(region == signal_region && put_signal_in_place(segment, what), 1)) {
        return NIXL_OK;
    }
    status = nxr_transfer_put(operation, rank, region, what->offset, what->src, what->nbytes);
    if (__builtin_expect(status != NIXL_OK, 0)) {
        return status;
    }
    if (__builtin_expect((use == WORD_INTERNAL || !has_pending(segment->peer)) &&
                             change_mapped(segment, &what->atomic, &before) == NIXL_OK,
                         1)) {
        return NIXL_OK;
    }
    return change_slow(operation, rank, signal_region, what->atomic, use, &before);
}

int nxr_internal_put_set(const char *operation, int rank, struct nixl_region *region,
                         const struct nxr_put_signal *what)
{
    return put_signal(operation, rank, region, region, what, WORD_INTERNAL);
}

static int call_put_signal(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                           size_t nbytes, struct nixl_region *signal_region, uint64_t signal_offset,
                           enum nixl_signal_op op, uint64_t value)
{
    const struct nxr_put_signal what = {
        .offset = offset,
        .src = src,
        .nbytes = nbytes,
        .atomic = nxr_signal_atomic(signal_offset, op, value),
    };

    if (__builtin_expect((unsigned)op > NIXL_SIGNAL_SET, 0)) {
        return nxr_signal_fail_op("nixl_put_signal", rank, op);
    }
    return put_signal("nixl_put_signal", rank, region, signal_region, &what, WORD_SIGNAL);
}

int nixl_put_signal(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                    size_t nbytes, struct nixl_region *signal_region, uint64_t signal_offset,
                    enum nixl_signal_op op, uint64_t value)
{
    return NXR_TRACED(NXR_TRACE_PUT, "nixl_put_signal", rank, nbytes, 0,
                      call_put_signal(rank, region, offset, src, nbytes, signal_region,
                                      signal_offset, op, value));
}
