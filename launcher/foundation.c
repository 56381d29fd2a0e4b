/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the start: the guardian comes first, as long as we have one thread and the limits of
 * the user; signals come last, as they say what they did.
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
