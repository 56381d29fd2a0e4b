/* SPDX-License-Identifier: Apache-2.0 */
/* The table of handlers, one per message type. Constant once the library has started; no lock. */
#include "config.h"

#include "control/dispatch.h"
#include "core/job.h"
#include "util/log.h"

static struct {
    enum nxr_control_reach reach;
    nxr_control_taker *take;
} dispatch_takers[NXR_WIRE_N_TYPES];

void nxr_control_register(enum nxr_wire_type type, enum nxr_control_reach reach,
                          nxr_control_taker *take)
{
    dispatch_takers[type].reach = reach;
    dispatch_takers[type].take = take;
}

void nxr_control_take(const struct nxr_control_source *source,
                      const union nxr_wire_message *message)
{
    unsigned type = message->header.type;

    if (source->conn == NULL && dispatch_takers[type].reach == NXR_CONTROL_HOST) {
        nxr_warn(HOST,
                 "a message of type %u, which only same-host ranks send, from rank %d; dropped",
                 type, source->peer->rank);
    } else if (dispatch_takers[type].take != NULL) {
        dispatch_takers[type].take(source, message);
    }
}
