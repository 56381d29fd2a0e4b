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

/** A transport, and whether it serves a rank: nixl_route_query(). */
struct nixl_route_info {
    size_t struct_nbytes;
    char transport[16];      /**< as NIXLRUN_TRANSPORTS takes it: "self", "shm", "ucx", "ofi" */
    int is_usable;           /**< 1: it works in this process, whichever rank is meant */
    int is_chosen;           /**< 1: it serves this rank; two may share the work */
    uint64_t latency_ns;     /**< expected: a small put_notify, one way; 0: not known */
    uint64_t bandwidth_mbps; /**< expected: MB/s of a large put, all rails; 0: not known */
    unsigned n_rails;        /**< how many ways there are side by side; 0: not usable */
    char library[128];       /**< what it is built upon, with version and file; or "" */
    char devices[1024];      /**< a line for each device that it uses; or "" */
    char why[256];           /**< why it is not usable or not chosen; "" if it is chosen */
};
#define NIXL_ROUTE_INFO_INIT                                                                       \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_route_info)                                            \
    }

/**
 * How @p rank is reached: one transport after the other, the one that was chosen among them. The
 * first call for a rank connects to it, as nixl_scope(). `nixlrun --explain` prints it.
 *
 * Expected times and rates are what was measured where the transport was written. They are what
 * transports are compared by; nixl_bench tells those of this machine.
 *
 * @param index   0, 1, ... until NIXL_ERR_NOT_FOUND
 * @param info_p  made with NIXL_ROUTE_INFO_INIT
 * @return NIXL_OK, NIXL_ERR_NOT_FOUND (no transport of that number), NIXL_ERR_INVALID_ARG,
 *         NIXL_ERR_TIMEOUT (the rank does not answer), NIXL_ERR_NO_MEMORY
 * Threads: any.
 */
NIXL_API int nixl_route_query(int rank, unsigned index,
                              struct nixl_route_info *info_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_ROUTE_H */
