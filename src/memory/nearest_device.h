/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several GPUs is nearest to the CPUs that a rank runs on. */
#ifndef NXR_MEMORY_NEAREST_DEVICE_H
#define NXR_MEMORY_NEAREST_DEVICE_H

#include "memory/choose.h"

#include <hwloc.h>

/*
 * One of the devices nearest to the CPUs that the calling thread may run on. If there are several,
 * `turn` selects one: the ranks of a host take them in turn. n_ids > 0.
 */
size_t nxr_nearest_device(const struct nxr_device_id *ids, size_t n_ids, size_t turn);

/* The same for given CPUs of a machine. Without a topology all devices are equally near. */
size_t nxr_nearest_among(hwloc_topology_t topology, hwloc_const_cpuset_t cpuset,
                         const struct nxr_device_id *ids, size_t n_ids, size_t turn);

#endif
