/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's devices and their contexts, on which the rest of the folder stands. Owns nxr_cuda. The
 * driver is loaded at the first call that needs it. A context is retained when its device is first
 * used, released when the kind stops (cuda.c), and never left current. A MIG instance is a device
 * like any other: it has its own UUID, and whether one instance can open another's memory is found
 * by trying. Lock: nxr_cuda.lock, for the list of devices and for retaining a context.
 */
#include "config.h"

#include "memory/choose.h"
#include "memory/cuda/cuda.h"
#include "util/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nxr_cuda nxr_cuda = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .memories = {&nxr_cuda.memories, &nxr_cuda.memories},
};

/* ---- contexts -------------------------------------------------------------------------------- */

bool nxr_cuda_enter(cu_context context)
{
    cu_context current = NULL;

    if (nxr_cu.CtxGetCurrent(&current) == CU_OK && current == context) {
        return false;
    }
    return nxr_cu.CtxPushCurrent(context) == CU_OK;
}

void nxr_cuda_leave(bool was_pushed)
{
    cu_context popped;

    if (was_pushed) {
        nxr_cu.CtxPopCurrent(&popped);
    }
}

int nxr_cuda_activate(struct nxr_cuda_device *device, char *why, size_t why_nbytes)
{
    cu_context context;
    cu_result result;

    if (nxr_cuda_context(device) != NULL) {
        return NIXL_OK;
    }
    device->lanes = nxr_cuda_lanes_new(nxr_cuda.n_devices);
    if (device->lanes == NULL) {
        snprintf(why, why_nbytes, "no memory for the streams of device %d", device->index);
        return NIXL_E_NO_MEMORY;
    }
    result = nxr_cu.DevicePrimaryCtxRetain(&context, device->device);
    if (result != CU_OK) {
        free(device->lanes);
        device->lanes = NULL;
        return nxr_cuda_explain("cuDevicePrimaryCtxRetain", result, why, why_nbytes);
    }
    device->peers = 1ull << device->index;
    atomic_store_explicit(&device->context, context, memory_order_release);
    nxr_debug(MEMORY, "CUDA device %d is used: %s %s", device->index, device->name, device->text);
    return NIXL_OK;
}

/* ---- devices --------------------------------------------------------------------------------- */

static bool has(cu_device device, cu_device_attribute attribute)
{
    int value = 0;

    return nxr_cu.DeviceGetAttribute(&value, attribute, device) == CU_OK && value != 0;
}

static cu_result cuda_describe(struct nxr_cuda_device *device, int index)
{
    cu_uuid uuid;
    cu_result result = nxr_cu.DeviceGet(&device->device, index);

    device->index = index;
    if (result == CU_OK) {
        result = nxr_cu.DeviceGetUuid(&uuid, device->device);
    }
    if (result == CU_OK) {
        result = nxr_cu.DeviceGetName(device->name, sizeof(device->name), device->device);
    }
    if (result != CU_OK) {
        return result;
    }
    memcpy(device->uuid, uuid.bytes, sizeof(device->uuid));
    nxr_device_id_text(device->uuid, device->text);
    if (strstr(device->name, " MIG ") != NULL) {
        memcpy(device->text, "MIG", 3);
    }
    if (nxr_cu.DeviceGetPCIBusId(device->pci, sizeof(device->pci), device->device) != CU_OK) {
        device->pci[0] = '\0';
    }
    for (char *c = device->pci; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    device->has_vmm = nxr_cu.MemCreate != NULL && has(device->device, CU_DEVICE_VMM_SUPPORTED) &&
                      has(device->device, CU_DEVICE_POSIX_FD_SUPPORTED);
    device->has_vmm_rdma = has(device->device, CU_DEVICE_RDMA_WITH_VMM_SUPPORTED);
    /* It may be mapped: the user decides which other devices can access it. */
    device->loose = (struct nxr_cuda_memory){.device = device,
                                             .home = index,
                                             .origin = NXR_CUDA_USERS,
                                             .is_vmm = true,
                                             .reachers = 1ull << index};
    device->loose_range = (struct nxr_range){.nbytes = UINTPTR_MAX,
                                             .kind = &nxr_memory_cuda,
                                             .memory = &device->loose,
                                             .is_loose = true};
    return CU_OK;
}

static int cuda_list_devices(char *why, size_t why_nbytes)
{
    cu_result result = nxr_cu.DeviceGetCount(&nxr_cuda.n_devices);

    if (result != CU_OK) {
        return nxr_cuda_explain("cuDeviceGetCount", result, why, why_nbytes);
    }
    if (nxr_cuda.n_devices <= 0) {
        return nxr_cuda_explain("cuDeviceGetCount", CU_NO_DEVICE, why, why_nbytes);
    }
    if (nxr_cuda.n_devices > 64) { /* as many as a mask has bits */
        nxr_cuda.n_devices = 64;
    }
    nxr_cuda.devices = calloc((size_t)nxr_cuda.n_devices, sizeof(nxr_cuda.devices[0]));
    if (nxr_cuda.devices == NULL) {
        snprintf(why, why_nbytes, "no memory for a list of %d devices", nxr_cuda.n_devices);
        return NIXL_E_NO_DEVICE;
    }
    for (int i = 0; i < nxr_cuda.n_devices; i++) {
        result = cuda_describe(&nxr_cuda.devices[i], i);
        if (result != CU_OK) {
            free(nxr_cuda.devices);
            nxr_cuda.devices = NULL;
            return nxr_cuda_explain("querying a device", result, why, why_nbytes);
        }
    }
    return NIXL_OK;
}

static int cuda_start_locked(char *why, size_t why_nbytes)
{
    int status;
    cu_result result;

    if (nxr_cuda.is_started) {
        return NIXL_OK;
    }
    status = nxr_cuda_load(why, why_nbytes);
    if (status != NIXL_OK) {
        return status;
    }
    result = nxr_cu.Init(0);
    if (result != CU_OK) {
        nxr_cuda_explain("cuInit", result, why, why_nbytes);
        return NIXL_E_NO_DEVICE;
    }
    nxr_cu.DriverGetVersion(&nxr_cuda.driver_version);
    if (cuda_list_devices(why, why_nbytes) != NIXL_OK) {
        return NIXL_E_NO_DEVICE;
    }
    nxr_cuda.is_started = true;
    atomic_store_explicit(&nxr_cuda.is_ready, true, memory_order_release);
    nxr_info(MEMORY, "CUDA %d.%d: %d device%s", nxr_cuda.driver_version / 1000,
             nxr_cuda.driver_version % 1000 / 10, nxr_cuda.n_devices,
             nxr_cuda.n_devices == 1 ? "" : "s");
    return NIXL_OK;
}

int nxr_cuda_start(char *why, size_t why_nbytes)
{
    int status;

    if (atomic_load_explicit(&nxr_cuda.is_ready, memory_order_acquire)) {
        return NIXL_OK;
    }
    pthread_mutex_lock(&nxr_cuda.lock);
    status = cuda_start_locked(why, why_nbytes);
    pthread_mutex_unlock(&nxr_cuda.lock);
    return status;
}

struct nxr_cuda_device *nxr_cuda_find(const unsigned char uuid[16])
{
    for (int i = 0; i < nxr_cuda.n_devices; i++) {
        if (memcmp(nxr_cuda.devices[i].uuid, uuid, 16) == 0) {
            return &nxr_cuda.devices[i];
        }
    }
    return NULL;
}

/* The device of the caller's current context; NULL: there is no context. */
static struct nxr_cuda_device *current_device(void)
{
    cu_context context = NULL;
    cu_device device;

    if (nxr_cu.CtxGetCurrent(&context) != CU_OK || context == NULL ||
        nxr_cu.CtxGetDevice(&device) != CU_OK) {
        return NULL;
    }
    for (int i = 0; i < nxr_cuda.n_devices; i++) {
        if (nxr_cuda.devices[i].device == device) {
            return &nxr_cuda.devices[i];
        }
    }
    return NULL;
}

struct nxr_cuda_device *nxr_cuda_choose(const char *wanted, int *status_p, char *why,
                                        size_t why_nbytes)
{
    struct nxr_device_id ids[64] = {0};
    struct nxr_cuda_device *current = NULL;
    size_t index;

    if (wanted == NULL || strcmp(wanted, "nearest") == 0) {
        current = current_device(); /* a caller with a current context means that device */
    }
    if (current != NULL) {
        return current;
    }
    for (int i = 0; i < nxr_cuda.n_devices; i++) {
        memcpy(ids[i].uuid, nxr_cuda.devices[i].uuid, sizeof(ids[i].uuid));
        memcpy(ids[i].pci, nxr_cuda.devices[i].pci, sizeof(ids[i].pci));
    }
    if (wanted != NULL && strncmp(wanted, "MIG-", 4) == 0) {
        wanted += 4;
    }
    *status_p =
        nxr_device_choose(wanted, "CUDA", ids, (size_t)nxr_cuda.n_devices, &index, why, why_nbytes);
    return *status_p == NIXL_OK ? &nxr_cuda.devices[index] : NULL;
}

struct nxr_cuda_device *nxr_cuda_any(void)
{
    char why[160];
    int status;

    for (int i = 0; i < nxr_cuda.n_devices; i++) {
        if (nxr_cuda_context(&nxr_cuda.devices[i]) != NULL) {
            return &nxr_cuda.devices[i];
        }
    }
    return nxr_cuda_choose(NULL, &status, why, sizeof(why));
}

/* ---- results in words ------------------------------------------------------------------------ */

static const struct {
    cu_result result;
    int status;
    const char *text;
} words[] = {
    {CU_NO_DEVICE, NIXL_E_NO_DEVICE, "no GPU that CUDA can use (CUDA_VISIBLE_DEVICES hides some)"},
    {CU_STUB_LIBRARY, NIXL_E_NO_DEVICE, "libcuda.so.1 is the toolkit's stub, not a driver"},
    {CU_SYSTEM_DRIVER_MISMATCH, NIXL_E_NO_DEVICE,
     "libcuda.so.1 and the kernel's NVIDIA driver are of different versions"},
    {CU_NOT_INITIALIZED, NIXL_E_NO_DEVICE, "CUDA does not start (not after a fork, either)"},
    {CU_DEINITIALIZED, NIXL_E_NO_DEVICE, "the process is ending: CUDA has shut down"},
    {CU_OUT_OF_MEMORY, NIXL_E_NO_MEMORY, "no memory is left on the GPU"},
};

int nxr_cuda_explain(const char *call, cu_result result, char *why, size_t why_nbytes)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].result == result) {
            snprintf(why, why_nbytes, "%s (%s: %s)", words[i].text, call, nxr_cuda_name(result));
            return words[i].status;
        }
    }
    snprintf(why, why_nbytes, "%s: %s", call, nxr_cuda_name(result));
    return NIXL_E_NO_DEVICE;
}

/* ---- attributes of addresses ----------------------------------------------------------------- */

uint64_t nxr_cuda_attribute(cu_address address, cu_pointer_attribute attribute)
{
    uint64_t value = 0; /* the driver writes one, four or eight bytes of it */

    return nxr_cu.PointerGetAttribute(&value, attribute, address) == CU_OK ? value : 0;
}

/*
 * The user's cuMemcpy() from pageable memory may return while the last bytes are still being
 * copied, and copies in our streams would not wait for these. Not all memory supports this setting.
 */
void nxr_cuda_sync_memops(cu_address address)
{
    const unsigned on = 1;

    nxr_cu.PointerSetAttribute(&on, CU_POINTER_SYNC_MEMOPS, address);
}
