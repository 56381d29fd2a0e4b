/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan memory that CUDA copies: lavapipe and the stand-in for NVIDIA's driver (test/cuda) as one
 * device. Its addresses end the process that loads from them, so what is read here went through
 * copies of CUDA's.
 */
#include "vulkan_case.h"

#include "core/control.h"
#include "core/job.h"
#include "memory/cuda/kind.h"

#include <dlfcn.h>

#define MIB (1ul << 20)

static struct nxr_control page; /* with no sleeper in it */

/* Both drivers, with a device of one UUID. */
static void start_both(void)
{
    char name[sizeof(nxr_vulkan.devices[0].id.uuid) + 1] = "";

    case_start();
    nxr_memory_register(&nxr_memory_cuda);
    nxr_job.control = &page;
    memcpy(name, nxr_vulkan.devices[0].id.uuid, sizeof(name) - 1); /* lavapipe's is text */
    setenv("FAKECUDA_UUID", name, 1);
    cr_assert_not_null(dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL), "%s", dlerror());
    nxr_env.vulkan_copy = "cuda";
}

static void stop_both(void)
{
    nxr_memory_vulkan.stop();
    nxr_memory_cuda.stop();
}

TestSuite(vulkan_cuda, .init = start_both, .fini = stop_both);

static struct nxr_vulkan_memory *inside(const void *addr)
{
    return nxr_range_find(addr)->memory;
}

static void expect_bytes(const void *device, size_t nbytes, unsigned seed)
{
    unsigned char *want = malloc(nbytes), *got = calloc(1, nbytes);

    case_fill(want, nbytes, seed);
    cr_assert_eq(case_copy_one(got, device, nbytes), NIXL_OK);
    cr_assert_eq(memcmp(got, want, nbytes), 0);
    free(want);
    free(got);
}

static void put_bytes(void *device, size_t nbytes, unsigned seed)
{
    unsigned char *bytes = malloc(nbytes);

    case_fill(bytes, nbytes, seed);
    cr_assert_eq(case_copy_one(device, bytes, nbytes), NIXL_OK);
    free(bytes);
}

Test(vulkan_cuda, memory_has_an_address_of_cudas)
{
    int n_fds;
    struct nxr_memory memory = case_alloc(MIB);

    cr_assert(inside(memory.addr)->has_cuda);
    cr_assert_eq((uintptr_t)memory.addr, inside(memory.addr)->cuda.addr);
    cr_assert_eq(nxr_range_kind(nxr_range_find(memory.addr)), NIXL_MEM_VULKAN);
    case_free(&memory);
    n_fds = case_count_fds();
    memory = case_alloc(MIB);
    case_free(&memory);
    cr_assert_eq(case_count_fds(), n_fds, "descriptors are left");
}

Test(vulkan_cuda, cuda_copies_in_all_directions)
{
    struct nxr_memory one = case_alloc(3 * MIB), two = case_alloc(3 * MIB);
    const char *map = inside(two.addr)->map + ((char *)two.addr - inside(two.addr)->base);
    unsigned char *want = malloc(2 * MIB);

    put_bytes((char *)one.addr + 9, 2 * MIB, 1);
    expect_bytes((char *)one.addr + 9, 2 * MIB, 1);
    cr_assert_eq(case_copy_one((char *)two.addr + 5, (char *)one.addr + 9, 2 * MIB), NIXL_OK);
    expect_bytes((char *)two.addr + 5, 2 * MIB, 1);
    case_fill(want, 2 * MIB, 1);
    cr_assert_eq(memcmp(map + 5, want, 2 * MIB), 0, "Vulkan sees something else");
    free(want);
    case_free(&one);
    case_free(&two);
}

Test(vulkan_cuda, what_a_peer_opens_is_the_same_memory)
{
    struct nxr_memory memory = case_alloc(MIB);
    struct nxr_segment *segment = case_segment(&memory);

    put_bytes(memory.addr, MIB, 3);
    cr_assert_eq(nxr_memory_vulkan.import(segment, memory.fd), NIXL_OK, "%s", segment->note);
    cr_assert(inside(segment->addr)->has_cuda);
    cr_assert_neq((void *)segment->addr, memory.addr);
    expect_bytes(segment->addr, MIB, 3);
    nxr_memory_vulkan.unimport(segment);
    expect_bytes(memory.addr, MIB, 3);
    case_free(&memory);
    free(segment);
}

/* CUDA's own memory and Vulkan's. */
static void let_them_meet(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory = case_alloc(MIB), cudas;
    char why[WHY_NBYTES] = "";

    params.kind = NIXL_MEM_CUDA;
    cr_assert_eq(nxr_memory_cuda.alloc(MIB, &params, &cudas, why, sizeof(why)), NIXL_OK, "%s", why);
    put_bytes(memory.addr, MIB, 6);
    cr_assert_eq(case_copy_one(cudas.addr, memory.addr, MIB), NIXL_OK);
    put_bytes(memory.addr, MIB, 7);
    cr_assert_eq(case_copy_one((char *)memory.addr + 100, (char *)cudas.addr + 100, MIB - 100),
                 NIXL_OK);
    put_bytes(memory.addr, 100, 6);
    expect_bytes(memory.addr, MIB, 6);
    close(cudas.fd);
    nxr_memory_cuda.release(&cudas);
    case_free(&memory);
}

Test(vulkan_cuda, one_device_has_both)
{
    let_them_meet();
}

Test(vulkan_cuda, a_processor_stands_for_a_gpu_beside_cudas)
{
    nxr_env.vulkan_copy = "auto";
    let_them_meet();
}

Test(vulkan_cuda, host_memory_is_pinned_for_cuda)
{
    struct nxr_memory memory = case_alloc(MIB);
    unsigned char *host = aligned_alloc(4096, MIB);

    nxr_memory_vulkan.pin(host, MIB);
    case_fill(host, MIB, 8);
    cr_assert_eq(case_copy_one(memory.addr, host, MIB), NIXL_OK);
    expect_bytes(memory.addr, MIB, 8);
    nxr_memory_vulkan.unpin(host);
    nxr_memory_cuda.unpin(host);
    free(host);
    case_free(&memory);
}

/* ---- falling back ---------------------------------------------------------------------------- */

static void goes_without_cuda(void)
{
    struct nxr_memory memory = case_alloc(MIB);

    cr_assert_not(inside(memory.addr)->has_cuda);
    put_bytes(memory.addr, MIB, 2);
    expect_bytes(memory.addr, MIB, 2);
    case_free(&memory);
}

Test(vulkan_cuda, cuda_has_another_device)
{
    setenv("FAKECUDA_UUID", "another", 1);
    goes_without_cuda();
}

Test(vulkan_cuda, cuda_has_no_device)
{
    setenv("FAKECUDA_DEVICES", "0", 1);
    goes_without_cuda();
}

static void call_fails(const char *which)
{
    int n_fds;

    setenv("FAKECUDA_FAIL", which, 1);
    goes_without_cuda();
    n_fds = case_count_fds();
    goes_without_cuda();
    cr_assert_eq(case_count_fds(), n_fds, "descriptors are left");
}

Test(vulkan_cuda, cuda_does_not_open_it)
{
    call_fails("cuImportExternalMemory=801");
}

Test(vulkan_cuda, cuda_does_not_map_it)
{
    call_fails("cuExternalMemoryGetMappedBuffer=801");
}

Test(vulkan_cuda, nobody_asks_for_cuda)
{
    nxr_env.vulkan_copy = "auto"; /* lavapipe is no device of NVIDIA's */
    goes_without_cuda();
    nxr_env.vulkan_copy = "cmd";
    goes_without_cuda();
}

/* CUDA refuses to copy: Vulkan does it, from and to addresses that are CUDA's. */
Test(vulkan_cuda, cuda_does_not_copy)
{
    static const char *const ways[] = {"cuda", "map", "cmd"};
    struct nxr_memory memory;

    setenv("FAKECUDA_FAIL", "cuMemcpyAsync=801", 1);
    memory = case_alloc(MIB);
    cr_assert(inside(memory.addr)->has_cuda);
    for (unsigned i = 0; i < 3; i++) {
        nxr_env.vulkan_copy = ways[i];
        put_bytes(memory.addr, MIB, 4 + i);
        expect_bytes(memory.addr, MIB, 4 + i);
    }
    case_free(&memory);
}
