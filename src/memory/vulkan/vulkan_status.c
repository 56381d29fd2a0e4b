/* SPDX-License-Identifier: Apache-2.0 */
/* Translates Vulkan's results. State: a lost device is marked, once; no lock. */
#include "config.h"

#include "memory/vulkan/vulkan.h"
#include "util/log.h"

int nxr_vulkan_status(struct nxr_vulkan_device *device, VkResult result)
{
    switch (result) {
    case VK_SUCCESS:
        return NIXL_OK;
    case VK_NOT_READY:
    case VK_TIMEOUT:
        return NIXL_INPROGRESS;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return NIXL_E_NO_MEMORY;
    case VK_ERROR_TOO_MANY_OBJECTS:
        return NIXL_E_LIMIT;
    case VK_ERROR_DEVICE_LOST:
        if (!atomic_exchange(&device->is_lost, true)) {
            nxr_error(MEMORY, "the Vulkan device %s is lost: all copies on it fail from now on",
                      device->name);
        }
        return NIXL_E_TRANSPORT;
    default:
        return NIXL_E_TRANSPORT;
    }
}
