/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of a part have come: in any order, and none of them twice. */
#include "memory/object/object_part.h"
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

TestSuite(object_part, .timeout = 120);

Test(object_part, bytes_in_order_are_one_span)
{
    struct object_spans spans = {0};

    for (uint64_t at = 0; at < 1000; at += 10) {
        cr_expect(false == nxr_object_spans_are_all(&spans, 1000));
        cr_expect(nxr_object_spans_add(&spans, at, at + 10) == OBJECT_SPAN_ADDED);
        cr_expect(eq(sz, spans.n, 1));
    }
    cr_expect(nxr_object_spans_are_all(&spans, 1000));
    cr_expect(false == nxr_object_spans_are_all(&spans, 1001));
    nxr_object_spans_free(&spans);
    cr_expect(eq(u64, nxr_object_spans_nbytes(&spans), 0));
}

Test(object_part, what_comes_twice_is_seen)
{
    struct object_spans spans = {0};

    cr_expect(nxr_object_spans_add(&spans, 10, 20) == OBJECT_SPAN_ADDED);
    cr_expect(nxr_object_spans_add(&spans, 30, 40) == OBJECT_SPAN_ADDED);
    cr_expect(nxr_object_spans_add(&spans, 19, 21) == OBJECT_SPAN_OVERLAPS);
    cr_expect(nxr_object_spans_add(&spans, 5, 11) == OBJECT_SPAN_OVERLAPS);
    cr_expect(nxr_object_spans_add(&spans, 12, 13) == OBJECT_SPAN_OVERLAPS);
    cr_expect(nxr_object_spans_add(&spans, 0, 100) == OBJECT_SPAN_OVERLAPS);
    cr_expect(eq(u64, nxr_object_spans_nbytes(&spans), 20));
    cr_expect(nxr_object_spans_add(&spans, 20, 30) == OBJECT_SPAN_ADDED);
    cr_expect(eq(sz, spans.n, 1));
    cr_expect(nxr_object_spans_add(&spans, 0, 10) == OBJECT_SPAN_ADDED);
    cr_expect(nxr_object_spans_are_all(&spans, 40));
    nxr_object_spans_free(&spans);
}

/* Against one flag for each byte. */
Test(object_part, any_order_is_as_one_flag_for_each_byte)
{
    enum { N = 200 };
    unsigned seed = 1;

    for (int round = 0; round < 300; round++) {
        struct object_spans spans = {0};
        char has[N] = {0};
        uint64_t n = 0;

        while (n < N) {
            uint64_t begin = (uint64_t)rand_r(&seed) % N;
            uint64_t end = begin + 1 + (uint64_t)rand_r(&seed) % 20;
            bool is_new;

            end = end < N ? end : N;
            is_new = memchr(has + begin, 1, end - begin) == NULL;
            cr_assert(nxr_object_spans_add(&spans, begin, end) ==
                      (is_new ? OBJECT_SPAN_ADDED : OBJECT_SPAN_OVERLAPS));
            if (is_new) {
                memset(has + begin, 1, end - begin);
                n += end - begin;
            }
            cr_assert(eq(u64, nxr_object_spans_nbytes(&spans), n));
            cr_assert(nxr_object_spans_are_all(&spans, N) == (n == N));
        }
        nxr_object_spans_free(&spans);
    }
}
