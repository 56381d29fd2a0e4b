/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the set of cores of this process. */
#include "config.h"

#include "core/cores.h"
#include "util/hash.h"

#include <sched.h>
#include <unistd.h>

#define N_SETS 8 /* of 1024 cores each */

struct nxr_cores nxr_cores_read(void)
{
    struct nxr_cores cores = {.n_allowed = 1, .n_online = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    cpu_set_t sets[N_SETS];

    CPU_ZERO_S(sizeof(sets), sets);
    if (sched_getaffinity(0, sizeof(sets), sets) == 0) {
        cores.n_allowed = CPU_COUNT_S(sizeof(sets), sets);
        cores.hash = (uint32_t)nxr_hash(sets, sizeof(sets));
        cores.hash += cores.hash == 0;
    }
    cores.n_online = cores.n_online > 0 ? cores.n_online : 1;
    return cores;
}
