/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process without PMIx is a job of one rank. If another launcher has started several processes,
 * each would silently be rank 0 of 1, so one of them warns, once.
 *
 * Lock: none; the one thread that joins calls it.
 */
#include "config.h"

#include "boot/alone.h"
#include "util/log.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The variables in which launchers give the number of processes and the index of each. */
static const struct {
    const char *size, *rank, *launcher, *advice;
} marks[] = {
    {"PMI_SIZE", "PMI_RANK", "a launcher with PMI such as MPICH's mpiexec", ""},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MVAPICH's launcher", ""},
    {"SLURM_NTASKS", "SLURM_PROCID", "Slurm's srun without PMIx", ", or srun --mpi=pmix"},
    {"FLUX_JOB_SIZE", "FLUX_TASK_RANK", "Flux without PMIx", ", or flux run -o pmi=pmix"},
    {"WORLD_SIZE", "RANK", "a launcher such as torchrun", ""},
};

static bool alone_is_first(const char *rank_name)
{
    const char *rank = getenv(rank_name);

    return rank == NULL || strcmp(rank, "0") == 0;
}

void nxr_alone_warn(void)
{
    static bool has_warned;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) && !has_warned; i++) {
        const char *size = getenv(marks[i].size);

        if (size == NULL || atoi(size) <= 1) {
            continue;
        }
        has_warned = true;
        if (alone_is_first(marks[i].rank)) {
            nxr_warn(
                BOOT,
                "%s=%.20s is set, as by %s, but PMIX_NAMESPACE is not: each process is a job of "
                "its own, rank 0 of 1; start them with nixlrun%s, or unset %s if this is intended",
                marks[i].size, size, marks[i].launcher, marks[i].advice, marks[i].size);
        }
    }
}
