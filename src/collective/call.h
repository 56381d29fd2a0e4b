/* SPDX-License-Identifier: Apache-2.0 */
/* A collective whose arguments were checked: what the public calls make, and what runs it. */
#ifndef NXR_COLLECTIVE_CALL_H
#define NXR_COLLECTIVE_CALL_H

#include "collective/node_collective.h"
#include "collective/strided.h"

enum nxr_call_kind { NXR_CALL_BARRIER, NXR_CALL_REDUCTION, NXR_CALL_EXCHANGE, NXR_CALL_STRIDED };

struct nxr_call {
    enum nxr_call_kind kind;
    bool has_device;       /* src or dst is device memory */
    bool is_plain;         /* no device memory, plan, stride or large element */
    struct nxr_plan *plan; /* it was prepared (plan.h); NULL: it was not */
    size_t nbytes;         /* for counters: what a member gives, or the size of a piece */
    union {
        struct nxr_reduction reduction; /* its root is a team rank */
        struct nxr_exchange exchange;
        struct nxr_strided strided;
    };
};

/*
 * Run it, between nxr_team_begin() and nxr_team_end(), in one thread at a time. NIXL_OK; any other
 * status ends the call under way, and the team is broken.
 */
int nxr_call_run(struct nixl_team *team, const struct nxr_call *call);

/* The same for what the processor can do; data that is only moved may be device memory. */
int nxr_call_run_on_host(struct nixl_team *team, const struct nxr_call *call);

/*
 * The caller's arrays may change when its call returns: how much room a copy of them takes, and
 * copying them there, for the call to use.
 */
size_t nxr_call_arrays_nbytes(const struct nixl_team *team, const struct nxr_call *call);
void nxr_call_keep_arrays(const struct nixl_team *team, struct nxr_call *call, size_t *to);

/* Check the arguments that all calls have, except the timeout. Records the failure. */
static inline int nxr_call_check_team(const char *operation, const struct nixl_team *team)
{
    return __builtin_expect(nxr_is_ready() && nxr_team_is_open(team), 1)
               ? NIXL_OK
               : nxr_team_check(operation, team);
}

/* Make a call from arguments. NIXL_OK, or NIXL_E_INVALID_ARG, recorded for `operation`. */
int nxr_call_of_reduction(const char *operation, const struct nixl_team *team, int root,
                          const struct nixl_reduce_args *theirs, enum nxr_reduce_kind kind,
                          struct nxr_call *call_p);

/* The same for data of one size. call_p->exchange has its kind, the buffers and nbytes. */
int nxr_call_of_exchange(const char *operation, const struct nixl_team *team,
                         struct nxr_call *call_p);

/* The same for data of different sizes. `exchange` has its kind. */
int nxr_call_of_vector(const char *operation, const struct nixl_team *team,
                       const struct nxr_exchange *exchange, const struct nixl_vector_args *theirs,
                       struct nxr_call *call_p);

/* The same for blocks with strides. */
int nxr_call_of_strided(const char *operation, const struct nixl_team *team,
                        const struct nixl_strided_args *theirs, struct nxr_call *call_p);

#endif
