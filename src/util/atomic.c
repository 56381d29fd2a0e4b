/* SPDX-License-Identifier: Apache-2.0 */
/* The processor's atomics, selected by type and operation. No state. */
#include "config.h"

#include "util/atomic.h"

#include <string.h>

/* The processor has no atomic floating-point addition: compare and swap until the sum is stored. */
#define DEFINE_ADD_FLOATING(_type, _bits)                                                          \
    static uint##_bits##_t add_##_type(_Atomic uint##_bits##_t *word, uint##_bits##_t operand)     \
    {                                                                                              \
        union {                                                                                    \
            uint##_bits##_t bits;                                                                  \
            _type value;                                                                           \
        } before = {.bits = atomic_load(word)}, addend = {.bits = operand}, after;                 \
                                                                                                   \
        do {                                                                                       \
            after.value = before.value + addend.value;                                             \
        } while (!atomic_compare_exchange_weak(word, &before.bits, after.bits));                   \
        return before.bits;                                                                        \
    }

DEFINE_ADD_FLOATING(float, 32)
DEFINE_ADD_FLOATING(double, 64)

/* A store of `nbytes`; the bits of the value are in the first bytes of the operand. */
static void store(void *addr, size_t nbytes, uint64_t operand)
{
    uint32_t bits32;
    uint16_t bits16;

    memcpy(&bits32, &operand, sizeof(bits32));
    memcpy(&bits16, &operand, sizeof(bits16));
    if (nbytes == sizeof(uint64_t)) {
        atomic_store((_Atomic uint64_t *)addr, operand);
    } else if (nbytes == sizeof(bits32)) {
        atomic_store((_Atomic uint32_t *)addr, bits32);
    } else {
        atomic_store((_Atomic uint16_t *)addr, bits16);
    }
}

uint64_t nxr_atomic_apply_any(void *addr, unsigned type, unsigned op, uint64_t operand,
                              uint64_t compare)
{
    uint32_t operand32, compare32, before32;
    uint64_t before = 0;

    if (op == NXR_ATOMIC_STORE) {
        store(addr, type, operand);
        return 0;
    }
    if (nxr_type_nbytes(type) == 8) {
        return type == NIXL_TYPE_DOUBLE && op == NIXL_ATOMIC_ADD
                   ? add_double(addr, operand)
                   : nxr_atomic_apply_64(addr, op, operand, compare);
    }
    memcpy(&operand32, &operand, sizeof(operand32));
    memcpy(&compare32, &compare, sizeof(compare32));
    before32 = type == NIXL_TYPE_FLOAT && op == NIXL_ATOMIC_ADD
                   ? add_float(addr, operand32)
                   : nxr_atomic_apply_32(addr, op, operand32, compare32);
    memcpy(&before, &before32, sizeof(before32));
    return before;
}
