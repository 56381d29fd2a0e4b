/* SPDX-License-Identifier: Apache-2.0 */
/* The shm transport's table and its copies. All state of a peer is in the segment. No lock. */
#include "config.h"

#include "shm.h"
#include "util/copy.h"

#include <stdio.h>

static int shm_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int shm_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                     size_t why_nbytes)
{
    if (scope == NIXL_SCOPE_LOCAL && kind == NIXL_MEM_HOST) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "reaches only %s",
             scope == NIXL_SCOPE_LOCAL ? "host memory" : "other ranks of this host");
    return NIXL_E_UNSUPPORTED;
}

static bool shm_serves(const struct nxr_segment *segment, const struct nxr_range *range)
{
    (void)range;
    return segment->method == NXR_METHOD_MEMCPY;
}

static int shm_segment_open(struct nxr_segment *segment, int fd,
                            const struct nxr_remote_key *remote)
{
    void *addr;
    int status;

    (void)remote;
    NXR_ASSERT(nxr_segment_may_be_opened(segment));
    if (segment->key.kind != NIXL_MEM_HOST) {
        segment->method = NXR_METHOD_BOUNCE; /* no transport for that kind could open it */
        if (segment->export.type == NXR_EXPORT_FILE) {
            (void)nxr_device_import(segment, fd); /* else the owner reads it: the note says why */
        }
        return NIXL_OK;
    }
    if ((segment->key.marks & NXR_KEY_REGISTERED) != 0) {
        nxr_shm_choose_vm(segment);
        return NIXL_OK;
    }
    status =
        nxr_memory_host_map(fd, segment->nbytes, (segment->forbidden & NIXL_ACCESS_NO_PUT) != 0,
                            &addr, &segment->mapped_nbytes);
    if (status == NIXL_OK) {
        segment->addr = addr;
        segment->method = NXR_METHOD_MEMCPY;
    }
    return status;
}

static void shm_segment_close(struct nxr_segment *segment)
{
    NXR_ASSERT(nxr_segment_may_be_closed(segment));
    if (segment->method == NXR_METHOD_MEMCPY) {
        nxr_memory_host_free(segment->addr, segment->mapped_nbytes);
    } else if (segment->readable != NULL) {
        nxr_device_unimport(segment);
    }
}

/* A put or a get of memory that is not mapped here: by process_vm calls, or by the owner. */
static int __attribute__((noinline))
shm_move_apart(struct nxr_segment *segment, enum nxr_op_kind kind, uint64_t offset, void *local,
               size_t nbytes)
{
    nxr_inflight_word *word;
    int status;

    /*
     * A put of one word must be a single store, but on some processors (seen on AMD's) the kernel
     * copies it byte by byte. So the owner stores such words into its registered memory, as it does
     * atomics.
     */
    if (kind == NXR_OP_PUT && nxr_host_paths.atomic_serves_put(segment, offset, nbytes)) {
        status = nxr_host_paths.atomic_put(segment, offset, local, nbytes);
        if (status == NIXL_OK) {
            nxr_stats_moved(segment, NXR_OP_PUT, nbytes);
        }
        return status;
    }
    if (segment->method == NXR_METHOD_BOUNCE) {
        return NIXL_E_AGAIN;
    }
    status = nxr_inflight_enter(segment, &word);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_shm_vm_move(segment, kind, offset, local, nbytes);
    if (status == NIXL_OK) {
        nxr_stats_moved(segment, kind, nbytes);
    }
    nxr_inflight_leave(word);
    return status;
}

/* Between this process' memory and a mapped segment, which was entered. */
static inline __attribute__((always_inline)) void
copy_mapped(struct nxr_segment *segment, enum nxr_op_kind kind, uint64_t offset, void *local,
            size_t nbytes, void (*copy)(void *dst, const void *src, size_t nbytes))
{
    if (kind == NXR_OP_PUT) {
        nxr_stats_lane_count(segment, NXR_LANE_PUTS, nbytes);
        copy(segment->addr + offset, local, nbytes);
    } else {
        nxr_stats_lane_count(segment, NXR_LANE_GETS, nbytes);
        copy(local, segment->addr + offset, nbytes);
    }
}

static int __attribute__((noinline)) move_any(struct nxr_segment *segment, enum nxr_op_kind kind,
                                              uint64_t offset, void *local, size_t nbytes)
{
    nxr_inflight_word *word;
    int status;

    if (segment->method != NXR_METHOD_MEMCPY) {
        return shm_move_apart(segment, kind, offset, local, nbytes);
    }
    status = nxr_inflight_enter(segment, &word);
    if (status == NIXL_OK) {
        copy_mapped(segment, kind, offset, local, nbytes, nxr_copy);
        nxr_inflight_leave(word);
    }
    return status;
}

/* It calls no function but as its last act, and so saves no registers. */
static inline __attribute__((always_inline)) int move_small(struct nxr_segment *segment,
                                                            enum nxr_op_kind kind, uint64_t offset,
                                                            void *local, size_t nbytes)
{
    nxr_inflight_word *word;
    int status;

    NXR_ASSERT(nxr_segment_may_move(segment, offset, local, nbytes));
    if (nbytes > NXR_COPY_SMALL || __builtin_expect(segment->method != NXR_METHOD_MEMCPY, 0)) {
        return move_any(segment, kind, offset, local, nbytes);
    }
    word = nxr_inflight_word_of(segment);
    if (__builtin_expect(word == NULL, 0)) {
        return move_any(segment, kind, offset, local, nbytes);
    }
    status = nxr_inflight_enter_word(segment, word);
    if (__builtin_expect(status == NIXL_OK, 1)) {
        copy_mapped(segment, kind, offset, local, nbytes, nxr_copy_small);
        nxr_inflight_leave(word);
    }
    return status;
}

static int shm_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes)
{
    return move_small(segment, NXR_OP_PUT, offset, (void *)src, nbytes);
}

static int shm_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes)
{
    return move_small(segment, NXR_OP_GET, offset, dst, nbytes);
}

static int shm_move_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                         const struct nxr_piece *pieces, size_t n_pieces, uint64_t total_nbytes,
                         size_t *n_done_p)
{
    nxr_inflight_word *word;
    int status;

    NXR_ASSERT(nxr_list_may_move(segment, kind, pieces, n_pieces));
    *n_done_p = 0;
    if (segment->method == NXR_METHOD_BOUNCE) {
        return NIXL_E_AGAIN;
    }
    status = nxr_inflight_enter(segment, &word);
    if (status != NIXL_OK) {
        return status;
    }
    if (segment->method == NXR_METHOD_MEMCPY) {
        nxr_copy_list(segment->addr, kind, pieces, n_pieces, total_nbytes);
        nxr_stats_lane_count(segment, kind == NXR_OP_PUT ? NXR_LANE_PUTS : NXR_LANE_GETS,
                             nxr_pieces_nbytes(pieces, n_pieces));
        *n_done_p = n_pieces;
    } else {
        status = nxr_shm_vm_list(segment, kind, pieces, n_pieces, n_done_p);
        if (*n_done_p > 0) {
            nxr_stats_moved(segment, kind, nxr_pieces_nbytes(pieces, *n_done_p));
        }
    }
    nxr_inflight_leave(word);
    return status;
}

static bool is_word(const struct nxr_op *op)
{
    return op->kind == NXR_OP_ATOMIC ||
           (op->kind == NXR_OP_PUT &&
            nxr_host_paths.atomic_serves_put(op->segment, op->offset, op->nbytes));
}

/* What the owner copies, or reads and writes. This process reads files itself, if it can. */
static int shm_start_bounce(struct nxr_op *op)
{
    int status = NIXL_E_LIMIT;

    if (op->kind == NXR_OP_GET && op->segment->readable != NULL) {
        status = nxr_device_start(op); /* NIXL_E_LIMIT: the owner has no slot left */
    }
    return status == NIXL_E_LIMIT ? nxr_host_paths.staging_start(op) : status;
}

/* For what put() and get() can do but take long for, and for what only the owner can do. */
static int shm_start(struct nxr_op *op)
{
    NXR_ASSERT(nxr_op_may_start(op));
    if (is_word(op)) {
        return nxr_host_paths.atomic_start(op);
    }
    return op->segment->method == NXR_METHOD_BOUNCE ? shm_start_bounce(op)
                                                    : nxr_host_paths.copy_start(op);
}

/* process_vm calls move a list within the call. */
static int shm_start_list(struct nxr_op *op)
{
    return op->segment->method == NXR_METHOD_BOUNCE ? shm_start_bounce(op) : NIXL_E_UNSUPPORTED;
}

static int shm_cancel(struct nxr_op *op)
{
    int status = NIXL_E_NOT_FOUND;

    if (op->pieces == NULL) {
        status = is_word(op) ? nxr_host_paths.atomic_cancel(op) : nxr_host_paths.copy_cancel(op);
    }
    return status == NIXL_E_NOT_FOUND ? nxr_host_paths.staging_cancel(op) : status;
}

static int shm_progress(void)
{
    return nxr_host_paths.atomic_progress();
}

/*
 * When put() returns, its stores may still be in this core's store buffer; the fence drains them.
 */
static int shm_order(struct nxr_peer *peer)
{
    (void)peer;
    nxr_fence_full();
    return NIXL_OK;
}

/*
 * What nixl_bench measured on two cores of an Intel Xeon that are near each other: put_notify of 8
 * bytes one way, put and flush of 1 MiB. Bounce: while the owner leaves its service thread a core.
 */
static void shm_expect(const struct nxr_peer *peer, enum nxr_method method, uint64_t *latency_ns_p,
                       uint64_t *bandwidth_mbps_p)
{
    (void)peer;
    *latency_ns_p = method == NXR_METHOD_MEMCPY       ? 200
                    : method == NXR_METHOD_PROCESS_VM ? 950
                    : method == NXR_METHOD_BOUNCE     ? 4000
                                                      : 0;
    *bandwidth_mbps_p = method == NXR_METHOD_MEMCPY       ? 27000
                        : method == NXR_METHOD_PROCESS_VM ? 17000
                        : method == NXR_METHOD_BOUNCE     ? 10000
                                                          : 0;
}

const struct nxr_transport nxr_transport_shm = {
    .name = "shm",
    .cost = 20,
    .probe = shm_probe,
    .reach = shm_reach,
    .serves = shm_serves,
    .segment_open = shm_segment_open,
    .segment_close = shm_segment_close,
    .segment_is_busy = nxr_device_segment_is_busy,
    .put = shm_put,
    .get = shm_get,
    .put_notify = nxr_no_put_notify,
    .put_signal = nxr_no_put_signal,
    .move_list = shm_move_list,
    .start = shm_start,
    .start_list = shm_start_list,
    .cancel = shm_cancel,
    .progress = shm_progress,
    .expect = shm_expect,
    .fence = shm_order,
    .flush = shm_order,
    .atomic = nxr_no_atomic,
    .signal = nxr_no_signal,
};
