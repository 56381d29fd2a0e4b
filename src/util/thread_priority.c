/* SPDX-License-Identifier: Apache-2.0 */
/* A higher priority in bursts. State of one thread, without a lock. */
#include "config.h"

#include "util/thread_priority.h"
#include "util/thread.h"

#define RESTED_NS (NXR_PRIORITY_NS / 2) /* must be saved before the next burst */

static int normal_nice, first_nice; /* first_nice < normal_nice: a higher priority is permitted */
static bool thread_priority_is_first;
static bool is_spent;    /* the savings were used up; wait for RESTED_NS */
static int64_t saved_ns; /* how long it may still work with priority */
static int64_t seen_at;
static int64_t keep_until;

/* Lower the nice value. If that is not permitted, do not try again. */
static void go_first(void)
{
    thread_priority_is_first = first_nice < normal_nice && nxr_thread_set_nice(first_nice);
    if (!thread_priority_is_first) {
        first_nice = normal_nice;
    }
}

/* Restore the normal nice value; raising it is always permitted. */
static void step_back(void)
{
    thread_priority_is_first = thread_priority_is_first && !nxr_thread_set_nice(normal_nice);
}

static void save(int64_t elapsed_ns)
{
    saved_ns += elapsed_ns / NXR_PRIORITY_SHARE;
    saved_ns = saved_ns < NXR_PRIORITY_NS ? saved_ns : NXR_PRIORITY_NS;
    is_spent = is_spent && saved_ns < RESTED_NS;
}

/* Find out by trying which nice value is permitted. */
static bool find_permitted(int less_nice)
{
    first_nice = normal_nice - less_nice;
    first_nice = first_nice < NXR_LEAST_NICE ? NXR_LEAST_NICE : first_nice;
    if (first_nice == normal_nice) {
        return true;
    }
    go_first();
    if (!thread_priority_is_first) { /* only as far as the limit permits */
        first_nice = nxr_thread_nice_limit();
        go_first();
    }
    step_back();
    return first_nice < normal_nice;
}

bool nxr_thread_priority_start(int less_nice, int64_t now)
{
    bool is_normal = nxr_thread_hurry();

    normal_nice = nxr_thread_nice();
    thread_priority_is_first = is_spent = false;
    keep_until = 0;
    saved_ns = NXR_PRIORITY_NS;
    seen_at = now;
    return find_permitted(is_normal ? less_nice : 0) && (is_normal || less_nice == 0);
}

void nxr_thread_priority_take(int64_t now, int64_t takes_ns)
{
    int64_t end = now + takes_ns + NXR_PRIORITY_KEEP_NS;

    keep_until = end > keep_until ? end : keep_until;
    if (!thread_priority_is_first && !is_spent && first_nice < normal_nice) {
        go_first();
    }
}

void nxr_thread_priority_woke(int64_t now, bool is_useful)
{
    save(now - seen_at);
    seen_at = now;
    if (!is_useful || now >= keep_until) {
        step_back();
    }
}

void nxr_thread_priority_rests(int64_t now)
{
    save(now - seen_at);
    if (thread_priority_is_first) {
        saved_ns -= now - seen_at;
    }
    seen_at = now;
    if (saved_ns <= 0) {
        saved_ns = 0; /* no debt: the thread may have been stopped for any time */
        is_spent = true;
        step_back();
    }
}
