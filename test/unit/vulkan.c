/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan memory in one process: had, shared with itself as with a peer, and copied in every way.
 * test/unit/vulkan_layers.sh runs this under the validation layers, so nothing here breaks their
 * rules; what does is in vulkan_fault.c.
 */
#include "vulkan_case.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

TestSuite(vulkan, .init = case_start, .fini = case_stop);

#define MIB (1ul << 20)

/* ---- having memory --------------------------------------------------------------------------- */

static bool is_zero(const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

Test(vulkan, memory_is_zeroed_and_placed)
{
    struct nxr_memory memory = case_alloc(100001);
    unsigned char *bytes = calloc(1, 100001);
    const struct nxr_range *range = nxr_range_find(memory.addr);

    cr_assert_not_null(range);
    cr_assert_eq(range->addr, (uintptr_t)memory.addr);
    cr_assert_eq(range->nbytes, 100001);
    cr_assert_eq(nxr_range_kind(range), NIXL_MEM_VULKAN);
    cr_assert_eq(nxr_range_find((char *)memory.addr + 100000), range);
    cr_assert(nxr_memory_vulkan.owns(memory.addr));
    cr_assert_not(nxr_memory_vulkan.owns(bytes));
    memset(bytes, 0xff, 100001);
    cr_assert_eq(case_copy_one(bytes, memory.addr, 100001), NIXL_OK);
    cr_assert(is_zero(bytes, 100001));
    cr_assert_eq(strncmp(memory.device, "GPU-", 4), 0);
    cr_assert_eq(memory.export.type, NXR_EXPORT_VULKAN);
    cr_assert_geq(memory.export.nbytes, 100001);
    cr_assert_eq(memory.export.offset, 0);
    cr_assert_neq(fcntl(memory.fd, F_GETFD) & FD_CLOEXEC, 0);
    case_free(&memory);
    cr_assert_null(nxr_range_find(memory.addr));
    free(bytes);
}

Test(vulkan, devices_are_chosen_by_name)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[WHY_NBYTES];
    char id[NXR_DEVICE_ID_NBYTES];
    const struct {
        const char *device;
        int status;
    } cases[] = {
        {NULL, NIXL_OK},
        {"nearest", NIXL_OK},
        {"0", NIXL_OK},
        {id, NIXL_OK},
        {id + 4, NIXL_OK},
        {"99", NIXL_E_NO_DEVICE},
        {"18446744073709551617", NIXL_E_NO_DEVICE},
        {"GPU-00000000-0000-0000-0000-000000000001", NIXL_E_NO_DEVICE},
        {"00000000000000000000000000000001", NIXL_E_NO_DEVICE},
        {"", NIXL_E_INVALID_ARG},
        {"-1", NIXL_E_INVALID_ARG},
        {"1x", NIXL_E_INVALID_ARG},
        {"GPU-", NIXL_E_INVALID_ARG},
        {"GPU-00000000-0000-0000-0000-00000000000", NIXL_E_INVALID_ARG},
        {"GPU-00000000-0000-0000-0000-0000000000001", NIXL_E_INVALID_ARG},
        {"GPU-0000000-00000-0000-0000-000000000001", NIXL_E_INVALID_ARG},
    };

    memcpy(id, nxr_vulkan.devices[0].id_text, sizeof(id));
    params.kind = NIXL_MEM_VULKAN;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status;

        params.device = cases[i].device;
        why[0] = '\0';
        status = nxr_memory_vulkan.alloc(100, &params, &memory, why, sizeof(why));
        cr_expect_eq(status, cases[i].status, "device '%s': %d, %s",
                     cases[i].device != NULL ? cases[i].device : "(none)", status, why);
        cr_expect(status == NIXL_OK || why[0] != '\0');
        if (status == NIXL_OK) {
            case_free(&memory);
        }
    }
}

Test(vulkan, a_processor_is_no_gpu_for_auto)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[WHY_NBYTES] = "";
    int status;

    if (nxr_vulkan.devices[0].type != VK_PHYSICAL_DEVICE_TYPE_CPU) {
        cr_skip_test("there is a real GPU here");
    }
    params.kind = NIXL_MEM_AUTO;
    status = nxr_memory_vulkan.alloc(100, &params, &memory, why, sizeof(why));
    cr_assert_eq(status, NIXL_E_NO_DEVICE);
    cr_assert_neq(why[0], '\0');
    case_stop();
    nxr_env.vulkan_cpu = true;
    case_start();
    cr_assert_eq(nxr_memory_vulkan.alloc(100, &params, &memory, why, sizeof(why)), NIXL_OK, "%s",
                 why);
    case_free(&memory);
}

Test(vulkan, too_much_is_refused)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[WHY_NBYTES] = "";
    const size_t sizes[] = {nxr_vulkan.devices[0].max_nbytes + 1, 1ul << 50, SIZE_MAX};

    params.kind = NIXL_MEM_VULKAN;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        why[0] = '\0';
        cr_expect_eq(nxr_memory_vulkan.alloc(sizes[i], &params, &memory, why, sizeof(why)),
                     NIXL_E_NO_MEMORY, "%zu bytes", sizes[i]);
        cr_expect_neq(why[0], '\0');
    }
}

static void expect_zero(const struct nxr_memory *memory)
{
    unsigned char *bytes = malloc(memory->nbytes);

    memset(bytes, 0xff, memory->nbytes);
    cr_assert_eq(case_copy_one(bytes, memory->addr, memory->nbytes), NIXL_OK);
    cr_assert(is_zero(bytes, memory->nbytes));
    memset(bytes, 0xff, memory->nbytes);
    cr_assert_eq(case_copy_one(memory->addr, bytes, memory->nbytes), NIXL_OK);
    free(bytes);
}

/* Regions of all sizes come and go: none sees what another has left, and none overlaps another. */
Test(vulkan, memory_is_shared_out)
{
    static const size_t sizes[] = {1, 65536, 65537, 3 * MIB, 40 * MIB, 30 * MIB};
    struct nxr_memory memories[6];
    int n_fds = 0;

    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 6; i++) {
            memories[i] = case_alloc(sizes[(i + (size_t)round) % 6]);
            expect_zero(&memories[i]);
        }
        for (size_t i = 0; i < 6; i++) {
            case_free(&memories[i * 5 % 6]); /* in another order */
        }
        n_fds = round == 1 ? case_count_fds() : n_fds;
    }
    cr_assert_eq(case_count_fds(), n_fds, "descriptors are left");
}

/* A peer opens an allocation once for all regions in it, and closes it with the last. */
Test(vulkan, an_allocation_is_opened_once)
{
    struct nxr_memory one = case_alloc(MIB), two = case_alloc(MIB);
    struct nxr_segment *first = case_segment(&one), *second = case_segment(&two);
    uint32_t n = atomic_load(&nxr_vulkan.devices[0].n_allocations);
    char text[32] = "through the other", got[32];

    cr_assert_eq(one.export.serial, two.export.serial);
    cr_assert_neq(one.export.offset, two.export.offset);
    cr_assert_eq(nxr_memory_vulkan.import(first, one.fd), NIXL_OK, "%s", first->note);
    cr_assert_eq(nxr_memory_vulkan.import(second, two.fd), NIXL_OK, "%s", second->note);
    cr_assert_eq(atomic_load(&nxr_vulkan.devices[0].n_allocations), n + 1);
    nxr_memory_vulkan.unimport(first);
    cr_assert_eq(case_copy_one(second->addr + 7, text, sizeof(text)), NIXL_OK);
    cr_assert_eq(case_copy_one(got, (char *)two.addr + 7, sizeof(got)), NIXL_OK);
    cr_assert_str_eq(got, text);
    nxr_memory_vulkan.unimport(second);
    cr_assert_eq(atomic_load(&nxr_vulkan.devices[0].n_allocations), n);
    case_free(&one);
    case_free(&two);
    free(first);
    free(second);
}

/* ---- sharing --------------------------------------------------------------------------------- */

Test(vulkan, what_a_peer_opens_is_the_same_memory)
{
    struct nxr_memory memory = case_alloc(3 * MIB + 5);
    struct nxr_segment *segment = case_segment(&memory);
    unsigned char *want = malloc(memory.nbytes), *got = malloc(memory.nbytes);

    case_fill(want, memory.nbytes, 1);
    cr_assert_eq(case_copy_one(memory.addr, want, memory.nbytes), NIXL_OK);
    /* The position in the file is unspecified: lavapipe's driver reads from it. */
    lseek(memory.fd, 12345, SEEK_SET);
    cr_assert_eq(nxr_memory_vulkan.import(segment, memory.fd), NIXL_OK, "%s", segment->note);
    cr_assert_neq((void *)segment->addr, memory.addr);
    cr_assert_not_null(segment->import);
    cr_assert_eq(case_copy_one(got, segment->addr, memory.nbytes), NIXL_OK);
    cr_assert_eq(memcmp(got, want, memory.nbytes), 0);
    case_fill(want, memory.nbytes, 2);
    cr_assert_eq(case_copy_one(segment->addr + 1, want, memory.nbytes - 1), NIXL_OK);
    cr_assert_eq(case_copy_one(got, (char *)memory.addr + 1, memory.nbytes - 1), NIXL_OK);
    cr_assert_eq(memcmp(got, want, memory.nbytes - 1), 0);
    nxr_memory_vulkan.unimport(segment);
    case_free(&memory);
    free(segment);
    free(want);
    free(got);
}

Test(vulkan, opening_leaves_no_descriptor)
{
    struct nxr_memory memory = case_alloc(MIB);
    struct nxr_segment *segment = case_segment(&memory);
    int n_fds = 0;

    for (int i = 0; i < 20; i++) {
        cr_assert_eq(nxr_memory_vulkan.import(segment, memory.fd), NIXL_OK, "%s", segment->note);
        nxr_memory_vulkan.unimport(segment);
        n_fds = i == 0 ? case_count_fds() : n_fds;
    }
    cr_assert_eq(case_count_fds(), n_fds);
    case_free(&memory);
    free(segment);
}

/* Try to open it; it has to fail with a line, and at once. */
static void expect_refused(const char *what, const struct nxr_segment *good,
                           const struct nxr_export *export, int fd)
{
    struct nxr_segment *segment = calloc(1, sizeof(*segment));
    int status;

    segment->export = *export;
    segment->nbytes = good->nbytes;
    alarm(120);
    status = nxr_memory_vulkan.import(segment, fd);
    alarm(0);
    cr_expect_lt(status, 0, "%s was opened", what);
    cr_expect_neq(segment->note[0], '\0', "%s: no reason", what);
    cr_expect_null(segment->import);
    free(segment);
}

Test(vulkan, bad_descriptors_are_refused)
{
    struct nxr_memory memory = case_alloc(MIB);
    struct nxr_segment *good = case_segment(&memory);
    int pipe_fds[2], sockets[2], event = eventfd(0, EFD_CLOEXEC);
    int bare = memfd_create("bare", MFD_CLOEXEC), sealed, n_fds;
    const uint64_t huge_header[2] = {1ull << 40, 4096};

    cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    cr_assert_eq(ftruncate(bare, 2 * MIB), 0);
    sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(sealed, 2 * MIB), 0);
    cr_assert_eq(pwrite(sealed, huge_header, sizeof(huge_header), 0), (ssize_t)sizeof(huge_header));
    cr_assert_eq(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    n_fds = case_count_fds();
    expect_refused("nothing", good, &good->export, -1);
    expect_refused("a closed one", good, &good->export, 999);
    expect_refused("a pipe", good, &good->export, pipe_fds[0]);
    expect_refused("a socket", good, &good->export, sockets[0]);
    expect_refused("an eventfd", good, &good->export, event);
    expect_refused("a file that may shrink", good, &good->export, bare);
    expect_refused("a file that says it is larger", good, &good->export, sealed);
    cr_assert_eq(case_count_fds(), n_fds, "descriptors are left");
    case_free(&memory);
    free(good);
}

Test(vulkan, bad_exports_are_refused)
{
    struct nxr_memory memory = case_alloc(MIB);
    struct nxr_segment *good = case_segment(&memory);
    struct nxr_export bad;
    int n_fds = case_count_fds();

    bad = good->export;
    bad.device[0] ^= 1;
    expect_refused("another device", good, &bad, memory.fd);
    bad = good->export;
    bad.driver[15] ^= 1;
    expect_refused("another driver", good, &bad, memory.fd);
    bad = good->export;
    bad.memory_type = 31;
    expect_refused("an unknown memory type", good, &bad, memory.fd);
    bad.memory_type = UINT32_MAX;
    expect_refused("the largest memory type", good, &bad, memory.fd);
    bad = good->export;
    bad.offset = bad.nbytes;
    expect_refused("an offset behind the end", good, &bad, memory.fd);
    bad.offset = UINT64_MAX;
    expect_refused("an offset that wraps", good, &bad, memory.fd);
    bad = good->export;
    bad.nbytes = 64;
    expect_refused("less than the segment", good, &bad, memory.fd);
    bad.nbytes *= 1ull << 40;
    expect_refused("more than there is", good, &bad, memory.fd);
    bad.nbytes = UINT64_MAX;
    expect_refused("the largest size", good, &bad, memory.fd);
    cr_assert_eq(case_count_fds(), n_fds, "descriptors are left");
    case_free(&memory);
    free(good);
}

/* ---- copying --------------------------------------------------------------------------------- */

static void in_every_way(void (*run)(void))
{
    static const char *const ways[] = {"auto", "map", "cmd"};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        nxr_env.vulkan_copy = ways[i];
        run();
    }
}

/* Host to device to device to host, of sizes around every limit. */
static void copy_there_and_back(void)
{
    static const size_t sizes[] = {1, 3, 4, 8, 4097, MIB - 1, MIB, MIB + 1, 3 * MIB + 17};
    struct nxr_memory one = case_alloc(4 * MIB), two = case_alloc(4 * MIB);
    unsigned char *want = malloc(4 * MIB), *got = malloc(4 * MIB);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i];

        case_fill(want, n, (unsigned)i);
        memset(got, 0, n);
        cr_assert_eq(case_copy_one((char *)one.addr + 5, want, n), NIXL_OK);
        cr_assert_eq(case_copy_one((char *)two.addr + 7, (char *)one.addr + 5, n), NIXL_OK);
        cr_assert_eq(case_copy_one(got, (char *)two.addr + 7, n), NIXL_OK);
        cr_assert_eq(memcmp(got, want, n), 0, "%zu bytes", n);
    }
    case_free(&one);
    case_free(&two);
    free(want);
    free(got);
}

Test(vulkan, copies_of_all_sizes)
{
    in_every_way(copy_there_and_back);
}

#define N_PIECES 5000
#define PIECE    600 /* staged, they take several rounds */

/* Many pieces in another order, beside bytes that have to stay. */
static void copy_pieces(void)
{
    struct nxr_memory memory = case_alloc(2ul * N_PIECES * PIECE);
    struct nxr_device_piece *pieces = calloc(N_PIECES, sizeof(*pieces));
    unsigned char *want = malloc(N_PIECES * PIECE), *got = malloc(2ul * N_PIECES * PIECE);

    case_fill(want, N_PIECES * PIECE, 9);
    for (size_t i = 0; i < N_PIECES; i++) {
        size_t to = (i * 7919 % N_PIECES) * 2 * PIECE;

        pieces[i] = (struct nxr_device_piece){(char *)memory.addr + to, want + i * PIECE,
                                              i % 5 == 4 ? 0 : PIECE};
    }
    cr_assert_eq(case_copy(pieces, N_PIECES), NIXL_OK);
    cr_assert_eq(case_copy_one(got, memory.addr, 2ul * N_PIECES * PIECE), NIXL_OK);
    for (size_t i = 0; i < N_PIECES; i++) {
        const unsigned char *at = got + (i * 7919 % N_PIECES) * 2 * PIECE;

        cr_assert(i % 5 == 4 ? is_zero(at, PIECE) : memcmp(at, want + i * PIECE, PIECE) == 0,
                  "piece %zu", i);
        cr_assert(is_zero(at + PIECE, PIECE), "bytes behind piece %zu", i);
        pieces[i] = (struct nxr_device_piece){want + i * PIECE, pieces[i].dst, pieces[i].nbytes};
    }
    memset(want, 0, N_PIECES * PIECE);
    cr_assert_eq(case_copy(pieces, N_PIECES), NIXL_OK);
    case_fill(got, N_PIECES * PIECE, 9);
    for (size_t i = 0; i < N_PIECES; i++) {
        cr_assert(i % 5 == 4 || memcmp(got + i * PIECE, want + i * PIECE, PIECE) == 0);
    }
    case_free(&memory);
    free(pieces);
    free(want);
    free(got);
}

Test(vulkan, copies_of_many_pieces)
{
    in_every_way(copy_pieces);
}

Test(vulkan, pinned_memory_is_reached_directly)
{
    struct nxr_memory memory = case_alloc(4 * MIB);
    char *host = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned char *want = malloc(3 * MIB);
    struct nxr_vulkan_window window;

    case_fill(want, 3 * MIB, 4);
    memcpy(host + 11, want, 3 * MIB);
    nxr_env.vulkan_copy = "cmd";
    nxr_memory_vulkan.pin(host, 4 * MIB);
    nxr_memory_vulkan.pin(host, 4 * MIB);
    if (nxr_vulkan.devices[0].host_alignment == 4096) {
        cr_assert(nxr_vulkan_pinned(&nxr_vulkan.devices[0], host + 11, 3 * MIB, &window));
        cr_assert_eq(window.offset, 11);
    }
    cr_assert_not(nxr_vulkan_pinned(&nxr_vulkan.devices[0], host + 1, 4 * MIB, &window));
    cr_assert_eq(case_copy_one(memory.addr, host + 11, 3 * MIB), NIXL_OK);
    memset(host, 0, 4 * MIB);
    cr_assert_eq(case_copy_one(host + 99, memory.addr, 3 * MIB), NIXL_OK);
    cr_assert_eq(memcmp(host + 99, want, 3 * MIB), 0);
    nxr_memory_vulkan.unpin(host);
    cr_assert_not(nxr_vulkan_pinned(&nxr_vulkan.devices[0], host, 1, &window));
    nxr_memory_vulkan.unpin(host);
    munmap(host, 4 * MIB);
    case_free(&memory);
    free(want);
}

/*
 * A pin that another thread makes while a copy goes through the stage changes nothing for that
 * copy.
 */
Test(vulkan, a_pin_in_mid_copy_loses_no_byte, .init = case_start, .fini = case_stop)
{
    struct nxr_memory memory = case_alloc(MIB);
    unsigned char *there = malloc(MIB), *host = aligned_alloc(4096, MIB);
    struct nxr_device_piece pieces[] = {{host, memory.addr, 3000},
                                        {host + 500000, (char *)memory.addr + 4000, 400000}};
    struct nxr_device_copy copy = {
        .pieces = pieces, .n_pieces = 2, .src = nxr_range_find(memory.addr)};
    int64_t deadline = nxr_deadline(LONG_NS);
    int status;

    case_fill(there, MIB, 5);
    cr_assert_eq(case_copy_one(memory.addr, there, MIB), NIXL_OK);
    nxr_env.vulkan_copy = "cmd";
    memset(host, 0, MIB);
    status = nxr_memory_vulkan.copy_start(&copy);
    nxr_memory_vulkan.pin(host, MIB);
    while (status == NIXL_INPROGRESS) {
        status = nxr_memory_vulkan.copy_test(&copy);
        cr_assert_lt(nxr_now_ns(), deadline, "a copy does not end");
    }
    cr_assert_eq(status, NIXL_OK);
    cr_expect_eq(memcmp(host, there, 3000), 0, "the first piece has arrived");
    cr_expect_eq(memcmp(host + 500000, there + 4000, 400000), 0, "so has the second");
    nxr_memory_vulkan.unpin(host);
    case_free(&memory);
    free(host);
    free(there);
}

/* ---- the user's memory ----------------------------------------------------------------------- */

/* Memory as a user has it: exported from a VkDevice of the library's, but of its own making. */
static struct nixl_vulkan_memory users_memory(size_t nbytes, struct nxr_vulkan_memory **memory_p)
{
    struct nixl_vulkan_memory theirs = {.offset = 4096};
    struct nxr_vulkan_make make = {.purpose = NXR_VULKAN_SHARED, .nbytes = nbytes};
    char why[WHY_NBYTES];

    cr_assert_eq(nxr_vulkan_choose(NULL, &make.device, why, sizeof(why)), NIXL_OK, "%s", why);
    cr_assert_eq(nxr_vulkan_make(&make, memory_p, why, sizeof(why)), NIXL_OK, "%s", why);
    cr_assert_eq(nxr_vulkan_export(*memory_p, &theirs.fd, why, sizeof(why)), NIXL_OK, "%s", why);
    theirs.memory_type = (*memory_p)->type;
    theirs.allocation_nbytes = (*memory_p)->nbytes;
    theirs.is_dedicated = (*memory_p)->is_dedicated;
    memcpy(theirs.device_uuid, make.device->id.uuid, sizeof(theirs.device_uuid));
    memcpy(theirs.driver_uuid, make.device->driver, sizeof(theirs.driver_uuid));
    return theirs;
}

Test(vulkan, memory_of_the_users_is_adopted)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_vulkan_memory *users;
    struct nixl_vulkan_memory theirs = users_memory(MIB, &users);
    struct nxr_memory memory;
    struct nxr_segment *segment;
    char why[WHY_NBYTES] = "", text[32] = "from the user", got[32];

    params.kind = NIXL_MEM_VULKAN;
    params.vulkan = &theirs;
    cr_assert_eq(nxr_memory_vulkan.adopt(NULL, 8192, &params, &memory, why, sizeof(why)), NIXL_OK,
                 "%s", why);
    cr_assert_neq(memory.fd, theirs.fd);
    cr_assert_eq(memory.export.offset, 4096);
    close(theirs.fd);
    nxr_vulkan_unmake(users); /* the memory lives as long as somebody has it */
    cr_assert_eq(case_copy_one((char *)memory.addr + 100, text, sizeof(text)), NIXL_OK);
    segment = case_segment(&memory);
    cr_assert_eq(nxr_memory_vulkan.import(segment, memory.fd), NIXL_OK, "%s", segment->note);
    cr_assert_eq(case_copy_one(got, segment->addr + 100, sizeof(got)), NIXL_OK);
    cr_assert_str_eq(got, text);
    nxr_memory_vulkan.unimport(segment);
    case_free(&memory);
    free(segment);
}

Test(vulkan, bad_memory_of_the_users_is_refused)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_vulkan_memory *users;
    const struct nixl_vulkan_memory good = users_memory(MIB, &users);
    struct nixl_vulkan_memory bad = good;
    struct nxr_memory memory;
    char why[WHY_NBYTES] = "";
    int local;

    params.kind = NIXL_MEM_VULKAN;
    cr_expect_eq(nxr_memory_vulkan.adopt(NULL, 1, &params, &memory, why, sizeof(why)),
                 NIXL_E_INVALID_ARG, "without params->vulkan");
    params.vulkan = &bad;
    cr_expect_eq(nxr_memory_vulkan.adopt(&local, 1, &params, &memory, why, sizeof(why)),
                 NIXL_E_INVALID_ARG, "with an address");
    cr_expect_eq(nxr_memory_vulkan.adopt(NULL, MIB, &params, &memory, why, sizeof(why)),
                 NIXL_E_INVALID_ARG, "more than there is behind the offset");
    bad.fd = -1;
    cr_expect_eq(nxr_memory_vulkan.adopt(NULL, 1, &params, &memory, why, sizeof(why)),
                 NIXL_E_INVALID_ARG, "without a descriptor");
    bad = good;
    bad.memory_type = 77;
    cr_expect_eq(nxr_memory_vulkan.adopt(NULL, 1, &params, &memory, why, sizeof(why)),
                 NIXL_E_INVALID_ARG, "with a wrong type");
    bad = good;
    bad.device_uuid[3] ^= 1;
    cr_expect_eq(nxr_memory_vulkan.adopt(NULL, 1, &params, &memory, why, sizeof(why)),
                 NIXL_E_NO_DEVICE, "of another device");
    close(good.fd);
    nxr_vulkan_unmake(users);
}
