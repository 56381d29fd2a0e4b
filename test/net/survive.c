/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that goes on after a death, under an engine that would end it: the rank given as argument
 * kills itself once all have joined. The others hear of it, on its host or, with a second argument,
 * on all hosts, live on for longer than engines take to react, and leave in order.
 */
#include <nixlrun.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EVENT_NS 60000000000
#define AFTER_S  2 /* Slurm's plugin kills the step one second after a rank that it still serves */

static void hear_of(int victim)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    if (nixl_event_recv(EVENT_NS, &event) != NIXL_OK || event.type != NIXL_EVENT_PEER_LOST ||
        event.rank != victim) {
        fprintf(stderr, "rank %d has not heard of the death: %s\n", nixl_rank(),
                nixl_last_error()->text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const struct timespec after = {.tv_sec = AFTER_S};
    int victim = argc > 1 ? atoi(argv[1]) : 0;
    bool has_network = argc > 2;

    if (nixl_init(NULL) != NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
    if (nixl_rank() == victim) {
        raise(SIGKILL);
    }
    if (has_network || nixl_scope(victim) == NIXL_SCOPE_LOCAL) {
        hear_of(victim);
    }
    nanosleep(&after, NULL);
    printf("rank %d went on\n", nixl_rank());
    return nixl_finalize();
}
