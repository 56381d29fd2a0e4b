/* SPDX-License-Identifier: Apache-2.0 */
/* Unpredictable random bytes. Depends on nothing else in the library. */
#ifndef NXR_UTIL_RANDOM_H
#define NXR_UTIL_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>
#include <sys/types.h>

/*
 * Fill in up to 256 bytes, all or none. False, with errno: the kernel provides none, for example
 * under seccomp.
 */
static inline bool nxr_random(void *bytes, size_t nbytes)
{
    return getrandom(bytes, nbytes, 0) == (ssize_t)nbytes;
}

#endif
