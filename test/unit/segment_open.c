/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transport opens a segment: the first that reaches such memory and does not fail. Two
 * made-up transports reach this rank, which src/host/ has connected to itself.
 */
#include "fake_job.h"

#include "core/route.h"
#include "core/subsystem.h"
#include "host/connect.h"
#include "nixlrun.h"
#include "region/region.h"
#include "region/segment.h"
#include "test/unit/unit.h"

#include <stdio.h>

static int first_status, second_status; /* what their segment_open() returns */
static bool is_busy;                    /* what their segment_is_busy() returns */
static int n_closed;

static int made_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int made_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                      size_t why_nbytes)
{
    snprintf(why, why_nbytes, "reaches only the rank itself");
    return scope == NIXL_SCOPE_SELF && kind == NIXL_MEM_HOST ? NIXL_OK : NIXL_E_UNSUPPORTED;
}

static int first_open(struct nxr_segment *segment, int fd, const struct nxr_remote_key *remote)
{
    (void)fd;
    (void)remote;
    snprintf(segment->note, sizeof(segment->note), "not such memory");
    return first_status;
}

static int second_open(struct nxr_segment *segment, int fd, const struct nxr_remote_key *remote)
{
    (void)fd;
    (void)remote;
    segment->method = NXR_METHOD_MEMCPY;
    return second_status;
}

static void made_close(struct nxr_segment *segment)
{
    (void)segment;
    n_closed++;
}

static bool made_is_busy(const struct nxr_segment *segment)
{
    (void)segment;
    return is_busy;
}

static const struct nxr_transport first = {
    .name = "first",
    .cost = 1,
    .probe = made_probe,
    .reach = made_reach,
    .segment_open = first_open,
    .segment_close = made_close,
    .segment_is_busy = made_is_busy,
};
static const struct nxr_transport second = {
    .name = "second",
    .cost = 2,
    .probe = made_probe,
    .reach = made_reach,
    .segment_open = second_open,
    .segment_close = made_close,
    .segment_is_busy = made_is_busy,
};

/* Open this rank's own region, where the two transports answer like this. */
static struct nxr_region_segment *open_own(int first_answer, int second_answer)
{
    struct nxr_region_segment *segment = NULL;

    first_status = first_answer;
    second_status = second_answer;
    nxr_transport_register(&first);
    nxr_transport_register(&second);
    fake_job_start(0);
    pthread_mutex_lock(&nxr_job.lock);
    fake_must(nxr_region_want_segment(nxr_region_open("own"), 0, false, &segment) == NIXL_OK);
    pthread_mutex_unlock(&nxr_job.lock);
    return segment;
}

Test(segment_open, the_first_that_can_opens_it)
{
    struct nxr_region_segment *segment = open_own(NIXL_OK, NIXL_OK);

    cr_assert_eq(segment->state, NXR_SEGMENT_READY);
    cr_expect_str_eq(segment->segment.transport->name, "first");
}

Test(segment_open, the_next_is_tried_where_one_fails)
{
    struct nxr_region_segment *segment = open_own(NIXL_E_UNSUPPORTED, NIXL_OK);

    cr_assert_eq(segment->state, NXR_SEGMENT_READY);
    cr_expect_str_eq(segment->segment.transport->name, "second");
    cr_expect_str_eq(segment->segment.note, "not such memory");
    cr_expect_eq(n_closed, 0);
}

Test(segment_open, the_last_one_says_why_none_can)
{
    struct nxr_region_segment *segment = open_own(NIXL_E_UNSUPPORTED, NIXL_E_NO_MEMORY);

    cr_assert_eq(segment->state, NXR_SEGMENT_FAILED);
    cr_expect_eq(segment->status, NIXL_E_NO_MEMORY);
    cr_expect_eq(n_closed, 0);
}

Test(segment_open, what_is_mapped_at_the_end_is_not_looked_at_in_another_life)
{
    struct nxr_region_segment *segment = open_own(NIXL_OK, NIXL_OK);

    nxr_region_take_map(segment);
    nxr_segment_retire(segment);
    cr_expect_lt(nxr_region_tick(0), INT64_MAX);
    nxr_region_subsystem.stop();
    cr_expect_eq(nxr_region_tick(0), INT64_MAX);
    cr_expect_null(segment->segment.peer);
    cr_expect_eq(n_closed, 0);
}

Test(segment_open, what_was_busy_is_closed_at_the_end)
{
    struct nxr_region_segment *segment = open_own(NIXL_OK, NIXL_OK);

    is_busy = true;
    nxr_segment_retire(segment);
    cr_expect_eq(n_closed, 0);
    is_busy = false;
    nxr_region_subsystem.stop();
    cr_expect_eq(n_closed, 1);
}

Test(segment_open, what_stays_busy_is_not_looked_at_in_another_life)
{
    struct nxr_region_segment *segment = open_own(NIXL_OK, NIXL_OK);

    is_busy = true;
    nxr_segment_retire(segment);
    nxr_region_subsystem.stop();
    is_busy = false;
    cr_expect_eq(nxr_region_tick(0), INT64_MAX);
    cr_expect_eq(n_closed, 0, "its transport knows nothing of it any more");
}
