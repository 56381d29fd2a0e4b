/* SPDX-License-Identifier: Apache-2.0 */
/* The table of handlers, one per message type. Constant once the library has started; no lock. */
#include "config.h"

#include "control/dispatch.h"

static nxr_control_taker *dispatch_takers[NXR_WIRE_N_TYPES];

void nxr_control_register(enum nxr_wire_type type, nxr_control_taker *take)
{
    dispatch_takers[type] = take;
}

void nxr_control_take(const struct nxr_control_source *source,
                      const union nxr_wire_message *message)
{
    nxr_control_taker *take = dispatch_takers[message->header.type];

    if (take != NULL) {
        take(source, message);
    }
}
