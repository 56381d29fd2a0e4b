/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce: the mean of numbers that are spread over all ranks. Run it as
 *
 *     nixlrun -np 4 allreduce
 *
 * Each rank has some measurements. The search for the largest one is started, and waited for later.
 * Meanwhile the team of all ranks adds up the number of measurements and their sums, in one call;
 * then every rank has the result.
 */
#include <nixlrun.h>

#include <stdio.h>

#define N_MINE(_rank) (10 + (_rank)) /* measurements of a rank */

/* End the whole job if a call failed, with the library's error message. */
static void must(int status)
{
    if (status < 0) {
        nixl_abort(1, nixl_last_error()->text);
    }
}

int main(void)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_team *team;
    struct nixl_req *req = NULL;
    double totals[2] = {0, 0}, largest = 0; /* their number, their sum */

    must(nixl_init(NULL));
    must(nixl_team_world(NIXL_FOREVER, &team));
    for (int i = 0; i < N_MINE(nixl_rank()); i++) {
        double value = i * (nixl_rank() + 1); /* the measurement */

        totals[0] += 1;
        totals[1] += value;
        largest = value > largest ? value : largest;
    }

    /* In place: the source is the destination. */
    args.src = args.dst = &largest;
    args.count = 1;
    args.type = NIXL_TYPE_DOUBLE;
    args.op = NIXL_REDUCE_MAX;
    must(nixl_allreduce_x(team, &args, NULL, &req));

    /* Collectives of a team run in the order of the calls: this one runs after the other. */
    args.src = args.dst = totals;
    args.count = 2;
    args.op = NIXL_REDUCE_SUM;
    must(nixl_allreduce(team, &args, NIXL_FOREVER));
    must(nixl_req_wait(&req, NIXL_FOREVER));

    if (nixl_team_rank(team) == 0) {
        printf("%.0f numbers, mean %.3f, largest %.0f\n", totals[0], totals[1] / totals[0],
               largest);
    }
    must(nixl_team_free(team));
    return nixl_finalize();
}
