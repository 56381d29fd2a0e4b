/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the launcher's own small tables: if it runs out, nixlrun prints a line and exits. */
#ifndef NIXLRUN_LAUNCHER_XALLOC_H
#define NIXLRUN_LAUNCHER_XALLOC_H

#include "launcher/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *x_checked(void *memory)
{
    if (memory == NULL) {
        fputs("nixlrun: out of memory\n", stderr);
        exit(LAUNCH_EXIT_FAILED);
    }
    return memory;
}

/* Room for n elements; n may be 0. */
static inline void *x_array(void *old, size_t n, size_t element_nbytes)
{
    size_t nbytes;

    if (__builtin_mul_overflow(n > 0 ? n : 1, element_nbytes, &nbytes)) {
        return x_checked(NULL);
    }
    return x_checked(realloc(old, nbytes));
}

/* Zeroed room for n elements. */
static inline void *x_calloc(size_t n, size_t element_nbytes)
{
    return x_checked(calloc(n > 0 ? n : 1, element_nbytes));
}

static inline char *x_strdup(const char *text)
{
    return x_checked(strdup(text));
}

static inline char *x_strndup(const char *text, size_t nbytes)
{
    return x_checked(strndup(text, nbytes));
}

#endif
