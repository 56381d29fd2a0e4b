/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that Vulkan devices access directly: whole pages of it, imported when a copy first
 * needs them. Devices that cannot do that copy through staging buffers instead. Lock:
 * nxr_vulkan.lock.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "memory/cuda/kind.h"

#include "util/log.h"

#include <stdlib.h>
#include <unistd.h>

struct pin {
    struct nxr_list link;
    char *addr; /* as passed to pin(), to find it again */
    size_t nbytes;
    struct nxr_vulkan_memory *memory[NXR_VULKAN_MAX_DEVICES]; /* NULL: not imported */
    bool is_refused[NXR_VULKAN_MAX_DEVICES];
    char *base; /* of the pages */
};

static struct nxr_list vulkan_pin_pins = {&vulkan_pin_pins, &vulkan_pin_pins};

static void pin_free(struct pin *pin)
{
    for (size_t i = 0; i < NXR_VULKAN_MAX_DEVICES; i++) {
        if (pin->memory[i] != NULL) {
            nxr_vulkan_unmake(pin->memory[i]);
        }
    }
    nxr_list_remove(&pin->link);
    free(pin);
}

static struct pin *vulkan_pin_find(const void *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &vulkan_pin_pins) {
        struct pin *pin = nxr_list_entry(link, struct pin, link);

        if (pin->addr == addr) {
            return pin;
        }
    }
    return NULL;
}

void nxr_vulkan_pin(void *addr, size_t nbytes)
{
    struct pin *pin;

    if (atomic_load(&nxr_vulkan.uses_cuda)) {
        nxr_memory_cuda.pin(addr, nbytes);
    }
    pthread_mutex_lock(&nxr_vulkan.lock);
    pin = vulkan_pin_find(addr);
    if (pin != NULL && pin->nbytes != nbytes) {
        pin_free(pin);
        pin = NULL;
    }
    if (pin == NULL && (pin = calloc(1, sizeof(*pin))) != NULL) {
        pin->addr = addr;
        pin->nbytes = nbytes;
        nxr_list_append(&vulkan_pin_pins, &pin->link);
    }
    pthread_mutex_unlock(&nxr_vulkan.lock);
}

void nxr_vulkan_unpin(void *addr)
{
    struct pin *pin;

    pthread_mutex_lock(&nxr_vulkan.lock);
    pin = vulkan_pin_find(addr);
    if (pin != NULL) {
        pin_free(pin);
    }
    pthread_mutex_unlock(&nxr_vulkan.lock);
}

void nxr_vulkan_unpin_all(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &vulkan_pin_pins) {
        pin_free(nxr_list_entry(link, struct pin, link));
    }
}

/*
 * Import the pages that it is in. Drivers do not check what they are given, so only whole pages are
 * imported, and only if the device requires no larger unit than a page.
 */
static void import_pages(struct pin *pin, struct nxr_vulkan_device *device, size_t index)
{
    size_t page_nbytes = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)pin->addr % page_nbytes;
    struct nxr_vulkan_make make = {
        .device = device,
        .purpose = NXR_VULKAN_PIN,
        .addr = pin->addr - before,
        .nbytes = (before + pin->nbytes + page_nbytes - 1) / page_nbytes * page_nbytes,
    };
    char why[160];

    pin->is_refused[index] = true;
    if (device->host_alignment == 0 || device->host_alignment > page_nbytes) {
        return;
    }
    if (nxr_vulkan_make(&make, &pin->memory[index], why, sizeof(why)) == NIXL_OK) {
        pin->is_refused[index] = false;
        pin->base = make.addr;
    } else {
        nxr_debug(MEMORY, "vulkan: %zu bytes of host memory are not pinned: %s", pin->nbytes, why);
    }
}

bool nxr_vulkan_pinned(struct nxr_vulkan_device *device, const void *addr, size_t nbytes,
                       struct nxr_vulkan_window *window_p)
{
    size_t index = (size_t)(device - nxr_vulkan.devices);
    struct nxr_list *link, *after;
    bool is_pinned = false;

    pthread_mutex_lock(&nxr_vulkan.lock);
    nxr_list_for_each (link, after, &vulkan_pin_pins) {
        struct pin *pin = nxr_list_entry(link, struct pin, link);
        size_t offset = (uintptr_t)addr - (uintptr_t)pin->addr;

        if ((uintptr_t)addr < (uintptr_t)pin->addr || offset > pin->nbytes ||
            nbytes > pin->nbytes - offset) {
            continue;
        }
        if (pin->memory[index] == NULL && !pin->is_refused[index]) {
            import_pages(pin, device, index);
        }
        if (pin->memory[index] != NULL) {
            window_p->buffer = pin->memory[index]->buffer;
            window_p->offset = (uint64_t)((const char *)addr - pin->base);
            is_pinned = true;
            break;
        }
    }
    pthread_mutex_unlock(&nxr_vulkan.lock);
    return is_pinned;
}
