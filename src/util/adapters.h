/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this host has network adapters that move bytes themselves. */
#ifndef NXR_UTIL_ADAPTERS_H
#define NXR_UTIL_ADAPTERS_H

#include <stdbool.h>

/*
 * Is there anything that UCX or libfabric could use without the kernel's sockets: RDMA (InfiniBand,
 * RoCE, EFA, Omni-Path) or Slingshot? `root` is "" or, for tests, a folder that has sys/ and dev/.
 */
bool nxr_adapters_exist(const char *root);

#endif
