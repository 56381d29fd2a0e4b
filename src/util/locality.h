/* SPDX-License-Identifier: Apache-2.0 */
/* How near a device lies to CPUs, to memory or to another device, by the machine's topology. */
#ifndef NXR_UTIL_LOCALITY_H
#define NXR_UTIL_LOCALITY_H

#include <hwloc.h>

#include <stdbool.h>

/* This machine with its devices, for hwloc_topology_destroy(); NULL: it cannot be had. Takes
 * milliseconds. */
hwloc_topology_t nxr_topology_with_devices(void);

/* A device, by what is known of it; the PCI address wins. */
struct nxr_place {
    const char *name; /* of a network interface or adapter, "eth0", "mlx5_0"; or NULL */
    bool has_pci;     /* the next four count */
    unsigned domain, bus, device, function;
};

/*
 * How far the device is from where we are, 0 being nearest: `from` is an object of the topology, a
 * PCI device (a GPU) or a NUMA node, or NULL for the CPUs in `cpuset`. With a PCI device counts how
 * much of its path to the host's memory both share. A device that is not found is as far as can be.
 */
unsigned nxr_distance(hwloc_topology_t topology, const struct nxr_place *device, hwloc_obj_t from,
                      hwloc_const_cpuset_t cpuset);

#define NXR_DISTANCE_FAR 1000u

/*
 * How far each of n devices is from a GPU with that PCI address, as 0000:3b:00.0. False: it is not
 * in the topology, and nothing was written.
 */
bool nxr_distances_from_gpu(hwloc_topology_t topology, const char *pci,
                            const struct nxr_place *devices, unsigned n, unsigned far[]);

#endif
