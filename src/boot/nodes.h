/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks share a host, as the launcher counts hosts. */
#ifndef NXR_BOOT_NODES_H
#define NXR_BOOT_NODES_H

#include <stdint.h>

/*
 * Ask the launcher, once per join; `nspace` is "" if there is none. Cannot fail: if the launcher
 * does not answer, or not within the time (5 s at most), each rank counts as a host of its own.
 */
void nxr_nodes_read(const char *nspace, int size, int64_t timeout_ns);

#endif
