/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far each rail is from the memory of an operation. Host memory is assumed to lie near the CPUs
 * of this process, because the kernel places pages where they are first touched. That holds for the
 * chunks that device memory is staged through, too: a staged transfer is read and written there by
 * the rail, so a rail near the GPU but far from the chunks would gain nothing. GPU memory that the
 * rail reads and writes directly lies at the GPU's PCI address. The topology is kept while rails
 * take such memory. Lock: the core's.
 */
#include "config.h"

#include "ofi.h"

#include <stdio.h>
#include <string.h>

/* The name is written to `name`, which the place points to. */
static struct nxr_device_location ofi_near_place_of(const struct fi_info *info, char *name,
                                                    size_t name_nbytes)
{
    struct nxr_device_location place = {.name = name};

    nxr_ofi_device_name(info, name, name_nbytes);
    if (info->nic != NULL && info->nic->bus_attr != NULL &&
        info->nic->bus_attr->bus_type == FI_BUS_PCI) {
        const struct fi_pci_attr *pci = &info->nic->bus_attr->attr.pci;

        place.has_pci = true;
        place.domain = pci->domain_id;
        place.bus = pci->bus_id;
        place.device = pci->device_id;
        place.function = pci->function_id;
    }
    return place;
}

static unsigned ofi_near_distance(const struct fi_info *info, hwloc_const_cpuset_t cpuset)
{
    char name[64];
    struct nxr_device_location place = ofi_near_place_of(info, name, sizeof(name));

    return nxr_distance(nxr_ofi.topology, &place, NULL, cpuset);
}

void nxr_ofi_nearest_first(const struct fi_info *found[NXR_OFI_MAX_RAILS], unsigned n)
{
    hwloc_cpuset_t cpuset = hwloc_bitmap_alloc();
    unsigned *far = nxr_ofi.nears[0].far;

    nxr_ofi.topology = n > 1 ? nxr_topology_with_devices() : NULL;
    nxr_ofi.n_nears = 1;
    if (nxr_ofi.topology == NULL || cpuset == NULL ||
        hwloc_get_cpubind(nxr_ofi.topology, cpuset, HWLOC_CPUBIND_PROCESS) != 0) {
        n = 0;
    }
    for (unsigned i = 0; i < n; i++) {
        const struct fi_info *info = found[i];
        unsigned its = ofi_near_distance(info, cpuset);
        unsigned at = i;

        for (; at > 0 && far[at - 1] > its; at--) {
            far[at] = far[at - 1];
            found[at] = found[at - 1];
        }
        far[at] = its;
        found[at] = info;
    }
    hwloc_bitmap_free(cpuset);
}

void nxr_ofi_forget_topology(void)
{
    if (nxr_ofi.topology != NULL) {
        hwloc_topology_destroy(nxr_ofi.topology);
        nxr_ofi.topology = NULL;
    }
}

static void ofi_near_tell(const struct nxr_ofi_near *near)
{
    char line[256];
    int used = 0;

    for (unsigned i = 0; i < nxr_ofi.n_rails && used < (int)sizeof(line); i++) {
        used += snprintf(line + used, sizeof(line) - (size_t)used, "%s%s %u", i > 0 ? ", " : "",
                         nxr_ofi.rails[i].device, near->far[i]);
    }
    nxr_ofi.core->log(NXR_NET_INFO, "ofi: from the GPU at %s the rails are so far: %s", near->pci,
                      line);
}

/* A GPU that is seen for the first time. */
static const struct nxr_ofi_near *ofi_near_learn(const char *pci)
{
    struct nxr_ofi_near *near = &nxr_ofi.nears[nxr_ofi.n_nears];
    char names[NXR_OFI_MAX_RAILS][64];
    struct nxr_device_location places[NXR_OFI_MAX_RAILS];

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        places[i] = ofi_near_place_of(nxr_ofi.rails[i].info, names[i], sizeof(names[i]));
    }
    *near = nxr_ofi.nears[0];
    snprintf(near->pci, sizeof(near->pci), "%s", pci);
    nxr_ofi.n_nears++;
    if (nxr_distances_from_gpu(nxr_ofi.topology, pci, places, nxr_ofi.n_rails, near->far)) {
        ofi_near_tell(near);
    }
    return near;
}

const struct nxr_ofi_near *nxr_ofi_near_of(const char *pci)
{
    if (pci == NULL || pci[0] == '\0' || nxr_ofi.topology == NULL) {
        return &nxr_ofi.nears[0];
    }
    for (unsigned i = 1; i < nxr_ofi.n_nears; i++) {
        if (strcmp(nxr_ofi.nears[i].pci, pci) == 0) {
            return &nxr_ofi.nears[i];
        }
    }
    return nxr_ofi.n_nears <= NXR_OFI_MAX_GPUS ? ofi_near_learn(pci) : &nxr_ofi.nears[0];
}
