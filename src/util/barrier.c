/* SPDX-License-Identifier: Apache-2.0 */
/* membarrier(2), global expedited: registration and the heavy side. No lock: set once at init. */
#include "config.h"

#include "util/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_full = true;

void nxr_barrier_init(void)
{
    is_full = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0;
}

bool nxr_barrier_is_full(void)
{
    return is_full;
}

void nxr_barrier_heavy(void)
{
    nxr_fence_full();
    if (!is_full) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    }
}
