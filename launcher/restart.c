/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --on-failure restart: a rank that has failed is started again, after a delay, as often as the
 * option allows. The guardian reports the end of such a rank when no process of its group is left,
 * so two processes of one rank never live at once. Meanwhile the rank counts as living: the job
 * goes on, and the others' nixl_init() waits for it. Main thread only; no state but the ranks'.
 */
#include "config.h"

#include "launcher/ending.h"
#include "launcher/local.h"
#include "launcher/sink.h"
#include "util/clock.h"

#include <stdio.h>

#define OUTPUT_NS (10 * NXR_MS) /* between looks whether the output has been passed on */

void restart_end(struct rank *rank)
{
    rank->state = RANK_ENDED;
    rank->space->n_live--;
    session.n_live--;
}

static void restart_is_due(struct loop_timer *timer)
{
    struct rank *rank = LOOP_OWNER(timer, struct rank, restart_timer);

    if (!rank->start_again(rank)) {
        loop_timer_set(timer, nxr_now_ns() + OUTPUT_NS);
    }
}

bool restart_rank(struct rank *rank, const char *why, bool (*start_again)(struct rank *rank))
{
    const struct launch_job *job = session.job;

    if (job->on_failure != ON_FAILURE_RESTART || rank->space->number > 0) {
        return false;
    }
    if (rank->n_restarts >= job->most_restarts) {
        sink_say("%s on host %s (pid %d) %s; it was started again %d times, as often as "
                 "--on-failure restart=%d allows: the job ends",
                 rank_name(rank), session.host, (int)rank->pid, why, rank->n_restarts,
                 job->most_restarts);
        return false;
    }
    sink_say("%s on host %s (pid %d) %s; it is started again (%d of %d)", rank_name(rank),
             session.host, (int)rank->pid, why, rank->n_restarts + 1, job->most_restarts);
    rank->state = RANK_WAITING;
    rank->space->n_live++;
    session.n_live++;
    rank->start_again = start_again;
    rank->restart_timer.fire = restart_is_due;
    loop_timer_set(&rank->restart_timer, nxr_deadline(job->restart_delay_ns));
    return true;
}

int restart_give_up(void)
{
    int code = 0;

    for (int i = 0; i < session.n_ranks; i++) {
        struct rank *rank = session.ranks[i];

        if (rank->state == RANK_WAITING) {
            loop_timer_clear(&rank->restart_timer);
            restart_end(rank);
            if (code == 0) { /* one that ended with 0 has failed, too */
                code = ending_code(rank->wait_status);
                code = code != 0 ? code : LAUNCH_EXIT_FAILED;
            }
        }
    }
    return code;
}

void restart_say_sum(void)
{
    for (int i = 0; i < session.n_ranks; i++) {
        const struct rank *rank = session.ranks[i];

        if (rank->n_restarts > 0) {
            sink_say("%s was started again %d time%s", rank_name(rank), rank->n_restarts,
                     rank->n_restarts == 1 ? "" : "s");
        }
    }
}
