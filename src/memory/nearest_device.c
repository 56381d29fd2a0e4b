/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest GPU, by the topology of this machine. The topology is read once, at the first choice
 * among several GPUs, and kept, because reading takes milliseconds. Lock: pthread_once(); constant
 * from then on.
 */
#include "config.h"

#include "memory/nearest_device.h"
#include "util/locality.h"

#include <pthread.h>
#include <stdio.h>

static hwloc_topology_t machine; /* NULL: not available */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_machine(void)
{
    machine = nxr_topology_with_devices();
}

static unsigned nearest_device_distance(hwloc_topology_t topology, hwloc_const_cpuset_t cpuset,
                                        const struct nxr_device_id *id)
{
    struct nxr_device_location place = {.name = NULL};

    place.has_pci = sscanf(id->pci, "%x:%x:%x.%x", &place.domain, &place.bus, &place.device,
                           &place.function) == 4;
    return topology != NULL ? nxr_distance(topology, &place, NULL, cpuset) : NXR_DISTANCE_FAR;
}

size_t nxr_nearest_among(hwloc_topology_t topology, hwloc_const_cpuset_t cpuset,
                         const struct nxr_device_id *ids, size_t n_ids, size_t turn)
{
    unsigned least = NXR_DISTANCE_FAR;
    size_t n_near = 0, index = 0;

    for (size_t i = 0; i < n_ids; i++) {
        unsigned its = nearest_device_distance(topology, cpuset, &ids[i]);

        n_near = its < least ? 1 : n_near + (its == least);
        least = its < least ? its : least;
    }
    turn = n_near > 0 ? turn % n_near : 0;
    for (size_t i = 0; i < n_ids; i++) {
        if (nearest_device_distance(topology, cpuset, &ids[i]) == least && turn-- == 0) {
            index = i;
            break;
        }
    }
    return index;
}

size_t nxr_nearest_device(const struct nxr_device_id *ids, size_t n_ids, size_t turn)
{
    hwloc_cpuset_t cpuset;
    size_t index;

    if (n_ids == 1) {
        return 0;
    }
    pthread_once(&once, read_machine);
    cpuset = hwloc_bitmap_alloc();
    index = machine != NULL && cpuset != NULL &&
                    hwloc_get_cpubind(machine, cpuset, HWLOC_CPUBIND_THREAD) == 0
                ? nxr_nearest_among(machine, cpuset, ids, n_ids, turn)
                : turn % n_ids;
    hwloc_bitmap_free(cpuset);
    return index;
}
