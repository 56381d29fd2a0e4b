/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan loader, opened at run time: one build runs with and without it, and nothing is loaded
 * before nxr_vulkan_load(). All functions are the loader's instance-level ones. They dispatch to
 * the device's themselves, which costs a few nanoseconds a call.
 */
#ifndef NXR_UTIL_VULKAN_DYN_H
#define NXR_UTIL_VULKAN_DYN_H

#include "util/symbol.h"

#include <stddef.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

/* Functions of Vulkan 1.1 that a driver must have. */
/* clang-format off */
#define NXR_VULKAN_CALLS(_x)                                                                       \
    _x(AllocateCommandBuffers) _x(AllocateMemory) _x(BeginCommandBuffer) _x(BindBufferMemory)      \
    _x(CmdCopyBuffer) _x(CmdFillBuffer) _x(CmdPipelineBarrier) _x(CreateBuffer)                    \
    _x(CreateCommandPool) _x(CreateDevice) _x(CreateFence) _x(DestroyBuffer)                       \
    _x(DestroyCommandPool) _x(DestroyDevice) _x(DestroyFence) _x(DestroyInstance)                  \
    _x(DeviceWaitIdle) _x(EndCommandBuffer) _x(EnumerateDeviceExtensionProperties)                 \
    _x(EnumeratePhysicalDevices) _x(FreeMemory) _x(GetBufferMemoryRequirements2)                   \
    _x(GetDeviceQueue) _x(GetFenceStatus) _x(GetPhysicalDeviceExternalBufferProperties)            \
    _x(GetPhysicalDeviceMemoryProperties) _x(GetPhysicalDeviceProperties2)                         \
    _x(GetPhysicalDeviceQueueFamilyProperties) _x(MapMemory) _x(QueueSubmit)                       \
    _x(ResetCommandPool) _x(ResetFences) _x(UnmapMemory) _x(WaitForFences)

/* Functions of extensions: used only if the device has the extension. */
#define NXR_VULKAN_EXTENSION_CALLS(_x)                                                             \
    _x(GetMemoryFdKHR) _x(GetMemoryHostPointerPropertiesEXT)
/* clang-format on */

struct nxr_vulkan_calls {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkCreateInstance CreateInstance;
    PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion; /* NULL: a loader of Vulkan 1.0 */
#define NXR_VULKAN_MEMBER(_name) PFN_vk##_name _name;
    NXR_VULKAN_CALLS(NXR_VULKAN_MEMBER)
    NXR_VULKAN_EXTENSION_CALLS(NXR_VULKAN_MEMBER)
#undef NXR_VULKAN_MEMBER
};

extern NXR_HIDDEN struct nxr_vulkan_calls nxr_vk;

/*
 * Open the loader; it stays until the process ends. NIXL_OK, or NIXL_E_NO_DEVICE and one line in
 * `why`. Not thread-safe, like everything here.
 */
int nxr_vulkan_load(char *why, size_t why_nbytes);

/*
 * Fill in the functions of an instance. Returns the same as nxr_vulkan_load(); `why` names a
 * missing function.
 */
int nxr_vulkan_load_instance(VkInstance instance, char *why, size_t why_nbytes);

/* The name of a result, without VK_. */
const char *nxr_vulkan_text(VkResult result);

#endif
