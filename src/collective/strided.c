/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All to all with strides: some blocks for each member at a time are gathered, exchanged, and
 * scattered. All members cut alike, although each has its own strides. No lock, no state.
 */
#include "config.h"

#include "collective/call.h"
#include "collective/device.h"
#include "collective/strided.h"

#include <stdlib.h>

#define SCRATCH_NBYTES ((size_t)4 << 20) /* unless one block of each member takes more */

/* Blocks of all members that are moved in one round, and their temporary buffers. */
struct round {
    const struct nxr_strided *what;
    size_t first;
    size_t n; /* for each member */
    char *out;
    char *in;
};

static size_t index_of(const struct round *round, int member, size_t i)
{
    return (size_t)member * round->what->nblocks + round->first + i;
}

static int strided_pack(struct nixl_team *team, const struct round *round)
{
    const struct nxr_strided *what = round->what;
    char *to = round->out;
    int status = NIXL_OK;

    for (int member = 0; member < team->size; member++) {
        for (size_t i = 0; i < round->n && status == NIXL_OK; i++) {
            const char *from =
                (const char *)what->src + index_of(round, member, i) * what->src_stride;

            status = nxr_team_copy(team, to, from, what->block_nbytes);
            to += what->block_nbytes;
        }
    }
    return status;
}

static int unpack(struct nixl_team *team, const struct round *round)
{
    const struct nxr_strided *what = round->what;
    const char *from = round->in;
    int status = NIXL_OK;

    for (int member = 0; member < team->size; member++) {
        for (size_t i = 0; i < round->n && status == NIXL_OK; i++) {
            char *to = (char *)what->dst + index_of(round, member, i) * what->dst_stride;

            status = nxr_team_copy(team, to, from, what->block_nbytes);
            from += what->block_nbytes;
        }
    }
    return status;
}

static int strided_run_round(struct nixl_team *team, const struct round *round)
{
    const struct nxr_call call = {.kind = NXR_CALL_EXCHANGE,
                                  .exchange = {.all_send = true,
                                               .all_receive = true,
                                               .is_private = true,
                                               .src = round->out,
                                               .dst = round->in,
                                               .nbytes = round->n * round->what->block_nbytes}};
    int status = strided_pack(team, round);

    if (status == NIXL_OK) {
        status = nxr_call_run_on_host(team, &call);
    }
    return status == NIXL_OK ? unpack(team, round) : status;
}

int nxr_strided_alltoall(struct nixl_team *team, const struct nxr_strided *what)
{
    size_t size = (size_t)team->size, n = SCRATCH_NBYTES / size / what->block_nbytes;
    struct round round = {.what = what};
    int status = NIXL_OK;

    if (what->nblocks == 0) {
        return NIXL_OK;
    }
    n = n > 0 ? n : 1;
    n = n < what->nblocks ? n : what->nblocks;
    round.out = malloc(size * n * what->block_nbytes);
    round.in = malloc(size * n * what->block_nbytes);
    if (round.out == NULL || round.in == NULL) {
        status = nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
    }
    for (; round.first < what->nblocks && status == NIXL_OK; round.first += n) {
        size_t left = what->nblocks - round.first;

        round.n = left < n ? left : n;
        status = strided_run_round(team, &round);
    }
    free(round.out);
    free(round.in);
    return status;
}
