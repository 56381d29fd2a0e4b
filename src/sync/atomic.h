/* SPDX-License-Identifier: Apache-2.0 */
/* What the blocking calls on words (atomic.c) and the others (atomic_start.c) share. */
#ifndef NXR_SYNC_ATOMIC_H
#define NXR_SYNC_ATOMIC_H

#include "core/request.h"
#include "region/region.h"
#include "util/atomic.h"

/* Fail: the operation does not exist for the type, or its operand is NULL. */
int nxr_atomic_fail(const char *operation, int rank, unsigned type, unsigned op);

/* Does the operation exist for the type, and is there an operand if it needs one? */
static inline bool nxr_atomic_has_args(enum nixl_type type, enum nixl_atomic_op op,
                                       const void *operand)
{
    return (unsigned)op <= NIXL_ATOMIC_FETCH && nxr_atomic_is_valid(type, op) &&
           (operand != NULL || op == NIXL_ATOMIC_FETCH);
}

/* Make the change for an atomic, or a compare and swap; or the failure, recorded. */
static inline int nxr_atomic_of(const char *operation, int rank, uint64_t offset,
                                enum nixl_type type, enum nixl_atomic_op op, const void *operand,
                                struct nxr_atomic *atomic_p)
{
    if (__builtin_expect(!nxr_atomic_has_args(type, op, operand), 0)) {
        *atomic_p = (struct nxr_atomic){0};
        return nxr_atomic_fail(operation, rank, type, op);
    }
    *atomic_p = (struct nxr_atomic){.op = (uint8_t)op, .type = (uint8_t)type, .offset = offset};
    if (op != NIXL_ATOMIC_FETCH) {
        atomic_p->operand = nxr_atomic_load_value(operand, nxr_type_nbytes(type));
    }
    return NIXL_OK;
}

int nxr_atomic_of_swap(const char *operation, int rank, uint64_t offset, enum nixl_type type,
                       const void *expected, const void *desired, struct nxr_atomic *atomic_p);

/* The change of a word that raises a signal. */
static inline struct nxr_atomic nxr_signal_atomic(uint64_t offset, enum nixl_signal_op op,
                                                  uint64_t value)
{
    return (struct nxr_atomic){.op = op == NIXL_SIGNAL_SET ? NIXL_ATOMIC_SET : NIXL_ATOMIC_ADD,
                               .type = NIXL_TYPE_UINT64,
                               .offset = offset,
                               .operand = value};
}

/* Record the failure: there is no such signal operation. */
int nxr_signal_fail_op(const char *operation, int rank, unsigned op);

/*
 * Find the segment with the word, which is in range and aligned and may be changed, looking it up
 * if needed; or fail. The offset in `atomic` becomes the one in the segment, which differs from
 * that in a region of extents.
 */
int nxr_atomic_find_segment(const char *operation, int rank, struct nixl_region *region,
                            struct nxr_atomic *atomic, bool is_signal,
                            struct nxr_segment **segment_p);

/* Change a word that is mapped here, if no earlier put is under way. False: nothing happened. */
bool nxr_atomic_change_at_once(int rank, struct nixl_region *region,
                               const struct nxr_atomic *atomic, bool is_signal,
                               uint64_t *fetched_p);

/* The same, and data before it, which may have been put although the word was not changed. */
bool nxr_atomic_put_at_once(int rank, struct nixl_region *region, struct nixl_region *signal_region,
                            const struct nxr_put_signal *what);

/*
 * Start a put followed by the change of a signal of the same rank, or a get followed by the change
 * of a word of this process. NIXL_OK, NIXL_INPROGRESS with the request, or the failure, recorded.
 */
int nxr_put_signal_start(const char *operation, int rank, struct nixl_region *region,
                         const struct nxr_piece *data, struct nixl_region *signal_region,
                         const struct nxr_atomic *atomic, struct nixl_req **req_p);
int nxr_get_signal_start(const char *operation, int rank, struct nixl_region *region,
                         const struct nxr_piece *data, uint64_t *signal,
                         const struct nxr_atomic *atomic, struct nixl_req **req_p);

/* A signal for nxr_request_take_signal(). NIXL_OK; or the failure, and *signal_p stays. */
int nxr_signal_find(const char *operation, int rank, struct nixl_region *region,
                    const struct nxr_atomic *atomic, struct nxr_after *signal_p);

/* Raise it behind an operation that has succeeded without a request. As nxr_atomic_start(). */
int nxr_signal_start(const char *operation, const struct nxr_after *signal,
                     struct nixl_req **req_p);

/*
 * Start the change of a word of a segment, which is in range and aligned, behind all puts that were
 * started; or, unordered, without waiting for any. NIXL_OK; NIXL_INPROGRESS with the request; or
 * the failure, recorded.
 */
int nxr_atomic_start(const char *operation, struct nxr_segment *segment,
                     const struct nxr_atomic *atomic, uint64_t *fetched_p, struct nixl_req **req_p);
int nxr_atomic_start_unordered(const char *operation, struct nxr_segment *segment,
                               const struct nxr_atomic *atomic, uint64_t *fetched_p,
                               struct nixl_req **req_p);

/* In one trip, if a transport offers that. NIXL_E_AGAIN: do it in two steps. */
int nxr_atomic_put_in_one_trip(int rank, struct nixl_region *region,
                               const struct nxr_put_signal *what, bool is_internal);

/*
 * Set a word in a region of the library's own; and put bytes there before (`word_segment` is not
 * read). The word arrives behind these bytes, and behind earlier words and their bytes. It does not
 * wait for the program's puts, and leaves their failures to the program.
 */
int nxr_internal_set(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     uint64_t value);
int nxr_internal_put_set(const char *operation, int rank, struct nixl_region *region,
                         const struct nxr_put_signal *what);

#endif
