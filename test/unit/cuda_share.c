/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA memory of one process that another one opens, by every kind of handle, over the stand-in:
 * which ends the owner if it frees what is still open. And what hostile owners say.
 */
#include "core/job.h"
#include "cuda_case.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

TestSuite(cuda_share, .timeout = 120);

/* ---- owners: each has two regions in one allocation ------------------------------------------ */

enum { FIRST = MIB, SECOND = MIB + 4096, WINDOW = 64 * 1024 };

static cu_context enter_first(void)
{
    cu_context context;
    char why[160];

    must(nxr_cuda_activate(&nxr_cuda.devices[0], why, sizeof(why)) == NIXL_OK);
    context = nxr_cuda_context(&nxr_cuda.devices[0]);
    must(nxr_cuda_enter(context));
    return context;
}

/* Offer two windows, let the other write into the first, and see what it wrote. */
static void serve(int socket, cu_address start)
{
    struct nxr_memory first, second;
    char why[160];

    must(cuda_adopt(start + FIRST, WINDOW, &first, why, sizeof(why)) == NIXL_OK);
    must(cuda_adopt(start + SECOND, WINDOW, &second, why, sizeof(why)) == NIXL_OK);
    cuda_fill(second.addr, WINDOW, 1);
    cuda_offer(socket, &first);
    cuda_offer(socket, &second);
    cuda_await(socket);
    must(cuda_holds(first.addr, SECOND - FIRST, 2));
    if (first.fd >= 0) {
        close(first.fd);
        close(second.fd);
    }
    nxr_memory_cuda.release(&first);
    nxr_memory_cuda.release(&second);
}

static void legacy_owner(int socket)
{
    cu_address start;

    cuda_start();
    enter_first();
    must(nxr_cu.MemAlloc(&start, 4 * MIB) == CU_OK);
    serve(socket, start);
    must(nxr_cu.MemFree(start) == CU_OK);
}

static void vmm_owner(int socket)
{
    const cu_allocation_props props = {.type = CU_ALLOCATION_PINNED,
                                       .handle_types = CU_HANDLE_POSIX_FD,
                                       .location = {CU_LOCATION_DEVICE, 0}};
    cu_allocation allocation;
    cu_address start;

    cuda_start();
    enter_first();
    must(nxr_cu.MemCreate(&allocation, 4 * MIB, &props, 0) == CU_OK);
    must(nxr_cuda_map(allocation, 4 * MIB, 0, &start) == CU_OK);
    must(nxr_cu.MemRelease(allocation) == CU_OK);
    serve(socket, start);
    nxr_cuda_unmap(start, 4 * MIB);
}

struct pool_props {
    int type, handle_types;
    cu_location location;
    void *attributes;
    size_t max_nbytes;
    unsigned short usage;
    unsigned char reserved[54];
};

static void pool_owner(int socket)
{
    const struct pool_props props = {
        CU_ALLOCATION_PINNED, CU_HANDLE_POSIX_FD, {CU_LOCATION_DEVICE, 0}, .usage = 0};
    cu_result (*pool_create)(cu_pool *, const struct pool_props *);
    cu_result (*pool_alloc)(cu_address *, size_t, cu_pool, cu_stream);
    cu_stream stream;
    cu_address start;
    cu_pool pool;

    cuda_start();
    enter_first();
    *(void **)&pool_create = cuda_function("cuMemPoolCreate");
    *(void **)&pool_alloc = cuda_function("cuMemAllocFromPoolAsync");
    must(pool_create(&pool, &props) == CU_OK);
    must(nxr_cu.StreamCreate(&stream, CU_STREAM_IS_NON_BLOCKING) == CU_OK);
    must(pool_alloc(&start, 4 * MIB, pool, stream) == CU_OK);
    must(nxr_cu.StreamSynchronize(stream) == CU_OK);
    serve(socket, start);
    must(nxr_cu.MemFree(start) == CU_OK);
    must(nxr_cu.MemPoolDestroy(pool) == CU_OK);
}

/* ---- the other side -------------------------------------------------------------------------- */

static int import(struct nxr_segment *segment, int fd)
{
    int status = nxr_memory_cuda.import(segment, fd);

    if (fd >= 0) {
        cr_expect(eq(int, fcntl(fd, F_GETFD) >= 0, true), "the descriptor was the caller's");
        close(fd);
    }
    return status;
}

/* With an own region on that device, or none; how a copy between the two ends. */
static void use_memory_of(void (*run)(int socket), enum nxr_export_type type, const char *device,
                          int across)
{
    struct cuda_owner owner = cuda_owner_start(run);
    struct nxr_segment first, second;
    struct nxr_memory own = {0};
    char *bytes;
    int fds[2];

    cuda_start();
    if (device != NULL) {
        own = cuda_alloc(WINDOW, device);
    }
    fds[0] = cuda_receive(&owner, &first);
    fds[1] = cuda_receive(&owner, &second);
    cr_expect(eq(int, first.export.type, type));
    cr_assert(eq(int, import(&first, fds[0]), NIXL_OK), "%s", first.note);
    cr_assert(eq(int, import(&second, fds[1]), NIXL_OK), "%s", second.note);
    cr_expect(eq(ptr, first.import, second.import), "opened twice");
    cr_expect(eq(sz, (size_t)(second.addr - first.addr), SECOND - FIRST));
    cr_expect(eq(int, nxr_range_kind(nxr_range_find(first.addr)), NIXL_MEM_CUDA));

    cr_expect(cuda_holds(second.addr, WINDOW, 1));
    cuda_fill(first.addr, SECOND - FIRST, 2);
    if (device != NULL) {
        cr_expect(eq(int, cuda_copy(own.addr, second.addr, WINDOW), across));
        cr_expect(eq(int, cuda_holds(own.addr, WINDOW, 1), across == NIXL_OK));
        cr_expect(eq(int, cuda_copy(second.addr, second.addr, 0), NIXL_OK));
    }
    bytes = first.addr;
    nxr_memory_cuda.unimport(&first);
    cr_expect(ne(ptr, (void *)nxr_range_find(bytes), NULL), "another segment is in it");
    nxr_memory_cuda.unimport(&second);
    cr_expect(eq(ptr, (void *)nxr_range_find(bytes), NULL));
    cuda_expect_no_context();
    cuda_done(&owner);
    cuda_owner_end(&owner);
    if (device != NULL) {
        nxr_memory_cuda.release(&own);
    }
    nxr_memory_cuda.stop();
    cr_expect(eq(int, nxr_cuda.n_devices, 0), "something was left open");
}

Test(cuda_share, legacy)
{
    use_memory_of(legacy_owner, NXR_EXPORT_CUDA_LEGACY, NULL, NIXL_OK);
}

Test(cuda_share, legacy_same_device)
{
    use_memory_of(legacy_owner, NXR_EXPORT_CUDA_LEGACY, "0", NIXL_OK);
}

Test(cuda_share, legacy_other_device)
{
    use_memory_of(legacy_owner, NXR_EXPORT_CUDA_LEGACY, "1", NIXL_OK);
}

Test(cuda_share, legacy_other_device_without_a_way)
{
    setenv("FAKECUDA_P2P", "0", 1);
    use_memory_of(legacy_owner, NXR_EXPORT_CUDA_LEGACY, "1", NIXL_E_UNSUPPORTED);
}

Test(cuda_share, vmm)
{
    use_memory_of(vmm_owner, NXR_EXPORT_CUDA_VMM, NULL, NIXL_OK);
}

Test(cuda_share, vmm_same_device)
{
    use_memory_of(vmm_owner, NXR_EXPORT_CUDA_VMM, "0", NIXL_OK);
}

Test(cuda_share, vmm_other_device)
{
    use_memory_of(vmm_owner, NXR_EXPORT_CUDA_VMM, "1", NIXL_OK);
}

Test(cuda_share, pool)
{
    use_memory_of(pool_owner, NXR_EXPORT_CUDA_POOL, NULL, NIXL_OK);
}

Test(cuda_share, pool_other_device)
{
    use_memory_of(pool_owner, NXR_EXPORT_CUDA_POOL, "1", NIXL_OK);
}

/* ---- hostile owners -------------------------------------------------------------------------- */

static void refuse(const char *what, const struct nxr_segment *honest, int fd,
                   void (*change)(struct nxr_segment *segment))
{
    struct nxr_segment segment = *honest;

    change(&segment);
    cr_expect(ne(int, nxr_memory_cuda.import(&segment, fd), NIXL_OK), "%s", what);
    cr_expect(ne(int, segment.note[0], 0), "%s: no reason is given", what);
    cr_expect(eq(ptr, segment.import, NULL), "%s", what);
    cr_expect(eq(ptr, segment.addr, NULL), "%s", what);
    cr_expect(eq(uint, nxr_cuda.n_imports, 0), "%s", what);
    cuda_expect_no_context();
}

static void make_larger(struct nxr_segment *segment)
{
    segment->export.nbytes += 2 * MIB;
}

static void spoil_handle(struct nxr_segment *segment)
{
    memset(segment->export.handle, 0xa5, sizeof(segment->export.handle));
}

static void leave(struct nxr_segment *segment)
{
    (void)segment;
}

/* As one in another container would be. The peer stands in for all segments of this process. */
static void move_to_other_pids(struct nxr_segment *segment)
{
    static struct nxr_peer elsewhere;

    elsewhere = *segment->peer;
    nxr_job.card.head.pid_space = 1;
    elsewhere.card.pid_space = 2;
    segment->peer = &elsewhere;
}

static void use_lies_of(void (*run)(int socket))
{
    struct cuda_owner owner = cuda_owner_start(run);
    struct nxr_segment first, second;
    int fds[2];

    cuda_start();
    fds[0] = cuda_receive(&owner, &first);
    fds[1] = cuda_receive(&owner, &second);
    refuse("an allocation larger than it is", &first, fds[0], make_larger);
    if (!nxr_export_has_fd(&first.export) || first.export.type == NXR_EXPORT_CUDA_POOL) {
        refuse("a handle of nothing", &first, fds[0], spoil_handle);
    }
    if (first.export.type == NXR_EXPORT_CUDA_LEGACY) {
        refuse("another PID namespace", &first, fds[0], move_to_other_pids);
    }
    if (nxr_export_has_fd(&first.export)) {
        int event = eventfd(0, EFD_CLOEXEC);

        refuse("a descriptor of something else", &first, event, leave);
        close(event);
        refuse("no descriptor", &first, -1, leave);
    }
    /* Let the owner see the bytes that it waits for. */
    cr_assert(eq(int, import(&first, fds[0]), NIXL_OK), "%s", first.note);
    cuda_fill(first.addr, SECOND - FIRST, 2);
    nxr_memory_cuda.unimport(&first);
    if (fds[1] >= 0) {
        close(fds[1]);
    }
    cuda_done(&owner);
    cuda_owner_end(&owner);
}

Test(cuda_share, lies_about_legacy_memory)
{
    use_lies_of(legacy_owner);
}

Test(cuda_share, lies_about_mapped_memory)
{
    use_lies_of(vmm_owner);
}

Test(cuda_share, lies_about_pools)
{
    use_lies_of(pool_owner);
}

/* ---- what is believed before the driver is asked --------------------------------------------- */

static const struct nxr_export sound = {
    .nbytes = 8192, .offset = 4096, .serial = 3, .type = NXR_EXPORT_CUDA_LEGACY, .handle = {1}};

Test(cuda_share, sound_exports)
{
    struct nxr_export export = sound;
    static const struct nxr_export none;

    cr_expect(nxr_export_is_sound(&export, NIXL_MEM_CUDA, 4096));
    cr_expect(nxr_export_is_sound(&none, NIXL_MEM_CUDA, 4096));
    cr_expect(nxr_export_is_sound(&none, NIXL_MEM_HOST, 4096));
    cr_expect(not(nxr_export_is_sound(&export, NIXL_MEM_CUDA, 4097)));
    cr_expect(not(nxr_export_is_sound(&export, NIXL_MEM_HOST, 4096)));
    cr_expect(not(nxr_export_is_sound(&export, NIXL_MEM_VULKAN, 4096)));
    export.type = NXR_EXPORT_VULKAN;
    cr_expect(not(nxr_export_is_sound(&export, NIXL_MEM_CUDA, 4096)));
    export.handle[0] = 0;
    cr_expect(nxr_export_is_sound(&export, NIXL_MEM_VULKAN, 4096));
    export.memory_type = 32;
    cr_expect(not(nxr_export_is_sound(&export, NIXL_MEM_VULKAN, 4096)));
}

Test(cuda_share, unsound_exports)
{
#define EXPECT_UNSOUND(_change)                                                                    \
    do {                                                                                           \
        struct nxr_export export = sound;                                                          \
                                                                                                   \
        export._change;                                                                            \
        cr_expect(not(nxr_export_is_sound(&export, NIXL_MEM_CUDA, 4096)), #_change);               \
    } while (0)
    EXPECT_UNSOUND(offset = 4097);
    EXPECT_UNSOUND(offset = UINT64_MAX);
    EXPECT_UNSOUND(nbytes = 4095);
    EXPECT_UNSOUND(nbytes = UINT64_MAX);
    EXPECT_UNSOUND(type = NXR_N_EXPORT_TYPES);
    EXPECT_UNSOUND(type = 255);
    EXPECT_UNSOUND(memory_type = 1);
    EXPECT_UNSOUND(is_dedicated = 1);
    EXPECT_UNSOUND(is_direct = 1);
    EXPECT_UNSOUND(unused = 1);
    EXPECT_UNSOUND(driver[15] = 1);
    EXPECT_UNSOUND(type = NXR_EXPORT_CUDA_VMM);
    EXPECT_UNSOUND(type = NXR_EXPORT_NONE);
#undef EXPECT_UNSOUND
}
