/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/route.h
 * How a rank is reached.
 */
#ifndef NIXLRUN_ROUTE_H
#define NIXLRUN_ROUTE_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nixl_region;

/**
 * A transport, and whether it serves a rank or a pair of memories, as the calls below report it.
 */
struct nixl_route_info {
    size_t struct_nbytes;
    char transport[16];      /**< a name of NIXLRUN_TRANSPORTS: "self", "shm", "tcp"... */
    int is_usable;           /**< 1: it works in this process, for whatever rank */
    int is_chosen;           /**< 1: it serves this rank; two may share the work */
    uint64_t latency_ns;     /**< expected: a small put_notify, one way; 0: not known */
    uint64_t bandwidth_mbps; /**< expected: MB/s of a large put, all rails; 0: not known */
    unsigned nrails;         /**< number of parallel paths; 0: not usable */
    char library[128];       /**< the library below it, with version and file; or "" */
    char devices[1024];      /**< a line for each device that it uses; or "" */
    char why[256];           /**< why it is not usable or not chosen; if it is, see the calls */
    char method[24]; /**< nixl_route_query_segment(): how bytes move if it is chosen; or "" */
};
#define NIXL_ROUTE_INFO_INIT                                                                       \
    {                                                                                              \
        sizeof(struct nixl_route_info), "", 0, 0, 0, 0, 0, "", "", "", ""                          \
    }

/**
 * How @p rank is reached: lists all transports one by one, including the chosen one. The first call
 * for a rank connects to it, as nixl_scope() does. `nixlrun --explain` prints the list.
 *
 * Expected times and rates were measured on the machine where the transport was written. Transports
 * are compared by them; nixl_bench measures those of this machine.
 *
 * @param index   0, 1, ... until NIXL_E_NOT_FOUND
 * @param info_p  made with NIXL_ROUTE_INFO_INIT
 * @return NIXL_OK, NIXL_E_NOT_FOUND (no transport of that number), NIXL_E_INVALID_ARG,
 *         NIXL_E_TIMEOUT (the rank does not answer), NIXL_E_NO_MEMORY
 * Threads: any.
 */
NIXL_API int nixl_route_query(int rank, unsigned index,
                              struct nixl_route_info *info_p) NIXL_MUST_CHECK;

/**
 * The same for bytes between this rank's memory at @p local and a rank's segment of a region:
 * which transport moves them, and why no other does. It depends on the kinds of memory at both
 * ends (host, CUDA or Vulkan) and on how the segment was made. Waits up to
 * NIXLRUN_RESOLVE_TIMEOUT for the segment.
 *
 * The chosen one has a method: memcpy, process_vm, bounce, message, rma, device (a GPU copies), or
 * staged (in pieces through host memory); `why` then says why it is not a better one, or "". A rank
 * reaches its own GPU memory by the transport "device", which serves nothing else, and its own
 * files and objects by "storage", whose method is what reads and writes them: io_uring, threads, s3
 * or directory; with memory of a GPU, staged or cuFile, or both, and `why` says what was measured.
 * Of those of other ranks `why` says that. For storage no times and rates are expected.
 *
 * @param local   any address of host or CUDA memory, or in a Vulkan region; NULL: host memory
 * @param index   0, 1, ... until NIXL_E_NOT_FOUND
 * @param info_p  made with NIXL_ROUTE_INFO_INIT
 * @return as nixl_route_query(), and NIXL_E_NOT_FOUND also if the rank has no such region;
 *         NIXL_E_PEER_LOST, NIXL_E_STALE, NIXL_E_UNSUPPORTED as nixl_region_query()
 * Threads: any.
 */
NIXL_API int nixl_route_query_segment(int rank, struct nixl_region *region, const void *local,
                                      unsigned index,
                                      struct nixl_route_info *info_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_ROUTE_H */
