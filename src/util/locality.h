/* SPDX-License-Identifier: Apache-2.0 */
/* How near a device is to CPUs, memory or another device in the machine's topology. */
#ifndef NXR_UTIL_LOCALITY_H
#define NXR_UTIL_LOCALITY_H

#include <hwloc.h>

#include <stdbool.h>

/*
 * The topology of this machine with its devices, for hwloc_topology_destroy(); NULL: it cannot be
 * loaded. Takes milliseconds.
 */
hwloc_topology_t nxr_topology_with_devices(void);

/* A device, by its PCI address or its name; the PCI address takes precedence. */
struct nxr_device_location {
    const char *name; /* of a network interface or adapter, "eth0", "mlx5_0"; or NULL */
    bool has_pci;     /* the next four are valid */
    unsigned domain, bus, device, function;
};

/*
 * How far the device is from a place, 0 being nearest. `from` is an object of the topology, a PCI
 * device (a GPU) or a NUMA node, or NULL for the CPUs in `cpuset`. From a PCI device the distance
 * counts the steps between the two in their PCI tree. NXR_DISTANCE_FAR: the device was not found.
 */
unsigned nxr_distance(hwloc_topology_t topology, const struct nxr_device_location *device,
                      hwloc_obj_t from, hwloc_const_cpuset_t cpuset);

#define NXR_DISTANCE_FAR 1000u

/*
 * How far each of n devices is from the GPU with that PCI address, such as 0000:3b:00.0. False: the
 * GPU is not in the topology, and nothing was written.
 */
bool nxr_distances_from_gpu(hwloc_topology_t topology, const char *pci,
                            const struct nxr_device_location *devices, unsigned n, unsigned far[]);

#endif
