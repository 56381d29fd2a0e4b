/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/type.h
 * Types of values, for words and for reductions.
 */
#ifndef NIXLRUN_TYPE_H
#define NIXLRUN_TYPE_H

/**
 * Types of values. Words, which nixl_atomic() changes, have one of the first six types and are
 * aligned to their size; reductions take all types.
 */
enum nixl_type {
    NIXL_TYPE_INT32 = 0,
    NIXL_TYPE_UINT32 = 1,
    NIXL_TYPE_INT64 = 2,
    NIXL_TYPE_UINT64 = 3,
    NIXL_TYPE_FLOAT = 4,
    NIXL_TYPE_DOUBLE = 5,
    NIXL_TYPE_INT8 = 6,
    NIXL_TYPE_UINT8 = 7,
    NIXL_TYPE_INT16 = 8,
    NIXL_TYPE_UINT16 = 9,
    NIXL_TYPE_FLOAT16 = 10,  /**< IEEE 754 binary16 */
    NIXL_TYPE_BFLOAT16 = 11, /**< the upper half of a float */
};

#endif /* NIXLRUN_TYPE_H */
