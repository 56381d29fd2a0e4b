/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network interfaces and GPUs of this host, without any driver's library: from the kernel's files
 * and from hwloc. Unknown values are left empty.
 */
#include "config.h"

#include "launcher/info.h"
#include "launcher/xalloc.h"
#include "util/topology.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <unistd.h>

enum { CELL_NBYTES = 256 };

/* The first line of a file of the kernel; "" if it cannot be read. */
static const char *info_host_read_line(const char *path, char text[CELL_NBYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, CELL_NBYTES - 1) : -1;

    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* ---- interfaces ------------------------------------------------------------------------------ */

const struct table_column info_interface_columns[] = {
    {"name", "name", TABLE_TEXT},
    {"up", "up", TABLE_FLAG},
    {"addresses", "addresses", TABLE_TEXT},
    {"speed_mbit_s", "Mbit/s", TABLE_NUMBER},
    {"mtu", "MTU", TABLE_NUMBER},
    {"numa_node", "NUMA node", TABLE_NUMBER},
    {NULL, NULL, TABLE_TEXT},
};

static const char *interface_file(const char *name, const char *file, char text[CELL_NBYTES])
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, file);
    return info_host_read_line(path, text);
}

/* All addresses of an interface, with blanks between. */
static const char *addresses_of(const char *name, const struct ifaddrs *all, char text[CELL_NBYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (; all != NULL; all = all->ifa_next) {
        char address[INET6_ADDRSTRLEN];
        const void *bytes;

        if (strcmp(all->ifa_name, name) != 0 || all->ifa_addr == NULL ||
            (all->ifa_addr->sa_family != AF_INET && all->ifa_addr->sa_family != AF_INET6)) {
            continue;
        }
        bytes = all->ifa_addr->sa_family == AF_INET
                    ? (const void *)&((const struct sockaddr_in *)all->ifa_addr)->sin_addr
                    : (const void *)&((const struct sockaddr_in6 *)all->ifa_addr)->sin6_addr;
        if (inet_ntop(all->ifa_addr->sa_family, bytes, address, sizeof(address)) != NULL &&
            used + strlen(address) + 1 < CELL_NBYTES) {
            used += (size_t)snprintf(text + used, CELL_NBYTES - used, "%s%s", used > 0 ? " " : "",
                                     address);
        }
    }
    return text;
}

void info_add_interfaces(struct table *table)
{
    struct if_nameindex *names = if_nameindex();
    struct ifaddrs *addresses = NULL;

    if (getifaddrs(&addresses) != 0) {
        addresses = NULL;
    }
    for (const struct if_nameindex *i = names; i != NULL && i->if_index != 0; i++) {
        char texts[5][CELL_NBYTES];
        const char *state = interface_file(i->if_name, "operstate", texts[0]);
        const char *cells[] = {
            i->if_name,
            /* The loopback says "unknown" and works. */
            strcmp(state, "up") == 0 || strcmp(state, "unknown") == 0 ? "yes" : "no",
            addresses_of(i->if_name, addresses, texts[1]),
            interface_file(i->if_name, "speed", texts[2]),
            interface_file(i->if_name, "mtu", texts[3]),
            interface_file(i->if_name, "device/numa_node", texts[4]),
        };

        table_add(table, cells);
    }
    if (names != NULL) {
        if_freenameindex(names);
    }
    freeifaddrs(addresses);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

const struct table_column info_gpu_columns[] = {
    {"pci", "PCI", TABLE_TEXT},       {"name", "name", TABLE_TEXT},
    {"driver", "driver", TABLE_TEXT}, {"numa_node", "NUMA node", TABLE_NUMBER},
    {NULL, NULL, TABLE_TEXT},
};

#define PCI_CLASS_DISPLAY     0x03
#define PCI_CLASS_ACCELERATOR 0x12

/* The driver of a PCI device, from a symbolic link of the kernel. */
static const char *driver_of(const char *pci, char text[CELL_NBYTES])
{
    char path[PATH_MAX];
    ssize_t n;
    char *slash;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", pci);
    n = readlink(path, text, CELL_NBYTES - 1);
    text[n > 0 ? n : 0] = '\0';
    slash = strrchr(text, '/');
    return slash != NULL ? slash + 1 : text;
}

static void add_gpu(struct table *table, const char *pci, const char *name, int numa_node)
{
    char driver[CELL_NBYTES], node[16] = "";
    const char *cells[] = {pci, name, driver_of(pci, driver), node};

    if (numa_node >= 0) {
        snprintf(node, sizeof(node), "%d", numa_node);
    }
    table_add(table, cells);
}

#define NVIDIA_GPUS "/proc/driver/nvidia/gpus"

/* NVIDIA's name of the GPU at that address: the first line of its file is "Model: NAME". */
static const char *nvidia_model(const char *pci, char text[CELL_NBYTES])
{
    char path[PATH_MAX];
    const char *colon;

    snprintf(path, sizeof(path), NVIDIA_GPUS "/%s/information", pci);
    colon = strchr(info_host_read_line(path, text), ':');
    return colon != NULL ? colon + 1 + strspn(colon + 1, " \t") : "";
}

/* The name that hwloc gives, or the numbers of the device. */
static const char *pci_name(hwloc_obj_t device, char text[CELL_NBYTES])
{
    const char *vendor = hwloc_obj_get_info_by_name(device, "PCIVendor");
    const char *model = hwloc_obj_get_info_by_name(device, "PCIDevice");

    if (vendor != NULL && model != NULL) {
        snprintf(text, CELL_NBYTES, "%s %s", vendor, model);
    } else {
        snprintf(text, CELL_NBYTES, "PCI %04x:%04x", device->attr->pcidev.vendor_id,
                 device->attr->pcidev.device_id);
    }
    return text;
}

static void add_pci_device(struct table *table, hwloc_topology_t topology, hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *attr = &device->attr->pcidev;
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
    char pci[32], text[CELL_NBYTES];
    const char *name;

    snprintf(pci, sizeof(pci), "%04x:%02x:%02x.%x", attr->domain, attr->bus, attr->dev, attr->func);
    name = nvidia_model(pci, text);
    add_gpu(table, pci, name[0] != '\0' ? name : pci_name(device, text),
            place != NULL && place->nodeset != NULL ? hwloc_bitmap_first(place->nodeset) : -1);
}

/* Containers may have NVIDIA's driver without PCI devices: its own files name the GPUs. */
static void add_nvidia_files(struct table *table)
{
    DIR *dir = opendir(NVIDIA_GPUS);
    const struct dirent *entry;
    char text[CELL_NBYTES];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            add_gpu(table, entry->d_name, nvidia_model(entry->d_name, text), -1);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void info_add_gpus(struct table *table)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0) {
        return;
    }
    nxr_topology_start_no_drivers(topology);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) == 0) {
        for (hwloc_obj_t device = hwloc_get_next_pcidev(topology, NULL); device != NULL;
             device = hwloc_get_next_pcidev(topology, device)) {
            unsigned class_id = device->attr->pcidev.class_id >> 8;

            if (class_id == PCI_CLASS_DISPLAY || class_id == PCI_CLASS_ACCELERATOR) {
                add_pci_device(table, topology, device);
            }
        }
    }
    hwloc_topology_destroy(topology);
    if (table->n_rows == 0) {
        add_nvidia_files(table);
    }
}
