/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan memory where the driver lacks things or fails: calls of the table are replaced by ones
 * that do. Each test is a process of its own.
 */
#include "vulkan_case.h"

TestSuite(vulkan_fault, .init = case_start, .fini = case_stop);

#define MIB (1ul << 20)

/* Allocation fails with that status and a line that has those words. */
static void expect_no_memory(int want, const char *words)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[WHY_NBYTES] = "";
    int n_fds = case_count_fds();
    int status;

    params.kind = NIXL_MEM_VULKAN;
    status = nxr_memory_vulkan.alloc(MIB, &params, &memory, why, sizeof(why));
    cr_expect_eq(status, want, "status %d: %s", status, why);
    cr_expect_not_null(strstr(why, words), "'%s' is not in '%s'", words, why);
    cr_expect_eq(case_count_fds(), n_fds, "a descriptor is left");
}

/* What the driver says, and what the library makes of it. */
Test(vulkan_fault, results_become_statuses)
{
    static const struct {
        VkResult result;
        int status;
    } rows[] = {
        {VK_SUCCESS, NIXL_OK},
        {VK_NOT_READY, NIXL_INPROGRESS},
        {VK_TIMEOUT, NIXL_INPROGRESS},
        {VK_ERROR_OUT_OF_HOST_MEMORY, NIXL_E_NO_MEMORY},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, NIXL_E_NO_MEMORY},
        {VK_ERROR_TOO_MANY_OBJECTS, NIXL_E_LIMIT},
        {VK_ERROR_FEATURE_NOT_PRESENT, NIXL_E_TRANSPORT},
        {VK_ERROR_DEVICE_LOST, NIXL_E_TRANSPORT},
        {VK_ERROR_DEVICE_LOST, NIXL_E_TRANSPORT}, /* also when it is known */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct nxr_vulkan_device *device = &nxr_vulkan.devices[0];

        cr_expect_eq(nxr_vulkan_status(device, rows[i].result), rows[i].status, "result %d",
                     (int)rows[i].result);
        cr_expect_eq(atomic_load(&device->is_lost), rows[i].result == VK_ERROR_DEVICE_LOST);
    }
}

/* ---- starting -------------------------------------------------------------------------------- */

static void start_fails(const char *words)
{
    char why[WHY_NBYTES] = "";
    int status = nxr_memory_vulkan.start(why, sizeof(why));

    cr_expect_eq(status, NIXL_E_NO_DEVICE, "status %d", status);
    cr_expect_not_null(strstr(why, words), "'%s' is not in '%s'", words, why);
    cr_expect_eq(nxr_memory_vulkan.start(why, sizeof(why)), NIXL_E_NO_DEVICE, "the second time");
}

Test(vulkan_fault, no_driver)
{
    case_stop();
    setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
    setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
    start_fails("Vulkan has no driver");
}

static VkResult no_devices(VkInstance instance, uint32_t *n_p, VkPhysicalDevice *devices)
{
    (void)instance;
    (void)devices;
    *n_p = 0;
    return VK_SUCCESS;
}

static VkResult no_extensions(VkPhysicalDevice device, const char *layer, uint32_t *n_p,
                              VkExtensionProperties *list)
{
    (void)device;
    (void)layer;
    (void)list;
    *n_p = 0;
    return VK_SUCCESS;
}

static PFN_vkGetInstanceProcAddr true_get;
static const char *replaced_name;
static PFN_vkVoidFunction replacement;

static PFN_vkVoidFunction get_replaced(VkInstance instance, const char *name)
{
    return strcmp(name, replaced_name) == 0 ? replacement : true_get(instance, name);
}

/* Start again, with another function instead of one of the driver's. */
static void start_with(const char *name, PFN_vkVoidFunction function, const char *words)
{
    case_stop();
    true_get = nxr_vk.GetInstanceProcAddr;
    nxr_vk.GetInstanceProcAddr = get_replaced;
    replaced_name = name;
    replacement = function;
    start_fails(words);
}

Test(vulkan_fault, no_device)
{
    start_with("vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)no_devices,
               "Vulkan has no device");
}

Test(vulkan_fault, no_extension_to_export)
{
    start_with("vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)no_extensions,
               "cannot export memory");
}

Test(vulkan_fault, a_loader_that_lacks_a_call)
{
    start_with("vkCmdCopyBuffer", NULL, "has no vkCmdCopyBuffer");
}

/* ---- having memory --------------------------------------------------------------------------- */

static VkResult export_nothing(VkDevice device, const VkMemoryGetFdInfoKHR *info, int *fd_p)
{
    (void)device;
    (void)info;
    *fd_p = -1;
    return VK_SUCCESS;
}

static VkResult export_fails(VkDevice device, const VkMemoryGetFdInfoKHR *info, int *fd_p)
{
    (void)device;
    (void)info;
    (void)fd_p;
    return VK_ERROR_TOO_MANY_OBJECTS;
}

Test(vulkan_fault, exports_that_fail)
{
    nxr_vk.GetMemoryFdKHR = export_nothing;
    expect_no_memory(NIXL_E_NO_DEVICE, "gave no descriptor");
    nxr_vk.GetMemoryFdKHR = export_fails;
    expect_no_memory(NIXL_E_LIMIT, "TOO_MANY_OBJECTS");
}

static VkResult allocate_nothing(VkDevice device, const VkMemoryAllocateInfo *info,
                                 const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory_p)
{
    (void)device;
    (void)info;
    (void)callbacks;
    (void)memory_p;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

Test(vulkan_fault, memory_is_short)
{
    nxr_vk.AllocateMemory = allocate_nothing;
    expect_no_memory(NIXL_E_NO_MEMORY, "OUT_OF_DEVICE_MEMORY");
}

Test(vulkan_fault, too_many_allocations)
{
    struct nxr_memory memory = case_alloc(64 * MIB); /* an allocation of its own */

    nxr_vulkan.devices[0].max_allocations = atomic_load(&nxr_vulkan.devices[0].n_allocations);
    expect_no_memory(NIXL_E_LIMIT, "allows at most");
    case_free(&memory);
    memory = case_alloc(MIB);
    case_free(&memory);
}

/* Memory that is used again is cleared by a command where it is no memory of the host's. */
static void expect_zero(size_t nbytes)
{
    struct nxr_memory memory = case_alloc(nbytes);
    unsigned char *bytes = malloc(nbytes);

    cr_assert_eq(case_copy_one(bytes, memory.addr, nbytes), NIXL_OK);
    for (size_t i = 0; i < nbytes; i++) {
        cr_assert_eq(bytes[i], 0, "byte %zu", i);
        bytes[i] = 0xff;
    }
    cr_assert_eq(case_copy_one(memory.addr, bytes, nbytes), NIXL_OK);
    free(bytes);
    case_free(&memory);
}

Test(vulkan_fault, memory_of_a_gpu_is_cleared)
{
    nxr_vulkan.devices[0].type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    expect_zero(MIB);
    expect_zero(2 * MIB);
    expect_zero(3 * MIB);
}

/* ---- memory that cannot be mapped ------------------------------------------------------------ */

static PFN_vkMapMemory true_map;
static bool must_not_map;

static VkResult map_unless(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                           VkDeviceSize nbytes, VkMemoryMapFlags flags, void **addr_p)
{
    return must_not_map ? VK_ERROR_MEMORY_MAP_FAILED
                        : true_map(device, memory, offset, nbytes, flags, addr_p);
}

Test(vulkan_fault, memory_that_is_not_mapped)
{
    unsigned char *want = malloc(3 * MIB), *got = malloc(3 * MIB);
    struct nxr_memory memory;
    struct nxr_segment *segment;

    true_map = nxr_vk.MapMemory;
    nxr_vk.MapMemory = map_unless;
    must_not_map = true;
    memory = case_alloc(3 * MIB);
    segment = case_segment(&memory);
    cr_assert_eq(nxr_memory_vulkan.import(segment, memory.fd), NIXL_OK, "%s", segment->note);
    must_not_map = false; /* staging buffers are the host's */
    cr_assert_not_null(nxr_range_find(memory.addr));
    case_fill(want, 3 * MIB, 5);
    cr_assert_eq(case_copy_one(memory.addr, want, 3 * MIB), NIXL_OK);
    cr_assert_eq(case_copy_one(got, segment->addr, 3 * MIB), NIXL_OK);
    cr_assert_eq(memcmp(got, want, 3 * MIB), 0);
    cr_assert_eq(case_copy_one(segment->addr + 2 * MIB, memory.addr, MIB), NIXL_OK);
    cr_assert_eq(case_copy_one(got, (char *)memory.addr + 2 * MIB, MIB), NIXL_OK);
    cr_assert_eq(memcmp(got, want, MIB), 0);
    nxr_memory_vulkan.unimport(segment);
    case_free(&memory);
    free(segment);
    free(want);
    free(got);
}

Test(vulkan_fault, no_staging_buffer)
{
    struct nxr_memory memory;
    char byte = 1;

    true_map = nxr_vk.MapMemory;
    nxr_vk.MapMemory = map_unless;
    must_not_map = true;
    memory = case_alloc(MIB);
    cr_assert_eq(case_copy_one(memory.addr, &byte, 1), NIXL_E_NO_MEMORY);
    case_free(&memory);
}

/* ---- a device that is lost ------------------------------------------------------------------- */

static VkResult submit_lost(VkQueue queue, uint32_t n, const VkSubmitInfo *infos, VkFence fence)
{
    (void)queue;
    (void)n;
    (void)infos;
    (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

/* A device that is lost works no more: the copy, which is not lost here, ends first. */
static VkResult status_lost(VkDevice device, VkFence fence)
{
    (void)nxr_vk.WaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX);
    return VK_ERROR_DEVICE_LOST;
}

static void after_the_loss(struct nxr_memory *memory)
{
    PFN_vkQueueSubmit no_call = NULL;
    char byte = 1;

    nxr_vk.QueueSubmit = no_call; /* nothing is asked of a lost device */
    cr_expect_eq(case_copy_one(memory->addr, &byte, 1), NIXL_E_TRANSPORT);
    expect_no_memory(NIXL_E_TRANSPORT, "is lost");
    case_free(memory);
}

Test(vulkan_fault, lost_while_submitting)
{
    struct nxr_memory memory = case_alloc(MIB);
    char byte = 1;

    nxr_env.vulkan_copy = "cmd";
    nxr_vk.QueueSubmit = submit_lost;
    cr_expect_eq(case_copy_one(memory.addr, &byte, 1), NIXL_E_TRANSPORT);
    after_the_loss(&memory);
}

Test(vulkan_fault, lost_in_mid_copy)
{
    struct nxr_memory memory = case_alloc(MIB);
    char byte = 1;

    nxr_env.vulkan_copy = "cmd";
    nxr_vk.GetFenceStatus = status_lost;
    cr_expect_eq(case_copy_one(memory.addr, &byte, 1), NIXL_E_TRANSPORT);
    after_the_loss(&memory);
}
