/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the start: the guardian comes first, while we have one thread and the user's limits;
 * signals come last, as their handlers print lines.
 */
#include "config.h"

#include "launcher/foundation.h"
#include "launcher/sink.h"

int foundation_open(const sigset_t *mask, const struct signals_actions *actions)
{
    int rc = guardian_open(mask);

    if (rc == 0) {
        rc = loop_open();
    }
    if (rc == 0) {
        rc = sink_open_standard();
    }
    if (rc == 0) {
        rc = signals_listen(actions);
    }
    return rc;
}
