/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, their primary contexts, the stack of current contexts of each thread, peer access. */
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdio.h>
#include <string.h>

#define MAX_STACK 16

struct fake_context fake_contexts[FAKE_MAX_DEVICES];
size_t fake_used[FAKE_MAX_DEVICES];

static __thread struct fake_context *stack[MAX_STACK];
static __thread int stack_size;

struct fake_context *fake_current(void)
{
    return stack_size > 0 ? stack[stack_size - 1] : NULL;
}

bool fake_is_ordinal(int device)
{
    return device >= 0 && device < fake_settings.n_visible;
}

int fake_physical(int ordinal)
{
    return fake_settings.visible[ordinal];
}

int fake_ordinal(int physical)
{
    for (int i = 0; i < fake_settings.n_visible; ++i) {
        if (fake_settings.visible[i] == physical) {
            return i;
        }
    }
    return -1;
}

/* A handle that the caller showed: one of ours that is retained, or it is misused. */
static struct fake_context *context_check(struct fake_context *context, const char *function)
{
    if (context == NULL) {
        return NULL;
    }
    if (context < fake_contexts || context >= fake_contexts + FAKE_MAX_DEVICES) {
        fake_misuse("%s(): %p is no context", function, (void *)context);
    }
    if (context->n_retained == 0) {
        fake_misuse("%s(): the primary context of device %d is not retained", function,
                    context->device);
    }
    return context;
}

FAKE_API int cuDeviceGetCount(int *count_p)
{
    ENTER();
    *count_p = fake_settings.n_visible;
    return CU_OK;
}

FAKE_API int cuDeviceGet(int *device_p, int ordinal)
{
    ENTER();
    if (!fake_is_ordinal(ordinal)) {
        return CU_INVALID_DEVICE;
    }
    *device_p = ordinal;
    return CU_OK;
}

FAKE_API int cuDeviceGetName(char *name, int nbytes, int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    snprintf(name, (size_t)nbytes, "stand-in GPU %d", fake_physical(device));
    return CU_OK;
}

FAKE_API int cuDeviceGetUuid_v2(struct cu_uuid *uuid_p, int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    memset(uuid_p->bytes, 0, sizeof(uuid_p->bytes));
    if (fake_physical(device) == 0 && fake_settings.uuid != NULL) {
        memcpy(uuid_p->bytes, fake_settings.uuid, strnlen(fake_settings.uuid, 16));
        return CU_OK;
    }
    memcpy(uuid_p->bytes, "stand-in GPU", 12);
    uuid_p->bytes[15] = (unsigned char)fake_physical(device);
    return CU_OK;
}

FAKE_API int cuDeviceGetPCIBusId(char *text, int nbytes, int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    snprintf(text, (size_t)nbytes, "0000:%02x:00.0", 0xa0 + fake_physical(device));
    return CU_OK;
}

FAKE_API int cuDeviceTotalMem_v2(size_t *nbytes_p, int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    *nbytes_p = fake_settings.nbytes;
    return CU_OK;
}

FAKE_API int cuDeviceGetAttribute(int *value_p, int attribute, int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    switch (attribute) {
    case CU_DEV_MULTIPROCESSORS:
    case CU_DEV_UNIFIED_ADDRESSING:
    case CU_DEV_MANAGED:
    case CU_DEV_HOST_REGISTER:
    case CU_DEV_VMM:
    case CU_DEV_POSIX_FD:
    case CU_DEV_VMM_RDMA:
    case CU_DEV_POOLS:
        *value_p = 1;
        return CU_OK;
    case CU_DEV_POOL_HANDLE_TYPES:
        *value_p = CU_HANDLE_POSIX_FD;
        return CU_OK;
    case CU_DEV_64_BIT_STREAM_OPS:
    case CU_DEV_WAIT_NOR:
        *value_p = fake_settings.has_stream_ops;
        return CU_OK;
    case CU_DEV_PCI_BUS:
        *value_p = 0xa0 + fake_physical(device);
        return CU_OK;
    case CU_DEV_MAJOR:
        *value_p = 9;
        return CU_OK;
    default:
        *value_p = 0;
        return attribute > 0 && attribute < 256 ? CU_OK : CU_INVALID_VALUE;
    }
}

FAKE_API int cuDevicePrimaryCtxRetain(struct fake_context **context_p, int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    ++fake_contexts[device].n_retained;
    pthread_mutex_unlock(&fake_lock);
    *context_p = &fake_contexts[device];
    return CU_OK;
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    if (fake_contexts[device].n_retained == 0) {
        fake_misuse("cuDevicePrimaryCtxRelease(): device %d was not retained", device);
    }
    --fake_contexts[device].n_retained;
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuDevicePrimaryCtxGetState(int device, unsigned *flags_p, int *is_active_p)
{
    ENTER();
    if (!fake_is_ordinal(device)) {
        return CU_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    *flags_p = 0;
    *is_active_p = fake_contexts[device].n_retained > 0;
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuCtxGetCurrent(struct fake_context **context_p)
{
    ENTER();
    *context_p = fake_current();
    return CU_OK;
}

FAKE_API int cuCtxSetCurrent(struct fake_context *context)
{
    ENTER();
    context_check(context, "cuCtxSetCurrent");
    if (stack_size > 0) {
        --stack_size;
    }
    if (context != NULL) {
        stack[stack_size++] = context;
    }
    return CU_OK;
}

FAKE_API int cuCtxPushCurrent_v2(struct fake_context *context)
{
    ENTER();
    if (context == NULL) {
        return CU_INVALID_VALUE;
    }
    if (stack_size == MAX_STACK) {
        fake_misuse("cuCtxPushCurrent(): %d contexts were pushed and none popped", MAX_STACK);
    }
    stack[stack_size++] = context_check(context, "cuCtxPushCurrent");
    return CU_OK;
}

FAKE_API int cuCtxPopCurrent_v2(struct fake_context **context_p)
{
    ENTER();
    if (stack_size == 0) {
        return CU_INVALID_CONTEXT;
    }
    --stack_size;
    if (context_p != NULL) {
        *context_p = stack[stack_size];
    }
    return CU_OK;
}

FAKE_API int cuCtxGetDevice(int *device_p)
{
    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    *device_p = fake_current()->device;
    return CU_OK;
}

FAKE_API int cuCtxGetId(struct fake_context *context, unsigned long long *id_p)
{
    ENTER();
    context = context != NULL ? context_check(context, "cuCtxGetId") : fake_current();
    if (context == NULL) {
        return CU_INVALID_CONTEXT;
    }
    *id_p = (unsigned long long)context->device + 1;
    return CU_OK;
}

FAKE_API int cuCtxSynchronize(void)
{
    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&fake_lock);
    fake_context_drain(fake_current());
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuDeviceCanAccessPeer(int *can_p, int device, int peer)
{
    ENTER();
    if (!fake_is_ordinal(device) || !fake_is_ordinal(peer)) {
        return CU_INVALID_DEVICE;
    }
    *can_p = device != peer && fake_settings.has_p2p;
    return CU_OK;
}

FAKE_API int cuDeviceGetP2PAttribute(int *value_p, int attribute, int device, int peer)
{
    (void)attribute;
    return cuDeviceCanAccessPeer(value_p, device, peer);
}

FAKE_API int cuCtxEnablePeerAccess(struct fake_context *peer, unsigned flags)
{
    struct fake_context *current = fake_current();
    int result = CU_OK;

    ENTER();
    if (current == NULL || context_check(peer, "cuCtxEnablePeerAccess") == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (flags != 0) {
        return CU_INVALID_VALUE;
    }
    if (peer == current || !fake_settings.has_p2p) {
        return peer == current ? CU_INVALID_DEVICE : CU_PEER_UNSUPPORTED;
    }
    pthread_mutex_lock(&fake_lock);
    if (current->peers[peer->device]) {
        result = CU_PEER_ENABLED;
    }
    current->peers[peer->device] = true;
    pthread_mutex_unlock(&fake_lock);
    return result;
}
