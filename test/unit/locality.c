/* SPDX-License-Identifier: Apache-2.0 */
/* Which device is near, on recorded machines: adapters to CPUs, memory and GPUs; GPUs to ranks. */
#include "memory/nearest_device.h"
#include "topology.h"
#include "util/locality.h"

#include "test/unit/unit.h"

#include <stdio.h>

/* ---- distances ------------------------------------------------------------------------------- */

static unsigned by_name(hwloc_topology_t topology, const char *name, hwloc_obj_t from,
                        hwloc_const_cpuset_t cpuset)
{
    struct nxr_device_location device = {.name = name};

    return nxr_distance(topology, &device, from, cpuset);
}

Test(locality, host_memory_prefers_the_adapters_of_its_node)
{
    hwloc_topology_t topology = recorded_topology("2-sockets-4-nics");

    for (unsigned node = 0; node < 2; node++) {
        hwloc_obj_t from = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node);
        hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, node);

        for (unsigned nic = 0; nic < 4; nic++) {
            char name[16];
            bool is_near = nic / 2 == node;

            snprintf(name, sizeof(name), "mlx5_%u", nic);
            cr_expect(eq(int, by_name(topology, name, from, NULL) == 0, is_near));
            cr_expect(eq(int, by_name(topology, name, NULL, package->cpuset) == 0, is_near));
        }
    }
    hwloc_topology_destroy(topology);
}

Test(locality, a_gpu_prefers_the_adapter_at_its_switch)
{
    hwloc_topology_t topology = recorded_topology("2-sockets-4-nics");
    static const unsigned buses[] = {0x12, 0x22, 0x92, 0xa2};

    for (unsigned gpu = 0; gpu < 4; gpu++) {
        hwloc_obj_t from = hwloc_get_pcidev_by_busid(topology, 0, buses[gpu], 0, 0);
        unsigned far[4];

        cr_assert(from != NULL);
        for (unsigned nic = 0; nic < 4; nic++) {
            struct nxr_device_location device = {.has_pci = true, .bus = buses[nic] + 1};
            char name[16];

            far[nic] = nxr_distance(topology, &device, from, NULL);
            snprintf(name, sizeof(name), "ib%u", nic);
            cr_expect(lt(uint, far[nic], NXR_DISTANCE_FAR));
            cr_expect(lt(uint, by_name(topology, name, from, NULL), NXR_DISTANCE_FAR));
        }
        cr_expect(lt(uint, far[gpu], far[gpu ^ 1]), "its switch before its socket");
        cr_expect(lt(uint, far[gpu ^ 1], far[gpu ^ 2]), "its socket before the other");
        cr_expect(eq(uint, far[gpu ^ 2], far[gpu ^ 3]));
    }
    hwloc_topology_destroy(topology);
}

Test(locality, what_is_not_found_is_far)
{
    hwloc_topology_t topology = recorded_topology("1-nic");
    hwloc_const_cpuset_t cpuset = hwloc_topology_get_topology_cpuset(topology);
    struct nxr_device_location device = {.has_pci = true, .bus = 0x77};

    cr_expect(eq(uint, by_name(topology, "eth0", NULL, cpuset), 0));
    cr_expect(eq(uint, by_name(topology, "veth9", NULL, cpuset), NXR_DISTANCE_FAR));
    cr_expect(eq(uint, nxr_distance(topology, &device, NULL, cpuset), NXR_DISTANCE_FAR));
    hwloc_topology_destroy(topology);
}

/* ---- the GPU of a rank ----------------------------------------------------------------------- */

static struct nxr_device_id gpus[] = {{.pci = "0000:12:00.0"},
                                      {.pci = "0000:22:00.0"},
                                      {.pci = "0000:92:00.0"},
                                      {.pci = "0000:a2:00.0"}};

static size_t choose(hwloc_topology_t topology, const char *cpus, size_t turn)
{
    hwloc_cpuset_t cpuset = hwloc_bitmap_alloc();
    size_t index;

    cr_assert(eq(int, hwloc_bitmap_list_sscanf(cpuset, cpus), 0));
    index = nxr_nearest_among(topology, cpuset, gpus, 4, turn);
    hwloc_bitmap_free(cpuset);
    return index;
}

Test(locality, ranks_take_the_gpus_of_their_socket_in_turn)
{
    hwloc_topology_t topology = recorded_topology("2-sockets-4-nics");

    for (size_t turn = 0; turn < 8; turn++) {
        cr_expect(eq(sz, choose(topology, "0", turn), turn % 2));
        cr_expect(eq(sz, choose(topology, "0-1", turn), turn % 2));
        cr_expect(eq(sz, choose(topology, "3", turn), 2 + turn % 2));
    }
    hwloc_topology_destroy(topology);
}

Test(locality, ranks_that_are_not_bound_take_all_gpus_in_turn)
{
    hwloc_topology_t topology = recorded_topology("2-sockets-4-nics");

    for (size_t turn = 0; turn < 8; turn++) {
        cr_expect(eq(sz, choose(topology, "0-3", turn), turn % 4));
        cr_expect(eq(sz, choose(topology, "1-2", turn), turn % 4));
    }
    hwloc_topology_destroy(topology);
}

Test(locality, gpus_that_are_not_found_are_taken_last)
{
    hwloc_topology_t topology = recorded_topology("2-sockets-4-nics");
    struct nxr_device_id ids[] = {{.pci = ""}, {.pci = "0000:77:00.0"}, {.pci = "0000:92:00.0"}};
    hwloc_cpuset_t cpuset = hwloc_bitmap_alloc();

    hwloc_bitmap_only(cpuset, 0); /* the only one that is known is at the other socket */
    for (size_t turn = 0; turn < 4; turn++) {
        cr_expect(eq(sz, nxr_nearest_among(topology, cpuset, ids, 3, turn), 2));
        cr_expect(eq(sz, nxr_nearest_among(topology, cpuset, ids, 2, turn), turn % 2));
        cr_expect(eq(sz, nxr_nearest_among(NULL, cpuset, ids, 3, turn), turn % 3));
    }
    hwloc_bitmap_free(cpuset);
    hwloc_topology_destroy(topology);
}

Test(locality, this_machine_has_a_topology)
{
    hwloc_topology_t topology = nxr_topology_with_devices();

    cr_assert(ne(ptr, topology, NULL));
    cr_expect(ge(int, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU), 1));
    hwloc_topology_destroy(topology);
}

Test(locality, this_machine_chooses_among_what_there_is)
{
    struct nxr_device_id ids[] = {{.pci = ""}, {.pci = "0000:77:00.0"}};

    for (size_t turn = 0; turn < 4; turn++) {
        cr_expect(lt(sz, nxr_nearest_device(ids, 2, turn), 2));
        cr_expect(eq(sz, nxr_nearest_device(ids, 1, turn), 0));
    }
}
