/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that share cores: does the library know that there are too few ("few"), or enough
 * ("enough")? With "mixed", one rank finds its cores too few and the others do not: the collectives
 * of a team must still agree on how they proceed.
 */
#include "core/job.h"
#include "mptest.h"
#include "util/coll_table.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART_NBYTES (96ul << 10)

static void check_judgement(bool is_few)
{
    if (!is_few && sysconf(_SC_NPROCESSORS_ONLN) < nixl_local_size()) {
        mpt_skip("this machine has fewer cores than the job ranks");
    }
    MPT_EQ(nxr_job.is_oversubscribed, is_few);
    MPT_TRUE(!is_few || !nxr_job.has_spare_core);
}

/* Parts of a buffer for all members, from each to each. */
static uint64_t seed_of(int from, int to)
{
    return 1000u * (uint64_t)from + (uint64_t)to;
}

static void check_exchanges(struct nixl_team *team)
{
    int me = nixl_rank(), n = nixl_size();
    char *src = malloc((size_t)n * PART_NBYTES), *dst = calloc((size_t)n, PART_NBYTES);

    MPT_TRUE(src != NULL && dst != NULL);
    for (int i = 0; i < n; i++) {
        mpt_fill(src + (size_t)i * PART_NBYTES, PART_NBYTES, seed_of(me, i));
    }
    MPT_OK(nixl_alltoall(team, src, dst, PART_NBYTES, MPT_PATIENCE));
    for (int i = 0; i < n; i++) {
        MPT_CHECK(dst + (size_t)i * PART_NBYTES, PART_NBYTES, seed_of(i, me));
    }
    MPT_OK(nixl_allgather(team, src, dst, PART_NBYTES, MPT_PATIENCE));
    for (int i = 0; i < n; i++) {
        MPT_CHECK(dst + (size_t)i * PART_NBYTES, PART_NBYTES, seed_of(i, 0));
    }
    free(src);
    free(dst);
}

static void check_reduction(struct nixl_team *team)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    int32_t *src = malloc(PART_NBYTES), *dst = calloc(1, PART_NBYTES);
    int n = nixl_size();

    MPT_TRUE(src != NULL && dst != NULL);
    args.src = src;
    args.dst = dst;
    args.count = PART_NBYTES / sizeof(*src);
    args.type = NIXL_TYPE_INT32;
    args.op = NIXL_REDUCE_SUM;
    for (size_t i = 0; i < args.count; i++) {
        src[i] = (int32_t)i + nixl_rank();
    }
    MPT_OK(nixl_allreduce(team, &args, MPT_PATIENCE));
    for (size_t i = 0; i < args.count; i++) {
        MPT_EQ(dst[i], n * (int32_t)i + n * (n - 1) / 2);
    }
    free(src);
    free(dst);
}

static void check_mixed(void)
{
    struct nixl_team *team = NULL;

    nxr_job.is_oversubscribed = nixl_rank() == 1;
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    check_exchanges(team);
    check_reduction(team);
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    nixl_team_free(team);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mpt_start();
    MPT_OK(nixl_init(NULL));
    if (strcmp(what, "mixed") == 0) {
        check_mixed();
    } else {
        check_judgement(strcmp(what, "few") == 0);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
