/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges of bytes of a part that have come. No state. */
#include "config.h"

#include "memory/object/object_part.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SPANS 65536

static bool spans_grow(struct object_spans *spans)
{
    size_t room = spans->room > 0 ? 2 * spans->room : 4;
    struct object_span *larger;

    if (spans->n < spans->room) {
        return true;
    }
    larger = room <= MAX_SPANS ? realloc(spans->spans, room * sizeof(*larger)) : NULL;
    if (larger == NULL) {
        return false;
    }
    spans->spans = larger;
    spans->room = room;
    return true;
}

/* How many lie before `begin`: all that end at it or earlier. */
static size_t spans_before(const struct object_spans *spans, uint64_t begin)
{
    size_t low = 0, high = spans->n;

    if (high > 0 && spans->spans[high - 1].end <= begin) {
        return high; /* bytes mostly come in order */
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (spans->spans[middle].end <= begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

enum object_span_outcome nxr_object_spans_add(struct object_spans *spans, uint64_t begin,
                                              uint64_t end)
{
    size_t at = spans_before(spans, begin);
    struct object_span *all = spans->spans;
    bool joins_before, joins_after;

    if (at < spans->n && all[at].begin < end) {
        return OBJECT_SPAN_OVERLAPS;
    }
    joins_before = at > 0 && all[at - 1].end == begin;
    joins_after = at < spans->n && all[at].begin == end;
    if (joins_before && joins_after) {
        all[at - 1].end = all[at].end;
        memmove(&all[at], &all[at + 1], (spans->n - at - 1) * sizeof(*all));
        spans->n--;
    } else if (joins_before) {
        all[at - 1].end = end;
    } else if (joins_after) {
        all[at].begin = begin;
    } else {
        if (!spans_grow(spans)) {
            return OBJECT_SPAN_NO_ROOM;
        }
        all = spans->spans;
        memmove(&all[at + 1], &all[at], (spans->n - at) * sizeof(*all));
        all[at] = (struct object_span){begin, end};
        spans->n++;
    }
    return OBJECT_SPAN_ADDED;
}

bool nxr_object_spans_are_all(const struct object_spans *spans, uint64_t nbytes)
{
    return spans->n == 1 && spans->spans[0].begin == 0 && spans->spans[0].end == nbytes;
}

uint64_t nxr_object_spans_nbytes(const struct object_spans *spans)
{
    uint64_t nbytes = 0;

    for (size_t i = 0; i < spans->n; i++) {
        nbytes += spans->spans[i].end - spans->spans[i].begin;
    }
    return nbytes;
}

void nxr_object_spans_free(struct object_spans *spans)
{
    free(spans->spans);
    *spans = (struct object_spans){0};
}
