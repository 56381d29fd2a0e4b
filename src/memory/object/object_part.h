/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting the bytes of a part: which have come. Lock: the set's. */
#ifndef NXR_MEMORY_OBJECT_OBJECT_PART_H
#define NXR_MEMORY_OBJECT_OBJECT_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ranges of bytes that have come, in order, none touching the next. */
struct object_spans {
    size_t n, room;
    struct object_span {
        uint64_t begin, end;
    } * spans;
};

enum object_span_outcome {
    OBJECT_SPAN_ADDED,
    OBJECT_SPAN_OVERLAPS, /* some of the bytes have come before; nothing is changed */
    OBJECT_SPAN_NO_ROOM,  /* no memory, or in too many pieces; nothing is changed */
};

enum object_span_outcome nxr_object_spans_add(struct object_spans *spans, uint64_t begin,
                                              uint64_t end);

/* Are they one range from 0 to nbytes? */
bool nxr_object_spans_are_all(const struct object_spans *spans, uint64_t nbytes);

uint64_t nxr_object_spans_nbytes(const struct object_spans *spans);
void nxr_object_spans_free(struct object_spans *spans);

#endif
