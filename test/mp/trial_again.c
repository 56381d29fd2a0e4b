/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team measures the paths of large data again after 32 calls, then after 256, or more if the path
 * that it has not chosen takes much longer; and so on. It also does for a prepared call, which was
 * made while the team had chosen; and for buffers in regions (argument "regions"), which it finds
 * again after calls on others. All results are right meanwhile, and the log shows each choice.
 */
#include "mptest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NBYTES = 64 << 10, N_WORDS = NBYTES / sizeof(uint64_t) };

/*
 * Calls from one choice to the next one: of both paths four times, and of the chosen one. Where
 * others take the processor, one path may seem to take any time.
 */
enum {
    N_TRIED = 8,
    N_SOON = N_TRIED + 32,
    N_LEAST = N_TRIED + 256,
    N_MOST = N_TRIED + 16384,
    DOUBTFUL = 2 /* beyond, the second time need not be soon */
};

static atomic_int n_choices;
static float slots_us, in_place_us; /* by the last one */

static void count_choices(enum nixl_log_level level, const char *subsystem, const char *text,
                          void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    text = strstr(text, ": again") == NULL ? strstr(text, "slots ") : NULL;
    if (text != NULL && sscanf(text, "slots %f us, %*s %f us", &slots_us, &in_place_us) == 2) {
        atomic_fetch_add(&n_choices, 1);
    }
}

/* By the call, or by what was prepared of it. */
static void add_up(struct nixl_team *team, const struct nixl_reduce_args *sum,
                   struct nixl_coll *coll, uint64_t call)
{
    uint64_t *src = (uint64_t *)(uintptr_t)sum->src;
    const uint64_t *dst = sum->dst;

    for (size_t i = 0; i < N_WORDS; i++) {
        src[i] = call + i;
    }
    MPT_OK(coll == NULL ? nixl_allreduce(team, sum, MPT_PATIENCE)
                        : nixl_coll_start(coll, MPT_PATIENCE));
    for (size_t i = 0; i < N_WORDS; i++) {
        MPT_EQ(dst[i], (call + i) * (uint64_t)nixl_size());
    }
}

/* Until the team has chosen once more, which all members do in the same call; how many calls. */
static int await_choice(struct nixl_team *team, const struct nixl_reduce_args *sum,
                        struct nixl_coll *coll, int n_most)
{
    int n_before = atomic_load(&n_choices), n = 0;

    while (atomic_load(&n_choices) == n_before && n < n_most) {
        add_up(team, sum, coll, (uint64_t)n++);
    }
    return n;
}

/* How many times as long the slower path took. */
static float longer(void)
{
    return slots_us < in_place_us ? in_place_us / slots_us : slots_us / in_place_us;
}

static struct nixl_coll *prepare(struct nixl_team *team, const struct nixl_reduce_args *sum)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_coll *coll = NULL;

    op.flags = NIXL_OP_PREPARE;
    op.coll_p = &coll;
    op.timeout_ns = MPT_PATIENCE;
    MPT_OK(nixl_allreduce_x(team, sum, &op, NULL));
    return coll;
}

/* The second time soon, the third time later. */
static void choose_again(struct nixl_team *team, const struct nixl_reduce_args *sum)
{
    MPT_LT(N_SOON - 1, await_choice(team, sum, NULL, longer() < DOUBTFUL ? N_SOON + 1 : N_MOST));
    MPT_LT(N_LEAST - 1, await_choice(team, sum, NULL, N_MOST));
    MPT_EQ((int)n_choices, 3);
}

/* In no region, and then by a prepared call. */
static void test_anywhere(struct nixl_team *team, const struct nixl_reduce_args *sum)
{
    struct nixl_coll *coll;

    (void)await_choice(team, sum, NULL, N_TRIED + 1);
    if (n_choices == 0) {
        mpt_skip("no choice: the kernel refuses process_vm calls here");
    }
    choose_again(team, sum);
    coll = prepare(team, sum);
    MPT_LT(N_LEAST - N_TRIED, await_choice(team, sum, coll, N_MOST));
    MPT_EQ((int)n_choices, 4);
    MPT_OK(nixl_coll_free(coll));
}

/* Calls on buffers elsewhere end the trial that has begun, or what was agreed. */
static void test_in_regions(struct nixl_team *team, const struct nixl_reduce_args *elsewhere)
{
    struct nixl_reduce_args sum = *elsewhere;
    struct nixl_region *region = NULL;
    int n_before;

    MPT_OK(nixl_region_alloc("operands", 2 * NBYTES, NULL, &region));
    sum.src = nixl_region_addr(region);
    sum.dst = (char *)nixl_region_addr(region) + NBYTES;
    for (uint64_t call = 0; call < N_TRIED; call++) {
        add_up(team, call == N_TRIED - 1 ? elsewhere : &sum, NULL, call);
    }
    MPT_EQ((int)n_choices, 0);
    (void)await_choice(team, &sum, NULL, N_LEAST);
    MPT_EQ((int)n_choices, 1);
    choose_again(team, &sum);
    for (uint64_t call = 0; call < N_SOON; call++) {
        add_up(team, elsewhere, NULL, call);
    }
    n_before = n_choices; /* how those are moved may have been chosen, too */
    (void)await_choice(team, &sum, NULL, N_MOST);
    MPT_EQ((int)n_choices, n_before + 1);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    struct nixl_reduce_args sum = NIXL_REDUCE_ARGS_INIT;
    struct nixl_team *team = NULL;

    mpt_start();
    nixl_log_set_fn(count_choices, NULL);
    sum.src = malloc(NBYTES);
    sum.dst = malloc(NBYTES);
    sum.count = N_WORDS;
    sum.type = NIXL_TYPE_UINT64;
    sum.op = NIXL_REDUCE_SUM;
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    if (argc > 1 && strcmp(argv[1], "regions") == 0) {
        test_in_regions(team, &sum);
    } else {
        test_anywhere(team, &sum);
    }
    nixl_team_free(team);
    nixl_log_set_fn(NULL, NULL);
    MPT_OK(nixl_finalize());
    free((void *)(uintptr_t)sum.src);
    free(sum.dst);
    return mpt_passed();
}
