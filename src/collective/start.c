/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning collectives on teams that need a look, and starting those of the extended form. */
#include "config.h"

#include "collective/start.h"
#include "collective/coll.h"
#include "collective/later.h"
#include "core/form.h"
#include "util/clock.h"
#include "util/status.h"
#include "core/wait.h"

/*
 * The call was not made in time: it breaks the team as one that times out in the middle, because
 * the members that have begun it would wait. What was started then ends soon, and is waited for, as
 * its worker would not tell the other hosts of a failure where it ends with success just now.
 */
static int give_up_behind(struct nixl_team *team, const char *operation)
{
    (void)nxr_team_break(team, NIXL_E_TIMEOUT, -1);
    nxr_wake_self();
    (void)nxr_later_wait(team, NIXL_FOREVER);
    nxr_team_tell_hosts(team);
    return nxr_fail(NIXL_E_TIMEOUT, operation, -1, "", 0,
                    "earlier collectives of the team are still in progress; the team is broken");
}

int nxr_collective_begin_slow(struct nixl_team *team, const char *operation, int64_t timeout_ns)
{
    int status;

    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, -1, timeout_ns);
    }
    if (timeout_ns == 0 && team->size > 1) {
        return nxr_fail(
            NIXL_E_AGAIN, operation, -1, "", 0,
            "the timeout is 0, and the team has other members to wait for; start the call "
            "with a request or a completion queue");
    }
    if (atomic_load(&team->n_later) != 0) {
        int64_t deadline = nxr_deadline(timeout_ns);

        if (nxr_later_wait(team, timeout_ns) != NIXL_OK) {
            return give_up_behind(team, operation);
        }
        timeout_ns = nxr_left(timeout_ns, deadline);
    }
    nxr_team_begin(team, operation, timeout_ns);
    status = nxr_team_look(team, -1);
    return status == NIXL_OK ? status : nxr_team_end(team, status);
}

int nxr_collective_start_form(struct nixl_team *team, const char *operation,
                              const struct nxr_call *call, const struct nxr_form *form,
                              struct nixl_req **req_p)
{
    struct nixl_req *req = NULL;
    int status;

    if (req_p == NULL && form->op->cq == NULL) {
        return nxr_collective_run(team, operation, call, form->timeout_ns);
    }
    status = team->size == 1 ? nxr_collective_run(team, operation, call, NIXL_FOREVER)
                             : nxr_later_start(team, operation, call, &req);
    return nxr_form_end(operation, form, status, req, req_p);
}

int nxr_collective_start(struct nixl_team *team, const char *operation, int status,
                         const struct nxr_call *call, const struct nixl_op *op,
                         struct nixl_req **req_p)
{
    struct nxr_form form;

    if (status == NIXL_OK) {
        status = nxr_form_read_start(operation, op, NIXL_OP_PREPARE, req_p, &form);
    }
    if (status == NIXL_OK && nxr_form_has(&form, NIXL_OP_PREPARE)) {
        return nxr_coll_prepare(team, operation, call, &form, req_p);
    }
    return status == NIXL_OK ? nxr_collective_start_form(team, operation, call, &form, req_p)
                             : status;
}
