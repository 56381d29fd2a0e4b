/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the TCP network spreads bulk: what it measures, when, and what follows. */
#include "transports/tcp/choice.h"

#include "test/unit/unit.h"

#define KIB    ((uint64_t)1024)
#define NBYTES (512 * KIB)

static struct nxr_tcp_choice choice;

/* One operation by itself; it takes so long if it is measured. Returns its way. */
static enum nxr_tcp_way operate(uint64_t nbytes, int64_t spread_ns, int64_t alone_ns)
{
    enum nxr_tcp_way way = nxr_tcp_choose(&choice, nbytes, 2);

    if (way != NXR_TCP_WHOLE) {
        nxr_tcp_learn(&choice, nxr_tcp_class_of(nbytes), way, nbytes,
                      way == NXR_TCP_SPREAD ? spread_ns : alone_ns);
    }
    return way;
}

/* All trials before a rest: four are enough if the first rail alone is far slower. */
static void try_both(uint64_t nbytes, int64_t spread_ns, int64_t alone_ns)
{
    unsigned n_trials = spread_ns < alone_ns / 4 * 3 ? 4 : 2 * NXR_TCP_N_TRIALS;

    for (unsigned i = 0; i < n_trials; i++) {
        enum nxr_tcp_way expected = i % 2 == 0 ? NXR_TCP_SPREAD : NXR_TCP_ALONE;

        cr_expect(eq(int, (int)operate(nbytes, spread_ns, alone_ns), (int)expected), "by turns");
    }
}

static void begin(void)
{
    nxr_tcp_choice_renew(&choice);
}

TestSuite(tcp_choice, .timeout = 60, .init = begin);

Test(tcp_choice, classes_of_sizes)
{
    cr_expect(eq(uint, nxr_tcp_class_of(256 * KIB), 0));
    cr_expect(eq(uint, nxr_tcp_class_of(512 * KIB - 1), 0));
    cr_expect(eq(uint, nxr_tcp_class_of(512 * KIB), 1));
    cr_expect(eq(uint, nxr_tcp_class_of(4096 * KIB - 1), 3));
    cr_expect(eq(uint, nxr_tcp_class_of(4096 * KIB), 4));
    cr_expect(eq(uint, nxr_tcp_class_of(32 * 1024 * KIB), NXR_TCP_N_CLASSES - 1));
    cr_expect(eq(uint, nxr_tcp_class_of(UINT64_MAX), NXR_TCP_N_CLASSES - 1));
}

Test(tcp_choice, bulk_is_spread_until_both_ways_are_known)
{
    cr_expect(eq(int, (int)nxr_tcp_best(&choice, NBYTES), NXR_TCP_SPREAD));
    for (unsigned i = 0; i < 2 * NXR_TCP_N_TRIALS; i++) {
        (void)nxr_tcp_choose(&choice, NBYTES, 2); /* none is by itself */
    }
    cr_expect(eq(int, (int)nxr_tcp_choose(&choice, NBYTES, 2), NXR_TCP_SPREAD));
}

/* Ten gigabytes by one slow rail would take minutes. */
Test(tcp_choice, what_takes_too_long_by_the_first_alone_is_not_tried)
{
    const uint64_t nbytes = 64 * 1024 * KIB;

    cr_expect(eq(int, (int)nxr_tcp_choose(&choice, nbytes, 2), NXR_TCP_SPREAD));
    cr_expect(eq(int, (int)nxr_tcp_choose(&choice, nbytes, 2), NXR_TCP_SPREAD), "unknown");
    nxr_tcp_learn(&choice, nxr_tcp_class_of(nbytes), NXR_TCP_SPREAD, nbytes, 101 * NXR_MS);
    cr_expect(eq(int, (int)nxr_tcp_choose(&choice, nbytes, 2), NXR_TCP_SPREAD));
    cr_expect(eq(int, (int)nxr_tcp_choose(&choice, nbytes / 2, 4), NXR_TCP_SPREAD));
    cr_expect(eq(int, (int)nxr_tcp_choose(&choice, nbytes / 2, 2), NXR_TCP_ALONE));
}

Test(tcp_choice, slow_networks_spread_and_fast_ones_do_not)
{
    try_both(NBYTES, 2000000, 4000000);
    cr_expect(eq(int, (int)operate(NBYTES, 0, 0), NXR_TCP_SPREAD));
    try_both(256 * KIB, 86000, 61000);
    cr_expect(eq(int, (int)operate(256 * KIB, 0, 0), NXR_TCP_WHOLE));
    cr_expect(eq(int, (int)operate(NBYTES, 0, 0), NXR_TCP_SPREAD), "each class by itself");
    try_both(32 * 1024 * KIB, 9500000, 10000000);
    cr_expect(eq(int, (int)operate(32 * 1024 * KIB, 0, 0), NXR_TCP_WHOLE), "it hardly helps");
    cr_expect(eq(int, (int)operate(UINT64_MAX, 0, 0), NXR_TCP_WHOLE), "of the same class");
}

Test(tcp_choice, some_disturbed_trials_decide_nothing)
{
    for (unsigned i = 0; i < 2 * NXR_TCP_N_TRIALS; i++) {
        bool is_disturbed = i / 2 == 1 || i / 2 == 3;

        (void)operate(NBYTES, is_disturbed ? 1 : 86000, is_disturbed ? 99999999 : 61000);
    }
    cr_expect(eq(int, (int)nxr_tcp_best(&choice, NBYTES), NXR_TCP_WHOLE));
}

Test(tcp_choice, it_is_measured_again_after_rests_that_grow)
{
    unsigned rest = NXR_TCP_REST;

    for (unsigned round = 0; round < 7; round++) {
        bool is_fast = round % 2 == 0;

        try_both(NBYTES, is_fast ? 86000 : 2000000, is_fast ? 61000 : 4000000);
        for (unsigned i = 0; i < rest; i++) {
            cr_assert(
                eq(int, (int)operate(NBYTES, 1, 1), is_fast ? NXR_TCP_WHOLE : NXR_TCP_SPREAD));
        }
        rest = 2 * rest < NXR_TCP_LAST_REST ? 2 * rest : NXR_TCP_LAST_REST;
    }
}

Test(tcp_choice, other_rails_are_measured_at_once)
{
    try_both(NBYTES, 86000, 61000);
    nxr_tcp_choice_renew(&choice);
    cr_expect(eq(int, (int)nxr_tcp_best(&choice, NBYTES), NXR_TCP_SPREAD));
    try_both(NBYTES, 2000000, 4000000);
    cr_expect(eq(int, (int)operate(NBYTES, 0, 0), NXR_TCP_SPREAD));
}
