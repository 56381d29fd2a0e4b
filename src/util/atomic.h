/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations on a word in shared memory, by type and operation. All of the library's
 * accesses to a word, from any process, go through these processor atomics, so that they form one
 * atomicity domain.
 */
#ifndef NXR_UTIL_ATOMIC_H
#define NXR_UTIL_ATOMIC_H

#include "nixlrun.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One operation, also used on the wire; the bits of a value are in the first bytes of its field. */
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

/* A put of a word: a store of 2, 4 or 8 bytes. `type` is that size, not an enum nixl_type. */
#define NXR_ATOMIC_STORE 8

/*
 * No change of a word: make durable what was written before to the storage that the region is. It
 * travels as a question like those about words, since it has to keep its place behind puts, too.
 * `type`, `offset`, `operand` and `compare` are 0.
 */
#define NXR_ATOMIC_SYNC 9

/* Size of a value of the type; 0: no such type. */
static inline size_t nxr_type_nbytes(unsigned type)
{
    const unsigned eight = 1u << NIXL_TYPE_INT64 | 1u << NIXL_TYPE_UINT64 | 1u << NIXL_TYPE_DOUBLE;

    return type <= NIXL_TYPE_DOUBLE ? 4u << (eight >> type & 1) : 0;
}

/* Does the operation exist for the type? Bitwise operations exist for integers only. */
static inline bool nxr_atomic_is_valid(unsigned type, unsigned op)
{
    bool is_float = type == NIXL_TYPE_FLOAT || type == NIXL_TYPE_DOUBLE;
    bool is_bits = op == NIXL_ATOMIC_AND || op == NIXL_ATOMIC_OR || op == NIXL_ATOMIC_XOR;

    return type <= NIXL_TYPE_DOUBLE && op <= NXR_ATOMIC_COMPARE_SWAP && !(is_float && is_bits);
}

/* Size of the word that is changed; 0: no such type. A SYNC counts as one of a byte. */
static inline size_t nxr_atomic_nbytes(const struct nxr_atomic *atomic)
{
    return atomic->op == NXR_ATOMIC_STORE  ? atomic->type
           : atomic->op == NXR_ATOMIC_SYNC ? 1
                                           : nxr_type_nbytes(atomic->type);
}

static inline bool nxr_atomic_is_put(size_t nbytes)
{
    return nbytes == 2 || nbytes == 4 || nbytes == 8;
}

/*
 * May a peer ask for it? True for all operations of the public calls, for puts of words, and for a
 * SYNC.
 */
static inline bool nxr_atomic_is_asked(const struct nxr_atomic *atomic)
{
    return atomic->op == NXR_ATOMIC_STORE  ? nxr_atomic_is_put(atomic->type)
           : atomic->op == NXR_ATOMIC_SYNC ? atomic->type == 0 && atomic->offset == 0
                                           : nxr_atomic_is_valid(atomic->type, atomic->op);
}

/* Convert the caller's value of 4 or 8 bytes to the bits in which it is sent, and back. */
static inline uint64_t nxr_atomic_load_value(const void *value, size_t nbytes)
{
    uint64_t bits = 0;

    if (nbytes == sizeof(bits)) {
        memcpy(&bits, value, sizeof(bits));
    } else {
        memcpy(&bits, value, sizeof(uint32_t));
    }
    return bits;
}

static inline void nxr_atomic_store_value(void *value, uint64_t bits, size_t nbytes)
{
    if (nbytes == sizeof(bits)) {
        memcpy(value, &bits, sizeof(bits));
    } else {
        memcpy(value, &bits, sizeof(uint32_t));
    }
}

/* Integers: for all of these operations signed and unsigned ones have the same result bits. */
#define NXR_DEFINE_APPLY_INTEGER(_bits)                                                            \
    static inline uint##_bits##_t nxr_atomic_apply_##_bits(_Atomic uint##_bits##_t *word,          \
                                                           unsigned op, uint##_bits##_t operand,   \
                                                           uint##_bits##_t compare)                \
    {                                                                                              \
        switch (op) {                                                                              \
        case NIXL_ATOMIC_ADD:                                                                      \
            return atomic_fetch_add(word, operand);                                                \
        case NIXL_ATOMIC_AND:                                                                      \
            return atomic_fetch_and(word, operand);                                                \
        case NIXL_ATOMIC_OR:                                                                       \
            return atomic_fetch_or(word, operand);                                                 \
        case NIXL_ATOMIC_XOR:                                                                      \
            return atomic_fetch_xor(word, operand);                                                \
        case NIXL_ATOMIC_FETCH:                                                                    \
            return atomic_load(word);                                                              \
        case NXR_ATOMIC_COMPARE_SWAP:                                                              \
            atomic_compare_exchange_strong(word, &compare, operand);                               \
            return compare;                                                                        \
        default: /* SWAP, SET */                                                                   \
            return atomic_exchange(word, operand);                                                 \
        }                                                                                          \
    }

NXR_DEFINE_APPLY_INTEGER(32)
NXR_DEFINE_APPLY_INTEGER(64)

/*
 * nxr_atomic_apply() for any valid operation, not inlined. It takes the fields one by one: a caller
 * that built the operation in registers need not write it to memory.
 */
uint64_t nxr_atomic_apply_any(void *addr, unsigned type, unsigned op, uint64_t operand,
                              uint64_t compare);

/*
 * Do a valid operation, sequentially consistent. Returns the previous value in the first bytes; 0
 * for NXR_ATOMIC_STORE. `addr` must be aligned. What 64-bit integers need is inlined; signals
 * add and set.
 */
static inline uint64_t nxr_atomic_apply(void *addr, const struct nxr_atomic *atomic)
{
    bool is_store = atomic->op == NXR_ATOMIC_STORE; /* then `type` is a size */

    if (!is_store && (atomic->type == NIXL_TYPE_UINT64 || atomic->type == NIXL_TYPE_INT64)) {
        if (atomic->op == NIXL_ATOMIC_ADD) {
            return atomic_fetch_add((_Atomic uint64_t *)addr, atomic->operand);
        }
        if (atomic->op == NIXL_ATOMIC_SET) {
            return atomic_exchange((_Atomic uint64_t *)addr, atomic->operand);
        }
        return nxr_atomic_apply_64(addr, atomic->op, atomic->operand, atomic->compare);
    }
    return nxr_atomic_apply_any(addr, atomic->type, atomic->op, atomic->operand, atomic->compare);
}

#endif
