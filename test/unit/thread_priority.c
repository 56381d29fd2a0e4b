/* SPDX-License-Identifier: Apache-2.0 */
/* Precedence in bursts: by the clock of the tests, but with real nice values. Only a limit between
 * nothing and everything is the test's own, before the kernel's: to raise RLIMIT_NICE takes
 * CAP_SYS_RESOURCE, which root in a container has not. */
#include "config.h"

#include "util/thread_priority.h"
#include "util/thread.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each test is a process: it changes the nice value of its only thread. */
#define START_NICE 10
#define LESS       15
#define FIRST_NICE (START_NICE - LESS)
#define BURST_NS   NXR_PRIORITY_NS
#define SHARE      NXR_PRIORITY_SHARE
#define KEEP_NS    NXR_PRIORITY_KEEP_NS

static int64_t now = 1000;
static int limit = NXR_LEAST_NICE; /* the least nice value that the test permits */

/* What the library calls, and Criterion with it. */
int setpriority(__priority_which_t which, id_t who, int nice)
{
    if (nice < limit) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_setpriority, which, who, nice);
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *found)
{
    int error = (int)syscall(SYS_prlimit64, 0, resource, NULL, found);

    if (error == 0 && resource == RLIMIT_NICE && limit > NXR_LEAST_NICE) {
        found->rlim_cur = (rlim_t)(20 - limit);
    }
    return error;
}

static void start(void)
{
    cr_assert(nxr_thread_set_nice(START_NICE), "a higher one is always permitted");
}

TestSuite(precedence, .timeout = 60, .init = start);

/* Begin with something long, or skip the test. */
static void begin(int less_nice)
{
    if (!nxr_thread_priority_start(less_nice, now)) {
        cr_expect(eq(int, nxr_thread_nice(), START_NICE));
        cr_skip("lowering nice is not permitted");
    }
    cr_expect(eq(int, nxr_thread_nice(), START_NICE), "there is nothing to do yet");
    nxr_thread_priority_take(now, 0);
}

static void work_short(int64_t ns)
{
    nxr_thread_priority_woke(now, true);
    now += ns;
    nxr_thread_priority_rests(now);
}

static void work(int64_t ns)
{
    nxr_thread_priority_woke(now, true);
    nxr_thread_priority_take(now, 0);
    now += ns;
    nxr_thread_priority_rests(now);
}

Test(precedence, none_is_asked_for)
{
    cr_expect(nxr_thread_priority_start(0, now));
    work(10 * BURST_NS);
    now += 100 * BURST_NS;
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}

Test(precedence, none_before_it_is_started)
{
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}

Test(precedence, it_holds_for_a_burst)
{
    begin(LESS);
    for (int i = 0; i < 100; i++) {
        now += KEEP_NS - 1;
        work(KEEP_NS / 10);
        cr_expect(eq(int, nxr_thread_nice(), FIRST_NICE));
    }
    work_short(1);
    cr_expect(eq(int, nxr_thread_nice(), FIRST_NICE), "something short in between");
    now += KEEP_NS;
    work_short(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE), "nothing long since");
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), FIRST_NICE));
}

Test(precedence, it_holds_as_long_as_something_takes)
{
    begin(LESS);
    nxr_thread_priority_take(now, 2 * KEEP_NS);
    nxr_thread_priority_take(now, 0);
    now += 3 * KEEP_NS - 1;
    work_short(1);
    cr_expect(eq(int, nxr_thread_nice(), FIRST_NICE));
    work_short(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}

Test(precedence, it_ends_where_it_is_of_no_use)
{
    begin(LESS);
    nxr_thread_priority_woke(now, false);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
    nxr_thread_priority_rests(now);
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), FIRST_NICE));
}

Test(precedence, one_that_works_on_gives_it_back)
{
    begin(LESS);
    for (int i = 0; i < 100; i++) {
        work(BURST_NS / 50);
    }
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}

Test(precedence, it_comes_back_with_time)
{
    begin(LESS);
    work(2 * BURST_NS);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE), "a burst that never ends");
    now += BURST_NS / 4 * SHARE;
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE), "it has not saved enough");
    now += BURST_NS / 2 * SHARE;
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), FIRST_NICE));
}

Test(precedence, others_keep_their_part_of_the_core)
{
    int64_t first_ns = 0, end;
    const int64_t step_ns = BURST_NS / 50;

    begin(LESS);
    end = now + 100 * BURST_NS;
    while (now < end) {
        work(step_ns);
        first_ns += nxr_thread_nice() == FIRST_NICE ? step_ns : 0;
    }
    cr_expect(lt(long, (long)first_ns, (long)(100 * BURST_NS / SHARE + 2 * BURST_NS)));
    cr_expect(gt(long, (long)first_ns, (long)(100 * BURST_NS / SHARE / 2)), "and it has its own");
}

Test(precedence, a_thread_that_was_stopped_does_not_pay_for_that)
{
    begin(LESS);
    work(1000 * BURST_NS);
    now += BURST_NS * SHARE;
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), FIRST_NICE));
}

Test(precedence, nice_has_an_end)
{
    begin(LESS);
    for (int i = 0; i < 3; i++) { /* from where it is by then */
        cr_expect(nxr_thread_priority_start(20, now));
        work(1);
        cr_expect(eq(int, nxr_thread_nice(), NXR_LEAST_NICE));
    }
}

Test(precedence, nothing_changes_where_it_is_not_permitted)
{
    const struct rlimit none = {0, 0};

    cr_assert(eq(int, setrlimit(RLIMIT_NICE, &none), 0));
    if (setegid(65534) != 0 || seteuid(65534) != 0) {
        cr_skip("this user cannot become another one, and may be allowed to lower nice");
    }
    cr_expect(not(nxr_thread_priority_start(LESS, now)));
    work(2 * BURST_NS);
    now += BURST_NS * SHARE;
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}

Test(precedence, as_much_as_is_permitted)
{
    limit = START_NICE - 5;
    cr_expect(nxr_thread_priority_start(LESS, now));
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE - 5));
    work(2 * BURST_NS);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
    now += BURST_NS * SHARE;
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE - 5));
}

Test(precedence, permission_may_be_lost)
{
    const struct rlimit none = {0, 0};

    begin(LESS);
    cr_assert(eq(int, setrlimit(RLIMIT_NICE, &none), 0));
    if (setegid(65534) != 0 || seteuid(65534) != 0) {
        cr_skip("this user cannot become another one");
    }
    work(2 * BURST_NS);
    now += BURST_NS * SHARE;
    work(1);
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}

Test(precedence, another_policy_stays_as_it_is)
{
    const struct sched_param none = {.sched_priority = 0};

    cr_assert(eq(int, sched_setscheduler(0, SCHED_BATCH, &none), 0));
    cr_expect(not(nxr_thread_priority_start(LESS, now)));
    cr_expect(eq(int, nxr_thread_nice(), START_NICE));
}
