/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that nobody can guess. Needs nothing above it. */
#ifndef NXR_UTIL_RANDOM_H
#define NXR_UTIL_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>
#include <sys/types.h>

/* Up to 256 bytes, all or none. False, with errno: the kernel gives none, as under seccomp. */
static inline bool nxr_random(void *bytes, size_t nbytes)
{
    return getrandom(bytes, nbytes, 0) == (ssize_t)nbytes;
}

#endif
