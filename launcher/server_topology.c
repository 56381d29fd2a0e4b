/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's topology for clients. Since PMIx 6 each client gets one while it joins, and ignores
 * PMIX_TOPOLOGY2: it loads its own, which is slow and serialized in the kernel, unless the job's
 * data names a file with one in shared memory. Then it maps that at the address that the data
 * gives. A client that cannot (the address is in use, or its hwloc differs) loads its own, as
 * without the file.
 */
#include "config.h"

#include "launcher/server.h"
#include "util/file_limit.h"
#include "util/topology.h"

#include <fcntl.h>
#include <hwloc/shmem.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_MAJOR = 6 };

/*
 * Where clients map it: far from programs, heaps, libraries and stacks, from the segments of PMIx
 * and the shadows of sanitizers. The last one is for processors with 39 bits of address.
 */
static const uint64_t addresses[] = {0x680000000000, 0x580000000000, 0x3000000000};

/* The file of this nixlrun, made for its first job. The address is 0 if there is none. */
static struct {
    bool is_made;
    char path[PATH_MAX];
    size_t address, nbytes;
} shared;

/* "OpenPMIx 6.1.0, ..." */
static int pmix_major(void)
{
    const char *version = PMIx_Get_version();

    return atoi(version + strcspn(version, "0123456789"));
}

/* As PMIx's clients load it, but without devices that only drivers know. NULL: hwloc failed. */
static hwloc_topology_t server_topology_load(void)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0) {
        return NULL;
    }
    nxr_topology_start_no_drivers(topology);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

/* Write it for the first address that is free. Returns this address, or 0. */
static size_t write_file(hwloc_topology_t topology, int fd, size_t nbytes)
{
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        if (addresses[i] <= SIZE_MAX &&
            hwloc_shmem_topology_write(topology, fd, 0, (void *)(uintptr_t)addresses[i], nbytes,
                                       0) == 0) {
            return (size_t)addresses[i];
        }
    }
    return 0;
}

static void server_topology_make(void)
{
    hwloc_topology_t topology;
    int fd;

    if (snprintf(shared.path, sizeof(shared.path), "%s/topology", session.tmpdir) >=
        (int)sizeof(shared.path)) {
        return;
    }
    topology = server_topology_load();
    if (topology == NULL) {
        return;
    }
    fd = open(shared.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        /* Reserve the space now: with a full disk, writing to the mapping would raise SIGBUS. */
        if (hwloc_shmem_topology_get_length(topology, &shared.nbytes, 0) == 0 &&
            nxr_file_may_have(shared.nbytes) && posix_fallocate(fd, 0, (off_t)shared.nbytes) == 0) {
            shared.address = write_file(topology, fd, shared.nbytes);
        }
        close(fd);
    }
    hwloc_topology_destroy(topology);
}

void server_add_topology(void *list)
{
    if (!shared.is_made && pmix_major() >= FIRST_MAJOR) {
        server_topology_make();
    }
    shared.is_made = true;
    if (shared.address != 0) {
        PMIx_Info_list_add(list, PMIX_HWLOC_SHMEM_FILE, shared.path, PMIX_STRING);
        PMIx_Info_list_add(list, PMIX_HWLOC_SHMEM_ADDR, &shared.address, PMIX_SIZE);
        PMIx_Info_list_add(list, PMIX_HWLOC_SHMEM_SIZE, &shared.nbytes, PMIX_SIZE);
    }
}
