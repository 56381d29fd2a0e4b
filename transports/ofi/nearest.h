/* SPDX-License-Identifier: Apache-2.0 */
/* How near a device lies to memory, by the machine's topology. No libfabric in here. */
#ifndef NXR_OFI_NEAREST_H
#define NXR_OFI_NEAREST_H

#include <hwloc.h>

#include <stdbool.h>

/* A network device, by what is known of it; the PCI address wins. */
struct nxr_ofi_device {
    const char *name; /* of the interface or adapter, "eth0", "mlx5_0"; or NULL */
    bool has_pci;     /* the next four count */
    unsigned domain, bus, device, function;
};

/*
 * How far the device is from where we are, 0 being nearest: `from` is an object of the topology, a
 * PCI device (a GPU) or a NUMA node, or NULL for the CPUs in `cpuset`. With a PCI device counts how
 * much of its path to the host's memory both share. A device that is not found is as far as can be.
 */
unsigned nxr_ofi_distance(hwloc_topology_t topology, const struct nxr_ofi_device *device,
                          hwloc_obj_t from, hwloc_const_cpuset_t cpuset);

#define NXR_OFI_FAR 1000u

#endif
