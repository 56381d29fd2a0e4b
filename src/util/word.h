/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations on a word in shared memory, by type and operation. All of the library's
 * accesses to a word, from whichever process, come here: processor atomics, one atomicity domain.
 */
#ifndef NXR_UTIL_WORD_H
#define NXR_UTIL_WORD_H

#include "nixlrun.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One operation, also on the wire; a value's bits stand in the first bytes of its field. */
struct nxr_atomic {
    uint8_t op;   /* enum nixl_atomic_op, or NXR_ATOMIC_COMPARE_SWAP */
    uint8_t type; /* enum nixl_type */
    uint8_t unused[6];
    uint64_t offset;
    uint64_t operand;
    uint64_t compare;
};
_Static_assert(sizeof(struct nxr_atomic) == 32, "fixed on the wire");

#define NXR_ATOMIC_COMPARE_SWAP 7

/* A store of 2, 4 or 8 bytes, which `type` says and not an enum nixl_type: a put of a word. */
#define NXR_ATOMIC_STORE 8

/* Bytes of a value of the type; 0 for a type that does not exist. */
static inline size_t nxr_type_nbytes(unsigned type)
{
    if (type > NIXL_DOUBLE) {
        return 0;
    }
    return type == NIXL_INT64 || type == NIXL_UINT64 || type == NIXL_DOUBLE ? 8 : 4;
}

/* Does the operation exist for the type? Bits are combined in whole numbers only. */
static inline bool nxr_atomic_is_valid(unsigned type, unsigned op)
{
    bool is_float = type == NIXL_FLOAT || type == NIXL_DOUBLE;
    bool is_bits = op == NIXL_ATOMIC_AND || op == NIXL_ATOMIC_OR || op == NIXL_ATOMIC_XOR;

    return type <= NIXL_DOUBLE && op <= NXR_ATOMIC_COMPARE_SWAP && !(is_float && is_bits);
}

/* Bytes of the word that is changed; 0: there is no such change. */
static inline size_t nxr_atomic_nbytes(const struct nxr_atomic *atomic)
{
    return atomic->op == NXR_ATOMIC_STORE ? atomic->type : nxr_type_nbytes(atomic->type);
}

static inline bool nxr_word_is_put(size_t nbytes)
{
    return nbytes == 2 || nbytes == 4 || nbytes == 8;
}

/* May a peer on this host ask for it? All that a call makes, and puts of words. */
static inline bool nxr_atomic_is_asked(const struct nxr_atomic *atomic)
{
    return atomic->op == NXR_ATOMIC_STORE ? nxr_word_is_put(atomic->type)
                                          : nxr_atomic_is_valid(atomic->type, atomic->op);
}

/* Values that the caller has, of 4 or 8 bytes, as the bits in which they travel; and back. */
static inline uint64_t nxr_word_load_value(const void *value, size_t nbytes)
{
    uint64_t bits = 0;

    if (nbytes == sizeof(bits)) {
        memcpy(&bits, value, sizeof(bits));
    } else {
        memcpy(&bits, value, sizeof(uint32_t));
    }
    return bits;
}

static inline void nxr_word_store_value(void *value, uint64_t bits, size_t nbytes)
{
    if (nbytes == sizeof(bits)) {
        memcpy(value, &bits, sizeof(bits));
    } else {
        memcpy(value, &bits, sizeof(uint32_t));
    }
}

/* What nxr_atomic_apply() leaves to a call: any valid operation. */
uint64_t nxr_atomic_apply_any(void *addr, const struct nxr_atomic *atomic);

/*
 * Do a valid operation, sequentially consistent; the value from before, in the first bytes. `addr`
 * is aligned. Adding 64-bit whole numbers, which signals do, stands here and not behind a call.
 */
static inline uint64_t nxr_atomic_apply(void *addr, const struct nxr_atomic *atomic)
{
    if (atomic->op == NIXL_ATOMIC_ADD &&
        (atomic->type == NIXL_UINT64 || atomic->type == NIXL_INT64)) {
        return atomic_fetch_add((_Atomic uint64_t *)addr, atomic->operand);
    }
    return nxr_atomic_apply_any(addr, atomic);
}

#endif
