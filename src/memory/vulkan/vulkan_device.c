/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan instance and its devices. The instance is created at the first start(), a device when
 * its memory is first used: together they take some 50 ms on a processor and 400 ms on a GPU. Lock:
 * nxr_vulkan.lock guards everything.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nxr_vulkan nxr_vulkan = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_cpu_only; /* only lavapipe is available, and the user has not asked for it */

/* ---- all devices ----------------------------------------------------------------------------- */

/*
 * Processors that substitute for a GPU are used only if nothing else is there, or if the user wants
 * them.
 */
static void leave_out_processors(void)
{
    size_t n_gpus = 0, n_kept = 0;

    for (size_t i = 0; i < nxr_vulkan.n_devices; i++) {
        n_gpus += nxr_vulkan.devices[i].type != VK_PHYSICAL_DEVICE_TYPE_CPU;
    }
    is_cpu_only = n_gpus == 0 && !nxr_env.vulkan_cpu;
    for (size_t i = 0; i < nxr_vulkan.n_devices; i++) {
        if (nxr_env.vulkan_cpu || n_gpus == 0 ||
            nxr_vulkan.devices[i].type != VK_PHYSICAL_DEVICE_TYPE_CPU) {
            nxr_vulkan.devices[n_kept++] = nxr_vulkan.devices[i];
        }
    }
    nxr_vulkan.n_devices = n_kept;
}

static int vulkan_device_find_devices(char *why, size_t why_nbytes)
{
    VkPhysicalDevice list[NXR_VULKAN_MAX_DEVICES];
    uint32_t n = NXR_VULKAN_MAX_DEVICES;
    VkResult result = nxr_vk.EnumeratePhysicalDevices(nxr_vulkan.instance, &n, list);

    snprintf(why, why_nbytes, "Vulkan has no device");
    if (result < VK_SUCCESS) {
        snprintf(why, why_nbytes, "Vulkan lists no devices: %s", nxr_vulkan_text(result));
        n = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (nxr_vulkan_look_at(list[i], &nxr_vulkan.devices[nxr_vulkan.n_devices], why,
                               why_nbytes)) {
            nxr_vulkan.n_devices++;
        } else {
            nxr_info(MEMORY, "vulkan: not used: %s", why);
        }
    }
    leave_out_processors();
    for (size_t i = 0; i < nxr_vulkan.n_devices; i++) {
        pthread_mutex_init(&nxr_vulkan.devices[i].lock, NULL);
    }
    return nxr_vulkan.n_devices > 0 ? NIXL_OK : NIXL_E_NO_DEVICE;
}

/* Create the instance and query the devices. Caller holds the lock. */
static int vulkan_device_start_locked(char *why, size_t why_nbytes)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "nixlrun",
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    int status = nxr_vulkan_load(why, why_nbytes);
    VkResult result;

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_vk.EnumerateInstanceVersion == NULL) {
        snprintf(why, why_nbytes, "the Vulkan loader has only Vulkan 1.0");
        return NIXL_E_NO_DEVICE;
    }
    result = nxr_vk.CreateInstance(&info, NULL, &nxr_vulkan.instance);
    if (result != VK_SUCCESS) {
        nxr_vulkan.instance = VK_NULL_HANDLE;
        snprintf(why, why_nbytes, "%s: %s",
                 result == VK_ERROR_INCOMPATIBLE_DRIVER
                     ? "Vulkan has no driver (Debian: mesa-vulkan-drivers, or NVIDIA's)"
                     : "Vulkan cannot be started",
                 nxr_vulkan_text(result));
        return NIXL_E_NO_DEVICE;
    }
    status = nxr_vulkan_load_instance(nxr_vulkan.instance, why, why_nbytes);
    if (status == NIXL_OK) {
        status = vulkan_device_find_devices(why, why_nbytes);
    }
    if (status != NIXL_OK) {
        if (nxr_vk.DestroyInstance != NULL) {
            nxr_vk.DestroyInstance(nxr_vulkan.instance, NULL);
        }
        nxr_vulkan.instance = VK_NULL_HANDLE;
    }
    return status;
}

int nxr_vulkan_start(char *why, size_t why_nbytes)
{
    int status = NIXL_OK;

    pthread_mutex_lock(&nxr_vulkan.lock);
    if (nxr_vulkan.instance == VK_NULL_HANDLE) {
        status = vulkan_device_start_locked(why, why_nbytes);
    }
    pthread_mutex_unlock(&nxr_vulkan.lock);
    return status;
}

bool nxr_vulkan_is_gpu(void)
{
    return nxr_vulkan.n_devices > 0 && !is_cpu_only;
}

void nxr_vulkan_stop(void)
{
    pthread_mutex_lock(&nxr_vulkan.lock);
    nxr_vulkan_watch_stop();
    nxr_vulkan_unpin_all();
    nxr_vulkan_arena_free();
    for (size_t i = 0; i < nxr_vulkan.n_devices; i++) {
        struct nxr_vulkan_device *device = &nxr_vulkan.devices[i];

        if (device->device != VK_NULL_HANDLE) {
            nxr_vk.DeviceWaitIdle(device->device);
            nxr_vulkan_batches_free(device);
            nxr_vk.DestroyDevice(device->device, NULL);
        }
        pthread_mutex_destroy(&device->lock);
    }
    if (nxr_vulkan.instance != VK_NULL_HANDLE) {
        nxr_vk.DestroyInstance(nxr_vulkan.instance, NULL);
        nxr_vulkan.instance = VK_NULL_HANDLE;
    }
    nxr_vulkan.n_devices = 0;
    atomic_store(&nxr_vulkan.uses_cuda, false);
    pthread_mutex_unlock(&nxr_vulkan.lock);
}

/* ---- one device ------------------------------------------------------------------------------ */

static int open_device_locked(struct nxr_vulkan_device *device, char *why, size_t why_nbytes)
{
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = device->family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const char *names[NXR_VULKAN_MAX_EXTENSIONS];
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = nxr_vulkan_extensions(device->physical, names),
        .ppEnabledExtensionNames = names,
    };
    VkResult result;

    result = nxr_vk.CreateDevice(device->physical, &info, NULL, &device->device);
    if (result != VK_SUCCESS) {
        device->device = VK_NULL_HANDLE;
        snprintf(why, why_nbytes, "cannot open the Vulkan device %.80s: %s", device->name,
                 nxr_vulkan_text(result));
        return NIXL_E_NO_DEVICE;
    }
    nxr_vk.GetDeviceQueue(device->device, device->family, 0, &device->queue);
    nxr_debug(MEMORY, "vulkan: %s, %s, queue family %u", device->name, device->id_text,
              device->family);
    return NIXL_OK;
}

static int open_device(struct nxr_vulkan_device *device, char *why, size_t why_nbytes)
{
    int status = NIXL_OK;

    pthread_mutex_lock(&nxr_vulkan.lock);
    if (device->device == VK_NULL_HANDLE) {
        status = open_device_locked(device, why, why_nbytes);
    }
    pthread_mutex_unlock(&nxr_vulkan.lock);
    return status;
}

int nxr_vulkan_choose(const char *wanted, struct nxr_vulkan_device **device_p, char *why,
                      size_t why_nbytes)
{
    struct nxr_device_id ids[NXR_VULKAN_MAX_DEVICES];
    size_t index;
    int status = nxr_vulkan_start(why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }
    for (size_t i = 0; i < nxr_vulkan.n_devices; i++) {
        ids[i] = nxr_vulkan.devices[i].id;
    }
    status =
        nxr_device_choose(wanted, "Vulkan", ids, nxr_vulkan.n_devices, &index, why, why_nbytes);
    if (status == NIXL_OK) {
        *device_p = &nxr_vulkan.devices[index];
        status = open_device(*device_p, why, why_nbytes);
    }
    return status;
}

int nxr_vulkan_find(const unsigned char device[16], const unsigned char driver[16],
                    struct nxr_vulkan_device **device_p, char *why, size_t why_nbytes)
{
    int status = nxr_vulkan_start(why, why_nbytes);
    char text[NXR_DEVICE_ID_NBYTES];

    for (size_t i = 0; status == NIXL_OK && i < nxr_vulkan.n_devices; i++) {
        struct nxr_vulkan_device *known = &nxr_vulkan.devices[i];

        if (memcmp(known->id.uuid, device, sizeof(known->id.uuid)) == 0) {
            if (memcmp(known->driver, driver, sizeof(known->driver)) != 0) {
                snprintf(why, why_nbytes, "the memory comes from another driver for %.80s",
                         known->name);
                return NIXL_E_NO_DEVICE;
            }
            *device_p = known;
            return open_device(known, why, why_nbytes);
        }
    }
    if (status == NIXL_OK) {
        nxr_device_id_text(device, text);
        snprintf(why, why_nbytes, "the Vulkan device %s is not visible here", text);
        status = NIXL_E_NO_DEVICE;
    }
    return status;
}
