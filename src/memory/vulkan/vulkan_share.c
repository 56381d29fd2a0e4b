/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing Vulkan memory to other processes, and opening theirs.
 *
 * What drivers do with descriptors was found by experiment: an import closes its descriptor, even
 * if it fails, so each import gets a descriptor of its own, which is not closed after a failure. An
 * export may return -1 and report success. lavapipe reads from whatever descriptor it is given, at
 * the file position that all duplicates share.
 *
 * Lock: none; the core imports one segment at a time.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "core/job.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NVIDIA_MAJOR 195 /* /dev/nvidiactl and the like */

/* lavapipe's memory begins with this: its size, and where the bytes are. */
struct lavapipe_header {
    uint64_t nbytes;
    uint64_t offset;
};

/* A peer's allocation, opened once for all segments in it. */
struct opened {
    struct nxr_list link;
    int rank;
    struct nxr_export export; /* offset 0 */
    struct nxr_vulkan_memory *memory;
    unsigned n_segments;
};

/* A segment in it. */
struct nxr_import {
    struct opened *opened;
    struct nxr_range *range;
};

static struct nxr_list all_opened = {&all_opened, &all_opened};

/* ---- descriptors ----------------------------------------------------------------------------- */

int nxr_vulkan_export(struct nxr_vulkan_memory *memory, int *fd_p, char *why, size_t why_nbytes)
{
    const VkMemoryGetFdInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
        .memory = memory->memory,
        .handleType = NXR_VULKAN_HANDLE,
    };
    int fd = -1;
    VkResult result = nxr_vk.GetMemoryFdKHR(memory->device->device, &info, &fd);

    if (result != VK_SUCCESS || fd < 0) {
        snprintf(why, why_nbytes, "%.60s exports no memory: %s", memory->device->name,
                 result != VK_SUCCESS ? nxr_vulkan_text(result) : "the driver gave no descriptor");
        return result != VK_SUCCESS ? nxr_vulkan_status(memory->device, result) : NIXL_E_NO_DEVICE;
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        snprintf(why, why_nbytes, "a descriptor of %.60s: %s", memory->device->name,
                 strerror(errno));
        close(fd);
        return NIXL_E_LIMIT;
    }
    *fd_p = fd;
    return NIXL_OK;
}

/* Is that memory of lavapipe's: a sealed file as large as its header says? */
static bool is_lavapipe_memory(int fd, const struct stat *info, uint64_t nbytes)
{
    struct lavapipe_header header;
    int seals = fcntl(fd, F_GET_SEALS);

    return S_ISREG(info->st_mode) && seals >= 0 && (seals & F_SEAL_SHRINK) != 0 &&
           pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
           header.nbytes <= (uint64_t)info->st_size && header.offset <= header.nbytes &&
           nbytes <= header.nbytes - header.offset;
}

/* A GPU's memory is a device file of NVIDIA's or a DMA buffer. */
static bool is_gpu_memory(int fd, const struct stat *info)
{
    static const char dma_buffer[] = "/dmabuf:";
    char path[64], link[64];
    ssize_t got;

    if (S_ISCHR(info->st_mode)) {
        return major(info->st_rdev) == NVIDIA_MAJOR;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    got = readlink(path, link, sizeof(link));
    return got >= (ssize_t)sizeof(dma_buffer) - 1 &&
           memcmp(link, dma_buffer, sizeof(dma_buffer) - 1) == 0;
}

/* Is the descriptor of the right type? With another type, a driver may hang. */
static bool is_fit(const struct nxr_vulkan_device *device, int fd, uint64_t nbytes)
{
    struct stat info;

    if (fd < 0 || fstat(fd, &info) != 0) {
        return false;
    }
    return device->type == VK_PHYSICAL_DEVICE_TYPE_CPU ? is_lavapipe_memory(fd, &info, nbytes)
                                                       : is_gpu_memory(fd, &info);
}

/* A descriptor for the driver to keep: if it is a file, with a file position of its own. */
static int copy_descriptor(const struct nxr_vulkan_device *device, int fd)
{
    char path[64];
    int own = -1;

    if (device->type == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        own = open(path, O_RDWR | O_CLOEXEC);
    }
    return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* ---- opening --------------------------------------------------------------------------------- */

int nxr_vulkan_open(const struct nxr_export *export, uint64_t nbytes, int fd,
                    struct nxr_vulkan_memory **memory_p, char *why, size_t why_nbytes)
{
    struct nxr_vulkan_make make = {
        .purpose = NXR_VULKAN_IMPORT,
        .nbytes = export->nbytes,
        .type = export->memory_type,
        .is_dedicated = export->is_dedicated != 0,
    };
    int status = nxr_vulkan_find(export->device, export->driver, &make.device, why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    if (nbytes == 0 || export->offset > export->nbytes ||
        nbytes > export->nbytes - export->offset) {
        snprintf(why, why_nbytes, "%llu bytes at %llu are outside of an allocation of %llu",
                 (unsigned long long)nbytes, (unsigned long long)export->offset,
                 (unsigned long long)export->nbytes);
        return NIXL_E_INVALID_ARG;
    }
    if (!is_fit(make.device, fd, export->nbytes)) {
        snprintf(why, why_nbytes, "descriptor %d is not memory of %.60s with %llu bytes", fd,
                 make.device->name, (unsigned long long)export->nbytes);
        return NIXL_E_INVALID_ARG;
    }
    make.fd = copy_descriptor(make.device, fd);
    if (make.fd < 0) {
        snprintf(why, why_nbytes, "cannot copy descriptor %d: %s", fd, strerror(errno));
        return NIXL_E_LIMIT;
    }
    status = nxr_vulkan_make(&make, memory_p, why, why_nbytes);
    if (status == NIXL_OK && export->offset + nbytes > (*memory_p)->buffer_nbytes) {
        snprintf(why, why_nbytes, "the last bytes of an allocation of %llu cannot be reached",
                 (unsigned long long)export->nbytes);
        nxr_vulkan_unmake(*memory_p);
        status = NIXL_E_INVALID_ARG;
    }
    return status;
}

/* ---- segments of peers ----------------------------------------------------------------------- */

/* Find the allocation that a segment is in, if it is open already. */
static struct opened *find_opened(int rank, const struct nxr_export *whole)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &all_opened) {
        struct opened *opened = nxr_list_entry(link, struct opened, link);

        if (opened->rank == rank && memcmp(&opened->export, whole, sizeof(*whole)) == 0) {
            return opened;
        }
    }
    return NULL;
}

static void vulkan_share_drop(struct opened *opened)
{
    if (opened->n_segments == 0) {
        nxr_list_remove(&opened->link);
        if (opened->memory != NULL) {
            nxr_vulkan_unmake(opened->memory);
        }
        free(opened);
    }
}

/* Open the whole allocation. NULL and a note: it cannot be opened. */
static struct opened *open_whole(struct nxr_segment *segment, int fd, int *status_p)
{
    struct nxr_export whole = segment->export;
    int rank = segment->peer != NULL ? segment->peer->rank : -1;
    struct opened *opened;

    whole.offset = 0;
    opened = find_opened(rank, &whole);
    if (opened != NULL) {
        return opened;
    }
    opened = calloc(1, sizeof(*opened));
    if (opened == NULL) {
        *status_p = NIXL_E_NO_MEMORY;
        return NULL;
    }
    nxr_list_init(&opened->link);
    *status_p = nxr_vulkan_open(&segment->export, segment->nbytes, fd, &opened->memory,
                                segment->note, sizeof(segment->note));
    if (*status_p == NIXL_OK) {
        *status_p =
            nxr_vulkan_place(opened->memory, fd, true, segment->note, sizeof(segment->note));
    }
    if (*status_p != NIXL_OK) {
        vulkan_share_drop(opened);
        return NULL;
    }
    opened->rank = rank;
    opened->export = whole;
    nxr_list_append(&all_opened, &opened->link);
    return opened;
}

/* Does the segment lie within what was opened, possibly for another segment? */
static bool is_inside(const struct nxr_segment *segment, const struct nxr_vulkan_memory *memory)
{
    return segment->export.offset <= memory->buffer_nbytes &&
           segment->nbytes <= memory->buffer_nbytes - segment->export.offset;
}

int nxr_vulkan_import(struct nxr_segment *segment, int fd)
{
    struct nxr_import *import = calloc(1, sizeof(*import));
    int status = NIXL_E_NO_MEMORY;
    struct opened *opened = import != NULL ? open_whole(segment, fd, &status) : NULL;
    char *addr;

    if (opened == NULL) {
        free(import);
        return status;
    }
    addr = opened->memory->base + segment->export.offset;
    status = NIXL_E_INVALID_ARG;
    if (is_inside(segment, opened->memory)) {
        status = nxr_range_add((uintptr_t)addr, segment->nbytes, &nxr_memory_vulkan, opened->memory,
                               &import->range);
    }
    if (status != NIXL_OK) {
        snprintf(segment->note, sizeof(segment->note), "%s",
                 status == NIXL_E_INVALID_ARG ? "it is outside of its allocation" : "no memory");
        vulkan_share_drop(opened);
        free(import);
        return status;
    }
    import->range->is_mapped = nxr_vulkan_is_mapped(opened->memory);
    opened->n_segments++;
    import->opened = opened;
    segment->import = import;
    segment->addr = addr;
    return NIXL_OK;
}

void nxr_vulkan_unimport(struct nxr_segment *segment)
{
    struct nxr_import *import = segment->import;

    segment->import = NULL;
    nxr_range_remove(import->range);
    import->opened->n_segments--;
    vulkan_share_drop(import->opened);
    free(import);
}
