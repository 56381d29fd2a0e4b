/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Criterion for the unit tests. A failed assertion says its expression, which Criterion's TAP lines
 * leave out, and what the caller adds; cr_assert_eq() and its like say both values, too. Those of
 * cr_assert(eq(int, a, b)) and its like stand in the test's log, before the TAP lines.
 */
#ifndef NXR_TEST_UNIT_H
#define NXR_TEST_UNIT_H

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <stdint.h>

/* Of the optional "format, arguments": what follows behind the text of the assertion. */
#define UNIT_FORMAT(...)        __VA_OPT__(": " UNIT_FIRST(__VA_ARGS__))
#define UNIT_ARGUMENTS(...)     __VA_OPT__(UNIT_REST(__VA_ARGS__))
#define UNIT_FIRST(_first, ...) _first
#define UNIT_REST(_first, ...)  __VA_OPT__(, ) __VA_ARGS__

#define UNIT_ASSERT(_assertion, ...)                                                               \
    cr_assert_user(__FILE__, __LINE__, criterion_abort_test, _assertion, __VA_ARGS__)

#undef cr_assert
#define cr_assert(_assertion, ...)                                                                 \
    UNIT_ASSERT(_assertion, "%s" UNIT_FORMAT(__VA_ARGS__), #_assertion UNIT_ARGUMENTS(__VA_ARGS__))

/* Two integers, or two pointers. */
#define UNIT_COMPARE(_a, _op, _b, ...)                                                             \
    do {                                                                                           \
        intmax_t left_ = (intmax_t)(_a), right_ = (intmax_t)(_b);                                  \
                                                                                                   \
        UNIT_ASSERT(left_ _op right_,                                                              \
                    "%s: left is %jd (0x%jx), right is %jd (0x%jx)" UNIT_FORMAT(__VA_ARGS__),      \
                    #_a " " #_op " " #_b, left_, (uintmax_t)left_, right_,                         \
                    (uintmax_t)right_ UNIT_ARGUMENTS(__VA_ARGS__));                                \
    } while (0)
#undef cr_assert_eq
#undef cr_assert_neq
#undef cr_assert_lt
#undef cr_assert_leq
#undef cr_assert_geq
#define cr_assert_eq(_a, _b, ...)  UNIT_COMPARE(_a, ==, _b, __VA_ARGS__)
#define cr_assert_neq(_a, _b, ...) UNIT_COMPARE(_a, !=, _b, __VA_ARGS__)
#define cr_assert_lt(_a, _b, ...)  UNIT_COMPARE(_a, <, _b, __VA_ARGS__)
#define cr_assert_leq(_a, _b, ...) UNIT_COMPARE(_a, <=, _b, __VA_ARGS__)
#define cr_assert_geq(_a, _b, ...) UNIT_COMPARE(_a, >=, _b, __VA_ARGS__)

#endif
