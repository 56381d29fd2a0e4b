/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream that raises a signal and is late: the word is written, and the function behind it runs
 * when the library has been left. Streams are stood in for by two wrapped functions.
 */
#include "config.h"

#include "memory/cuda/stream.h"

#include "nixlrun.h"
#include "test/unit/unit.h"
#include <stdlib.h>

TestSuite(stream_signal, .timeout = 120);

static void (*late)(void *);
static void *late_argument;

int __wrap_nxr_stream_write(void *stream, void *word, uint64_t value, char *why, size_t why_nbytes);
int __wrap_nxr_stream_call(void *stream, void (*function)(void *), void *argument, char *why,
                           size_t why_nbytes);

int __wrap_nxr_stream_write(void *stream, void *word, uint64_t value, char *why, size_t why_nbytes)
{
    (void)stream;
    (void)why;
    (void)why_nbytes;
    *(uint64_t *)word = value;
    return NIXL_OK;
}

int __wrap_nxr_stream_call(void *stream, void (*function)(void *), void *argument, char *why,
                           size_t why_nbytes)
{
    (void)stream;
    (void)why;
    (void)why_nbytes;
    late = function;
    late_argument = argument;
    return NIXL_OK;
}

Test(stream_signal, a_late_one_touches_nothing_that_is_gone)
{
    struct nixl_region *region;

    setenv("NIXLRUN_FINALIZE_TIMEOUT", "100ms", 1);
    cr_assert(eq(int, nixl_init(NULL), NIXL_OK));
    cr_assert(eq(int, nixl_region_alloc("signals", 4096, NULL, &region), NIXL_OK));
    cr_assert(eq(int, nixl_signal_set_on_stream(0, region, 8, 5, NULL), NIXL_OK), "%s",
              nixl_last_error()->text);
    cr_expect(eq(u64, ((uint64_t *)nixl_region_addr(region))[1], 5));
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    late(late_argument);
}
