/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective on a team, with every byte checked: for a team whose members are of several jobs
 * or have come back. What a member has for another one depends on both and on a seed.
 */
#include "mptest.h"

#include <stdlib.h>
#include <string.h>

struct checked {
    struct nixl_team *team;
    int size, me, root;
    size_t nwords; /* for each member */
    uint64_t seed;
    int32_t *src, *dst;
};

/* The k-th word that member `from` has for member `to`. Small: sums of a thousand have room. */
static int32_t word_of(const struct checked *of, int from, int to, size_t k)
{
    uint64_t value = of->seed * 0x9e3779b97f4a7c15ull + (uint64_t)from * 0x1000193 +
                     (uint64_t)to * 0x10001 + k * 0x85ebca6bull;

    return (int32_t)((value ^ value >> 29) & 0xfffff);
}

static int32_t sum_of(const struct checked *of, int n_members, int to, size_t k)
{
    int32_t sum = 0;

    for (int from = 0; from < n_members; from++) {
        sum += word_of(of, from, to, k);
    }
    return sum;
}

/* What member `me` must have at the k-th word of part `part` of dst. */
static int32_t expected(const struct checked *of, enum mpt_collective which, int part, size_t k)
{
    switch (which) {
    case MPT_BROADCAST:
        return word_of(of, of->root, 0, k);
    case MPT_SCATTER:
    case MPT_SCATTERV:
        return word_of(of, of->root, of->me, k);
    case MPT_GATHER:
    case MPT_GATHERV:
    case MPT_ALLGATHER:
    case MPT_ALLGATHERV:
        return word_of(of, part, 0, k);
    case MPT_ALLTOALL:
    case MPT_ALLTOALLV:
        return word_of(of, part, of->me, k);
    case MPT_REDUCE_SCATTER:
        return sum_of(of, of->size, of->me, k);
    case MPT_SCAN:
        return sum_of(of, of->me + 1, 0, k);
    default:
        return sum_of(of, of->size, 0, k);
    }
}

static bool has_result(const struct checked *of, enum mpt_collective which)
{
    bool is_rooted = which == MPT_GATHER || which == MPT_GATHERV || which == MPT_REDUCE;

    return which != MPT_BARRIER && (!is_rooted || of->me == of->root);
}

static int n_parts(const struct checked *of, enum mpt_collective which)
{
    switch (which) {
    case MPT_GATHER:
    case MPT_GATHERV:
    case MPT_ALLGATHER:
    case MPT_ALLGATHERV:
    case MPT_ALLTOALL:
    case MPT_ALLTOALLV:
        return of->size;
    default:
        return 1;
    }
}

static void check_one(const struct checked *of, enum mpt_collective which)
{
    const struct mpt_call call = {
        .team = of->team,
        .root = of->root,
        .src = of->src,
        .dst = of->dst,
        .nbytes = of->nwords * sizeof(int32_t),
    };

    memset(of->dst, 0xa5, (size_t)of->size * call.nbytes);
    if (which == MPT_BROADCAST && of->me == of->root) {
        memcpy(of->dst, of->src, call.nbytes);
    }
    MPT_OK(mpt_collective(which, &call, NULL));
    for (int part = 0; has_result(of, which) && part < n_parts(of, which); part++) {
        for (size_t k = 0; k < of->nwords; k++) {
            int32_t wanted = expected(of, which, part, k);

            if (of->dst[(size_t)part * of->nwords + k] != wanted) {
                mpt_fail(__FILE__, __LINE__,
                         "collective %d, member %d: word %zu of part %d is %d, not %d", (int)which,
                         of->me, k, part, of->dst[(size_t)part * of->nwords + k], wanted);
            }
        }
    }
}

void mpt_check_team(struct nixl_team *team, uint64_t seed, size_t nwords)
{
    struct checked of = {
        .team = team,
        .size = nixl_team_size(team),
        .me = nixl_team_rank(team),
        .nwords = nwords,
        .seed = seed,
    };
    size_t nbytes = (size_t)of.size * nwords * sizeof(int32_t);

    of.src = malloc(nbytes);
    of.dst = malloc(nbytes);
    MPT_TRUE(of.src != NULL && of.dst != NULL);
    for (int to = 0; to < of.size; to++) {
        for (size_t k = 0; k < nwords; k++) {
            of.src[(size_t)to * nwords + k] = word_of(&of, of.me, to, k);
        }
    }
    for (int which = MPT_BARRIER; which < MPT_N_COLLECTIVES; which++) {
        of.root = (int)((seed + (uint64_t)which) % (uint64_t)of.size);
        check_one(&of, (enum mpt_collective)which);
    }
    free(of.src);
    free(of.dst);
}
