/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a call that was checked to its end: it is run at once, or passed to the worker of its team.
 * The usual case, on a team that nothing has failed on, is inline.
 */
#ifndef NXR_COLLECTIVE_START_H
#define NXR_COLLECTIVE_START_H

#include "collective/call.h"
#include "core/form.h"

/* Must a call check first? Something may have failed, be under way, or be on another host. */
static inline bool nxr_collective_needs_look(const struct nixl_team *team)
{
    const struct nxr_node_head *head = team->node.head;

    return atomic_load_explicit(&team->broken, memory_order_relaxed) != NIXL_OK ||
           atomic_load_explicit(&team->n_later, memory_order_acquire) != 0 || team->n_nodes > 1 ||
           (head != NULL && atomic_load_explicit(&head->broken, memory_order_relaxed) != NIXL_OK);
}

/* nxr_collective_begin() if something needs a look. */
int nxr_collective_begin_slow(struct nixl_team *team, const char *operation, int64_t timeout_ns);

/*
 * Begin a public call on a team that was checked, once all calls started earlier have ended. If
 * they do not end in time, that breaks the team. Records the failure; so too if the team is broken
 * or the timeout is invalid.
 */
static inline int nxr_collective_begin(struct nixl_team *team, const char *operation,
                                       int64_t timeout_ns)
{
    if (__builtin_expect(timeout_ns <= 0 || nxr_collective_needs_look(team), 0)) {
        return nxr_collective_begin_slow(team, operation, timeout_ns);
    }
    nxr_team_begin(team, operation, timeout_ns);
    return NIXL_OK;
}

/* Run a call from its begin to its end. Returns what the public call returns. */
static inline int nxr_collective_run(struct nixl_team *team, const char *operation,
                                     const struct nxr_call *call, int64_t timeout_ns)
{
    int status = nxr_collective_begin(team, operation, timeout_ns);

    if (__builtin_expect(status != NIXL_OK, 0)) {
        return status;
    }
    status = nxr_call_run(team, call);
    return __builtin_expect(status == NIXL_OK, 1) ? status : nxr_team_end(team, status);
}

/*
 * Run or start a call of the extended form; `status`: the outcome of making it from the arguments,
 * recorded if it is a failure.
 */
int nxr_collective_start(struct nixl_team *team, const char *operation, int status,
                         const struct nxr_call *call, const struct nixl_op *op,
                         struct nixl_req **req_p);

/* The same for a form that was read, of a call that is not prepared by it. */
int nxr_collective_start_form(struct nixl_team *team, const char *operation,
                              const struct nxr_call *call, const struct nxr_form *form,
                              struct nixl_req **req_p);

#endif
