/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions by a kernel on a device of this process, which reads and writes the memory of other
 * devices in place. Implemented by CUDA. Any thread.
 */
#ifndef NXR_MEMORY_REDUCE_H
#define NXR_MEMORY_REDUCE_H

#include "nixlrun.h"
#include "transports/transport.h"

#include <stdbool.h>
#include <stddef.h>

#define NXR_REDUCE_MAX 32 /* operands, and destinations of the result; as in kernels/kernel.h */

/*
 * Every destination of the result becomes the first operand OP the second OP ...; a destination may
 * be exactly one of the operands. Addresses are aligned to their type, and reached by the device.
 * The work is started and ends like a copy: the struct is that copy's `reduction`, the copy's dst
 * determines the device, and it has no pieces. The struct is needed until nxr_device_copy_begin()
 * returns.
 */
struct nxr_device_reduction {
    enum nixl_type type;
    enum nixl_reduce_op op; /* not NIXL_REDUCE_USER */
    const void *srcs[NXR_REDUCE_MAX];
    void *dsts[NXR_REDUCE_MAX];
    unsigned n_srcs;
    unsigned n_dsts;
    size_t nbytes; /* of each */
};

/*
 * The device that has a kernel to reduce from `src` to `dst`, as a range for copy.dst. Both are
 * memory of this process; dst may be NULL. NULL: there is none. Loads the kernels when they are
 * first needed.
 */
const struct nxr_range *nxr_reduce_by(const void *src, const void *dst);

/* Can its kernels reach that memory, which is this process's own or a segment that is open here? */
bool nxr_reduce_reaches(const struct nxr_range *by, const void *addr);

#endif
