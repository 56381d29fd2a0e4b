/* SPDX-License-Identifier: Apache-2.0 */
/* What calls on words share with put and get: finding a segment, and reporting failures. */
#ifndef NXR_TRANSFER_TRANSFER_H
#define NXR_TRANSFER_TRANSFER_H

#include "core/request.h"
#include "transfer/copy_thread.h"
#include "region/extents.h"
#include "region/region.h"

/* Check rank, handle and local buffer. */
int nxr_transfer_check(const char *operation, int rank, const struct nixl_region *region,
                       const void *local, size_t nbytes);

/*
 * Check rank and handle, find the segment, asking its owner if need be, and check the range, and
 * that the owner allows what `forbidden_by` would forbid (values of enum nixl_access; 0: nothing).
 * Of a region of extents it is the segment of one, and *offset_p becomes the offset in it.
 */
int nxr_transfer_find_segment(const char *operation, int rank, struct nixl_region *region,
                              uint32_t forbidden_by, uint64_t *offset_p, size_t nbytes,
                              struct nxr_segment **segment_p);

/*
 * The same without asking, for what is started later than its call, by any thread. NIXL_E_STALE:
 * the segment was found before, and is not there now.
 */
int nxr_transfer_find_now(const char *operation, int rank, struct nixl_region *region,
                          uint32_t forbidden_by, uint64_t *offset_p, size_t nbytes,
                          struct nxr_segment **segment_p);

/* Either of them. */
typedef int nxr_find_fn(const char *operation, int rank, struct nixl_region *region,
                        uint32_t forbidden_by, uint64_t *offset_p, size_t nbytes,
                        struct nxr_segment **segment_p);

/* Translate a transport's failure for the caller: record it and return it. */
int nxr_transfer_fail(const char *operation, int status, struct nixl_region *region,
                      struct nxr_segment *segment);

/* The same for a copy. */
int nxr_transfer_fail_copy(const char *operation, enum nxr_op_kind kind, int status,
                           struct nixl_region *region, struct nxr_segment *segment);

/*
 * For the arguments of a call, which only its slow path reads after the transport's function has
 * returned. Until then they stay in memory: to keep them in registers, each call would save and
 * restore as many.
 */
#define NXR_KEEP_IN_MEMORY(_call) __asm__ volatile("" : "+m"(_call))

/* Can that segment take an operation of 1 to max_nbytes at once, if `local` is host memory? */
static inline __attribute__((always_inline)) bool
nxr_transfer_is_allowed(const struct nxr_segment *segment, size_t max_nbytes, enum nxr_op_kind kind,
                        uint64_t offset, const void *local, size_t nbytes)
{
    return local != NULL && nbytes - 1 < max_nbytes &&
           nxr_segment_has_range(segment, offset, nbytes) &&
           nxr_segment_allows(segment, nxr_op_forbidden_by(kind));
}

/* The same, whatever `local` is. */
static inline __attribute__((always_inline)) bool
nxr_transfer_is_usable(const struct nxr_segment *segment, size_t max_nbytes, enum nxr_op_kind kind,
                       uint64_t offset, const void *local, size_t nbytes)
{
    return nxr_transfer_is_allowed(segment, max_nbytes, kind, offset, local, nbytes) &&
           !nxr_range_is_device(local);
}

/*
 * Can an operation of 1 to max_nbytes be tried at once? The segment, or NULL: take the slow path,
 * which finds the reason. Always inlined: a function call would take a sixth of the time of a put
 * of 8 bytes.
 */
static inline __attribute__((always_inline)) struct nxr_segment *
nxr_transfer_usable_up_to(size_t max_nbytes, enum nxr_op_kind kind, int rank,
                          struct nixl_region *region, uint64_t offset, const void *local,
                          size_t nbytes)
{
    struct nxr_segment *segment = nxr_region_segment(region, rank);

    return __builtin_expect(segment != NULL && nxr_transfer_is_usable(segment, max_nbytes, kind,
                                                                      offset, local, nbytes),
                            1)
               ? segment
               : NULL;
}

/* The segment, if this call can copy the bytes itself and that is quick; NULL: as above. */
static inline __attribute__((always_inline)) struct nxr_segment *
nxr_transfer_mapped(enum nxr_op_kind kind, int rank, struct nixl_region *region, uint64_t offset,
                    const void *local, size_t nbytes)
{
    struct nxr_segment *segment = nxr_region_segment(region, rank);

    return __builtin_expect(segment != NULL &&
                                nxr_transfer_is_usable(segment, segment->copied_at_once, kind,
                                                       offset, local, nbytes),
                            1)
               ? segment
               : NULL;
}

/*
 * Put or get up to NXR_AT_ONCE_NBYTES within the call, if the segment is mapped. False: nothing was
 * done; the operation must be started, which also finds what is wrong with it.
 */
static inline bool nxr_transfer_put_mapped(int rank, struct nixl_region *region, uint64_t offset,
                                           const void *src, size_t nbytes)
{
    struct nxr_segment *segment =
        nxr_transfer_mapped(NXR_OP_PUT, rank, region, offset, src, nbytes);

    return segment != NULL && segment->transport->put(segment, offset, src, nbytes) == NIXL_OK;
}

static inline bool nxr_transfer_get_mapped(int rank, struct nixl_region *region, uint64_t offset,
                                           void *dst, size_t nbytes)
{
    struct nxr_segment *segment =
        nxr_transfer_mapped(NXR_OP_GET, rank, region, offset, dst, nbytes);

    return segment != NULL && segment->transport->get(segment, offset, dst, nbytes) == NIXL_OK;
}

/*
 * Put bytes to a peer on this host within the call if that does not take long. False: the put must
 * be started, or the segment is not known yet, or something is wrong.
 */
bool nxr_transfer_put_here(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                           size_t nbytes);

/*
 * Start a put or a get; up to NXR_AT_ONCE_NBYTES are moved within the call if that does not take
 * long. NIXL_OK; NIXL_INPROGRESS: *req_p, and a caller that does not wait must call
 * nxr_request_leave(); or the failure of `operation`, recorded.
 */
int nxr_transfer_start(const char *operation, enum nxr_op_kind kind, int rank,
                       struct nixl_region *region, const struct nxr_piece *what,
                       struct nixl_req **req_p);

/* nixl_put() for `operation`. */
int nxr_transfer_put(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     const void *src, size_t nbytes);

/* nixl_get() for `operation`. */
int nxr_transfer_get(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     void *dst, size_t nbytes);

/*
 * The segment, if a network reaches it and a put of host memory can be tried at once, and *offset_p
 * in it; NULL: the segment is not known yet, or it is of another kind, or something is wrong.
 */
struct nxr_segment *nxr_transfer_message_segment(int rank, struct nixl_region *region,
                                                 uint64_t *offset_p, const void *local,
                                                 size_t nbytes);

/*
 * Put, then call `then` for something that must not overtake the put. If the transport keeps the
 * order, `then` is called without waiting for the confirmation that the put has arrived, which
 * saves a round trip; this call still waits until the caller's buffer is free. Returns the failure
 * of the put, or else what `then` returned. `until_ns`: as in struct nxr_put_signal.
 */
int nxr_transfer_put_then(const char *operation, int rank, struct nixl_region *region,
                          const struct nxr_piece *what, int64_t until_ns, int (*then)(void *),
                          void *arg);

extern const struct nxr_subsystem nxr_flush_subsystem;

/*
 * Report, once, the failure of a put or signal that no other call reports: its request was detached
 * before it ended, or the owner dropped it. NIXL_OK: there is none.
 */
int nxr_transfer_report(const char *operation, struct nxr_peer *peer);

/* The same, if the owner dropped one: what is sent next must not stand for it. */
static inline int nxr_transfer_report_refusal(const char *operation, struct nxr_peer *peer)
{
    return nxr_peer_has_refusal(peer) ? nxr_transfer_report(operation, peer) : NIXL_OK;
}

/* nixl_fence() for `operation`. */
int nxr_transfer_fence(const char *operation, struct nxr_peer *peer);

/*
 * Change a word that is in range and aligned, after all puts that have ended; it does not wait for
 * puts under way. Wakes threads that wait for the word. Over a network a signal does not wait for
 * the answer, and *fetched_p is not written. Returns the transport's status; nothing is recorded.
 */
int nxr_atomic_change(struct nxr_segment *segment, const struct nxr_atomic *atomic, bool is_signal,
                      uint64_t *fetched_p);

#endif
