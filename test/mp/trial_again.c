/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team measures the paths of large data again after 256 calls, and so on. All results are right
 * meanwhile, and the log shows each choice.
 */
#include "mptest.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NBYTES = 64 << 10, N_CALLS = 1000, N_WORDS = NBYTES / sizeof(uint64_t) };

static atomic_int n_choices;

static void count_choices(enum nixl_log_level level, const char *subsystem, const char *text,
                          void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    if (strstr(text, "process_vm ") != NULL && strstr(text, "slots ") != NULL) {
        atomic_fetch_add(&n_choices, 1);
    }
}

static void add_up(struct nixl_team *team, uint64_t *src, uint64_t *dst, uint64_t call)
{
    struct nixl_reduce_args reduce = NIXL_REDUCE_ARGS_INIT;

    for (size_t i = 0; i < N_WORDS; i++) {
        src[i] = call + i;
    }
    reduce.src = src;
    reduce.dst = dst;
    reduce.count = N_WORDS;
    reduce.type = NIXL_TYPE_UINT64;
    reduce.op = NIXL_REDUCE_SUM;
    MPT_OK(nixl_allreduce(team, &reduce, MPT_PATIENCE));
    for (size_t i = 0; i < N_WORDS; i++) {
        MPT_EQ(dst[i], (call + i) * (uint64_t)nixl_size());
    }
}

int main(void)
{
    uint64_t *src = malloc(NBYTES), *dst = malloc(NBYTES);
    struct nixl_team *team = NULL;

    mpt_start();
    nixl_log_set_fn(count_choices, NULL);
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    for (uint64_t call = 0; call < N_CALLS; call++) {
        add_up(team, src, dst, call);
    }
    /* At first, in the ninth call, and then in each 264th after that. */
    MPT_EQ((int)n_choices, 4);
    nixl_team_free(team);
    nixl_log_set_fn(NULL, NULL);
    MPT_OK(nixl_finalize());
    free(src);
    free(dst);
    return mpt_passed();
}
