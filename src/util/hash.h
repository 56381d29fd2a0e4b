/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of bytes (FNV-1a) and of two numbers, the same on all hosts. */
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

/* Mix two numbers: changing one bit of either changes about half of the result's bits. */
static inline uint64_t nxr_hash_mix(uint64_t a, uint64_t b)
{
    uint64_t value = a * 0x9e3779b97f4a7c15ull + b;

    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9ull;
    value ^= value >> 27;
    value *= 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

#endif
