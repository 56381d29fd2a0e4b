/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the host can still provide. */
#ifndef NXR_UTIL_AVAILABLE_H
#define NXR_UTIL_AVAILABLE_H

#include <stdint.h>

/*
 * Bytes that can be touched now before the kernel has to kill processes for memory: MemAvailable
 * and free swap. UINT64_MAX if the kernel does not report them. `path` is /proc/meminfo or a file
 * of that format.
 */
uint64_t nxr_available_nbytes(const char *path);

#endif
