/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does when its launcher is gone, or says that a rank is. The test sets the time. */
#include "fake_job.h"

#include "host/liveness.h"
#include "nixlrun.h"
#include "test/unit/unit.h"
#include "util/clock.h"
#include "util/env.h"

static void start(void)
{
    fake_job_start(0);
    fake_must(nxr_peer_get(1) != NULL);
}

/* The type of the next event, or -1. */
static int next_event(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    return nixl_event_recv(0, &event) == NIXL_OK ? (int)event.type : -1;
}

Test(liveness, an_orphan_has_its_grace_once, .init = start, .fini = fake_job_stop)
{
    int64_t before = nxr_now_ns(), due;

    nxr_env.orphan_grace = 7 * NXR_S;
    cr_expect_eq(nxr_liveness_tick(before), INT64_MAX, "it has a launcher");
    nxr_liveness_from_launcher(-1);
    due = nxr_liveness_tick(before);
    cr_expect(due >= before + nxr_env.orphan_grace && due <= nxr_now_ns() + nxr_env.orphan_grace);
    cr_expect_eq(next_event(), NIXL_EVENT_LAUNCHER_LOST);
    nxr_env.orphan_grace = 9 * NXR_S;
    nxr_liveness_from_launcher(-1);
    cr_expect_eq(nxr_liveness_tick(due - 1), due, "the second word of it changes nothing");
    cr_expect_eq(next_event(), -1);
    nxr_liveness_stop();
    cr_expect_eq(nxr_liveness_tick(due), INT64_MAX, "the next job has a launcher again");
    nxr_liveness_from_launcher(-1);
    cr_expect_lt(due, nxr_liveness_tick(due), "and its own grace");
}

Test(liveness, an_orphan_ends_when_its_grace_is_over, .init = start, .exit_code = 1)
{
    nxr_env.orphan_grace = 7 * NXR_S;
    nxr_liveness_from_launcher(-1);
    nxr_liveness_tick(nxr_liveness_tick(0));
}

Test(liveness, the_launcher_tells_of_deaths, .init = start, .fini = fake_job_stop)
{
    nxr_liveness_from_launcher(FAKE_SIZE);
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_ALIVE);
    cr_expect_eq(next_event(), -1);
    nxr_liveness_from_launcher(1);
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_LOST);
    cr_expect_eq(nixl_peer_state(2), NIXL_PEER_ALIVE);
    cr_expect_eq(next_event(), NIXL_EVENT_PEER_LOST);
    cr_expect_eq(next_event(), -1);
}
