/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that were recorded. */
#ifndef TEST_TOPOLOGY_H
#define TEST_TOPOLOGY_H

#include <hwloc.h>

/* With its devices, for hwloc_topology_destroy(). */
hwloc_topology_t recorded_topology(const char *name);

#endif
