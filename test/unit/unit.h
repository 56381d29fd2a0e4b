/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Criterion for the unit tests. A failed assertion says its expression, which Criterion's TAP lines
 * leave out, and what the caller adds; cr_assert_eq(), cr_expect_eq() and their like say both
 * values, too. Those of cr_assert(eq(int, a, b)) and its like stand in the test's log, before the
 * TAP lines.
 */
#ifndef NXR_TEST_UNIT_H
#define NXR_TEST_UNIT_H

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

/* Of the optional "format, arguments": what follows behind the text of the assertion. */
#define UNIT_FORMAT(...)        __VA_OPT__(": " UNIT_FIRST(__VA_ARGS__))
#define UNIT_ARGUMENTS(...)     __VA_OPT__(UNIT_REST(__VA_ARGS__))
#define UNIT_FIRST(_first, ...) _first
#define UNIT_REST(_first, ...)  __VA_OPT__(, ) __VA_ARGS__

/* What is done after a failure: _after below. */
#define UNIT_END   criterion_abort_test
#define UNIT_GO_ON criterion_continue_test

#define UNIT_CHECK(_after, _assertion, ...)                                                        \
    cr_assert_user(__FILE__, __LINE__, _after, _assertion, "%s" UNIT_FORMAT(__VA_ARGS__),          \
                   #_assertion UNIT_ARGUMENTS(__VA_ARGS__))

/* Two integers, or two pointers. */
#define UNIT_COMPARE(_after, _a, _op, _b, ...)                                                     \
    do {                                                                                           \
        intmax_t left_ = (intmax_t)(_a), right_ = (intmax_t)(_b);                                  \
                                                                                                   \
        cr_assert_user(__FILE__, __LINE__, _after, left_ _op right_,                               \
                       "%s: left is %jd (0x%jx), right is %jd (0x%jx)" UNIT_FORMAT(__VA_ARGS__),   \
                       #_a " " #_op " " #_b, left_, (uintmax_t)left_, right_,                      \
                       (uintmax_t)right_ UNIT_ARGUMENTS(__VA_ARGS__));                             \
    } while (0)

#define UNIT_TEXTS(_after, _a, _op, _b, ...)                                                       \
    do {                                                                                           \
        const char *left_ = (_a), *right_ = (_b);                                                  \
                                                                                                   \
        cr_assert_user(__FILE__, __LINE__, _after, strcmp(left_, right_) _op 0,                    \
                       "%s: left is '%s', right is '%s'" UNIT_FORMAT(__VA_ARGS__),                 \
                       #_a " " #_op " " #_b, left_, right_ UNIT_ARGUMENTS(__VA_ARGS__));           \
    } while (0)

#undef cr_assert
#undef cr_assert_eq
#undef cr_assert_neq
#undef cr_assert_lt
#undef cr_assert_leq
#undef cr_assert_geq
#undef cr_assert_str_eq
#define cr_assert(_what, ...)         UNIT_CHECK(UNIT_END, _what, __VA_ARGS__)
#define cr_assert_eq(_a, _b, ...)     UNIT_COMPARE(UNIT_END, _a, ==, _b, __VA_ARGS__)
#define cr_assert_neq(_a, _b, ...)    UNIT_COMPARE(UNIT_END, _a, !=, _b, __VA_ARGS__)
#define cr_assert_lt(_a, _b, ...)     UNIT_COMPARE(UNIT_END, _a, <, _b, __VA_ARGS__)
#define cr_assert_leq(_a, _b, ...)    UNIT_COMPARE(UNIT_END, _a, <=, _b, __VA_ARGS__)
#define cr_assert_geq(_a, _b, ...)    UNIT_COMPARE(UNIT_END, _a, >=, _b, __VA_ARGS__)
#define cr_assert_str_eq(_a, _b, ...) UNIT_TEXTS(UNIT_END, _a, ==, _b, __VA_ARGS__)

#undef cr_expect
#undef cr_expect_eq
#undef cr_expect_neq
#undef cr_expect_lt
#undef cr_expect_str_eq
#undef cr_expect_str_neq
#define cr_expect(_what, ...)          UNIT_CHECK(UNIT_GO_ON, _what, __VA_ARGS__)
#define cr_expect_eq(_a, _b, ...)      UNIT_COMPARE(UNIT_GO_ON, _a, ==, _b, __VA_ARGS__)
#define cr_expect_neq(_a, _b, ...)     UNIT_COMPARE(UNIT_GO_ON, _a, !=, _b, __VA_ARGS__)
#define cr_expect_lt(_a, _b, ...)      UNIT_COMPARE(UNIT_GO_ON, _a, <, _b, __VA_ARGS__)
#define cr_expect_str_eq(_a, _b, ...)  UNIT_TEXTS(UNIT_GO_ON, _a, ==, _b, __VA_ARGS__)
#define cr_expect_str_neq(_a, _b, ...) UNIT_TEXTS(UNIT_GO_ON, _a, !=, _b, __VA_ARGS__)

#endif
