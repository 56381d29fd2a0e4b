/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the host could still give. */
#ifndef NXR_UTIL_AVAILABLE_H
#define NXR_UTIL_AVAILABLE_H

#include <stdint.h>

/*
 * Bytes that could be touched now before the kernel has to kill for them: what it holds available,
 * and free swap. UINT64_MAX where it does not tell. `path` is /proc/meminfo or a file like it.
 */
uint64_t nxr_available_nbytes(const char *path);

#endif
