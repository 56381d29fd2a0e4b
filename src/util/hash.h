/* SPDX-License-Identifier: Apache-2.0 */
/* A number for some bytes, the same everywhere: FNV-1a. Whoever wants equal ones finds them. */
#ifndef NXR_UTIL_HASH_H
#define NXR_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t nxr_hash(const void *bytes, size_t nbytes)
{
    const unsigned char *at = bytes;
    uint64_t value = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < nbytes; i++) {
        value = (value ^ at[i]) * 0x100000001b3ull;
    }
    return value;
}

#endif
