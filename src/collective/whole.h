/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of elements that are larger than NXR_ELEMENT_MAX, of any size. */
#ifndef NXR_COLLECTIVE_WHOLE_H
#define NXR_COLLECTIVE_WHOLE_H

#include "collective/node_collective.h"

/* As nxr_call_run(). Buffers may be device memory; the caller's function gets host memory. */
int nxr_whole_reduce(struct nixl_team *team, const struct nxr_reduction *what);

#endif
