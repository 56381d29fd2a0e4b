/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the variables of an allocation. Slurm gives the number of hosts, and the number of tasks if
 * the user set it; Flux gives neither.
 */
#include "launcher/allocation.h"
#include "launcher/options.h"
#include "launcher/values.h"

#include <stdlib.h>

enum launch_engine allocation_engine(void)
{
    if (getenv("PMIX_NAMESPACE") != NULL) {
        return ENGINE_AUTO;
    }
    return getenv("SLURM_JOB_ID") != NULL ? ENGINE_SLURM
           : getenv("FLUX_URI") != NULL   ? ENGINE_FLUX
                                          : ENGINE_AUTO;
}

/* A number from a variable of Slurm; 0 if it is not set. */
static int slurm_number(const char *name)
{
    const char *text = getenv(name);
    int number;

    return text != NULL && value_count(text, 1, OPTIONS_MAX_NP, &number) == 0 ? number : 0;
}

int allocation_capacity(const struct launch_job *job)
{
    bool is_of_slurm = job->engine != ENGINE_LOCAL && allocation_engine() == ENGINE_SLURM;
    int n_tasks = is_of_slurm ? slurm_number("SLURM_NTASKS") : 0;
    int n_hosts = is_of_slurm ? slurm_number("SLURM_JOB_NUM_NODES") : 0;

    if (job->ppn > 0) {
        return job->ppn * (n_hosts > 0 ? n_hosts : 1);
    }
    return n_tasks > 0 ? n_tasks : n_hosts;
}
