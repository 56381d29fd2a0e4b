/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations on a word in shared memory, by type and operation. All of the library's accesses
 * to a word, from whichever process, come here: processor atomics, one atomicity domain.
 */
#ifndef NXR_UTIL_WORD_H
#define NXR_UTIL_WORD_H

#include "nixlrun.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* One operation; operand and compare hold the bits of a value of the type in their first bytes. */
struct nxr_atomic {
    uint8_t op;   /* enum nixl_atomic_op, or NXR_ATOMIC_COMPARE_SWAP */
    uint8_t type; /* enum nixl_type */
    uint64_t offset;
    uint64_t operand;
    uint64_t compare;
};

#define NXR_ATOMIC_COMPARE_SWAP 7

/* Bytes of a value of the type; 0 for a type that does not exist. */
static inline size_t nxr_type_nbytes(unsigned type)
{
    static const unsigned char nbytes[] = {4, 4, 8, 8, 4, 8};

    return type < sizeof(nbytes) ? nbytes[type] : 0;
}

/* Does the operation exist for the type? Bits are combined in whole numbers only. */
bool nxr_atomic_is_valid(const struct nxr_atomic *atomic);

/* Do it, sequentially consistent; the value from before, in the first bytes. `addr` is aligned. */
uint64_t nxr_atomic_apply(void *addr, const struct nxr_atomic *atomic);

#endif
