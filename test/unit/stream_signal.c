/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream that raises a signal and is late: the word is written, and the function behind it runs
 * when the library has been left. A kind of memory whose streams are made up stands in for a GPU.
 */
#include "config.h"

#include "memory/memory.h"

#include "nixlrun.h"
#include "test/unit/unit.h"
#include "test/op_form.h"
#include <stdlib.h>

TestSuite(stream_signal, .timeout = 120);

static void (*late)(void *);
static void *late_argument;

static int fake_write(void *stream, void *word, uint64_t value, char *why, size_t why_nbytes)
{
    (void)stream;
    (void)why;
    (void)why_nbytes;
    *(uint64_t *)word = value;
    return NIXL_OK;
}

static int fake_call(void *stream, void (*function)(void *), void *argument, char *why,
                     size_t why_nbytes)
{
    (void)stream;
    (void)why;
    (void)why_nbytes;
    late = function;
    late_argument = argument;
    return NIXL_OK;
}

static void fake_pin(void *addr, size_t nbytes)
{
    (void)addr;
    (void)nbytes;
}

static const struct nxr_memory_streams fake_streams = {.write = fake_write, .call = fake_call};
static const struct nxr_memory_kind fake_kind = {
    .kind = NIXL_MEM_CUDA, .pin = fake_pin, .streams = &fake_streams};

const struct nxr_memory_kind *__wrap_nxr_memory_stream_kind(void);

const struct nxr_memory_kind *__wrap_nxr_memory_stream_kind(void)
{
    return &fake_kind;
}

Test(stream_signal, a_late_one_touches_nothing_that_is_gone)
{
    struct nixl_region *region;

    setenv("NIXLRUN_FINALIZE_TIMEOUT", "100ms", 1);
    cr_assert(eq(int, nixl_init(NULL), NIXL_OK));
    cr_assert(eq(int, nixl_region_alloc("signals", 4096, NULL, &region), NIXL_OK));
    cr_assert(eq(int,
                 nixl_signal_x(0, region, 8, NIXL_SIGNAL_SET, 5,
                               (struct nixl_op[]){op_stream(NULL)}, NULL),
                 NIXL_OK),
              "%s", nixl_last_error()->text);
    cr_expect(eq(u64, ((uint64_t *)nixl_region_addr(region))[1], 5));
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    late(late_argument);
}
