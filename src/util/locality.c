/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device is near. Data of host memory passes the NUMA node to which the device is attached;
 * data of a GPU at best passes only the switch to which both are attached. Distances depend only on
 * the topology, which may have been recorded on another machine.
 */
#include "config.h"

#include "util/locality.h"
#include "util/topology.h"

#include <string.h>

hwloc_topology_t nxr_topology_with_devices(void)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0) {
        return NULL;
    }
    nxr_topology_start_no_drivers(topology);
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

/*
 * Distances to another PCI tree of the same NUMA node, and to another node. Smaller: the same tree.
 */
#define OTHER_TREE 100u
#define OTHER_NODE 200u

static hwloc_obj_t locality_find_device(hwloc_topology_t topology,
                                        const struct nxr_device_location *device)
{
    hwloc_obj_t object = NULL;

    if (device->has_pci) {
        object = hwloc_get_pcidev_by_busid(topology, device->domain, device->bus, device->device,
                                           device->function);
    }
    for (hwloc_obj_t os = NULL; object == NULL && device->name != NULL &&
                                (os = hwloc_get_next_osdev(topology, os)) != NULL;) {
        if (os->name != NULL && strcmp(os->name, device->name) == 0) {
            object = os;
        }
    }
    return object;
}

static hwloc_obj_t non_io(hwloc_topology_t topology, hwloc_obj_t object)
{
    return hwloc_get_non_io_ancestor_obj(topology, object);
}

/*
 * The number of steps between two objects of one PCI tree; 0: different trees, or the same object.
 */
static unsigned pci_steps(hwloc_obj_t a, hwloc_obj_t b)
{
    unsigned up = 0;

    for (hwloc_obj_t x = a; x != NULL && hwloc_obj_type_is_io(x->type); x = x->parent, up++) {
        unsigned down = 0;

        for (hwloc_obj_t y = b; y != NULL && hwloc_obj_type_is_io(y->type); y = y->parent, down++) {
            if (x == y) {
                return up + down;
            }
        }
    }
    return 0;
}

static bool share_node(hwloc_const_nodeset_t a, hwloc_const_nodeset_t b)
{
    return a != NULL && b != NULL && hwloc_bitmap_intersects(a, b);
}

/* Is the place on a NUMA node of these CPUs? True if that is not known. */
static bool is_near_cpus(hwloc_topology_t topology, hwloc_obj_t place, hwloc_const_cpuset_t cpuset)
{
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    bool is_near = true;

    if (nodes != NULL && cpuset != NULL && hwloc_cpuset_to_nodeset(topology, cpuset, nodes) == 0) {
        is_near = share_node(place->nodeset, nodes);
    }
    hwloc_bitmap_free(nodes);
    return is_near;
}

unsigned nxr_distance(hwloc_topology_t topology, const struct nxr_device_location *device,
                      hwloc_obj_t from, hwloc_const_cpuset_t cpuset)
{
    hwloc_obj_t object = locality_find_device(topology, device);
    hwloc_obj_t place = object != NULL ? non_io(topology, object) : NULL;
    unsigned steps;

    if (place == NULL) {
        return NXR_DISTANCE_FAR;
    }
    if (from == NULL) {
        return is_near_cpus(topology, place, cpuset) ? 0 : OTHER_NODE;
    }
    if (!hwloc_obj_type_is_io(from->type)) {
        return share_node(place->nodeset, from->nodeset) ? 0 : OTHER_NODE;
    }
    steps = pci_steps(from, object);
    if (steps > 0 && steps < OTHER_TREE) {
        return steps;
    }
    from = non_io(topology, from);
    return from != NULL && share_node(place->nodeset, from->nodeset) ? OTHER_TREE : OTHER_NODE;
}

bool nxr_distances_from_gpu(hwloc_topology_t topology, const char *pci,
                            const struct nxr_device_location *devices, unsigned n, unsigned far[])
{
    hwloc_obj_t gpu = hwloc_get_pcidev_by_busidstring(topology, pci);

    for (unsigned i = 0; i < n && gpu != NULL; i++) {
        far[i] = nxr_distance(topology, &devices[i], gpu, NULL);
    }
    return gpu != NULL;
}
