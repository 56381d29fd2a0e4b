/* SPDX-License-Identifier: Apache-2.0 */
/* Why agreeing on a team has failed, in words: who is lost, is missing, or disagrees. No lock. */
#include "config.h"

#include "collective/reform_say.h"
#include "util/status.h"

#include <stdio.h>

#define N_NAMED 6 /* members that one line names */

/* "rank 1, rank 4 of job 7f3a0c52", as far as there is room. Returns how many are missing. */
static int reform_name_missing(const struct nxr_reform *reform, char *text, size_t nbytes)
{
    size_t used = 0;
    int n = 0;

    text[0] = '\0';
    for (int i = 0; i < reform->size && i < NXR_REFORM_NAMED; i++) {
        if ((reform->failure.missing[i / 64] >> (i % 64) & 1) == 0) {
            continue;
        }
        if (n++ < N_NAMED) {
            used += (size_t)snprintf(text + used, used < nbytes ? nbytes - used : 0, "%s%s",
                                     n > 1 ? ", " : "", nxr_identity_name(&reform->members[i]));
        }
    }
    if (n > N_NAMED && used < nbytes) {
        snprintf(text + used, nbytes - used, " and %d more", n - N_NAMED);
    }
    return n;
}

static int first_missing(const struct nxr_reform *reform)
{
    for (int i = 0; i < reform->size && i < NXR_REFORM_NAMED; i++) {
        if ((reform->failure.missing[i / 64] >> (i % 64) & 1) != 0) {
            return reform->ranks[i];
        }
    }
    return -1;
}

static int fail_missing(const struct nxr_reform *reform)
{
    int coordinator = reform->ranks[reform->coordinator];
    char names[500];
    int n = reform_name_missing(reform, names, sizeof(names));

    if (reform->failure.is_silent) {
        return nxr_fail(NIXL_E_TIMEOUT, reform->operation, coordinator, "", 0,
                        "%s, the lowest of the members, does not answer: it has not called "
                        "nixl_team_reform for these members, or is stopped",
                        nxr_identity_name(&reform->members[reform->coordinator]));
    }
    if (n == 0) {
        return nxr_fail(NIXL_E_TIMEOUT, reform->operation, -1, "", 0,
                        "the time was over while the members agreed; allow more");
    }
    return nxr_fail(NIXL_E_TIMEOUT, reform->operation, first_missing(reform), "", 0,
                    "%s %s not called nixl_team_reform for these members in time", names,
                    n > 1 ? "have" : "has");
}

static int fail_disagreement(const struct nxr_reform *reform)
{
    const struct nxr_reform_failure *failure = &reform->failure;
    const char *name = nxr_identity_name(&reform->members[failure->member]);
    int rank = reform->ranks[failure->member];

    if (failure->is_other_order) {
        return nxr_fail(NIXL_E_INVALID_ARG, reform->operation, rank, "", 0,
                        "%s names the same %d members in another order; all must name them in the "
                        "same one",
                        name, reform->size);
    }
    return nxr_fail(NIXL_E_INVALID_ARG, reform->operation, rank, "", 0,
                    "%s names other members: %d, and this call %d; all must name the same "
                    "processes",
                    name, failure->other_size, reform->size);
}

int nxr_reform_fail(const struct nxr_reform *reform)
{
    const struct nxr_reform_failure *failure = &reform->failure;
    int rank = failure->member >= 0 ? reform->ranks[failure->member] : -1;
    const char *name =
        failure->member >= 0 ? nxr_identity_name(&reform->members[failure->member]) : "a member";

    if (failure->cause == NXR_REFORM_MISSING) {
        return fail_missing(reform);
    }
    if (failure->cause == NXR_REFORM_DISAGREES && failure->member >= 0) {
        return fail_disagreement(reform);
    }
    if (failure->status == NIXL_E_PEER_LOST) {
        const char *why = nxr_peer_why_lost(rank);

        return nxr_fail(failure->status, reform->operation, rank, "", 0, "%s %s%s", name,
                        why[0] != '\0'       ? "is lost: "
                        : !failure->has_left ? "has died"
                        : !nxr_peer_has_left(rank)
                            ? "has called nixl_finalize(), and takes part in no call any more"
                            : "has left",
                        why);
    }
    if (failure->status == NIXL_E_UNSUPPORTED && failure->member >= 0) {
        return nxr_fail(failure->status, reform->operation, rank, "", 0,
                        "no transport connects %s with the coordinator", name);
    }
    if (failure->status == NIXL_E_CANCELED) {
        return nxr_fail(failure->status, reform->operation, rank, "", 0, "%s",
                        atomic_load(&reform->is_canceled) ? "the request was canceled"
                                                          : "this rank is leaving the job");
    }
    return nxr_fail(failure->status, reform->operation, rank, "", 0, "%s has failed: %s", name,
                    nixl_strerror(failure->status));
}
