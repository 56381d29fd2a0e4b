/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team of the living members of another team. Members that know of different deaths try to make
 * different teams. The members of an attempted team that includes a dead member learn of the death,
 * agree that the team cannot be made, and try again; in the end, all try the same team. Calls are
 * matched by the origin of the team and the list of living ranks (making.h). No lock of its own.
 */
#include "config.h"

#include "collective/later.h"
#include "core/trace.h"
#include "collective/making.h"
#include "util/clock.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdlib.h>

/* The ranks of the living members that do not leave, in order. Returns how many. */
static int find_living(const struct nixl_team *team, int *ranks)
{
    int n = 0;

    for (int i = 0; i < team->size; i++) {
        if (!nxr_team_has_lost(team, i) && !nxr_leaving_is_known(team->ranks[i])) {
            ranks[n++] = team->ranks[i];
        }
    }
    return n;
}

/* An attempt to make a team of the living. */
struct attempt {
    const struct nixl_team *team;
    int *ranks;
    int n_living;
};

/* Are more deaths known than when the attempt started? If so, the next one has fewer members. */
static bool has_news(void *arg)
{
    struct attempt *attempt = arg;
    int n = attempt->n_living;

    attempt->n_living = find_living(attempt->team, attempt->ranks);
    return attempt->n_living != n;
}

/* Failures that may be explained by a death that others know of: it will be known here, too. */
static bool is_of_a_loss(int status)
{
    return status == NIXL_E_PEER_LOST || status == NIXL_E_STALE || status == NIXL_E_CANCELED;
}

static int shrink(struct nixl_team *team, int *ranks, struct nixl_team **team_p)
{
    struct attempt attempt = {.team = team, .ranks = ranks};
    int status;

    attempt.n_living = find_living(team, ranks);
    do {
        struct nxr_wanted wanted =
            nxr_team_of_ranks(team->operation, team->origin, ranks, attempt.n_living);

        status = nxr_making_wait(&wanted, nxr_team_left(team), team_p);
        if (status == NIXL_OK) {
            (*team_p)->origin = team->origin;
        }
        if (!is_of_a_loss(status)) {
            return status;
        }
        const struct nxr_team_wait wait = {team, -1};

        status = nxr_wait_as(has_news, &attempt, nxr_team_left(team), nxr_team_describe, &wait);
    } while (status == NIXL_OK);
    return status == NIXL_E_TIMEOUT
               ? nxr_fail(status, team->operation, -1, "", 0,
                          "the surviving members did not agree in time on which members died")
               : status;
}

static int call_team_shrink(struct nixl_team *team, int64_t timeout_ns, struct nixl_team **team_p)
{
    static const char operation[] = "nixl_team_shrink";
    int status = nxr_team_check_make(operation, timeout_ns, team_p);
    int64_t deadline;
    int *ranks;

    if (status == NIXL_OK) {
        status = nxr_team_check(operation, team);
    }
    if (status != NIXL_OK) {
        return status;
    }
    deadline = nxr_deadline(timeout_ns);
    status = nxr_later_wait(team, timeout_ns);
    if (status != NIXL_OK) {
        return status == NIXL_INPROGRESS
                   ? status
                   : nxr_fail(status, operation, -1, "", 0,
                              "earlier collectives of the team are still in progress");
    }
    ranks = calloc((size_t)team->size, sizeof(int));
    if (ranks == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    nxr_team_begin(team, operation, nxr_left(timeout_ns, deadline));
    status = shrink(team, ranks, team_p);
    free(ranks);
    return status;
}

int nixl_team_shrink(struct nixl_team *team, int64_t timeout_ns, struct nixl_team **team_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_shrink", -1, 0, 0,
                      call_team_shrink(team, timeout_ns, team_p));
}
