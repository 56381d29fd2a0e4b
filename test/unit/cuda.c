/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory in one process, over the stand-in: what is said where there is no driver, which
 * device is taken, allocating, adopting, and pinning host memory.
 */
#include "cuda_case.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

TestSuite(cuda, .timeout = 120);

static int claimed_ordinals[2]; /* what the driver says of device memory, the last one first */
static size_t n_claimed;

enum nxr_cuda_address __real_nxr_cuda_classify(const void *addr, int *ordinal_p);
enum nxr_cuda_address __wrap_nxr_cuda_classify(const void *addr, int *ordinal_p);

enum nxr_cuda_address __wrap_nxr_cuda_classify(const void *addr, int *ordinal_p)
{
    enum nxr_cuda_address kind = __real_nxr_cuda_classify(addr, ordinal_p);

    if (n_claimed > 0) {
        *ordinal_p = claimed_ordinals[n_claimed - 1];
    }
    return kind;
}

/* ---- no CUDA, in words ----------------------------------------------------------------------- */

static void expect_reason(const char *word)
{
    char why[160];

    for (int i = 0; i < 2; i++) { /* the second time says the same */
        why[0] = '\0';
        cr_expect(eq(int, nxr_memory_cuda.start(why, sizeof(why)), NIXL_E_NO_DEVICE));
        cr_expect(ne(ptr, strstr(why, word), NULL), "\"%s\" does not say \"%s\"", why, word);
        cr_expect(eq(ptr, strchr(why, '\n'), NULL));
    }
}

/* With that setting of the stand-in. */
static void expect_no_start(const char *variable, const char *value, const char *word)
{
    setenv(variable, value, 1);
    cuda_load();
    expect_reason(word);
}

Test(cuda, no_driver)
{
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL) {
        cr_skip_test("this machine has a driver");
    }
    expect_reason("not installed");
}

Test(cuda, toolkit_stub)
{
    expect_no_start("FAKECUDA_STUB", "1", "stub");
}

Test(cuda, no_device)
{
    expect_no_start("FAKECUDA_DEVICES", "0", "CUDA_VISIBLE_DEVICES");
}

Test(cuda, all_devices_hidden)
{
    expect_no_start("CUDA_VISIBLE_DEVICES", "", "CUDA_VISIBLE_DEVICES");
}

Test(cuda, old_driver)
{
    expect_no_start("FAKECUDA_VERSION", "11000", "too old");
}

Test(cuda, driver_that_does_not_start)
{
    expect_no_start("FAKECUDA_FAIL", "cuInit=803", "different versions");
}

Test(cuda, nothing_is_loaded_to_ask_whose_an_address_is)
{
    int here;

    cr_expect(not(nxr_memory_cuda.owns(&here)));
    cr_expect(eq(ptr, nxr_cu.Init, NULL));
}

Test(cuda, starts_again_after_stop)
{
    char why[160];
    struct nxr_memory memory;

    cuda_start();
    memory = cuda_alloc(1000, NULL);
    nxr_memory_cuda.release(&memory);
    nxr_memory_cuda.stop();
    nxr_memory_cuda.stop();
    cr_assert(eq(int, nxr_memory_cuda.start(why, sizeof(why)), NIXL_OK));
    memory = cuda_alloc(1000, NULL);
    nxr_memory_cuda.release(&memory);
    nxr_memory_cuda.stop();
}

/* ---- allocating ------------------------------------------------------------------------------ */

static void expect_zeros(const struct nxr_memory *memory)
{
    unsigned char *bytes = malloc(memory->nbytes);

    memset(bytes, 0x5a, memory->nbytes);
    cr_assert(eq(int, cuda_copy(bytes, memory->addr, memory->nbytes), NIXL_OK));
    for (size_t i = 0; i < memory->nbytes; i++) {
        cr_assert(eq(u8, bytes[i], 0), "byte %zu of new memory", i);
    }
    free(bytes);
}

Test(cuda, allocated_memory)
{
    static const size_t sizes[] = {1, 4096, 2 * MIB, 2 * MIB + 1};

    cuda_start();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct nxr_memory memory = cuda_alloc(sizes[i], "1");

        cr_expect(eq(sz, memory.nbytes, sizes[i]));
        cr_expect(eq(int, memory.export.type, NXR_EXPORT_CUDA_LEGACY));
        cr_expect(eq(int, memory.fd, -1));
        cr_expect(eq(u64, memory.export.offset, 0));
        cr_expect(eq(u64, memory.export.nbytes % (2 * MIB), 0), "it shares a block with others");
        cr_expect(nxr_export_is_sound(&memory.export, NIXL_MEM_CUDA, sizes[i]));
        cr_expect(eq(int, memory.note[0], 0));
        cr_expect(eq(int, strncmp(memory.device, "GPU-", 4), 0));
        cr_expect(eq(ptr, (void *)nxr_range_find(memory.addr), memory.range));
        cr_expect(nxr_memory_cuda.owns(memory.addr));
        expect_zeros(&memory);
        cuda_expect_no_context();
        nxr_memory_cuda.release(&memory);
        cr_expect(eq(ptr, (void *)nxr_range_find(memory.addr), NULL));
    }
}

Test(cuda, memory_without_legacy_handles)
{
    struct nxr_memory memory;

    setenv("FAKECUDA_FAIL", "cuIpcGetMemHandle=801", 1);
    cuda_start();
    memory = cuda_alloc(100000, NULL);
    cr_expect(eq(int, memory.export.type, NXR_EXPORT_CUDA_VMM));
    cr_expect(memory.fd >= 0);
    cr_expect(eq(int, fcntl(memory.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC));
    cr_expect(nxr_export_is_sound(&memory.export, NIXL_MEM_CUDA, memory.nbytes));
    cr_expect(eq(u64, nxr_cuda_attribute((uintptr_t)memory.addr, CU_POINTER_IS_RDMA_CAPABLE), 1),
              "adapters may reach it");
    expect_zeros(&memory);
    close(memory.fd);
    nxr_memory_cuda.release(&memory);
}

Test(cuda, memory_that_cannot_be_shared)
{
    struct nxr_memory memory;

    setenv("FAKECUDA_FAIL", "cuIpcGetMemHandle=801,cuMemExportToShareableHandle=801", 1);
    cuda_start();
    memory = cuda_alloc(100000, NULL);
    cr_expect(eq(int, memory.export.type, NXR_EXPORT_NONE));
    cr_expect(nxr_export_is_sound(&memory.export, NIXL_MEM_CUDA, memory.nbytes));
    cr_expect(ne(int, memory.note[0], 0));
    expect_zeros(&memory);
    nxr_memory_cuda.release(&memory);
}

Test(cuda, no_memory_left)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[160] = "";

    cuda_start();
    cr_expect(eq(int, nxr_memory_cuda.alloc((size_t)1 << 50, &params, &memory, why, sizeof(why)),
                 NIXL_E_NO_MEMORY));
    cr_expect(ne(ptr, strstr(why, "free"), NULL), "%s", why);
    cr_expect(eq(int, nxr_memory_cuda.alloc(SIZE_MAX, &params, &memory, why, sizeof(why)),
                 NIXL_E_NO_MEMORY));
    cuda_expect_no_context();
}

/* Memory that cannot be cleared would show what others had in it. */
Test(cuda, no_memory_that_is_not_cleared)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[160] = "";

    setenv("FAKECUDA_FAIL", "cuStreamCreate=2", 1);
    cuda_start();
    cr_expect(ne(int, nxr_memory_cuda.alloc(4096, &params, &memory, why, sizeof(why)), NIXL_OK));
    cr_expect(ne(int, why[0], 0));
    cuda_expect_no_context();
}

/* ---- which device ---------------------------------------------------------------------------- */

static void expect_refused(const char *device, int status)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[160] = "";

    params.device = device;
    cr_expect(eq(int, nxr_memory_cuda.alloc(100, &params, &memory, why, sizeof(why)), status),
              "device \"%s\"", device);
    cr_expect(ne(int, why[0], 0));
}

Test(cuda, choice_of_a_device)
{
    struct nxr_memory first, second, same;
    bool was_pushed;

    cuda_start();
    first = cuda_alloc(100, "0");
    second = cuda_alloc(100, "1");
    cr_expect(ne(str, first.device, second.device));
    same = cuda_alloc(100, second.device);
    cr_expect(eq(str, same.device, second.device));
    nxr_memory_cuda.release(&same);
    same = cuda_alloc(100, second.device + strlen("GPU-"));
    cr_expect(eq(str, same.device, second.device));
    nxr_memory_cuda.release(&same);

    /* With a device chosen by the program, "nearest" means that one. */
    was_pushed = nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[1]));
    cr_expect(was_pushed);
    same = cuda_alloc(100, "nearest");
    nxr_cuda_leave(was_pushed);
    cr_expect(eq(str, same.device, second.device));
    nxr_memory_cuda.release(&same);

    expect_refused("2", NIXL_E_NO_DEVICE);
    expect_refused("GPU-00000000-1111-2222-3333-444444444444", NIXL_E_NO_DEVICE);
    expect_refused("the best", NIXL_E_INVALID_ARG);
    nxr_memory_cuda.release(&first);
    nxr_memory_cuda.release(&second);
}

/* ---- adopting -------------------------------------------------------------------------------- */

static cu_address user_memory(size_t nbytes)
{
    cu_address address = 0;
    bool was_pushed;
    char why[160];

    cr_assert(eq(int, nxr_cuda_activate(&nxr_cuda.devices[0], why, sizeof(why)), NIXL_OK));
    was_pushed = nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0]));
    cr_assert(eq(uint, nxr_cu.MemAlloc(&address, nbytes), CU_OK));
    nxr_cuda_leave(was_pushed);
    return address;
}

Test(cuda, window_in_an_allocation_of_the_users)
{
    struct nxr_memory memory, again;
    cu_address start;
    char why[160];

    cuda_start();
    start = user_memory(4 * MIB);
    cr_assert(eq(int, cuda_adopt(start + 4096, MIB, &memory, why, sizeof(why)), NIXL_OK), "%s",
              why);
    cr_expect(memory.is_registered);
    cr_expect(eq(int, memory.export.type, NXR_EXPORT_CUDA_LEGACY));
    cr_expect(eq(u64, memory.export.offset, 4096));
    cr_expect(eq(u64, memory.export.nbytes, 4 * MIB));
    cr_expect(nxr_export_is_sound(&memory.export, NIXL_MEM_CUDA, MIB));
    cr_expect(nxr_memory_cuda.owns(memory.addr));

    /* Another window of it, which has the same range as long as one of them is there. */
    cr_assert(eq(int, cuda_adopt(start, 4 * MIB, &again, why, sizeof(why)), NIXL_OK), "%s", why);
    cr_expect(eq(ptr, again.range, memory.range));
    cr_expect(eq(u64, again.export.serial, memory.export.serial));
    cuda_fill(again.addr, again.nbytes, 1);
    nxr_memory_cuda.release(&again);
    cr_expect(eq(ptr, (void *)nxr_range_find(memory.addr), memory.range));
    nxr_memory_cuda.release(&memory);
    cr_expect(eq(ptr, (void *)nxr_range_find(memory.addr), NULL));
    cuda_expect_no_context();
    cr_assert(nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0])));
    cr_expect(eq(uint, nxr_cu.MemFree(start), CU_OK), "the library gave the user's memory back");
    nxr_cuda_leave(true);
}

Test(cuda, window_that_is_not_in_one_allocation)
{
    struct nxr_memory memory;
    cu_address start;
    char why[160] = "";

    cuda_start();
    start = user_memory(2 * MIB);
    cr_expect(
        eq(int, cuda_adopt(start + 1, 2 * MIB, &memory, why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(ne(ptr, strstr(why, "not all inside"), NULL), "%s", why);
    cr_expect(eq(int, cuda_adopt(start, SIZE_MAX, &memory, why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(eq(ptr, (void *)nxr_range_find((void *)(uintptr_t)start),
                 (void *)&nxr_cuda.devices[0].loose_range),
              "memory of no region is known by the driver, with its device");
}

/* The driver may name a device that it did not list. */
Test(cuda, memory_of_a_device_that_is_not_listed)
{
    const struct nxr_range *range;
    void *memory;

    cuda_start();
    memory = (void *)(uintptr_t)user_memory(2 * MIB);
    claimed_ordinals[0] = nxr_cuda.n_devices;
    claimed_ordinals[1] = -1;
    for (n_claimed = 2; n_claimed > 0; n_claimed--) {
        range = nxr_range_find(memory);
        cr_assert(ne(ptr, (void *)range, NULL));
        cr_expect(eq(int, ((const struct nxr_cuda_memory *)range->memory)->home, -1),
                  "device %d is in reach", claimed_ordinals[n_claimed - 1]);
        cr_expect(eq(str, (char *)range->kind->pci(range), (char *)""));
    }
    cr_expect(eq(ptr, (void *)nxr_range_find(memory), (void *)&nxr_cuda.devices[0].loose_range));
}

Test(cuda, memory_that_is_not_of_a_device)
{
    int (*host_alloc)(void **, size_t, unsigned);
    struct nxr_memory memory;
    void *pinned, *plain = malloc(100);
    bool was_pushed;
    char why[160] = "";

    cuda_start();
    cr_expect(
        eq(int, cuda_adopt((uintptr_t)plain, 100, &memory, why, sizeof(why)), NIXL_E_UNSUPPORTED));
    cr_expect(ne(ptr, strstr(why, "not CUDA memory"), NULL), "%s", why);
    cr_expect(not(nxr_memory_cuda.owns(plain)));
    free(plain);

    *(void **)&host_alloc = cuda_function("cuMemHostAlloc");
    user_memory(100); /* there is a context */
    was_pushed = nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0]));
    cr_assert(eq(int, host_alloc(&pinned, 4096, 0), 0));
    nxr_cuda_leave(was_pushed);
    cr_expect(
        eq(int, cuda_adopt((uintptr_t)pinned, 100, &memory, why, sizeof(why)), NIXL_E_UNSUPPORTED));
    cr_expect(ne(ptr, strstr(why, "NIXL_MEM_HOST"), NULL), "%s", why);
    cr_expect(not(nxr_memory_cuda.owns(pinned)));
}

Test(cuda, managed_memory_stays_with_its_owner)
{
    int (*alloc_managed)(cu_address *, size_t, unsigned);
    struct nxr_memory memory;
    cu_address address;
    bool was_pushed;
    char why[160];

    cuda_start();
    user_memory(100);
    *(void **)&alloc_managed = cuda_function("cuMemAllocManaged");
    was_pushed = nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0]));
    cr_assert(eq(int, alloc_managed(&address, MIB, 1), 0));
    nxr_cuda_leave(was_pushed);
    cr_assert(eq(int, cuda_adopt(address, MIB, &memory, why, sizeof(why)), NIXL_OK), "%s", why);
    cr_expect(eq(int, memory.export.type, NXR_EXPORT_NONE));
    cr_expect(ne(ptr, strstr(memory.note, "managed"), NULL), "%s", memory.note);
    cuda_fill(memory.addr, MIB, 3);
    cr_expect(cuda_holds(memory.addr, MIB, 3));
    nxr_memory_cuda.release(&memory);
}

Test(cuda, default_pool_is_not_shared)
{
    int (*alloc_async)(cu_address *, size_t, cu_stream);
    struct nxr_memory memory;
    cu_address address;
    cu_stream stream;
    bool was_pushed;
    char why[160];

    cuda_start();
    user_memory(100);
    *(void **)&alloc_async = cuda_function("cuMemAllocAsync");
    was_pushed = nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0]));
    cr_assert(eq(uint, nxr_cu.StreamCreate(&stream, CU_STREAM_IS_NON_BLOCKING), CU_OK));
    cr_assert(eq(int, alloc_async(&address, MIB, stream), 0));
    cr_assert(eq(uint, nxr_cu.StreamSynchronize(stream), CU_OK));
    nxr_cuda_leave(was_pushed);
    cr_assert(eq(int, cuda_adopt(address, MIB, &memory, why, sizeof(why)), NIXL_OK), "%s", why);
    cr_expect(eq(int, memory.export.type, NXR_EXPORT_NONE));
    cr_expect(ne(ptr, strstr(memory.note, "pool"), NULL), "%s", memory.note);
    cuda_fill(memory.addr, MIB, 4);
    cr_expect(cuda_holds(memory.addr, MIB, 4));
    nxr_memory_cuda.release(&memory);
}

/* Two adjacent allocations, such as PyTorch's expandable segments. */
Test(cuda, several_allocations_in_one_window)
{
    cu_allocation_props props = {.type = CU_ALLOCATION_PINNED,
                                 .handle_types = CU_HANDLE_POSIX_FD,
                                 .location = {CU_LOCATION_DEVICE, 0}};
    cu_access access = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ_WRITE};
    struct nxr_memory both, first;
    cu_address start;
    char why[160];

    cuda_start();
    cr_assert(eq(uint, nxr_cu.MemAddressReserve(&start, 6 * MIB, 0, 0, 0), CU_OK));
    for (size_t i = 0; i < 2; i++) {
        cu_allocation allocation;

        cr_assert(eq(uint, nxr_cu.MemCreate(&allocation, 2 * MIB, &props, 0), CU_OK));
        cr_assert(eq(uint, nxr_cu.MemMap(start + i * 2 * MIB, 2 * MIB, 0, allocation, 0), CU_OK));
        cr_assert(eq(uint, nxr_cu.MemRelease(allocation), CU_OK));
    }
    cr_assert(eq(uint, nxr_cu.MemSetAccess(start, 4 * MIB, &access, 1), CU_OK));

    cr_assert(eq(int, cuda_adopt(start + MIB, 2 * MIB, &both, why, sizeof(why)), NIXL_OK), "%s",
              why);
    cr_expect(eq(int, both.export.type, NXR_EXPORT_NONE));
    cr_expect(ne(ptr, strstr(both.note, "2 allocations"), NULL), "%s", both.note);
    cuda_fill(both.addr, MIB, 5);
    cuda_fill((char *)both.addr + MIB, MIB, 6);
    cr_expect(cuda_holds(both.addr, MIB, 5));
    cr_expect(cuda_holds((char *)both.addr + MIB, MIB, 6));
    cr_assert(eq(int, cuda_adopt(start + 4096, MIB, &first, why, sizeof(why)), NIXL_OK), "%s", why);
    cr_expect(eq(int, first.export.type, NXR_EXPORT_CUDA_VMM));
    cr_expect(eq(u64, first.export.offset, 4096));
    cr_expect(eq(u64, first.export.nbytes, 2 * MIB));
    cr_expect(first.fd >= 0);
    close(first.fd);
    nxr_memory_cuda.release(&first);
    nxr_memory_cuda.release(&both);

    /* Into what is reserved and not mapped. */
    cr_expect(
        eq(int, cuda_adopt(start + MIB, 4 * MIB, &both, why, sizeof(why)), NIXL_E_INVALID_ARG));
}

/* ---- host memory ----------------------------------------------------------------------------- */

Test(cuda, host_memory_is_pinned_once)
{
    char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char why[160] = "";

    cuda_start();
    nxr_memory_cuda.unpin(memory); /* was never pinned */
    cr_assert(nxr_cuda_pin_now(memory, MIB, why, sizeof(why)), "%s", why);
    nxr_memory_cuda.pin(memory, MIB);
    nxr_memory_cuda.unpin(memory + 4096); /* an address inside it is not what was pinned */
    nxr_memory_cuda.unpin(memory);
    nxr_memory_cuda.unpin(memory);

    /* The user has done it already: it stays. */
    user_memory(100);
    cr_assert(nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0])));
    cr_assert(eq(uint, nxr_cu.MemHostRegister(memory, MIB, CU_REGISTER_PORTABLE), CU_OK));
    cr_expect(nxr_cuda_pin_now(memory, MIB, why, sizeof(why)), "%s", why);
    nxr_memory_cuda.unpin(memory);
    cr_expect(eq(uint, nxr_cu.MemHostUnregister(memory), CU_OK));
    nxr_cuda_leave(true);
    cuda_expect_no_context();
    munmap(memory, MIB);
}

/* Of whichever kind has pinned it, as when host memory that was page-locked is freed. */
Test(cuda, what_any_kind_has_pinned_is_unpinned)
{
    char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char why[160] = "";

    nxr_memory_register(&nxr_memory_host);
    nxr_memory_register(&nxr_memory_cuda);
    cuda_start();
    cr_assert(nxr_memory_page_lock(memory, MIB, why, sizeof(why)), "%s", why);
    cr_assert(nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0])));
    cr_expect(ne(uint, nxr_cu.MemHostRegister(memory, MIB, CU_REGISTER_PORTABLE), CU_OK));
    nxr_memory_unpin(memory);
    cr_expect(eq(uint, nxr_cu.MemHostRegister(memory, MIB, CU_REGISTER_PORTABLE), CU_OK));
    cr_expect(eq(uint, nxr_cu.MemHostUnregister(memory), CU_OK));
    nxr_cuda_leave(true);
    munmap(memory, MIB);
}

Test(cuda, memory_that_cannot_be_pinned)
{
    char *memory = malloc(MIB);
    char why[160] = "";

    setenv("FAKECUDA_FAIL", "cuMemHostRegister_v2=2", 1);
    cuda_start();
    cr_expect(not(nxr_cuda_pin_now(memory, MIB, why, sizeof(why))));
    cr_expect(ne(int, why[0], 0));
    free(memory);
}
