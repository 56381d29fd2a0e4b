/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the number of edits between an unknown name and a known one. No state. */
#include "util/nearest.h"

#include <string.h>

unsigned nxr_edit_distance(const char *a, const char *b)
{
    size_t a_len = strnlen(a, 63), b_len = strnlen(b, 63);
    unsigned row[64];

    for (size_t j = 0; j <= b_len; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[b_len];
}
