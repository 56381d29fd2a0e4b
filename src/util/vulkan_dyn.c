/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the Vulkan loader. It is never closed again: drivers start threads and register exit
 * handlers, and do not survive unloading. The table is written once per process, before it is used.
 */
#include "config.h"

#include "util/vulkan_dyn.h"

#include "nixlrun.h"

#include <dlfcn.h>
#include <stdio.h>

#define LOADER "libvulkan.so.1"

struct nxr_vulkan_calls nxr_vk;

/* dlsym() returns function pointers as data pointers: a union converts them without a cast. */
union symbol {
    void *data;
    PFN_vkGetInstanceProcAddr function;
};

int nxr_vulkan_load(char *why, size_t why_nbytes)
{
    union symbol symbol;
    void *loader;

    if (nxr_vk.GetInstanceProcAddr != NULL) {
        return NIXL_OK;
    }
    loader = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL);
    if (loader == NULL) {
        snprintf(why, why_nbytes, "no Vulkan loader (Debian: libvulkan1): %s", dlerror());
        return NIXL_E_NO_DEVICE;
    }
    symbol.data = dlsym(loader, "vkGetInstanceProcAddr");
    if (symbol.data == NULL) {
        snprintf(why, why_nbytes, LOADER " is not a Vulkan loader: %s", dlerror());
        dlclose(loader);
        return NIXL_E_NO_DEVICE;
    }
    nxr_vk.EnumerateInstanceVersion =
        (PFN_vkEnumerateInstanceVersion)symbol.function(NULL, "vkEnumerateInstanceVersion");
    nxr_vk.CreateInstance = (PFN_vkCreateInstance)symbol.function(NULL, "vkCreateInstance");
    nxr_vk.GetInstanceProcAddr = symbol.function;
    return NIXL_OK;
}

int nxr_vulkan_load_instance(VkInstance instance, char *why, size_t why_nbytes)
{
    const char *missing = NULL;

#define GET(_name) nxr_vk._name = (PFN_vk##_name)nxr_vk.GetInstanceProcAddr(instance, "vk" #_name);
#define NEED(_name)                                                                                \
    GET(_name)                                                                                     \
    if (nxr_vk._name == NULL) {                                                                    \
        missing = "vk" #_name;                                                                     \
    }
    NXR_VULKAN_CALLS(NEED)
    NXR_VULKAN_EXTENSION_CALLS(GET)
#undef NEED
#undef GET
    if (missing != NULL) {
        snprintf(why, why_nbytes, "the Vulkan loader has no %s", missing);
        return NIXL_E_NO_DEVICE;
    }
    return NIXL_OK;
}

const char *nxr_vulkan_text(VkResult result)
{
    switch (result) {
    case VK_SUCCESS:
        return "SUCCESS";
    case VK_NOT_READY:
        return "NOT_READY";
    case VK_TIMEOUT:
        return "TIMEOUT";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return "ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return "ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
        return "ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
        return "ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
        return "ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
        return "ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
        return "ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
        return "ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        return "ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS:
        return "ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_INVALID_EXTERNAL_HANDLE:
        return "ERROR_INVALID_EXTERNAL_HANDLE";
    default:
        return "an unknown error";
    }
}
