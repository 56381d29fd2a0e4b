/* SPDX-License-Identifier: Apache-2.0 */
/* What the whole library has in its lists, against the table of variables. */
#include "core/progress.h"
#include "core/subsystem.h"
#include "net/net.h"
#include "nixlrun.h"
#include "transports/transport.h"
#include "util/env.h"

#include "test/unit/unit.h"
#include <stdio.h>
#include <string.h>

TestSuite(init, .timeout = 120);

Test(init, the_names_of_transports_are_those_that_there_are)
{
    char why[256] = "", names[256] = "allowed: a list of ";
    size_t used = strlen(names);

    nxr_subsystems_compose();
    for (size_t i = 0; i < nxr_n_transports; i++) {
        used +=
            (size_t)snprintf(names + used, sizeof(names) - used, "%s, ", nxr_transports[i]->name);
    }
    for (size_t i = 0; i < nxr_net_count(); i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s, ", nxr_net_name(i));
    }
    cr_expect(
        eq(int, nxr_env_check("NIXLRUN_TRANSPORTS=none", why, sizeof(why)), NIXL_ERR_INVALID_ARG));
    cr_expect(strstr(why, names) != NULL, "'%s' lacks '%s'", why, names);
}
