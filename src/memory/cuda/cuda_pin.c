/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the GPUs can access: page-locked by the driver for all devices, so that copies
 * run at the bus's speed (55 GB/s, not 10 to 22) and do not block the caller. The list records
 * which memory was page-locked here and must be released before it is unmapped. Lock:
 * nxr_cuda.lock.
 */
#include "config.h"

#include "memory/cuda/cuda.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>

struct pin {
    struct nxr_list link;
    char *addr;
    size_t nbytes;
};

static struct nxr_list cuda_pin_pins = {&cuda_pin_pins, &cuda_pin_pins};
static _Atomic uint32_t n_pins;

static struct pin *cuda_pin_find(const char *addr)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &cuda_pin_pins) {
        struct pin *pin = nxr_list_entry(link, struct pin, link);

        if (addr >= pin->addr && addr < pin->addr + pin->nbytes) {
            return pin;
        }
    }
    return NULL;
}

static bool pin_in_context(void *addr, size_t nbytes, char *why, size_t why_nbytes)
{
    struct pin *pin = malloc(sizeof(*pin));
    cu_result result;

    if (pin == NULL) {
        snprintf(why, why_nbytes, "no memory to remember pinned memory");
        return false;
    }
    result = nxr_cu.MemHostRegister(addr, nbytes, CU_REGISTER_PORTABLE | CU_REGISTER_DEVICEMAP);
    if (result == CU_OK) {
        *pin = (struct pin){.addr = addr, .nbytes = nbytes};
        nxr_list_append(&cuda_pin_pins, &pin->link);
        atomic_fetch_add(&n_pins, 1);
        return true;
    }
    free(pin);
    snprintf(why, why_nbytes, "cuMemHostRegister of %zu bytes: %s", nbytes, nxr_cuda_name(result));
    return result == CU_HOST_MEMORY_ALREADY_REGISTERED; /* page-locked by others: just as good */
}

bool nxr_cuda_pin_now(void *addr, size_t nbytes, char *why, size_t why_nbytes)
{
    struct nxr_cuda_device *device;
    bool is_pinned = false, was_pushed;

    if (nxr_cuda_start(why, why_nbytes) != NIXL_OK) {
        return false;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    device = nxr_cuda_any();
    if (cuda_pin_find(addr) != NULL) {
        is_pinned = true;
    } else if (device != NULL && nxr_cuda_activate(device, why, why_nbytes) == NIXL_OK) {
        was_pushed = nxr_cuda_enter(nxr_cuda_context(device));
        is_pinned = pin_in_context(addr, nbytes, why, why_nbytes);
        nxr_cuda_leave(was_pushed);
    }
    pthread_mutex_unlock(&nxr_cuda.lock);
    return is_pinned;
}

void nxr_cuda_pin(void *addr, size_t nbytes)
{
    char why[160];

    if (!nxr_cuda_pin_now(addr, nbytes, why, sizeof(why))) {
        nxr_info(MEMORY, "host memory is not page-locked, copies to and from it are slower: %s",
                 why);
    }
}

static void unpin(struct pin *pin)
{
    struct nxr_cuda_device *device = nxr_cuda_any();
    bool was_pushed = nxr_cuda_enter(nxr_cuda_context(device));

    nxr_cu.MemHostUnregister(pin->addr);
    nxr_cuda_leave(was_pushed);
    nxr_list_remove(&pin->link);
    atomic_fetch_sub(&n_pins, 1);
    free(pin);
}

void nxr_cuda_unpin(void *addr)
{
    struct pin *pin;

    if (atomic_load_explicit(&n_pins, memory_order_acquire) == 0) {
        return;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    pin = cuda_pin_find(addr);
    if (pin != NULL && pin->addr == (char *)addr) {
        unpin(pin);
    }
    pthread_mutex_unlock(&nxr_cuda.lock);
}

void nxr_cuda_unpin_all(void)
{
    while (!nxr_list_is_empty(&cuda_pin_pins)) {
        unpin(nxr_list_entry(cuda_pin_pins.next, struct pin, link));
    }
}
