/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc without the plugins that query graphics drivers. They start OpenCL, CUDA and X in this
 * process, and the libraries they load install signal handlers (LLVM: SIGHUP). PCI devices are
 * found without them.
 */
#ifndef NXR_UTIL_TOPOLOGY_H
#define NXR_UTIL_TOPOLOGY_H

#include <hwloc.h>

/* Call between hwloc_topology_init() and hwloc_topology_load(). */
static inline void nxr_topology_start_no_drivers(hwloc_topology_t topology)
{
    static const char *const plugins[] = {"cuda", "gl", "levelzero", "nvml", "opencl", "rsmi"};

    for (size_t i = 0; i < sizeof(plugins) / sizeof(plugins[0]); i++) {
        /* Plugins that are not installed are not an error. */
        (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            plugins[i]);
    }
}

#endif
