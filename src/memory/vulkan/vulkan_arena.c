/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory is allocated in chunks that regions share: an allocation that other processes and CUDA can
 * open costs a millisecond in the driver and a descriptor, and drivers limit their number. Peers
 * open a chunk once, and can see everything in it: they are processes of one job and one user. A
 * large region is a chunk of its own. Some empty chunks are kept for later regions.
 *
 * Memory that was never used is zero. On a GPU, a slice is cleared when it is reused; on a
 * processor, its pages are returned to the kernel when it is freed. Lock: nxr_vulkan.lock.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define UNIT_NBYTES  (64ul << 10) /* granularity of slices: whole pages, whatever the page size */
#define CHUNK_NBYTES (64ul << 20)
#define KEPT_NBYTES  (128ul << 20) /* at most this much in empty chunks */

static struct nxr_list chunks = {&chunks, &chunks};

/* Is it host memory, which need not be cleared? */
static bool is_of_pages(const struct nxr_vulkan_memory *chunk)
{
    return chunk->device->type == VK_PHYSICAL_DEVICE_TYPE_CPU && chunk->map != NULL;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static int chunk_new(struct nxr_vulkan_device *device, uint64_t nbytes,
                     struct nxr_vulkan_memory **chunk_p, char *why, size_t why_nbytes)
{
    const struct nxr_vulkan_make make = {
        .device = device,
        .purpose = NXR_VULKAN_SHARED,
        .nbytes = nbytes,
    };
    struct nxr_vulkan_memory *chunk;
    int status = nxr_vulkan_make(&make, &chunk, why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_vulkan_clear(chunk, 0, chunk->buffer_nbytes, true);
    if (status != NIXL_OK) {
        snprintf(why, why_nbytes, "cannot clear %llu bytes on %.60s", (unsigned long long)nbytes,
                 device->name);
    } else {
        status = nxr_vulkan_export(chunk, &chunk->fd, why, why_nbytes);
    }
    if (status == NIXL_OK) {
        status = nxr_vulkan_place(chunk, chunk->fd, false, why, why_nbytes);
    }
    if (status != NIXL_OK) {
        nxr_vulkan_unmake(chunk);
        return status;
    }
    chunk->is_shared = true;
    nxr_list_append(&chunks, &chunk->link);
    *chunk_p = chunk;
    return NIXL_OK;
}

static void chunk_free(struct nxr_vulkan_memory *chunk)
{
    nxr_list_remove(&chunk->link);
    nxr_vulkan_unmake(chunk);
}

static uint64_t nbytes_kept(void)
{
    struct nxr_list *link, *after;
    uint64_t nbytes = 0;

    nxr_list_for_each (link, after, &chunks) {
        const struct nxr_vulkan_memory *chunk =
            nxr_list_entry(link, struct nxr_vulkan_memory, link);

        nbytes += chunk->n_slices == 0 ? chunk->nbytes : 0;
    }
    return nbytes;
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* The offset of the first gap of that size; false: none. *index_p: the slice after it. */
static bool find_gap(const struct nxr_vulkan_memory *chunk, uint64_t nbytes, uint64_t *offset_p,
                     size_t *index_p)
{
    uint64_t from = 0;

    for (size_t i = 0; i <= chunk->n_slices; i++) {
        uint64_t to = i < chunk->n_slices ? chunk->slices[i].offset : chunk->buffer_nbytes;

        if (to - from >= nbytes) {
            *offset_p = from;
            *index_p = i;
            return true;
        }
        from = i < chunk->n_slices ? to + chunk->slices[i].nbytes : to;
    }
    return false;
}

static bool add_slice(struct nxr_vulkan_memory *chunk, size_t index, uint64_t offset,
                      uint64_t nbytes)
{
    if (chunk->n_slices == chunk->n_room) {
        size_t n_room = chunk->n_room + 32;
        struct nxr_vulkan_slice *slices = realloc(chunk->slices, n_room * sizeof(*slices));

        if (slices == NULL) {
            return false;
        }
        chunk->slices = slices;
        chunk->n_room = n_room;
    }
    memmove(&chunk->slices[index + 1], &chunk->slices[index],
            (chunk->n_slices - index) * sizeof(chunk->slices[0]));
    chunk->slices[index] = (struct nxr_vulkan_slice){offset, nbytes};
    chunk->n_slices++;
    return true;
}

/* Take a slice of an existing chunk or a new one. Caller holds the lock. */
static int take_locked(struct nxr_vulkan_device *device, uint64_t nbytes,
                       struct nxr_vulkan_memory **chunk_p, uint64_t *offset_p, char *why,
                       size_t why_nbytes)
{
    struct nxr_vulkan_memory *chunk = NULL;
    struct nxr_list *link, *after;
    int status = NIXL_OK;
    size_t index = 0;

    nxr_list_for_each (link, after, &chunks) {
        chunk = nxr_list_entry(link, struct nxr_vulkan_memory, link);
        if (chunk->device == device && find_gap(chunk, nbytes, offset_p, &index)) {
            break;
        }
        chunk = NULL;
    }
    if (chunk == NULL) {
        *offset_p = 0;
        status = nbytes < CHUNK_NBYTES ? chunk_new(device, CHUNK_NBYTES, &chunk, why, why_nbytes)
                                       : NIXL_E_NO_MEMORY;
        if (status == NIXL_E_NO_MEMORY) {
            status = chunk_new(device, nbytes, &chunk, why, why_nbytes);
        }
    }
    if (status == NIXL_OK && !add_slice(chunk, index, *offset_p, nbytes)) {
        snprintf(why, why_nbytes, "no memory");
        status = NIXL_E_NO_MEMORY;
    }
    *chunk_p = chunk;
    return status;
}

int nxr_vulkan_slice_take(struct nxr_vulkan_device *device, uint64_t nbytes,
                          struct nxr_vulkan_memory **memory_p, uint64_t *offset_p, char *why,
                          size_t why_nbytes)
{
    uint64_t used = 0;
    int status;

    if (atomic_load(&device->is_lost)) {
        snprintf(why, why_nbytes, "the Vulkan device %.60s is lost", device->name);
        return NIXL_E_TRANSPORT;
    }
    nbytes = nbytes <= UINT64_MAX - UNIT_NBYTES
                 ? (nbytes + UNIT_NBYTES - 1) / UNIT_NBYTES * UNIT_NBYTES
                 : nbytes;
    pthread_mutex_lock(&nxr_vulkan.lock);
    status = take_locked(device, nbytes, memory_p, offset_p, why, why_nbytes);
    if (status == NIXL_OK) {
        used = (*memory_p)->n_used;
        (*memory_p)->n_used = *offset_p + nbytes > used ? *offset_p + nbytes : used;
    }
    pthread_mutex_unlock(&nxr_vulkan.lock);
    if (status == NIXL_OK && *offset_p < used && !is_of_pages(*memory_p)) {
        status = nxr_vulkan_clear(*memory_p, *offset_p, nbytes, false);
        if (status != NIXL_OK) {
            snprintf(why, why_nbytes, "cannot clear %llu bytes on %.60s",
                     (unsigned long long)nbytes, device->name);
            nxr_vulkan_slice_give(*memory_p, *offset_p);
        }
    }
    return status;
}

/* Host pages are returned to the kernel, which supplies new ones that are zero. */
static void give_pages(const struct nxr_vulkan_memory *chunk, const struct nxr_vulkan_slice *slice)
{
    if (is_of_pages(chunk) &&
        madvise(chunk->map + slice->offset, slice->nbytes, MADV_REMOVE) != 0) {
        memset(chunk->map + slice->offset, 0, slice->nbytes);
    }
}

void nxr_vulkan_slice_give(struct nxr_vulkan_memory *memory, uint64_t offset)
{
    size_t index = 0;

    pthread_mutex_lock(&nxr_vulkan.lock);
    while (index + 1 < memory->n_slices && memory->slices[index].offset != offset) {
        index++;
    }
    give_pages(memory, &memory->slices[index]);
    memory->n_slices--;
    memmove(&memory->slices[index], &memory->slices[index + 1],
            (memory->n_slices - index) * sizeof(memory->slices[0]));
    if (memory->n_slices == 0 && nbytes_kept() > KEPT_NBYTES) {
        chunk_free(memory);
    }
    pthread_mutex_unlock(&nxr_vulkan.lock);
}

void nxr_vulkan_arena_free(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &chunks) {
        chunk_free(nxr_list_entry(link, struct nxr_vulkan_memory, link));
    }
}
