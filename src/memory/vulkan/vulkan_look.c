/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Vulkan device is and can do: queried once, when Vulkan is started, and constant from then
 * on. No lock.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVIDIA_VENDOR 0x10de

/* The extensions of a device; NULL: none, or no memory. */
static VkExtensionProperties *list_extensions(VkPhysicalDevice physical, uint32_t *n_p)
{
    VkExtensionProperties *list;

    *n_p = 0;
    if (nxr_vk.EnumerateDeviceExtensionProperties(physical, NULL, n_p, NULL) != VK_SUCCESS ||
        *n_p == 0) {
        return NULL;
    }
    list = calloc(*n_p, sizeof(*list));
    if (list == NULL ||
        nxr_vk.EnumerateDeviceExtensionProperties(physical, NULL, n_p, list) < VK_SUCCESS) {
        *n_p = 0;
    }
    return list;
}

static bool has_extension(const VkExtensionProperties *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(list[i].extensionName, name) == 0) {
            return true;
        }
    }
    return false;
}

uint32_t nxr_vulkan_extensions(VkPhysicalDevice physical, const char *names[])
{
    static const char *const useful[NXR_VULKAN_MAX_EXTENSIONS] = {
        VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME,
        VK_EXT_PCI_BUS_INFO_EXTENSION_NAME};
    uint32_t n_names = 0, n;
    VkExtensionProperties *list = list_extensions(physical, &n);

    for (size_t i = 0; i < sizeof(useful) / sizeof(useful[0]); i++) {
        if (has_extension(list, n, useful[i])) {
            names[n_names++] = useful[i];
        }
    }
    free(list);
    return n_names;
}

static bool is_among(const char *const *names, uint32_t n_names, const char *name)
{
    for (uint32_t i = 0; i < n_names; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * The queue family for copies: preferably one that supports graphics, too, else one that supports
 * compute. A family for transfers only feeds engines that are made for other memory: on an H200 it
 * moves 90 GB/s within the GPU, the first family 417 GB/s.
 */
static bool choose_family(struct nxr_vulkan_device *device)
{
    static const VkQueueFlags wanted[] = {VK_QUEUE_GRAPHICS_BIT, VK_QUEUE_COMPUTE_BIT,
                                          VK_QUEUE_TRANSFER_BIT};
    VkQueueFamilyProperties families[16];
    uint32_t n = sizeof(families) / sizeof(families[0]);

    nxr_vk.GetPhysicalDeviceQueueFamilyProperties(device->physical, &n, families);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        for (uint32_t j = 0; j < n; j++) {
            if ((families[j].queueFlags & wanted[i]) != 0 && families[j].queueCount > 0) {
                device->family = j;
                return true;
            }
        }
    }
    return false;
}

/* Can buffers like ours be exported and imported? */
static bool can_share(struct nxr_vulkan_device *device)
{
    const VkPhysicalDeviceExternalBufferInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage = NXR_VULKAN_USAGE,
        .handleType = NXR_VULKAN_HANDLE,
    };
    VkExternalBufferProperties properties = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES,
    };
    const VkExternalMemoryFeatureFlags needed =
        VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
    VkExternalMemoryFeatureFlags features;

    nxr_vk.GetPhysicalDeviceExternalBufferProperties(device->physical, &info, &properties);
    features = properties.externalMemoryProperties.externalMemoryFeatures;
    device->is_dedicated_only = (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0;
    return (features & needed) == needed;
}

/* Query everything about a device that is needed later. */
static void read_properties(struct nxr_vulkan_device *device, const char *const *names,
                            uint32_t n_names)
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT,
    };
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT,
    };
    VkPhysicalDeviceMaintenance3Properties limits = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
    };
    VkPhysicalDeviceIDProperties id = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
        .pNext = &limits,
    };
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &id,
    };
    bool has_pci = is_among(names, n_names, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);

    if (has_pci) {
        pci.pNext = properties.pNext;
        properties.pNext = &pci;
    }
    if (is_among(names, n_names, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) {
        host.pNext = properties.pNext;
        properties.pNext = &host;
    }
    nxr_vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    memcpy(device->id.uuid, id.deviceUUID, sizeof(device->id.uuid));
    memcpy(device->driver, id.driverUUID, sizeof(device->driver));
    memcpy(device->name, properties.properties.deviceName, sizeof(device->name));
    nxr_device_id_text(device->id.uuid, device->id_text);
    device->is_nvidia = properties.properties.vendorID == NVIDIA_VENDOR;
    device->type = properties.properties.deviceType;
    device->max_nbytes = limits.maxMemoryAllocationSize;
    device->max_allocations = properties.properties.limits.maxMemoryAllocationCount;
    device->host_alignment = host.minImportedHostPointerAlignment;
    if (has_pci) {
        snprintf(device->id.pci, sizeof(device->id.pci), "%04x:%02x:%02x.%x", pci.pciDomain,
                 pci.pciBus, pci.pciDevice, pci.pciFunction);
    }
    nxr_vk.GetPhysicalDeviceMemoryProperties(device->physical, &device->memory);
}

bool nxr_vulkan_look_at(VkPhysicalDevice physical, struct nxr_vulkan_device *device, char *why,
                        size_t why_nbytes)
{
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
    };
    const char *names[NXR_VULKAN_MAX_EXTENSIONS];
    uint32_t n_names;

    memset(device, 0, sizeof(*device));
    device->physical = physical;
    nxr_vk.GetPhysicalDeviceProperties2(physical, &properties);
    if (properties.properties.apiVersion < VK_API_VERSION_1_1) {
        snprintf(why, why_nbytes, "%.80s has only Vulkan 1.0", properties.properties.deviceName);
        return false;
    }
    n_names = nxr_vulkan_extensions(physical, names);
    read_properties(device, names, n_names);
    if (!is_among(names, n_names, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) || !can_share(device)) {
        snprintf(why, why_nbytes, "%.80s cannot export memory to other processes", device->name);
        return false;
    }
    if (!choose_family(device)) {
        snprintf(why, why_nbytes, "%.80s has no queue that copies", device->name);
        return false;
    }
    return true;
}
