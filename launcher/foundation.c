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

rlim_t foundation_raise_limit(int resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0) {
        return RLIM_INFINITY;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(resource, &limit);
    }
    return limit.rlim_cur;
}

void foundation_say_few_fds(int np, rlim_t needed, rlim_t limit)
{
    sink_say("%d ranks need %llu file descriptors of nixlrun, the limit is %llu: raise it "
             "(ulimit -n)",
             np, (unsigned long long)needed, (unsigned long long)limit);
}
