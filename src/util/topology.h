/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc without its plugins that ask graphics drivers: they start OpenCL, CUDA and X in this
 * process, and what they load takes signals (LLVM's SIGHUP). Devices on PCI are found without them.
 */
#ifndef NXR_UTIL_TOPOLOGY_H
#define NXR_UTIL_TOPOLOGY_H

#include <hwloc.h>

/* Between hwloc_topology_init() and hwloc_topology_load(). */
static inline void nxr_topology_start_no_drivers(hwloc_topology_t topology)
{
    static const char *const plugins[] = {"cuda", "gl", "levelzero", "nvml", "opencl", "rsmi"};

    for (size_t i = 0; i < sizeof(plugins) / sizeof(plugins[0]); i++) {
        /* Those that are not installed are no failure. */
        (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            plugins[i]);
    }
}

#endif
