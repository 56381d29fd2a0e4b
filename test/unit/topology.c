/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that were recorded, from test/unit/topologies. */
#include "topology.h"

#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

hwloc_topology_t recorded_topology(const char *name)
{
    const char *srcdir = getenv("top_srcdir");
    hwloc_topology_t topology;
    char path[512];

    snprintf(path, sizeof(path), "%s/test/unit/topologies/%s.xml", srcdir != NULL ? srcdir : ".",
             name);
    cr_assert(eq(int, hwloc_topology_init(&topology), 0));
    cr_assert(eq(int, hwloc_topology_set_xml(topology, path), 0), "%s", path);
    cr_assert(
        eq(int, hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT), 0));
    cr_assert(eq(int, hwloc_topology_load(topology), 0));
    return topology;
}
