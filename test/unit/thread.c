/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduling of the library's threads. */
#include "util/thread.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/resource.h>
#include <unistd.h>

/* Each test is a process: it changes the nice value of its only thread. */
#define START_NICE 10

static int nice_now(void)
{
    return getpriority(PRIO_PROCESS, 0);
}

static void start(void)
{
    cr_assert(eq(int, setpriority(PRIO_PROCESS, 0, START_NICE), 0));
}

TestSuite(thread, .timeout = 60, .init = start);

Test(thread, hurry_alone_keeps_the_nice_value)
{
    cr_expect(nxr_thread_hurry(0));
    cr_expect(eq(int, nice_now(), START_NICE));
}

Test(thread, nice_is_lowered_where_that_is_permitted)
{
    bool is_permitted = nxr_thread_hurry(5);

    cr_expect(eq(int, nice_now(), is_permitted ? START_NICE - 5 : START_NICE));
}

Test(thread, nice_has_an_end)
{
    for (int i = 0; i < 3; i++) {
        int before = nice_now(), wanted = before - 20 < -20 ? -20 : before - 20;
        bool is_permitted = nxr_thread_hurry(20);

        cr_expect(eq(int, nice_now(), is_permitted ? wanted : before));
    }
}

Test(thread, nothing_happens_where_nice_must_not_be_lowered)
{
    const struct rlimit none = {0, 0};

    cr_assert(eq(int, setrlimit(RLIMIT_NICE, &none), 0));
    if (setegid(65534) != 0 || seteuid(65534) != 0) {
        cr_skip("this user cannot become another one, and may be allowed to lower nice");
    }
    cr_expect(not(nxr_thread_hurry(5)));
    cr_expect(eq(int, nice_now(), START_NICE));
}
