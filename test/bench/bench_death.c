/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon a rank hears of a peer's death: every rank but 0 kills itself in turn, by SIGKILL, while
 * rank 0 waits on it, once spinning, once sleeping. Needs `nixlrun --on-failure continue`. The
 * moment of the kill goes through rank 0's own memory, so it outlives the dead.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TAG_DIE    1
#define DYING_NS   50000000 /* from the order to the death: what the last one stirred up is over */
#define DEATH_GOAL 1e6      /* ns, p99 */

static void die_on_order(struct bench *bench)
{
    struct timespec pause = nxr_timespec(DYING_NS);
    struct nixl_note note;

    nixl_note_init(&note);
    bench_check(nixl_notify_recv(0, TAG_DIE, UINT64_MAX, NIXL_FOREVER, &note), "nixl_notify_recv");
    nanosleep(&pause, NULL);
    atomic_store_explicit(&bench->page->stamp_ns, nxr_now_ns(), memory_order_release);
    kill(getpid(), SIGKILL);
}

/* Order one rank to die and wait on it; nanoseconds from its kill to the failure here. */
static double watch_death(struct bench *bench, int victim, bool is_spinning)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    bench_check(nixl_notify(victim, TAG_DIE, NULL, 0, BENCH_TIMEOUT_NS), "nixl_notify");
    do {
        status = nixl_notify_recv(victim, 0, 0, is_spinning ? 0 : BENCH_TIMEOUT_NS, &note);
    } while (status == NIXL_INPROGRESS);
    if (status != NIXL_E_PEER_LOST) {
        bench_check(status, "waiting for a death");
        bench_die("nixl_bench: a dying rank sent something");
    }
    return (double)(nxr_now_ns() -
                    atomic_load_explicit(&bench->page->stamp_ns, memory_order_acquire));
}

void test_death(struct bench *bench)
{
    static const char *const whats[] = {"death seen while sleeping", "death seen while spinning"};
    double *samples[2];
    long n_samples[2] = {0, 0};

    if (bench->rank != 0) {
        die_on_order(bench);
    }
    for (int i = 0; i < 2; i++) {
        samples[i] = malloc((size_t)bench->size * sizeof(*samples[i]));
        if (samples[i] == NULL) {
            bench_die("no memory for samples");
        }
    }
    for (int victim = 1; victim < bench->size; victim++) {
        int is_spinning = victim % 2;

        samples[is_spinning][n_samples[is_spinning]++] = watch_death(bench, victim, is_spinning);
    }
    for (int i = 0; i < 2; i++) {
        struct bench_stats stats;

        if (n_samples[i] > 0) {
            sample_stats(samples[i], n_samples[i], &stats);
            report_row(bench, &(struct bench_row){.test = "death",
                                                  .what = whats[i],
                                                  .unit = "ns",
                                                  .value = stats.median_ns,
                                                  .p99 = stats.p99_ns,
                                                  .min = stats.min_ns,
                                                  .goal = DEATH_GOAL,
                                                  .is_goal_p99 = true});
        }
        free(samples[i]);
    }
    bench->size = 1; /* the others are gone: barriers do not wait for them */
}
