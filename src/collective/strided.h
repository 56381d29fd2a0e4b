/* SPDX-License-Identifier: Apache-2.0 */
/* All to all with strides. */
#ifndef NXR_COLLECTIVE_STRIDED_H
#define NXR_COLLECTIVE_STRIDED_H

#include "collective/team.h"

/* Checked: block_nbytes and nblocks are not 0, and no product of these and the team's size
 * overflows. */
struct nxr_strided {
    const void *src;
    void *dst;
    size_t block_nbytes;
    size_t nblocks; /* for each member */
    size_t src_stride;
    size_t dst_stride;
};

/* As nxr_call_run(). Buffers may be device memory. */
int nxr_strided_alltoall(struct nixl_team *team, const struct nxr_strided *what);

#endif
