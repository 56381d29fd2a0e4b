/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of one line. */
#ifndef NXR_UTIL_LINE_H
#define NXR_UTIL_LINE_H

#include <string.h>

/* Replace what ends a line, which names of the program and texts of others may have. */
static inline void nxr_make_line(char *text)
{
    while ((text = strpbrk(text, "\n\r")) != NULL) {
        *text = ' ';
    }
}

#endif /* NXR_UTIL_LINE_H */
