/* SPDX-License-Identifier: Apache-2.0 */
/* Telling on nixlrun's stderr who waits for whom in its own job. No state. */
#include "config.h"

#include "launcher/waits.h"
#include "launcher/sink.h"

#include <unistd.h>

static void tell_line(const char *line)
{
    sink_say("%s", line);
}

void waits_tell(bool is_asked)
{
    struct waits waits = waits_read(getpid());
    bool is_any = false;

    for (int i = 0; i < waits.n; i++) {
        is_any |= waits.ranks[i].n_threads > 0;
    }
    if (is_any || (is_asked && waits.n > 0)) {
        sink_say("who waits for whom:");
        waits_show(&waits, tell_line);
    } else if (is_asked) {
        sink_say("nothing is known of what the ranks wait for: none on this host has called "
                 "nixl_init");
    }
    waits_free(&waits);
}
