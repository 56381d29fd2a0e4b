/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams in the making. All members must go through the same steps, so a member that stops waiting
 * does not stop making: a thread continues, and the next call for the same team takes up what it
 * has reached. A team is identified by a key that all members compute alike. The number of a call
 * is derived from the key and from how many calls with that key have ended. All members agree on
 * how each call has ended, so all count alike.
 */
#ifndef NXR_COLLECTIVE_MAKING_H
#define NXR_COLLECTIVE_MAKING_H

#include "collective/team.h"

struct nxr_making;

enum nxr_team_kind {
    NXR_TEAM_OF_RANKS, /* all members of the call */
    NXR_TEAM_OF_NODE,  /* those on this member's host */
    NXR_TEAM_OF_COLOR, /* those that choose the same color */
};

/* A member's choice when a team is divided; zeros in other calls. */
struct nxr_choice {
    int32_t color;
    int32_t key;
};

/* A team that is wanted. */
struct nxr_wanted {
    const char *operation;
    enum nxr_team_kind kind;
    struct nxr_choice choice;
    uint64_t key;
    const int *ranks;                   /* of the members of the call */
    const struct nxr_identity *members; /* the processes that these are; NULL: those of now */
    int size;
    struct nixl_team *divided; /* the team that is divided; or NULL */
    int64_t timeout_ns;        /* of the making itself, which gives up then; or NIXL_FOREVER */
    int64_t deadline;          /* ... when that is; 0: not computed */
};

/*
 * Make the team: NIXL_OK and the team, or the failure, recorded. Both are the same on all living
 * members; NIXL_E_CANCELED also if this rank is leaving the job. `call` is the number of the call.
 * If the members have a deadline, one that does not answer by then is left out of the agreement,
 * and may have the team that the others have given up: it finds it broken. (team_make.c)
 */
int nxr_team_make(const struct nxr_wanted *wanted, uint64_t call, struct nixl_team **team_p);

/*
 * Make the team, or continue to. NIXL_OK; NIXL_INPROGRESS (timeout 0) or NIXL_E_TIMEOUT: the
 * making continues, and the next call takes it up. Any other failure ends it. Records the failure.
 */
int nxr_making_wait(const struct nxr_wanted *wanted, int64_t timeout_ns, struct nixl_team **team_p);

/* The same without waiting: the request ends when the team is there; *team_p is written before. */
int nxr_making_start(const struct nxr_wanted *wanted, struct nixl_team **team_p,
                     struct nixl_req **req_p);

/*
 * The program frees a team. True: the team is being divided in the background, and is dropped after
 * that; the handle must not be used any more.
 */
bool nxr_making_inherit(struct nixl_team *team);

/* The key of the calls that divide a team. */
uint64_t nxr_making_split_key(const struct nixl_team *team);

/* A team of these ranks; origin: the id of the team before members were lost, or 0. */
struct nxr_wanted nxr_team_of_ranks(const char *operation, uint64_t origin, const int *ranks,
                                    int size);

/* Stop all, and forget the numbers of calls (last finalize). */
void nxr_makings_stop(void);

#endif
