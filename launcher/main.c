/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun: start the ranks of a job. This file decides what is done, in which order, and with which
 * exit code; nothing is started and nothing is written before the whole command line is known to be
 * good. Single-threaded until the engine runs.
 */
#include "launcher/engine.h"
#include "launcher/options.h"
#include "launcher/xalloc.h"
#include "nixlrun.h"
#include "util/env.h"
#include "util/log.h"

enum { WHY_NBYTES = 512 };

static struct options options; /* lives until exit: the engine's job points into it */

static int fail_usage(const char *why)
{
    fprintf(stderr, "nixlrun: %s\n", why);
    return LAUNCH_EXIT_USAGE;
}

static int run_job(void)
{
    struct launch_job *job = &options.job;
    struct launch_place *places = x_array(NULL, (size_t)job->np, sizeof(*places));
    static char nowhere[] = "not bound";
    char why[WHY_NBYTES];

    if (nxr_env_parse(&nxr_env, why, sizeof(why)) != NIXL_OK ||
        nxr_log_configure(nxr_env.log, why, sizeof(why)) != NIXL_OK) {
        return fail_usage(why);
    }
    nxr_env_warn_unknown();
    for (int rank = 0; rank < job->np; rank++) {
        places[rank] = (struct launch_place){.where = nowhere};
    }
    return engine_local_run(job, places);
}

int main(int argc, char **argv)
{
    char why[WHY_NBYTES];

    if (options_parse(argc, argv, &options, why, sizeof(why)) != 0) {
        return fail_usage(why);
    }
    switch (options.action) {
    case ACTION_VERSION:
        puts("nixlrun " NIXLRUN_VERSION);
        return 0;
    case ACTION_ENV:
        nxr_env_print(stdout);
        return 0;
    case ACTION_HELP:
    case ACTION_RUN:
        break;
    }
    return run_job();
}
