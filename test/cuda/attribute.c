/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of memory an address is of, as cuPointerGetAttribute(s) tell it. */
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <string.h>

static bool is_host(const struct fake_range *range)
{
    return range->kind == FAKE_PINNED || range->kind == FAKE_REGISTERED;
}

static int handle_types(const struct fake_range *range)
{
    return range->kind == FAKE_VMM || range->kind == FAKE_POOLED
               ? range->backing->head->handle_types
               : 0;
}

/* One attribute of memory that is there; false: unknown. */
static bool attribute_of(const struct fake_range *range, uintptr_t addr, int attribute, void *data)
{
    uintptr_t start = range->addr;

    switch (attribute) {
    case CU_PTR_CONTEXT: /* VMM and pools belong to none */
        *(struct fake_context **)data =
            range->kind == FAKE_VMM || range->kind == FAKE_POOLED ? NULL : range->context;
        return true;
    case CU_PTR_MEMORY_TYPE:
        *(unsigned *)data = is_host(range) ? CU_TYPE_HOST : CU_TYPE_DEVICE;
        return true;
    case CU_PTR_DEVICE_POINTER:
    case CU_PTR_HOST_POINTER:
        *(uintptr_t *)data = addr;
        return true;
    case CU_PTR_BUFFER_ID:
        *(unsigned long long *)data = range->id;
        return true;
    case CU_PTR_IS_MANAGED:
        *(unsigned *)data = range->kind == FAKE_MANAGED;
        return true;
    case CU_PTR_DEVICE_ORDINAL:
        *(int *)data = fake_ordinal(range->device);
        return true;
    case CU_PTR_IS_LEGACY_IPC:
        *(unsigned char *)data = range->kind == FAKE_MALLOC;
        return true;
    case CU_PTR_RANGE_START:
    case CU_PTR_MAPPING_BASE:
        memcpy(data, &start, sizeof(start));
        return true;
    case CU_PTR_RANGE_SIZE:
    case CU_PTR_MAPPING_SIZE:
        *(size_t *)data = range->nbytes;
        return true;
    case CU_PTR_MAPPED:
        *(unsigned char *)data = 1;
        return true;
    case CU_PTR_HANDLE_TYPES:
        *(unsigned long long *)data = (unsigned long long)handle_types(range);
        return true;
    case CU_PTR_IS_RDMA:
        *(unsigned char *)data = range->kind == FAKE_VMM && range->backing->head->is_rdma;
        return true;
    case CU_PTR_MEMPOOL:
        *(struct fake_pool **)data = range->pool;
        return true;
    default:
        return false;
    }
}

/* Of an address that the driver does not know: zeros, as cuPointerGetAttributes() has them. */
static void nothing_of(int attribute, void *data)
{
    switch (attribute) {
    case CU_PTR_DEVICE_ORDINAL:
        *(int *)data = -2;
        return;
    case CU_PTR_MEMORY_TYPE:
    case CU_PTR_IS_MANAGED:
        *(unsigned *)data = 0;
        return;
    case CU_PTR_IS_LEGACY_IPC:
    case CU_PTR_MAPPED:
    case CU_PTR_IS_RDMA:
        *(unsigned char *)data = 0;
        return;
    default:
        memset(data, 0, 8);
    }
}

FAKE_API int cuPointerGetAttribute(void *data, int attribute, uintptr_t addr)
{
    struct fake_range *range;
    bool is_known = false;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    if (range != NULL) {
        is_known = attribute_of(range, addr, attribute, data);
    }
    pthread_mutex_unlock(&fake_lock);
    return is_known ? CU_OK : CU_INVALID_VALUE;
}

FAKE_API int cuPointerGetAttributes(unsigned n, const int *attributes, void **data, uintptr_t addr)
{
    struct fake_range *range;
    int result = CU_OK;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    for (unsigned i = 0; i < n; ++i) {
        if (range == NULL) {
            nothing_of(attributes[i], data[i]);
        } else if (!attribute_of(range, addr, attributes[i], data[i])) {
            result = CU_INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuPointerSetAttribute(const void *value, int attribute, uintptr_t addr)
{
    struct fake_range *range;

    ENTER();
    (void)value;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(addr);
    pthread_mutex_unlock(&fake_lock);
    return range != NULL && attribute == CU_PTR_SYNC_MEMOPS ? CU_OK : CU_INVALID_VALUE;
}
