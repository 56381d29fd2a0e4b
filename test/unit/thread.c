/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduling of the library's threads. */
#include "config.h"

#include "util/thread.h"

#include "test/unit/unit.h"
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

/* Each test is a process: it changes the nice value of its only thread. */
#define START_NICE 10

static void start(void)
{
    cr_assert(nxr_thread_set_nice(START_NICE), "a higher one is always permitted");
}

TestSuite(thread, .timeout = 60, .init = start);

Test(thread, hurry_keeps_the_nice_value)
{
    cr_expect(nxr_thread_hurry());
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
    cr_expect(eq(int, sched_getscheduler(0), SCHED_OTHER));
}

Test(thread, hurry_keeps_another_policy)
{
    const struct sched_param none = {.sched_priority = 0};

    cr_assert(eq(int, sched_setscheduler(0, SCHED_BATCH, &none), 0));
    cr_expect(not(nxr_thread_hurry()));
    cr_expect(eq(int, sched_getscheduler(0), SCHED_BATCH));
}

Test(thread, the_nice_value_is_of_the_thread)
{
    cr_expect(nxr_thread_set_nice(START_NICE + 2));
    cr_expect(eq(int, nxr_thread_nice(), START_NICE + 2));
    cr_expect(eq(int, getpriority(PRIO_PROCESS, (id_t)gettid()), START_NICE + 2));
}

Test(thread, a_lower_nice_value_may_be_forbidden)
{
    const struct rlimit none = {0, 0};

    cr_assert(eq(int, setrlimit(RLIMIT_NICE, &none), 0));
    if (setegid(65534) != 0 || seteuid(65534) != 0) {
        cr_skip("this user cannot become another one, and may be allowed to lower nice");
    }
    cr_expect(not(nxr_thread_set_nice(START_NICE - 1)));
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}
