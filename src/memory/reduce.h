/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions by a kernel of a device of this process, which reads and writes memory of other
 * devices where it lies. CUDA has them. Any thread.
 */
#ifndef NXR_MEMORY_REDUCE_H
#define NXR_MEMORY_REDUCE_H

#include "nixlrun.h"
#include "transports/transport.h"

#include <stdbool.h>
#include <stddef.h>

#define NXR_REDUCE_MAX 32 /* operands, and places for the result; as kernels/kernel.h */

/*
 * Every place of the result becomes the first operand OP the second OP ...; a place may be one of
 * the operands, exactly. Addresses are aligned to their type, and reached by the device. The work
 * is begun and ends as a copy does whose `reduction` it is, whose dst says the device, and which
 * has no pieces; the struct is needed until nxr_device_copy_begin() returns.
 */
struct nxr_device_reduction {
    enum nixl_type type;
    enum nixl_reduce_op op; /* not NIXL_USER */
    const void *srcs[NXR_REDUCE_MAX];
    void *dsts[NXR_REDUCE_MAX];
    unsigned n_srcs;
    unsigned n_dsts;
    size_t nbytes; /* of each */
};

/*
 * The device that has a kernel to reduce from `src` to `dst`, which are own memory, as a range for
 * copy.dst; dst may be NULL. NULL: there is none. Loads the kernels when they are first needed.
 */
const struct nxr_range *nxr_reduce_by(const void *src, const void *dst);

/* Do its kernels reach what lies there, own memory or a part that is open here? */
bool nxr_reduce_reaches(const struct nxr_range *by, const void *addr);

#endif
