/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's loop, driven by a case: nothing happens between two calls of serve(). */
#ifndef LOOP_CASE_H
#define LOOP_CASE_H

#include "launcher/loop.h"
#include "util/clock.h"

static void tick_fire(struct loop_timer *timer)
{
    (void)timer;
}

/* Let the loop do what is due now. */
static inline void serve(void)
{
    struct loop_timer tick = {.fire = tick_fire};

    for (int i = 0; i < 10; i++) {
        loop_timer_set(&tick, nxr_now_ns() + NXR_MS);
        loop_step();
        loop_timer_clear(&tick);
    }
}

#endif
